"""Ask a multimodal language model: over the chat API that OpenAI made common, or on this machine with transformers.

The address and the key of a server come from the environment (``REEFCORE_CHAT_URL``, ``REEFCORE_CHAT_KEY``), so that
neither can end up in a notebook. `ask_all` keeps every answer in a file as it comes: nothing is asked twice.
"""

from __future__ import annotations

import base64
import email.utils
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from reefcore.errors import ReefcoreError

URL, KEY, LOCAL = "REEFCORE_CHAT_URL", "REEFCORE_CHAT_KEY", "REEFCORE_CHAT_LOCAL"  # environment variables
BUDGET = "REEFCORE_CHAT_BUDGET"
LONGEST_WAIT = 120  # seconds that a server may ask us to wait; one that asks for more has closed for today
PATIENCE = 3  # questions in a row that fail for trouble with the server, or that it refuses before it answered any
SHOWN = 240  # characters of what a server says
INSTALL = "install reefcore with its extra language"
LARGEST = 2**20  # bytes of an answer; a server that sends more is not answering
THIS_QUESTION = (400, 413, 422)  # statuses that are about one question; every other 4xx is about all of them
AGAIN = (408, 409, 429)  # and every 5xx


class Question(NamedTuple):
    """One question: what it is about (an annotation_id, a taxon), which prompt, its text, and PNG bytes or nothing."""

    about: str
    prompt: str
    text: str
    image: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What came back. ``error`` says why nothing did; one that is not ``final`` may be got by asking once more."""

    text: str
    input_tokens: int | None = None  # None where the server does not say
    output_tokens: int | None = None
    finish: str = ""  # stop, length, content_filter ... as the server says
    tries: int = 1
    seconds: float = 0.0
    error: str = ""
    final: bool = True


class UsedUp(Exception):
    """The budget does not allow another request."""


@dataclass
class Budget:
    """The most that all calls of `ask_all` that are given it may use together; 0: no limit.

    Tries count as requests. Requests under way when tokens or cost are used up are still answered and kept.
    """

    requests: int = 0
    tokens: int = 0  # read and written
    cost: float = 0.0  # in the currency of the prices
    input_price: float = 0.0  # per million tokens
    output_price: float = 0.0

    def __post_init__(self):
        if min(vars(self).values()) < 0:
            raise ReefcoreError("a budget cannot be negative", do="give 0 for no limit")
        if self.cost and not (self.input_price or self.output_price):
            raise ReefcoreError("a limit of cost needs prices", do="give input_price and output_price per million")
        self._lock, self.used = threading.Lock(), {"requests": 0, "tokens": 0, "cost": 0.0}

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost."""
        return (input_tokens * self.input_price + output_tokens * self.output_price) / 1e6

    def take(self) -> None:
        """Count one request more; raises `UsedUp` where there may be none."""
        with self._lock:
            for name, used in self.used.items():
                if (limit := getattr(self, name)) and used >= limit:
                    raise UsedUp(f"the budget of {limit:g} ({name}) is used up")
            self.used["requests"] += 1

    def add(self, input_tokens: int, output_tokens: int) -> None:
        """Count the tokens of an answer."""
        with self._lock:
            self.used["tokens"] += input_tokens + output_tokens
            self.used["cost"] += self.price(input_tokens, output_tokens)


