"""The chat client: a server that is slow, broken, busy or talks nonsense; a budget, a kill, and a tiny local model."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from reefcore import chat
from reefcore.errors import ReefcoreError

KEY = "sk-very-secret-4711"


def reply(text="Porites", finish="stop", **usage):
    """Write what a chat server answers."""
    usage = usage or {"prompt_tokens": 100, "completion_tokens": 10}
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": usage})


class Told(ThreadingHTTPServer):
    """A server whose answer to the n-th request (from 0), with its text, is what `says` returns."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.says, self.lock = lambda n, text: reply(), threading.Lock()
        self.bodies, self.heads, self.times = [], [], []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def texts(self):
        """List the texts that were asked."""
        parts = [body["messages"][0]["content"] for body in self.bodies]
        return [part if isinstance(part, str) else part[-1]["text"] for part in parts]

    def handle_error(self, request, client_address):
        """A client that hangs up is no news."""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.bodies)
            self.server.bodies.append(body)
            self.server.heads.append(self.headers)
            self.server.times.append(time.monotonic())
        said = self.server.says(number, self.server.texts()[number])
        status, content, headers = said if isinstance(said, tuple) else (200, said, {})
        if content is None:  # cut in the middle
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in content if isinstance(content, list) else [content]:
            self.wfile.write(piece.encode())
            self.wfile.flush()
            if isinstance(content, list):
                time.sleep(0.05)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    told = Told()
    yield told
    told.shutdown()
    told.server_close()


@pytest.fixture
def client(server, monkeypatch):
    monkeypatch.setenv("REEFCORE_CHAT_KEY", KEY)
    monkeypatch.setenv("REEFCORE_CHAT_URL", server.url)
    return chat.Server("coral-vl", timeout=1, tries=3, back_off=0.01)


def questions(count, image=b""):
    return [chat.Question(f"point {i}", "genus", f"question {i}", image) for i in range(count)]


def test_a_question_is_sent_with_its_image_and_settings(server, client):
    answer = client.answer("Which genus?", b"\x89PNG", max_tokens=32, temperature=0.0)
    assert (answer.text, answer.input_tokens, answer.output_tokens) == ("Porites", 100, 10)
    assert (answer.finish, answer.tries, answer.error) == ("stop", 1, "")
    body = server.bodies[0]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("coral-vl", 32, 0.0)
    image, text = body["messages"][0]["content"]
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw==" and text["text"] == "Which genus?"
    assert server.heads[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "trouble",
    [
        (500, "oops", {}),
        (503, "", {}),
        (200, None, {}),
        "<html>Welcome</html>",
        '{"error": "overloaded"}',
        '{"choices": []}',
        "null",
        "{",
        (200, [" "] * 40, {}),
    ],
    ids=["500", "503", "cut", "page", "no choice", "none", "null", "half", "drips"],
)
def test_what_passes_is_asked_again(server, client, trouble):
    client._timeout = 0.3
    server.says = lambda n, text: trouble if n == 0 else reply()
    answer = client.answer("x")
    assert (answer.text, answer.tries) == ("Porites", 2)


def test_what_does_not_pass_is_said_after_the_last_try(server, client):
    server.says = lambda n, text: (500, "database on fire", {})
    answer = client.answer("x")
    assert (answer.text, answer.tries, answer.final, len(server.bodies)) == ("", 3, False, 3)
    assert "500" in answer.error and "database on fire" in answer.error
    for said in (
        '{"error": "no such thing"}',
        '{"error": {"message": "no such thing"}}',
        '{"detail": "no such thing"}',
    ):
        server.says = lambda n, text, said=said: (400, said, {})
        assert client.answer("x").error == "status 400: no such thing"
    server.says = lambda n, text: "<html>Welcome</html>"
    assert "a web page came back" in client.answer("x").error


def test_a_busy_server_is_given_the_time_it_asks_for(server, client):
    server.says = lambda n, text: (429, "slow down", {"Retry-After": "0.4"}) if n == 0 else reply()
    assert client.answer("x").tries == 2
    assert server.times[1] - server.times[0] >= 0.4
    server.says = lambda n, text: (429, "come tomorrow", {"Retry-After": "7200"})
    with pytest.raises(ReefcoreError, match="asks to wait 7200 seconds; run again then"):
        client.answer("x")


