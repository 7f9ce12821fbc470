"""Descriptions of classes: a table that says where each text comes from, and a pipeline that makes one.

A table has the columns ``taxon``, ``set`` (general, morphology, generated, book, or a name of one's own), ``text``,
``words``, ``how`` (the model or program that wrote it), ``prompt`` (its name and hash), ``source`` (the file or table
it rests on) and ``passage`` (the text it rests on; may be empty).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from reefcore.chat import Question, ask_all, short_hash
from reefcore.errors import ReefcoreError
from reefcore.files import read_settings, share

COLUMNS = ["taxon", "set", "text", "words", "how", "prompt", "source", "passage"]
MAY_BE_EMPTY = ["prompt", "source", "passage"]
LENGTH = (30, 40)  # words, as Figure 14 asks
TEXTS = (".txt", ".md")
SHORT_LINE = 6  # a paragraph of so few words without a full stop is a heading


def read(path: str | Path) -> pd.DataFrame:
    """Read and check a table of descriptions from a CSV file (UTF-8).

    Raises
    ------
    ReefcoreError
        Where the file cannot be read, lacks a column, says something twice or nothing, or counts words wrongly.
    """
    try:
        table = pd.read_csv(path, dtype="str", keep_default_na=False)
    except FileNotFoundError:
        raise ReefcoreError("this file does not exist", path, "check the path") from None
    except (ValueError, OSError) as error:
        raise ReefcoreError(f"this is not a readable CSV ({error})", path, "give UTF-8 CSV") from None
    return check(table, path)


def check(table: pd.DataFrame, where: str | Path | None = None) -> pd.DataFrame:
    """Check a table of descriptions; other columns are kept. Raises as `read`."""
    if missing := [name for name in COLUMNS if name not in table]:
        raise ReefcoreError(f"a table of descriptions lacks {', '.join(missing)}", where, f"give {', '.join(COLUMNS)}")
    table = table.assign(words=pd.to_numeric(table["words"], errors="coerce"))
    for name in [name for name in COLUMNS if name not in ["words", *MAY_BE_EMPTY]]:
        if len(empty := table.index[table[name].str.strip() == ""]):
            raise ReefcoreError(f"row {empty[0] + 1} has no {name}", where, "fill it in, or delete the row")
    if (twice := table.duplicated(["taxon", "set"])).any():
        taxon, name = table.loc[twice, ["taxon", "set"]].iloc[0]
        raise ReefcoreError(f"{taxon} has two descriptions in the set {name}", where, "keep one, or name another set")
    counted = table["text"].str.split().str.len()
    if (wrong := table["words"] != counted).any():
        taxon, said, is_ = table["taxon"][wrong].iloc[0], table["words"][wrong].iloc[0], counted[wrong].iloc[0]
        raise ReefcoreError(f"the text of {taxon} has {is_} words, not {said:g}", where, "correct the column words")
    return table.astype({"words": "int64"})


def shipped() -> pd.DataFrame:
    """Read the descriptions that travel with the library: the sets ``general`` and ``morphology``."""
    files = sorted(share("data", "descriptions").glob("*.csv"))
    return check(pd.concat([read(file) for file in files], ignore_index=True))


def prompt(name_or_path: str | Path, **slots: object) -> tuple[str, str]:
    """Fill the slots of a prompt of ``data/prompts`` (or of a file): its text, and its name with a hash.

    The hash is that of the prompt before it is filled.

    Raises
    ------
    ReefcoreError
        Where there is no such prompt, or it lacks a slot or has one that is not known.
    """
    path, values = read_settings(name_or_path, share("data", "prompts"), "prompt")
    template = values.get("text")
    if not isinstance(template, str):
        raise ReefcoreError("a prompt has a text", path, "write it under `text:`")
    found = set(re.findall(r"\{(\w+)\}", template))
    if found != set(slots):
        raise ReefcoreError(
            f"the slots are {sorted(found)}, not {sorted(slots)}", path, "name each as {slot}, once or more"
        )
    filled = re.sub(r"\{(\w+)\}", lambda slot: str(slots[slot[1]]), template)
    return filled, f"{path.stem} {short_hash(template)}"


def generate(
    taxa: Sequence[str],
    client,
    answers_file: str | Path,
    set_name: str = "generated",
    prompt_name: str | Path = "figure_14",
    **options,
) -> pd.DataFrame:
    """Have a language model describe taxa from what it knows (section A.6, Figure 14).

    Parameters
    ----------
    taxa : sequence of str
    client : reefcore.chat.Server or Local
    answers_file : path
        Every answer is kept there as it comes; the same call goes on from there.
    set_name : str
        What the set is called in the table.
    prompt_name : str or path
        A prompt with the slot ``{coral_class}``.
    **options
        ``settings``, ``budget``, ``parallel`` and ``again`` of `reefcore.chat.ask_all`.

    Returns
    -------
    DataFrame
        A table of descriptions. One of fewer than 30 or more than 40 words is asked for once more, and what comes then
        is kept; the column ``note`` says so. ``.attrs["missing"]`` says by taxon why it has no description.
    """
    asked = {taxon: (*prompt(prompt_name, coral_class=taxon), "", "") for taxon in dict.fromkeys(taxa)}
    return _describe(asked, {}, client, answers_file, set_name, options)


def from_texts(
    sources: str | Path | Iterable[str | Path],
    taxa: Sequence[str],
    client,
    answers_file: str | Path,
    set_name: str = "book",
    prompt_name: str | Path = "chat_passage",
    most_words: int = 1500,
    **options,
) -> pd.DataFrame:
    """Have a language model sum up what reference texts of your own say of taxa (section A.6, "Book").

    Parameters
    ----------
    sources : path or paths
        Files (``.txt``, ``.md``, UTF-8) or folders of them.
    prompt_name : str or path
        A prompt with the slots ``{coral_class}`` and ``{passage}``.
    most_words : int
        Words of the texts, for each taxon, that the model reads at most; see `passages`.
    taxa, client, answers_file, set_name, **options
        As of `generate`.

    Returns
    -------
    DataFrame
        As of `generate`, each row with the files and the passage it rests on; taxa that the texts do not mention are in
        ``.attrs["missing"]``, and the ``note`` says where a passage was cut.
    """
    found = passages(sources, taxa, most_words)
    missing = {taxon: "the texts do not name it" for taxon in dict.fromkeys(taxa) if taxon not in set(found["taxon"])}
    asked, notes = {}, {}
    for taxon, source, passage, left_out in found.itertuples(index=False):
        asked[taxon] = (*prompt(prompt_name, coral_class=taxon, passage=passage), source, passage)
        notes[taxon] = f"{left_out} words of the texts left out" if left_out else ""
    table = _describe(asked, notes, client, answers_file, set_name, options)
    table.attrs["missing"] = {**missing, **table.attrs["missing"]}
    return table


def passages(sources: str | Path | Iterable[str | Path], taxa: Sequence[str], most_words: int = 1500) -> pd.DataFrame:
    """Find what texts say of taxa.

    Paragraphs are set apart by empty lines. A heading is a line of Markdown with ``#``, or a paragraph of one line of
    at most 6 words without a full stop. Everything below a heading that names the taxon, up to the next one, is about
    it, and so is every other paragraph that names it. A name counts as a whole word, in any case; abbreviations do
    not.

    Returns
    -------
    DataFrame
        ``taxon``, ``source`` (names of the files), ``passage`` (paragraphs under its headings first, then in order, cut
        at `most_words` words) and ``left_out`` (words beyond them); no row for a taxon that is not named.
    """
    texts = [(path.name, _paragraphs(path)) for path in _files(sources)]
    rows = []
    for taxon in dict.fromkeys(taxa):
        named = re.compile(rf"\b{re.escape(taxon)}\b", re.IGNORECASE)
        under, beside = [], []
        for name, paragraphs in texts:
            inside = False
            for text, is_heading in paragraphs:
                here = bool(named.search(text))
                if is_heading:
                    inside = here
                elif inside or here:
                    (under if inside else beside).append((name, text))
        passage = "\n\n".join(text for _, text in under + beside)
        words = passage.split()
        if under or beside:
            source = "; ".join(dict.fromkeys(name for name, _ in under + beside))
            passage = passage if len(words) <= most_words else " ".join(words[:most_words])
            rows.append((taxon, source, passage, max(0, len(words) - most_words)))
    return pd.DataFrame(rows, columns=["taxon", "source", "passage", "left_out"])


def _files(sources: str | Path | Iterable[str | Path]) -> list[Path]:
    files = []
    for path in map(Path, [sources] if isinstance(sources, str | Path) else sources):
        if not path.exists():
            raise ReefcoreError("this text does not exist", path, "check the path")
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in inside:
            if file.suffix.lower() == ".pdf":
                raise ReefcoreError("PDF is not read", file, "convert it to text first, as with pdftotext")
            if file.suffix.lower() not in TEXTS and not path.is_dir():
                raise ReefcoreError("this is no text file", file, f"give {' or '.join(TEXTS)}")
        files += [file for file in inside if file.suffix.lower() in TEXTS]
    if not files:
        raise ReefcoreError("there is no text here", sources, f"give files that end in {' or '.join(TEXTS)}")
    return files


def _paragraphs(path: Path) -> list[tuple[str, bool]]:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReefcoreError(f"this text cannot be read ({error})", path, "save it as UTF-8") from None
    content = re.sub(r"^(#+ .*)$", r"\n\1\n", content, flags=re.MULTILINE)
    found = []
    for block in re.split(r"\n\s*\n", content):
        text = " ".join(block.split())
        short = "\n" not in block.strip() and len(text.split()) <= SHORT_LINE and not text.endswith((".", ";", ","))
        if text:
            found.append((text, text.startswith("#") or short))
    return found


def _describe(asked, notes, client, answers_file, set_name, options) -> pd.DataFrame:
    """Ask for each taxon's description, once more where its length is wrong; `asked`: text, prompt, source, passage."""
    first = [Question(taxon, name, text) for taxon, (text, name, *_) in asked.items()]
    answers, _ = ask_all(client, first, answers_file, **options)
    got = dict(zip(asked, answers, strict=True))
    texts = {taxon: _sentence(answer.text) for taxon, answer in got.items()}
    low, high = LENGTH
    second = []
    for question in first:
        text = texts[question.about]
        if text and not low <= (count := len(text.split())) <= high:
            slots = {"question": question.text, "answer": text, "count": count, "low": low, "high": high}
            second.append(Question(question.about, question.prompt, prompt("chat_again", **slots)[0]))
    answers, _ = ask_all(client, second, answers_file, **options)
    for question, answer in zip(second, answers, strict=True):
        texts[question.about] = _sentence(answer.text) or texts[question.about]
    rows, missing = [], {}
    for taxon, (_, name, source, passage) in asked.items():
        if not (text := texts[taxon]):
            missing[taxon] = got[taxon].error or "the answer is empty"
            continue
        count = len(text.split())
        long = "" if low <= count <= high else f"{'too short' if count < low else 'too long'} ({count} words)"
        note = "; ".join(part for part in (long, notes.get(taxon, "")) if part)
        rows.append((taxon, set_name, text, count, client.model, name, source, passage, note))
    table = pd.DataFrame(rows, columns=[*COLUMNS, "note"])
    table = check(table) if rows else table
    table.attrs["missing"] = missing
    return table


