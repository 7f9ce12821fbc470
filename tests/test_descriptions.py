"""Descriptions: the table and its checks, what is shipped, and the pipeline from a model or from texts."""

import json

import pandas as pd
import pytest

from reefcore import descriptions, prompts
from reefcore.chat import Answer
from reefcore.errors import ReefcoreError

GOOD = " ".join(["massive"] * 35)


def write(path, **changes):
    row = {"taxon": "Porites", "set": "book", "text": "small round corallites", "words": "3", "how": "me"}
    row |= {"prompt": "", "source": "", "passage": ""} | changes
    pd.DataFrame([row]).to_csv(path, index=False)
    return path


def test_a_table_is_read_with_its_other_columns(tmp_path):
    table = descriptions.read(write(tmp_path / "d.csv", note="mine"))
    assert table.loc[0, "words"] == 3 and table.loc[0, "note"] == "mine" and table.loc[0, "passage"] == ""


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"words": "4"}, "the text of Porites has 3 words, not 4"),
        ({"words": "many"}, "the text of Porites has 3 words"),
        ({"text": " ", "words": "0"}, "row 1 has no text"),
        ({"taxon": ""}, "row 1 has no taxon"),
        ({"how": ""}, "row 1 has no how"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, changes, what):
    with pytest.raises(ReefcoreError, match=what):
        descriptions.read(write(tmp_path / "d.csv", **changes))


def test_wrong_files_are_named(tmp_path):
    with pytest.raises(ReefcoreError, match="does not exist"):
        descriptions.read(tmp_path / "none.csv")
    (tmp_path / "d.csv").write_text("taxon,text\nPorites,small\n")
    with pytest.raises(ReefcoreError, match="lacks set, words, how"):
        descriptions.read(tmp_path / "d.csv")
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReefcoreError, match="not a readable CSV"):
        descriptions.read(tmp_path / "d.csv")
    table = descriptions.read(write(tmp_path / "d.csv"))
    with pytest.raises(ReefcoreError, match="Porites has two descriptions in the set book"):
        descriptions.check(pd.concat([table, table]))


def test_what_is_shipped_was_written_from_the_projects_own_table():
    table = descriptions.shipped()
    assert set(table["set"]) == {"general", "morphology"}
    assert table.groupby("set")["taxon"].nunique().nunique() == 1
    assert (table["source"] == "reefcore/sample/looks.csv").all()
    assert table.loc[table["set"] == "morphology", "words"].between(15, 45).all()


def test_the_prompt_of_figure_14_is_the_papers():
    text, name = descriptions.prompt("figure_14", coral_class="Porites")
    assert text.startswith("Produce a sentence, without any additional context, that doesn’t exceed 30--40 words ")
    assert "the coral class ‘Porites’ with a focus on including as many descriptive adjectives as possible." in text
    assert text.endswith("Be as descriptive of its physical appearance as possible (color, texture, shape, etc).")
    assert name.split()[0] == "figure_14" and name == descriptions.prompt("figure_14", coral_class="Favia")[1]