class Server:
    """A model behind an OpenAI-compatible address with ``/chat/completions``: vLLM, Ollama, a hosted service.

    Parameters
    ----------
    model : str
        The name that the server knows it by.
    url : str, optional
        Such as ``http://localhost:8000/v1``; by default what ``REEFCORE_CHAT_URL`` says.
    timeout : float
        Seconds for a whole answer.
    tries : int
        How often a question is asked before it counts as failed.
    back_off : float
        Seconds before the second try, doubled before each further one; a server's Retry-After is obeyed.
    per_minute : int
        Most requests a minute; 0: no limit.

    Raises
    ------
    ReefcoreError
        Where no address is given.
    """

    def __init__(
        self,
        model: str,
        url: str | None = None,
        timeout: float = 120,
        tries: int = 5,
        back_off: float = 1.0,
        per_minute: int = 0,
    ):
        try:
            import openai
        except ImportError:
            raise ReefcoreError("the package openai is missing", do=INSTALL) from None
        url = url or os.environ.get(URL, "")
        if urlsplit(url).scheme not in ("http", "https"):
            raise ReefcoreError(
                "no chat server is named", do=f"put its address, as http://localhost:8000/v1, into {URL}"
            )
        self.model, self.host = model, urlsplit(url).hostname
        self._timeout, self._tries, self._back_off, self._per_minute = timeout, tries, back_off, per_minute
        self._lock, self._next = threading.Lock(), 0.0
        key = os.environ.get(KEY, "").strip()  # servers of one's own need none
        self._secrets = [value for value in (key, urlsplit(url).password) if value]
        self._client = openai.OpenAI(base_url=url, api_key=key or "none", max_retries=0, timeout=timeout)

    def __repr__(self) -> str:
        return f"Server({self.model!r} at {self.host})"

    def answer(self, text: str, image: bytes = b"", before=lambda: None, **settings) -> Answer:
        """Ask one question, again where the server is busy, broken or silent.

        Parameters
        ----------
        text : str
        image : bytes
            PNG; none for a question in words.
        before : callable
            Called before every try; may raise to stop.
        **settings
            What the API knows: ``max_tokens``, ``temperature``, ``seed`` ...

        Raises
        ------
        ReefcoreError
            Where asking anything more is of no use: the key or the model is wrong, the quota is used up.
        """
        start, error = time.monotonic(), ""
        for tried in range(1, self._tries + 1):
            before()
            self._take_turn()
            pause = self._back_off * 2 ** (tried - 1)
            try:
                found = _understood(self._clean(self._post(text, image, settings).decode("utf-8", "replace")))
                return Answer(**found, tries=tried, seconds=round(time.monotonic() - start, 3))
            except ValueError as problem:
                error = str(problem)
            except Exception as problem:  # of the API, of the HTTP library below it, of the socket
                status = getattr(problem, "status_code", None)
                # The client's own message leaves out what a server says in other words than OpenAI's.
                said = problem.response.text if status else str(problem)
                error = f"status {status}" if status else type(problem).__name__
                error += f": {' '.join(self._clean(said).split())[:SHOWN]}"
                if status in THIS_QUESTION:
                    return Answer("", tries=tried, error=error)
                # A status below 400 is a redirect loop or the like: about all questions, as most of 4xx.
                if status and status not in AGAIN and status < 500:
                    raise ReefcoreError(error, repr(self), self._advice(status)) from None
                asked = _retry_after(problem) if status else 0
                if asked > LONGEST_WAIT:
                    what = f"the server asks to wait {asked:.0f} seconds"
                    raise ReefcoreError(what, repr(self), "run again then: answers so far are kept") from None
                pause = asked or pause
            if tried < self._tries:
                time.sleep(pause)
        seconds = round(time.monotonic() - start, 3)
        return Answer("", tries=self._tries, seconds=seconds, error=error, final=False)

    def _post(self, text: str, image: bytes, settings: dict) -> bytes:
        parts = [{"type": "text", "text": text}]
        if image:
            url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
            parts.insert(0, {"type": "image_url", "image_url": {"url": url}})
        content = parts if image else text
        end, body = time.monotonic() + self._timeout, b""
        # The client's timeout is for each read: only reading piece by piece ends an answer that drips for ever.
        with self._client.chat.completions.with_streaming_response.create(
            model=self.model, messages=[{"role": "user", "content": content}], extra_body=settings
        ) as response:
            for piece in response.iter_bytes():
                body += piece
                if time.monotonic() > end or len(body) > LARGEST:
                    raise ValueError(f"no whole answer within {self._timeout:g} seconds and {LARGEST:,} bytes")
        return body

    def _take_turn(self) -> None:
        if self._per_minute:
            with self._lock:
                turn = max(self._next, time.monotonic())
                self._next = turn + 60 / self._per_minute
            time.sleep(max(0.0, turn - time.monotonic()))

    def _clean(self, text: str) -> str:
        for secret in self._secrets:  # servers repeat the key in their errors
            text = text.replace(secret, "***")
        return text

    def _advice(self, status: int) -> str:
        if status in (401, 403):
            return f"put the key of this server into the environment variable {KEY}"
        if status == 404:
            return f"check the name of the model, and the address in {URL} (it mostly ends in /v1)"
        return "see what the server says; answers so far are kept"


