"""Descriptions of classes: the table, and having a language model write it."""

import pandas as pd
import pytest
from chat_server import serve

from reefcore import chat, descriptions
from reefcore.errors import ReefcoreError

GOOD = " ".join(["branching"] * 35)
ROW = {"taxon": "Porites", "set": "mine", "text": "massive and smooth", "words": "3", "how": "me"}
ROW |= {"prompt": "", "source": "", "passage": ""}


def client(server):
    return chat.Server("m", server.url, tries=1, timeout=5)


def test_a_table_is_read_and_the_shipped_ones_hold(tmp_path):
    pd.DataFrame([ROW]).to_csv(tmp_path / "mine.csv", index=False)
    assert descriptions.read(tmp_path / "mine.csv")["words"].tolist() == [3]
    shipped = descriptions.shipped()
    assert {"general", "morphology"} <= set(shipped["set"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{k: v for k, v in ROW.items() if k != "how"}], "lacks how"),
        ([ROW, ROW], "Porites has two descriptions in the set mine"),
        ([ROW | {"words": "4"}], "the text of Porites has 3 words, not 4"),
        ([ROW | {"words": "many"}], "has 3 words, not nan"),
        ([ROW | {"text": " "}], "row 1 has no text"),
    ],
)
def test_a_wrong_table_is_refused(rows, message, tmp_path):
    pd.DataFrame(rows).to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(ReefcoreError, match=message):
        descriptions.read(tmp_path / "mine.csv")


def test_a_missing_or_unreadable_table_is_refused(tmp_path):
    with pytest.raises(ReefcoreError, match="does not exist"):
        descriptions.read(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"taxon\n\xff\xfe\x00")
    with pytest.raises(ReefcoreError, match="not a readable CSV"):
        descriptions.read(tmp_path / "latin.csv")


def test_a_prompt_has_its_slots_and_a_hash(tmp_path):
    text, name = descriptions.prompt("figure_14", coral_class="Porites")
    assert "describing the coral class ‘Porites’" in text and text.startswith("Produce a sentence, without any")
    assert name == descriptions.prompt("figure_14", coral_class="Acropora")[1] and name.startswith("figure_14 ")
    with pytest.raises(ReefcoreError, match=r"the slots are \['coral_class'\], not \['genus'\]"):
        descriptions.prompt("figure_14", genus="Porites")
    (tmp_path / "p.yaml").write_text("about: nothing\n")
    with pytest.raises(ReefcoreError, match="a prompt has a text"):
        descriptions.prompt(tmp_path / "p.yaml")


def test_generate_asks_once_more_for_the_right_length_and_goes_on_from_its_file(tmp_path):
    def decide(text, n):
        if "Galaxea" in text:
            return ""
        if "Pavona" in text:
            return "Leafy."
        if "Porites" in text and "You answered" not in text:
            return "Too short."
        return f'"{GOOD}"'

    with serve(decide) as server:
        ask = (["Acropora", "Porites", "Pavona", "Galaxea"], client(server), tmp_path / "a.jsonl")
        table = descriptions.generate(*ask)
        assert len(server.requests) == 6
        again = descriptions.generate(*ask)
        assert len(server.requests) == 6
    pd.testing.assert_frame_equal(table, again)
    assert dict(zip(table["taxon"], table["words"], strict=True)) == {"Acropora": 35, "Porites": 35, "Pavona": 1}
    assert table["note"].tolist() == ["", "", "too short (1 words)"] and table["text"][0] == GOOD
    assert set(table["set"]) == {"generated"} and set(table["how"]) == {"m"}
    assert table.attrs["missing"] == {"Galaxea": "the answer is empty"}


def test_the_budget_holds_for_both_rounds(tmp_path):
    with serve("Too short.") as server, pytest.raises(ReefcoreError, match="budget of 3"):
        budget = chat.Budget(requests=3)
        descriptions.generate(["Acropora", "Porites"], client(server), tmp_path / "a.jsonl", budget=budget, parallel=1)
    assert len(server.requests) == 3


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "guide.md").write_text(
        "# Genera\n\nThe reef has Acropora and others.\n\n## Porites\nMassive, smooth.\n\nTiny corallites.\n\n"
        "## Galaxea\n\nSpiky. Unlike porites, it stings.\n"
    )
    (folder / "notes.txt").write_text("ACROPORA\n\nBranching with axial corallites.\n")
    (folder / "photo.jpg").write_bytes(b"\xff")
    return folder


def test_passages_are_paragraphs_under_headings_first_then_those_that_name_the_taxon(texts):
    found = descriptions.passages(texts, ["Porites", "Acropora", "Pavona"]).set_index("taxon")
    assert found.index.tolist() == ["Porites", "Acropora"]
    assert found["passage"]["Porites"].split("\n\n") == [
        "Massive, smooth.",
        "Tiny corallites.",
        "Spiky. Unlike porites, it stings.",
    ]
    assert found["passage"]["Acropora"].startswith("Branching") and found["source"]["Porites"] == "guide.md"
    assert found["source"]["Acropora"] == "notes.txt; guide.md"


def test_from_texts_sends_the_passage_and_keeps_where_it_comes_from(texts, tmp_path):
    with serve(GOOD) as server:
        table = descriptions.from_texts(
            texts, ["Porites", "Pavona"], client(server), tmp_path / "a.jsonl", most_words=3, parallel=1
        )
    assert "Massive, smooth." in server.texts[0] and "stings" not in server.texts[0]
    row = table.iloc[0]
    assert (row["set"], row["source"]) == ("book", "guide.md") and row["passage"] in server.texts[0]
    assert "words of the texts left out" in row["note"]
    assert table.attrs["missing"] == {"Pavona": "the texts do not name it"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pdf", b"%PDF", "PDF is not read.*convert it to text"),
        ("a.doc", b"x", "this is no text file"),
        ("a.txt", b"\xff\xfe\x00", "cannot be read"),
        ("none.txt", None, "does not exist"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ReefcoreError, match=message):
        descriptions.passages(tmp_path / name, ["Porites"])
    with pytest.raises(ReefcoreError, match="there is no text here"):
        (tmp_path / "empty").mkdir()
        descriptions.passages(tmp_path / "empty", ["Porites"])


def test_alike_is_the_share_of_common_words_without_the_names():
    table = pd.DataFrame(
        [
            ("a", "Porites", "Porites: massive brown domes"),
            ("a", "Porites lutea", "Porites lutea: massive yellow domes"),
            ("b", "Porites", "porites"),
            ("b", "Favites", "Favites"),
        ],
        columns=["set", "taxon", "text"],
    )
    found = descriptions.alike(table.assign(words=4)).set_index("set")
    assert found.at["a", "shared"] == 2 / 4  # massive, domes; of massive, domes, brown, yellow
    assert pd.isna(found.at["b", "shared"])  # nothing is left to compare
    assert found["distinct"].to_list() == [2, 2]