def test_a_prompt_of_ones_own_needs_the_slots(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("text: Describe {genus} in JSON like {}.\n")
    with pytest.raises(ReefcoreError, match=r"the slots are \['genus'\], not \['coral_class'\]"):
        descriptions.prompt(file, coral_class="Porites")
    assert descriptions.prompt(file, genus="{genus}")[0] == "Describe {genus} in JSON like {}."
    file.write_text("about: nothing\n")
    with pytest.raises(ReefcoreError, match="a prompt has a text"):
        descriptions.prompt(file)


class Writer:
    """A model that writes what `says` makes of a question."""

    model = "writer"

    def __init__(self, says):
        self.says, self.asked = says, []

    def answer(self, text, image=b"", before=lambda: None, **settings):
        before()
        self.asked.append(text)
        said = self.says(text)
        return said if isinstance(said, Answer) else Answer(said, 10, 40, "stop")


def test_descriptions_are_generated_from_names(tmp_path):
    writer = Writer(lambda text: f'"{GOOD}"')
    table = descriptions.generate(["Porites", "Favia"], writer, tmp_path / "a.jsonl")
    assert list(table["taxon"]) == ["Porites", "Favia"] and set(table["set"]) == {"generated"}
    row = table.iloc[0]
    assert (row["text"], row["words"], row["how"], row["note"]) == (GOOD, 35, "writer", "")
    assert row["prompt"].startswith("figure_14 ") and row["source"] == row["passage"] == ""
    assert "‘Favia’" in writer.asked[1] or "‘Favia’" in writer.asked[0]
    descriptions.generate(["Porites", "Favia"], writer, tmp_path / "a.jsonl")
    assert len(writer.asked) == 2
    table.to_csv(tmp_path / "d.csv", index=False)
    assert prompts.texts(["Favia"], "generated", descriptions.read(tmp_path / "d.csv")) == {"Favia": [GOOD]}


def test_a_description_of_the_wrong_length_is_asked_for_once_more(tmp_path):
    mended = Writer(lambda text: GOOD if "You answered: round coral" in text else "round coral")
    table = descriptions.generate(["Porites"], mended, tmp_path / "a.jsonl")
    assert (table.loc[0, "text"], table.loc[0, "note"], len(mended.asked)) == (GOOD, "", 2)
    assert "That is 2 words. Write it again in 30 to 40 words" in mended.asked[1]
    stubborn = Writer(lambda text: "very " * 50 + "round coral")
    table = descriptions.generate(["Porites"], stubborn, tmp_path / "b.jsonl")
    assert (table.loc[0, "words"], table.loc[0, "note"], len(stubborn.asked)) == (52, "too long (52 words)", 2)


def test_a_taxon_without_a_description_is_listed(tmp_path):
    says = {"Porites": GOOD, "Favia": "", "Galaxea": Answer("", error="status 400: policy")}
    writer = Writer(lambda text: next(said for name, said in says.items() if name in text))
    table = descriptions.generate(list(says), writer, tmp_path / "a.jsonl", length=(1, 40))
    assert list(table["taxon"]) == ["Porites"]
    assert table.attrs["missing"] == {"Favia": "the answer is empty", "Galaxea": "status 400: policy"}
    none = descriptions.generate(["Favia"], writer, tmp_path / "a.jsonl")
    assert len(none) == 0 and list(none.columns[:8]) == descriptions.COLUMNS


BOOK = """# Corals of somewhere

An introduction that says much about reefs.

## Porites

Massive colonies with small corallites.

They are yellow.

## Favia

Rounded colonies. Unlike Porites, corallites are large.

Poritesia is another thing.
"""


def test_passages_are_what_stands_under_a_heading_or_names_the_taxon(tmp_path):
    (tmp_path / "book.md").write_text(BOOK)
    (tmp_path / "notes.txt").write_text("GALAXEA\n\nSpiky.\n\nFavia\n\nMounds, says a second text.\n")
    found = descriptions.passages(tmp_path, ["Porites", "Favia", "Galaxea", "Acropora"]).set_index("taxon")
    assert list(found.index) == ["Porites", "Favia", "Galaxea"]
    assert found.loc["Porites", "passage"].split("\n\n") == [
        "Massive colonies with small corallites.",
        "They are yellow.",
        "Rounded colonies. Unlike Porites, corallites are large.",
    ]
    assert found.loc["Favia", "source"] == "book.md; notes.txt" and found.loc["Galaxea", "passage"] == "Spiky."
    short = descriptions.passages(tmp_path / "book.md", ["Porites"], most_words=6).iloc[0]
    assert short["passage"] == "Massive colonies with small corallites. They" and short["left_out"] == 9


def test_descriptions_rest_on_texts_of_ones_own(tmp_path):
    (tmp_path / "book.md").write_text(BOOK)
    writer, file = Writer(lambda text: GOOD), tmp_path / "a.jsonl"
    table = descriptions.from_texts([tmp_path / "book.md"], ["Porites", "Acropora"], writer, file)
    row = table.iloc[0]
    assert (row["taxon"], row["set"], row["source"], row["how"]) == ("Porites", "book", "book.md", "writer")
    assert row["passage"].startswith("Massive colonies") and row["prompt"].startswith("chat_passage ")
    assert "Massive colonies with small corallites." in writer.asked[0] and len(writer.asked) == 1
    assert table.attrs["missing"] == {"Acropora": "the texts do not name it"}
    assert "Massive colonies" not in json.loads(file.read_text())["text"]
    cut = descriptions.from_texts([tmp_path / "book.md"], ["Porites"], writer, file, most_words=6)
    assert cut.loc[0, "note"] == "9 words of the texts left out"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("book.pdf", b"%PDF", "PDF is not read; convert it to text"),
        ("book.docx", b"PK", "this is no text file"),
        ("book.txt", b"\xff\xfe\xfa", "cannot be read .*save it as UTF-8"),
    ],
)
def test_texts_that_cannot_be_read_are_named(tmp_path, name, content, what):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReefcoreError, match=what):
        descriptions.passages(tmp_path / name, ["Porites"])
    if name.endswith("pdf"):
        with pytest.raises(ReefcoreError, match=what):
            descriptions.passages(tmp_path, ["Porites"])


def test_texts_that_are_not_there(tmp_path):
    with pytest.raises(ReefcoreError, match="this text does not exist"):
        descriptions.passages(tmp_path / "none", ["Porites"])
    with pytest.raises(ReefcoreError, match="there is no text here"):
        descriptions.passages(tmp_path, ["Porites"])
