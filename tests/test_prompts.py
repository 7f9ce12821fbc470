"""Prompt sets: what a vision-language model reads of each class, and what is said where a text is missing."""

import pandas as pd
import pytest

from reefcore import descriptions, prompts, taxonomy
from reefcore.errors import ReefcoreError

CLASSES = ["Porites", "Acropora", "Fungiidae"]


def table(name, **texts):
    rows = [{"taxon": taxon, "set": name, "text": text, "words": len(text.split())} for taxon, text in texts.items()]
    return pd.DataFrame(rows).assign(how="by hand", prompt="", source="", passage="")


def test_a_name_is_read_as_it_is_and_a_photo_in_several_wordings_that_differ():
    assert prompts.texts(CLASSES, "name") == {name: [name] for name in CLASSES}
    photo = prompts.texts(CLASSES, "photo")
    assert list(photo) == CLASSES and photo["Porites"][0] == "a photo of Porites."
    for name, texts in photo.items():
        assert len(set(texts)) == len(texts) > 1 and all(name in text for text in texts)


def test_taxonomy_is_the_ranks_of_worms_and_ends_where_the_class_does():
    assert prompts.texts(["Acropora", "Fungiidae"], "taxonomy") == {
        "Acropora": ["Animalia Cnidaria Hexacorallia Scleractinia Acroporidae Acropora"],
        "Fungiidae": ["Animalia Cnidaria Hexacorallia Scleractinia Fungiidae"],
    }
    with pytest.raises(ReefcoreError, match="no taxonomy is known of Turf algae, Xyz"):
        prompts.texts(["Porites", "Turf algae", "Xyz"], "taxonomy")


def test_every_taxon_has_a_text_in_every_set_that_travels_with_the_library():
    shipped = descriptions.shipped()
    for name in ("general", "morphology"):
        described = shipped[shipped["set"] == name].set_index("taxon")["text"]
        assert prompts.texts(described.index, name) == {taxon: [text] for taxon, text in described.items()}
    known = taxonomy.taxa()["taxon"]
    for name in ("name", "photo", "taxonomy"):
        assert list(prompts.texts(known, name)) == list(known)


def test_sets_of_one_s_own_are_read_beside_the_shipped_ones_and_before_them():
    own = pd.concat([table("mine", Porites="lumps {of} stone"), table("general", Porites="a lump")], ignore_index=True)
    assert prompts.texts(["Porites"], "mine", own) == {"Porites": ["lumps {of} stone"]}
    assert prompts.texts(["Porites"], "general", own) == {"Porites": ["a lump"]}
    assert prompts.texts(["Porites"], "morphology", own) == prompts.texts(["Porites"], "morphology")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("generated", r"the set 'generated'; make them: reefcore describe MODEL; name the table under desc"),
        ("book", r"the set 'book'; make them from texts of your own: reefcore describe MODEL --texts FOLDER"),
        ("fotos", r"the set 'fotos'; there are general, mine, morphology; name the table under descriptions"),
        ("mine", r"the set mine describes 1 of 3 classes, not Acropora, Fungiidae"),
    ],
)
def test_a_set_or_a_class_without_texts_is_named_with_how_to_make_them(name, said):
    with pytest.raises(ReefcoreError, match=said):
        prompts.texts(CLASSES, name, table("mine", Porites="a lump"))