def test_a_server_that_is_silent_is_given_up(server, client):
    client = chat.Server("coral-vl", timeout=0.1, tries=2, back_off=0.01)
    server.says = lambda n, text: time.sleep(0.5) or reply()
    start = time.monotonic()
    assert "imed out" in client.answer("x").error
    assert time.monotonic() - start < 0.5


def test_nobody_there(monkeypatch):
    answer = chat.Server("m", url="http://127.0.0.1:9/v1", tries=2, back_off=0.01).answer("x")
    assert not answer.final and "Connection" in answer.error


@pytest.mark.parametrize(
    ("status", "what"),
    [(401, "REEFCORE_CHAT_KEY"), (403, "REEFCORE_CHAT_KEY"), (404, "name of the model"), (402, "what the server says")],
)
def test_a_server_of_no_use_stops_at_once(server, client, status, what):
    server.says = lambda n, text: (status, "no", {})
    with pytest.raises(ReefcoreError, match=f"status {status}.*{what}"):
        client.answer("x")
    assert len(server.bodies) == 1


def test_no_address(monkeypatch):
    monkeypatch.delenv("REEFCORE_CHAT_URL", raising=False)
    with pytest.raises(ReefcoreError, match=r"no chat server is named; put its address.*REEFCORE_CHAT_URL"):
        chat.client("coral-vl")


def test_requests_a_minute(server, client):
    client = chat.Server("coral-vl", per_minute=600)
    start = time.monotonic()
    for _ in range(4):
        client.answer("x")
    assert time.monotonic() - start >= 0.3


def test_answers_come_in_the_order_of_the_questions(server, client, tmp_path):
    server.says = lambda n, text: time.sleep(0.1 if n == 0 else 0) or reply(text.upper())
    answers, counts = chat.ask_all(client, questions(9), tmp_path / "a.jsonl", parallel=4)
    assert [answer.text for answer in answers] == [f"QUESTION {i}" for i in range(9)]
    assert (counts["asked"], counts["from_cache"], counts["input_tokens"], counts["cost"]) == (9, 0, 900, None)


def test_nothing_is_asked_twice_and_everything_is_kept(server, client, tmp_path):
    file = tmp_path / "deep" / "a.jsonl"
    server.says = lambda n, text: reply("blub blub 🐠", "length")
    chat.ask_all(client, [*questions(2, b"png"), *questions(2, b"png")], file)
    assert sorted(server.texts()) == ["question 0", "question 1"]
    answers, counts = chat.ask_all(client, questions(2, b"png"), file)
    assert (counts["asked"], counts["from_cache"], len(server.bodies)) == (0, 2, 2)
    assert answers[0].text == "blub blub 🐠"
    record = json.loads(file.read_text().splitlines()[0])
    assert record["model"] == "coral-vl" and record["prompt"] == "genus" and record["text"] == "blub blub 🐠"
    assert {"prompt_hash", "image_hash", "finish", "tries", "seconds", "input_tokens"} <= set(record)
    chat.ask_all(client, questions(2, b"other"), file)
    chat.ask_all(client, questions(2, b"png"), file, settings={"temperature": 1})
    chat.ask_all(chat.Server("another"), questions(2, b"png"), file)
    assert len(server.bodies) == 8


def test_one_question_that_is_refused_does_not_stop_the_others(server, client, tmp_path):
    server.says = lambda n, text: (400, "content policy", {}) if text == "question 2" else reply()
    answers, counts = chat.ask_all(client, questions(5), tmp_path / "a.jsonl")
    assert counts["failed"] == 1 and "content policy" in answers[2].error and answers[4].text == "Porites"
    chat.ask_all(client, questions(5), tmp_path / "a.jsonl")
    assert server.texts().count("question 2") == 1
    chat.ask_all(client, questions(5), tmp_path / "a.jsonl", again=True)
    assert server.texts().count("question 2") == 2 and len(server.bodies) == 6