def _retry_after(error: Exception) -> float:
    said = error.response.headers.get("retry-after", "")
    try:
        return float(said)
    except ValueError:
        date = email.utils.parsedate_tz(said)
        return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else 0.0


def _understood(body: str) -> dict:
    shown = body[:SHOWN]
    if body.lstrip().startswith("<"):
        raise ValueError(f"a web page came back, not an answer; check the address in {URL} ({shown!r})")
    try:
        reply = json.loads(body)
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        text = choice["message"].get("content") or ""
        if isinstance(text, list):  # some servers send parts
            text = "".join(part.get("text") or "" for part in text)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError(f"the server's answer holds no choice ({shown!r})") from None
    tokens = {
        f"{name}_tokens": usage.get(f"{key}_tokens") for name, key in (("input", "prompt"), ("output", "completion"))
    }
    return {"text": text, "finish": choice.get("finish_reason") or "", **tokens}


class Local:
    """A model of transformers on this machine, from a folder or from the hub's cache; one question at a time.

    Imports torch.

    Parameters
    ----------
    source : str or path
        A folder that ``save_pretrained`` wrote, or a repository on the hub as ``Qwen/Qwen2.5-VL-7B-Instruct``.

    Raises
    ------
    ReefcoreError
        Where the weights or their processor cannot be had.
    """

    def __init__(self, source: str | Path):
        try:
            import torch
            from transformers import AutoModelForImageTextToText, AutoProcessor
        except ImportError as error:
            raise ReefcoreError(f"the package {error.name} is missing", do=f"{INSTALL}, and its extra train") from None
        self.model = str(source)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._lock = threading.Lock()
        try:
            self._processor = AutoProcessor.from_pretrained(source)
            self._model = AutoModelForImageTextToText.from_pretrained(source, dtype="auto").to(self._device).eval()
        except Exception as error:  # of the hub, the network, the disk, the model's code
            said = " ".join(str(error).split())[:SHOWN]
            raise ReefcoreError(
                f"the model {source} cannot be loaded ({said})",
                do=f"where there is a network, run `hf download {source}`, or name a folder with its weights, "
                "processor and chat template",
            ) from error
        if Path(source).is_dir():  # two trainings in folders of one name must not share their answers
            some = (value.detach().flatten()[:64].float().cpu().numpy() for value in self._model.parameters())
            seen = short_hash(b"".join(value.tobytes() for value in some))
            self.model = f"{Path(source).resolve().name} {seen}"

    def __repr__(self) -> str:
        return f"Local({self.model!r})"

    def answer(self, text: str, image: bytes = b"", before=lambda: None, **settings) -> Answer:
        """Ask one question, as `Server.answer`; of settings ``max_tokens``, ``temperature`` and ``seed`` are known."""
        import io

        import torch
        from PIL import Image

        before()
        content = [{"type": "text", "text": text}]
        if image:
            content.insert(0, {"type": "image", "image": Image.open(io.BytesIO(image)).convert("RGB")})
        most, temperature = settings.get("max_tokens", 128), settings.get("temperature", 0)
        draw = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        with self._lock, torch.inference_mode():
            start = time.monotonic()
            inputs = self._processor.apply_chat_template(
                [{"role": "user", "content": content}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            ).to(self._device)
            torch.manual_seed(settings.get("seed", 0))
            written = self._model.generate(**inputs, max_new_tokens=most, **draw)[0, inputs["input_ids"].shape[1] :]
            said = self._processor.decode(written, skip_special_tokens=True)
        return Answer(
            said.strip(),
            inputs["input_ids"].shape[1],
            len(written),
            "length" if len(written) >= most else "stop",
            seconds=round(time.monotonic() - start, 3),
        )


def budget() -> Budget | None:
    """Return the limit that the environment sets, if any.

    ``REEFCORE_CHAT_BUDGET`` holds what `Budget` takes, as ``requests=500`` or ``cost=5 input_price=0.2
    output_price=0.6`` (prices per million tokens, in the money of the cost).

    Raises
    ------
    ReefcoreError
        Where it says anything else.
    """
    text = os.environ.get(BUDGET, "").replace(",", " ")
    try:
        given = {key: float(value) for key, value in (part.split("=") for part in text.split())}
        whole = {key: int(value) if key in ("requests", "tokens") else value for key, value in given.items()}
        return Budget(**whole) if whole else None
    except (ValueError, TypeError) as error:
        raise ReefcoreError(
            f"{BUDGET} is {text!r}, which is no budget ({error})",
            do="write requests=500, tokens=1000000, or cost=5 input_price=0.2 output_price=0.6",
        ) from None


def client(model: str) -> Server | Local:
    """Return the client that the environment asks for: ``REEFCORE_CHAT_URL``, or ``REEFCORE_CHAT_LOCAL=1``.

    Raises
    ------
    ReefcoreError
        Where neither is set, or the client cannot be made.
    """
    if os.environ.get(URL):
        return Server(model)
    if os.environ.get(LOCAL, "0") not in ("", "0"):
        return Local(model)
    raise ReefcoreError(
        f"nothing says where {model} runs",
        do=f"put the address of a chat server, as http://localhost:8000/v1, into {URL} (its key into {KEY}), or set "
        f"{LOCAL}=1 to run the model on this machine with transformers",
    )


def ask_all(
    client: Server | Local,
    questions: Iterable[Question],
    answers_file: str | Path,
    settings: dict | None = None,
    budget: Budget | None = None,
    parallel: int = 4,
    again: bool = False,
) -> tuple[list[Answer], dict]:
    """Ask many questions, a few at a time, keeping each answer in a file as it comes.

    Parameters
    ----------
    client : Server or Local
    questions : iterable of Question
        Taken as they are needed, so that their images need not all be in memory.
    answers_file : path
        JSON lines, appended to; made where it does not exist. A question whose model, settings, text and image are
        those of an answer in it is not asked again.
    settings : dict, optional
        For ``client.answer``.
    budget : Budget, optional
    parallel : int
        Requests under way at once.
    again : bool
        Ask questions again that a server had refused for good.

    Returns
    -------
    answers : list of Answer
        In the order of the questions. Failed ones have an ``error``.
    counts : dict
        ``questions``, ``asked`` (now, each once), ``from_cache``, ``failed``, ``requests`` (now, with tries), tokens
        and ``cost`` (None without prices) of all answers, ``lines_dropped`` of the file (half-written when a run was
        ended).

    Raises
    ------
    ReefcoreError
        Where the budget is used up, the server is of no use (a wrong key; several failures in a row), or the file is
        none of answers, another run's or cannot be written. What was answered is kept: the same call goes on from
        there.
    """
    budget, settings, path = budget or Budget(), settings or {}, Path(answers_file)
    order, waiting, asked, streak, stop, start = [], {}, set(), 0, "", budget.used.copy()
    parallel = 1 if isinstance(client, Local) else parallel
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("ab", buffering=0)
    except OSError as error:
        raise ReefcoreError(f"answers cannot be kept here ({error.strerror})", path, "name another file") from None

    def take() -> None:
        if stop:
            raise UsedUp(stop)
        budget.take()

    with opened as file, ThreadPoolExecutor(parallel) as pool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ReefcoreError("another run is writing here", path, "wait for its end, or name another file") from None
        known, dropped = _read(path)
        cached = {digest for digest, answer in known.items() if answer.final and not (again and answer.error)}

        def collect(done: Iterable[Future]) -> None:
            nonlocal streak, stop
            for future in done:
                question, digest = waiting.pop(future)
                try:
                    answer = future.result()
                except (UsedUp, ReefcoreError) as reason:
                    stop = stop or str(reason).rstrip(".")
                    continue
                file.write(_line(client.model, settings, question, digest, answer))  # one write: whole, or the last
                known[digest] = answer
                asked.add(digest)
                budget.add(answer.input_tokens or 0, answer.output_tokens or 0)
                if (budget.tokens or budget.cost) and not answer.error and answer.input_tokens is None:
                    stop = stop or f"{client!r} does not say how many tokens it used: limit requests instead"
                hopeless = answer.error and not (answer.final and any(not a.error for a in known.values()))
                streak = streak + 1 if hopeless else 0
                if streak >= PATIENCE:
                    stop = stop or f"{client!r}: {streak} questions in a row failed ({answer.error})"

        try:
            for question in questions:
                digest = _digest(client.model, settings, question)
                order.append(digest)
                if digest in cached or stop:
                    continue
                cached.add(digest)
                future = pool.submit(client.answer, question.text, question.image, take, **settings)
                waiting[future] = (question, digest)
                if len(waiting) >= parallel:
                    collect(wait(waiting, return_when=FIRST_COMPLETED).done)
        except BaseException:  # an image that cannot be read, Ctrl-C: nothing is tried again, what is under way is kept
            stop = stop or "asking was interrupted"
            raise
        finally:
            collect(wait(waiting).done)
    if stop:
        answered = sum(digest in known and not known[digest].error for digest in order)
        raise ReefcoreError(
            f"{stop}: {answered:,} of {len(order):,} questions are answered",
            do=f"they are kept in {path.name}; put right what is said, or raise the limit, and run the same again",
        )
    answers = [known[digest] for digest in order]
    distinct = [known[digest] for digest in dict.fromkeys(order)]
    total = {name: sum(getattr(answer, name) or 0 for answer in distinct) for name in ("input_tokens", "output_tokens")}
    priced = bool(budget.input_price or budget.output_price)
    counts = {
        "questions": len(order),
        "asked": len(asked),
        "from_cache": len(set(order) - asked),
        "failed": sum(bool(answer.error) for answer in answers),
        "requests": budget.used["requests"] - start["requests"],
        **total,
        "cost": budget.price(*total.values()) if priced else None,
        "lines_dropped": dropped,
    }
    return answers, counts


def short_hash(value: str | bytes) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a text (as UTF-8) or of bytes."""
    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()[:16]


def _digest(model: str, settings: dict, question: Question) -> str:
    image = hashlib.sha256(question.image).hexdigest() if question.image else ""
    asked = json.dumps([model, settings, question.text, image], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()


def _line(model: str, settings: dict, question: Question, digest: str, answer: Answer) -> bytes:
    record = {"question": digest, "about": question.about, "model": model, "settings": settings}
    record |= {"prompt": question.prompt, "prompt_hash": short_hash(question.text)}
    record |= {"image_hash": short_hash(question.image) if question.image else "", **asdict(answer)}
    return (json.dumps(record, sort_keys=True) + "\n").encode()


def _read(path: Path) -> tuple[dict[str, Answer], int]:
    """Read an answers file: the last answer to each question, and the number of lines that are none."""
    known, foreign, names = {}, 0, Answer.__dataclass_fields__
    content = path.read_bytes() if path.exists() else b""
    *lines, half = content.split(b"\n")
    for line in lines:
        try:
            record = json.loads(line)
            known[record["question"]] = Answer(**{name: record[name] for name in names if name in record})
        except (ValueError, LookupError, TypeError):
            foreign += 1
    if not known and (foreign or half[:1] not in (b"", b"{")):
        raise ReefcoreError("this is no file of answers", path, "name another one, or delete it")
    if half:  # a run was ended while writing: the next line must not join it
        with path.open("r+b") as file:
            file.truncate(len(content) - len(half))
    return known, foreign + bool(half)