def _sentence(text: str) -> str:
    text = re.sub(r"<think>.*?(</think>|$)", "", text, flags=re.DOTALL)
    return " ".join(text.split()).strip("\"'“”‘’*` ")


def alike(table: pd.DataFrame) -> pd.DataFrame:
    """Measure how alike the descriptions of a set are: what is said of every class tells none apart.

    Parameters
    ----------
    table : DataFrame
        A table of descriptions.

    Returns
    -------
    DataFrame
        ``set``, ``taxa``, ``words`` (mean number), ``shared`` (mean over pairs of taxa of the words that both texts
        have, as a share of those that either has; the name of the taxon left out), ``distinct`` (different texts).
    """
    rows = []
    for name, part in table.groupby("set", sort=False):
        words = [
            set(re.findall(r"[^\W\d_]+", text.casefold())) - set(taxon.casefold().split())
            for taxon, text in part[["taxon", "text"]].itertuples(index=False)
        ]
        pairs = [len(a & b) / len(a | b) for i, a in enumerate(words) for b in words[:i] if a | b]
        shared = sum(pairs) / len(pairs) if pairs else float("nan")
        rows.append((name, len(part), part["words"].mean(), shared, part["text"].nunique()))
    return pd.DataFrame(rows, columns=["set", "taxa", "words", "shared", "distinct"])