def test_one_question_that_fails_is_asked_again_in_the_next_run(server, client, tmp_path):
    server.says = lambda n, text: (500, "", {}) if text == "question 1" else reply()
    _, counts = chat.ask_all(client, questions(3), tmp_path / "a.jsonl", parallel=1)
    assert counts["failed"] == 1 and counts["requests"] == 5
    server.says = lambda n, text: reply()
    answers, counts = chat.ask_all(client, questions(3), tmp_path / "a.jsonl")
    assert (counts["asked"], counts["failed"], answers[1].text) == (1, 0, "Porites")


@pytest.mark.parametrize("status", [500, 400])
def test_a_server_that_answers_nothing_is_left_alone(server, client, tmp_path, status):
    server.says = lambda n, text: (status, "this model has no eyes", {})
    with pytest.raises(
        ReefcoreError,
        match=r"3 questions in a row failed .*no eyes.*: 0 of 50 questions are answered.*run the same again",
    ):
        chat.ask_all(client, questions(50), tmp_path / "a.jsonl", parallel=1)
    assert len(server.bodies) <= 9


@pytest.mark.parametrize(
    ("budget", "asked"),
    [
        ({"requests": 3}, 3),
        ({"tokens": 250}, 3),
        ({"cost": 0.0011, "input_price": 5.0, "output_price": 10.0}, 2),
    ],
)
def test_a_budget_stops_and_the_next_call_goes_on(server, client, tmp_path, budget, asked):
    file = tmp_path / "a.jsonl"
    with pytest.raises(ReefcoreError, match=f"is used up: {asked} of 5 questions are answered; they are kept"):
        chat.ask_all(client, questions(5), file, budget=chat.Budget(**budget), parallel=1)
    assert len(server.bodies) == asked
    _, counts = chat.ask_all(client, questions(5), file, budget=chat.Budget(input_price=5.0, output_price=10.0))
    assert counts["asked"] == 5 - asked and counts["from_cache"] == asked
    assert counts["cost"] == pytest.approx(5 * 0.0006) and counts["cost_now"] == pytest.approx((5 - asked) * 0.0006)


def test_tries_count_as_requests(server, client, tmp_path):
    server.says = lambda n, text: (500, "", {})
    with pytest.raises(ReefcoreError, match="the budget of 2 requests is used up"):
        chat.ask_all(client, questions(5), tmp_path / "a.jsonl", budget=chat.Budget(requests=2), parallel=1)
    assert len(server.bodies) == 2


def test_a_budget_of_tokens_needs_a_server_that_counts_them(server, client, tmp_path):
    server.says = lambda n, text: json.dumps({"choices": [{"message": {"content": "Porites"}}]})
    with pytest.raises(ReefcoreError, match="does not say how many tokens"):
        chat.ask_all(client, questions(5), tmp_path / "a.jsonl", budget=chat.Budget(tokens=999), parallel=1)


@pytest.mark.parametrize(("values", "what"), [({"cost": 1}, "needs prices"), ({"tokens": -1}, "cannot be negative")])
def test_a_budget_that_makes_no_sense(values, what):
    with pytest.raises(ReefcoreError, match=what):
        chat.Budget(**values)


def test_what_is_under_way_is_kept_when_the_work_is_interrupted(server, client, tmp_path):
    def broken():
        yield from questions(2)
        raise KeyboardInterrupt

    server.says = lambda n, text: time.sleep(0.1) or reply()
    with pytest.raises(KeyboardInterrupt):
        chat.ask_all(client, broken(), tmp_path / "a.jsonl", parallel=4)
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 2


def test_a_run_that_is_killed_goes_on(server, client, tmp_path):
    file, script = tmp_path / "a.jsonl", "import sys; from reefcore import chat; client = chat.Server('coral-vl')\n"
    script += "ask = [chat.Question(f'point {i}', 'genus', f'question {i}') for i in range(12)]\n"
    script += "chat.ask_all(client, ask, sys.argv[1], parallel=1)"
    server.says = lambda n, text: time.sleep(0.05) or reply()
    run = subprocess.Popen([sys.executable, "-c", script, str(file)])
    until = time.monotonic() + 30
    while len(server.bodies) < 5 and time.monotonic() < until:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    answered = {json.loads(line)["about"] for line in file.read_text().splitlines(keepends=True) if line[-1] == "\n"}
    assert 3 <= len(answered) < 12
    with file.open("a") as half:
        half.write('{"question": "abc", "te')
    before = len(server.bodies)
    answers, counts = chat.ask_all(client, questions(12), file)
    assert [answer.text for answer in answers] == ["Porites"] * 12
    assert counts["from_cache"] == len(answered) and counts["lines_dropped"] == 1
    asked_now = {text.replace("question", "point") for text in server.texts()[before:]}
    assert not asked_now & answered and len(asked_now) == 12 - len(answered)
    assert chat.ask_all(client, questions(12), file)[1]["lines_dropped"] == 0


