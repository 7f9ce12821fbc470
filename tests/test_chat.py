"""Asking chat models: a server that is slow, broken, greedy or gone, and a tiny model on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from chat_server import reply, serve

from reefcore import chat
from reefcore.errors import ReefcoreError

KEY = "sk-secret-4711"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("REEFCORE_CHAT_KEY", KEY)
    monkeypatch.delenv("REEFCORE_CHAT_URL", raising=False)
    monkeypatch.delenv("REEFCORE_CHAT_LOCAL", raising=False)


def client(server, **options):
    return chat.Server("m", server.url, **{"timeout": 5, "tries": 3, "back_off": 0.01} | options)


def questions(n):
    return [chat.Question(f"p{i}", "test", f"question {i}") for i in range(n)]


FLAWS = {
    "status 500": (500, b"broken", {}),
    "status 429": (429, b"busy", {"Retry-After": "0"}),
    "RemoteProtocolError": ("cut",),
    "a web page came back": b"<html>Log in</html>",
    "holds no choice": {"choices": []},
    "holds no choice.*not json": b"not json",
}


@pytest.mark.parametrize("message", FLAWS)
def test_a_flaw_is_asked_again_and_an_endless_one_is_a_failure(message):
    with serve(lambda text, n: FLAWS[message] if n < 2 else "Porites") as server:
        answer = client(server).answer("Which?")
        assert (answer.text, answer.tries, answer.error) == ("Porites", 3, "")
        assert (answer.input_tokens, answer.output_tokens, answer.finish) == (10, 5, "stop")
    with serve(FLAWS[message]) as server:
        answer = client(server).answer("Which?")
        assert len(server.requests) == 3 and not answer.final and answer.text == ""
        assert re.search(message, answer.error)


def test_a_slow_a_dripping_and_a_missing_server_fail_in_time():
    for flaw, said in (("slow", "Timeout"), (("drip",), "no whole answer within 0.2 seconds")):
        with serve(lambda text, n, flaw=flaw: time.sleep(0.6) or "late" if flaw == "slow" else flaw) as server:
            start = time.monotonic()
            answer = client(server, timeout=0.2, tries=2).answer("Which?")
            assert said in answer.error and time.monotonic() - start < 1.5
    answer = client(server, tries=2).answer("Which?")
    assert "Connection" in answer.error and answer.tries == 2


def test_retry_after_is_obeyed_as_seconds_and_as_date_and_a_long_one_stops():
    with serve(lambda text, n: (429, b"busy", {"Retry-After": "0.3"}) if n == 0 else "yes") as server:
        start = time.monotonic()
        assert client(server).answer("Which?").text == "yes" and time.monotonic() - start > 0.3
    with serve((429, b"quota", {"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"})) as server:
        with pytest.raises(ReefcoreError, match=r"asks to wait \d+ seconds.*answers so far are kept"):
            client(server).answer("Which?")
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "REEFCORE_CHAT_KEY"), (403, "REEFCORE_CHAT_KEY"), (404, "name of the model")]
)
def test_a_wrong_key_or_model_stops_at_once_and_the_key_is_not_repeated(status, advice, tmp_path):
    with serve((status, json.dumps({"error": f"bad key {KEY}"}).encode(), {})) as server:
        with pytest.raises(ReefcoreError, match=f"(?s)status {status}.*0 of 20 questions.*") as raised:
            chat.ask_all(client(server), questions(20), tmp_path / "a.jsonl", parallel=1)
        assert len(server.requests) == 1 and advice in str(raised.value)
        assert "bad key ***" in str(raised.value) and KEY not in str(raised.value)


def test_one_refused_question_is_a_failure_that_does_not_stop_the_rest_and_can_be_asked_again(tmp_path):
    refuse = [True]

    def decide(text, n):
        return (400, f"policy; {KEY}".encode(), {}) if text == "question 2" and refuse[0] else f"to {text}"

    with serve(decide) as server:
        answers, counts = chat.ask_all(client(server), questions(5), tmp_path / "a.jsonl")
        assert [a.text for a in answers] == ["to question 0", "to question 1", "", "to question 3", "to question 4"]
        assert "status 400: " in answers[2].error and counts["failed"] == 1 and counts["asked"] == 5
        _, counts = chat.ask_all(client(server), questions(5), tmp_path / "a.jsonl")
        assert counts["asked"] == 0 and counts["failed"] == 1 and len(server.requests) == 5
        refuse[0] = False
        answers, counts = chat.ask_all(client(server), questions(5), tmp_path / "a.jsonl", again=True)
        assert answers[2].text == "to question 2" and (counts["asked"], counts["failed"]) == (1, 0)
    assert KEY not in (tmp_path / "a.jsonl").read_text() and KEY not in repr(client(server))


def test_a_server_that_fails_in_a_row_ends_the_work_and_says_how_many_are_answered(tmp_path):
    with serve(lambda text, n: "yes" if n < 2 else (500, b"broken", {})) as server:
        with pytest.raises(ReefcoreError, match=r"3 questions in a row failed .*: 2 of 9 questions are answered"):
            chat.ask_all(client(server, tries=1), questions(9), tmp_path / "a.jsonl", parallel=1)
        assert len(server.requests) == 5
        server.decide = lambda text, n: "now"
        answers, counts = chat.ask_all(client(server), questions(9), tmp_path / "a.jsonl")
        assert [a.text for a in answers] == ["yes"] * 2 + ["now"] * 7 and counts["from_cache"] == 2


def test_an_answer_without_text_is_an_answer_and_every_raw_answer_is_kept(tmp_path):
    with serve({"choices": [{"message": {"content": None}, "finish_reason": "length"}]}) as server:
        answers, counts = chat.ask_all(client(server), questions(1), tmp_path / "a.jsonl")
    record = json.loads((tmp_path / "a.jsonl").read_text())
    assert answers[0].text == "" and not answers[0].error and counts["failed"] == 0
    assert (record["model"], record["finish"], record["about"], record["prompt"]) == ("m", "length", "p0", "test")


def test_order_does_not_depend_on_timing_and_what_was_asked_is_asked_once(tmp_path):
    def decide(text, n):
        time.sleep(0.05 * (4 - int(text[-1])))
        return text

    twice = [*questions(4), *questions(4)]
    with serve(decide) as server:
        answers, counts = chat.ask_all(client(server), twice, tmp_path / "a.jsonl", {"temperature": 0})
        assert [a.text for a in answers] == [f"question {i}" for i in (0, 1, 2, 3)] * 2
        assert (counts["questions"], counts["asked"], counts["requests"]) == (8, 4, 4)
        assert counts["input_tokens"] == 40 and server.requests[0]["temperature"] == 0
        chat.ask_all(client(server), twice, tmp_path / "a.jsonl", {"temperature": 1})  # another question
        assert len(server.requests) == 8


def test_the_image_is_part_of_the_question(tmp_path):
    with serve("yes") as server:
        asked = [chat.Question("p", "test", "Which?", image) for image in (b"one", b"two", b"one")]
        _, counts = chat.ask_all(client(server), asked, tmp_path / "a.jsonl")
        assert counts["asked"] == 2
        urls = {body["messages"][0]["content"][0]["image_url"]["url"] for body in server.requests}
        assert urls == {"data:image/png;base64,b25l", "data:image/png;base64,dHdv"}


@pytest.mark.parametrize(
    ("budget", "sent"),
    [({"requests": 3}, 3), ({"tokens": 31}, 3), ({"cost": 2.5, "input_price": 100_000, "output_price": 0}, 3)],
)
def test_a_budget_stops_cleanly_and_the_next_run_goes_on(budget, sent, tmp_path):
    with serve("yes") as server:
        with pytest.raises(ReefcoreError, match=r"is used up: 3 of 5 questions are answered.*raise the limit"):
            chat.ask_all(client(server), questions(5), tmp_path / "a.jsonl", None, chat.Budget(**budget), 1)
        assert len(server.requests) == sent
        prices = {"input_price": 1e6, "output_price": 1e5}
        _, counts = chat.ask_all(client(server), questions(5), tmp_path / "a.jsonl", None, chat.Budget(**prices))
        assert (counts["asked"], counts["from_cache"], counts["cost"]) == (2, 3, 5 * 10.5)


def test_a_budget_holds_over_several_calls_and_counts_tries(tmp_path):
    budget = chat.Budget(requests=4)
    with serve(lambda text, n: (500, b"", {}) if n == 0 else "yes") as server:
        chat.ask_all(client(server), questions(2), tmp_path / "a.jsonl", budget=budget, parallel=1)
        with pytest.raises(ReefcoreError, match="1 of 2 questions"):
            chat.ask_all(client(server), questions(2), tmp_path / "b.jsonl", budget=budget, parallel=1)
        assert len(server.requests) == 4


def test_a_budget_must_make_sense_and_needs_a_server_that_counts(tmp_path):
    with pytest.raises(ReefcoreError, match="negative"):
        chat.Budget(tokens=-1)
    with pytest.raises(ReefcoreError, match="needs prices"):
        chat.Budget(cost=1)
    with serve(reply("yes", tokens=None)) as server, pytest.raises(ReefcoreError, match="does not say how many tokens"):
        chat.ask_all(client(server), questions(9), tmp_path / "a.jsonl", None, chat.Budget(tokens=10), 1)


def test_requests_a_minute_are_kept():
    with serve("yes") as server:
        slow, start = client(server, per_minute=300), time.monotonic()
        for _ in range(3):
            slow.answer("Which?")
        assert time.monotonic() - start >= 0.4


def test_a_half_written_line_is_dropped_and_a_foreign_file_or_a_second_run_is_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    with serve("yes") as server:
        chat.ask_all(client(server), questions(3), file, parallel=1)
        file.write_bytes(file.read_bytes()[:-20])
        _, counts = chat.ask_all(client(server), questions(3), file)
        assert (counts["lines_dropped"], counts["asked"]) == (1, 1)
        assert len([json.loads(line) for line in file.read_text().splitlines()]) == 3
        (tmp_path / "other").write_text("taxon,text\n")
        with pytest.raises(ReefcoreError, match="no file of answers"):
            chat.ask_all(client(server), questions(1), tmp_path / "other")

        def second(text, n):
            with pytest.raises(ReefcoreError, match="another run is writing here"):
                chat.ask_all(client(server), questions(1), file)
            return "held"

        server.decide = second
        answers, _ = chat.ask_all(client(server), questions(4), file)
        assert answers[3].text == "held"


def test_a_killed_run_goes_on_and_asks_each_question_once(tmp_path):
    program = """
import sys
from reefcore import chat
q = [chat.Question(f"p{i}", "test", f"question {i}") for i in range(12)]
chat.ask_all(chat.Server("m"), q, sys.argv[1], parallel=1)
"""
    file = tmp_path / "a.jsonl"
    with serve(
        lambda text, n: time.sleep(0.05 if n < 5 else 0.0) or (time.sleep(1) if n == 5 else 0) or text
    ) as server:
        run = [sys.executable, "-c", program, str(file)]
        env = os.environ | {"REEFCORE_CHAT_URL": server.url, "PYTHONPATH": str(Path(chat.__file__).parents[1])}
        process = subprocess.Popen(run, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until = time.monotonic() + 20
        while len(server.requests) < 6 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        said = b"".join(process.communicate())
        answers, counts = chat.ask_all(client(server), questions(12), file)
    assert [a.text for a in answers] == [f"question {i}" for i in range(12)]
    assert (counts["from_cache"], counts["asked"]) == (5, 7)
    assert len(server.requests) == 13  # the one under way when it was killed is asked again
    assert KEY.encode() not in said + file.read_bytes()


def test_what_is_under_way_when_the_work_breaks_off_is_kept_and_not_tried_again(tmp_path):
    def broken():
        yield from questions(3)
        time.sleep(0.1)
        raise KeyboardInterrupt

    with serve(lambda text, n: time.sleep(0.2) or ((500, b"", {}) if text == "question 1" else "yes")) as server:
        with pytest.raises(KeyboardInterrupt):
            chat.ask_all(client(server), broken(), tmp_path / "a.jsonl")
        assert len(server.requests) == 3
    kept = [json.loads(line)["about"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert sorted(kept) == ["p0", "p2"]


def test_a_place_where_nothing_can_be_kept_and_a_missing_package_are_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with serve("yes") as server, pytest.raises(ReefcoreError, match="answers cannot be kept here"):
        chat.ask_all(client(server), questions(1), tmp_path / "file" / "a.jsonl")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ReefcoreError, match=r"the package openai is missing; install .* extra language"):
        chat.Server("m", "http://localhost:1/v1")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ReefcoreError, match="the package transformers is missing"):
        chat.Local("m")


def test_the_environment_says_which_client(monkeypatch):
    with pytest.raises(ReefcoreError, match=r"REEFCORE_CHAT_URL.*REEFCORE_CHAT_KEY.*REEFCORE_CHAT_LOCAL=1"):
        chat.client("m")
    with pytest.raises(ReefcoreError, match="no chat server is named"):
        chat.Server("m", "localhost")
    monkeypatch.setenv("REEFCORE_CHAT_URL", "http://u:pass@h.example/v1")
    assert repr(chat.client("m")) == "Server('m' at h.example)"
    monkeypatch.delenv("REEFCORE_CHAT_URL")
    monkeypatch.setenv("REEFCORE_CHAT_LOCAL", "1")
    with pytest.raises(ReefcoreError, match=r"the model /no/such cannot be loaded .*hf download"):
        chat.client("/no/such")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Save a Qwen2.5-VL of a few thousand random weights, with a tokenizer of whole words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        PreTrainedTokenizerFast,
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    special = ["<unk>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>"]
    words = {word: i for i, word in enumerate([*special, "Which", "coral", "Porites", "Acropora", "?"])}
    model = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model, unk_token="<unk>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": special[2:]})
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    template = (
        "{% for m in messages %}{% for part in m['content'] %}{% if part['type'] == 'image' %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    )
    text = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text |= {"num_key_value_heads": 2, "vocab_size": len(words), "tie_word_embeddings": False, "eos_token_id": 1}
    text |= {"bos_token_id": 0, "pad_token_id": 1}
    text |= {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}}
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision | {"fullatt_block_indexes": [0]},
        image_token_id=3,
        video_token_id=5,
        vision_start_token_id=2,
        vision_end_token_id=4,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny-vl"
    torch.manual_seed(0)
    Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(), tokenizer, Qwen2VLVideoProcessor(), chat_template=template
    ).save_pretrained(folder)
    return folder


def test_a_model_on_this_machine_answers_words_and_images_and_is_asked_once(tiny, tmp_path, monkeypatch):
    import torch

    from reefcore.multimodal import png

    torch.set_num_threads(1)
    monkeypatch.setenv("REEFCORE_CHAT_LOCAL", "1")
    model = chat.client(str(tiny))
    assert model.model.startswith("tiny-vl ") and chat.Local(tiny).model == model.model
    image = png(np.full((56, 56, 3), 90, dtype=np.uint8), 56)
    asked = [chat.Question("a", "test", "Which coral ?"), chat.Question("b", "test", "Which coral ?", image)]
    answers, counts = chat.ask_all(model, asked, tmp_path / "a.jsonl", {"max_tokens": 3, "temperature": 0.0})
    words, pixels = (answer.input_tokens for answer in answers)
    assert words == 3 and pixels == 3 + 2 + 4  # 56 pixels are 2 x 2 tokens, between start and end
    assert all(1 <= answer.output_tokens <= 3 and not answer.error for answer in answers)
    assert (counts["asked"], counts["requests"]) == (2, 2)
    again, counts = chat.ask_all(model, asked, tmp_path / "a.jsonl", {"max_tokens": 3, "temperature": 0.0})
    assert again == answers and counts["asked"] == 0
    drawn = [model.answer("Which coral ?", max_tokens=8, temperature=1.0, seed=seed).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    with pytest.raises(ReefcoreError, match="budget of 1"):
        chat.ask_all(model, questions(2), tmp_path / "b.jsonl", {"max_tokens": 1}, chat.Budget(requests=1))


def test_the_environment_sets_a_budget(monkeypatch):
    monkeypatch.delenv("REEFCORE_CHAT_BUDGET", raising=False)
    assert chat.budget() is None
    monkeypatch.setenv("REEFCORE_CHAT_BUDGET", "cost=5 input_price=0.2, output_price=0.6")
    found = chat.budget()
    assert (found.cost, found.input_price, found.output_price, found.requests) == (5, 0.2, 0.6, 0)
    for text in ("much", "dollars=5", "requests=many"):
        monkeypatch.setenv("REEFCORE_CHAT_BUDGET", text)
        with pytest.raises(ReefcoreError, match=f"REEFCORE_CHAT_BUDGET is '{text}', which is no budget"):
            chat.budget()