def test_a_file_that_holds_no_answers_is_not_touched(client, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ReefcoreError, match="no file of answers"):
        chat.ask_all(client, questions(1), file)
    assert file.read_text() == "a,b\n1,2\n"
    with pytest.raises(ReefcoreError, match="answers cannot be kept here"):
        chat.ask_all(client, questions(1), file / "a.jsonl")


def test_the_key_is_written_nowhere(server, client, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    said = [reply(f"your key is {KEY}"), (400, f"bad {KEY}", {}), "x" * 150 + KEY, (401, "w" * 230 + f" key {KEY}", {})]
    server.says = lambda n, text: said[min(n, 3)]
    with pytest.raises(ReefcoreError) as error:
        chat.ask_all(client, questions(4), tmp_path / "a.jsonl", parallel=1)
    told = capfd.readouterr()
    everything = f"{error.value} {client!r} {client.__dict__['model']} {caplog.text} {told.out} {told.err}"
    everything += (tmp_path / "a.jsonl").read_text()
    assert KEY[:8] not in everything and "www key ***" in everything and "your key is ***" in everything
    assert "no-password" not in repr(chat.Server("m", url="http://me:no-password@127.0.0.1/v1"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A Qwen2.5-VL of a few thousand parameters, drawn at random, as `save_pretrained` writes it."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    special = ["<|end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<unk>"]
    words = [*special, "Which", "genus", "?", "Porites", "Acropora", "user", "assistant", ":"]
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|end|>", pad_token="<|end|>", additional_special_tokens=special[1:5]
    )
    template = (
        "{% for m in messages %}{{ m.role }} : {% for part in m.content %}{% if part.type == 'image' %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %} assistant : {% endif %}"
    )
    text = {"vocab_size": len(words), "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    text |= {"num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 0, "bos_token_id": None}
    text |= {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}}
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
    config = transformers.Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision | {"fullatt_block_indexes": [0], "window_size": 56},
        vision_start_token_id=1,
        vision_end_token_id=2,
        image_token_id=3,
        video_token_id=4,
    )
    folder = tmp_path_factory.mktemp("local") / "tiny_vl"
    transformers.Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    images = transformers.Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=56 * 56)
    videos = transformers.Qwen2VLVideoProcessor()
    transformers.Qwen2_5_VLProcessor(images, tokenizer, videos, chat_template=template).save_pretrained(folder)
    return folder


def test_a_model_on_this_machine_answers_about_an_image(tiny, tmp_path, monkeypatch):
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (56, 56), (200, 120, 40)).save(file, "PNG")
    monkeypatch.setenv("REEFCORE_CHAT_URL", "local")
    client = chat.client(str(tiny))
    with_image = client.answer("Which genus ?", file.getvalue(), max_tokens=4)
    without = client.answer("Which genus ?", max_tokens=4)
    assert with_image.input_tokens == without.input_tokens + 6  # 2 x 2 merged patches between two marks
    assert 1 <= with_image.output_tokens <= 4 and not with_image.error
    assert client.answer("Which genus ?", file.getvalue(), max_tokens=4).text == with_image.text
    answers, counts = chat.ask_all(client, questions(2, file.getvalue()), tmp_path / "a.jsonl", {"max_tokens": 2})
    assert counts["asked"] == 2 and all(answer.finish in ("stop", "length") for answer in answers)
    assert client.model.startswith("tiny_vl ") and chat.Local(tiny).model == client.model


def test_local_weights_that_are_not_there(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReefcoreError, match=r"cannot be loaded .*hf download"):
        chat.Local(tmp_path / "empty")
