"""Invented taxa: apart from the benchmark, captioned in the words of the shipped descriptions."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

from reefcore.errors import ReefcoreError
from reefcore.files import share
from reefcore.sample import corpus, photos, taxa


@pytest.fixture(scope="module")
def small():
    return corpus.make(3, 12, 96, workers=1)


def test_no_invented_taxon_is_like_one_of_the_benchmark():
    kinds = corpus.invent(0, 600)
    assert len({kind.name for kind in kinds}) == 600
    assert not {kind.name for kind in kinds} & set(taxa.KINDS)
    for kind in kinds:
        for coral in taxa.CORALS:
            near = 1 / 1.25 <= kind.size / coral.size <= 1.25
            shared = {ridge for ridge, _ in kind.colours} & {ridge for ridge, _ in coral.colours}
            assert not (kind.corallite == coral.corallite and near and shared), (kind, coral)


def test_a_taxon_is_too_like_itself_but_not_one_of_other_size_or_colour():
    acropora = taxa.KINDS["Acropora"]
    assert "Acropora" in corpus.too_like(acropora)
    assert "Acropora" not in corpus.too_like(dataclasses.replace(acropora, size=2 * acropora.size))
    assert "Acropora" not in corpus.too_like(dataclasses.replace(acropora, colours=(("red", "dark"),)))


def test_the_sample_keeps_its_photos_whatever_else_can_be_shown(small):
    look, cover = photos.make_look(5, "Tropical Atlantic", 8.0), {"Porites": 0.4, "Diploria": 0.3, "Sediment": 0.3}
    more = taxa.KINDS | {kind.name: kind for kind in corpus.invent(3, 12)}
    for kinds in (taxa.KINDS, more):  # after a corpus was made, and beside invented taxa
        image, classes = photos.photo(look, cover, 1, 120, 90, kinds)
        plain, truth = photos.photo(look, cover, 1, 120, 90)
        assert (image == plain).all() and (classes == truth).all()


def test_patches_are_as_many_of_each_taxon_and_repeat_with_their_seed(small):
    patches, table = small
    of_taxa = table[table["taxon"].str.startswith("invented")]
    assert patches.shape == (len(table), 64, 64, 3) and patches.dtype == np.uint8 and 90 <= len(of_taxa) <= 96
    assert set(of_taxa["taxon"]) == {kind.name for kind in corpus.invent(3, 12)}
    assert of_taxa["taxon"].value_counts().max() == 8
    again, same = corpus.make(3, 12, 96, workers=2)
    assert (again == patches).all() and same.equals(table)
    assert not corpus.make(4, 12, 96, workers=1)[1].equals(table)


def test_captions_name_no_taxon_and_are_true_of_theirs(small):
    kinds = {kind.name: kind for kind in corpus.invent(3, 12)}
    coloured = 0
    table = small[1][small[1]["taxon"].str.startswith("invented")]
    for taxon, caption in table.itertuples(index=False):
        assert not re.search("invented|" + "|".join(kind.name for kind in taxa.CORALS), caption)
        if said := re.search("coloured (.*?)(,|$)", caption):
            coloured += 1
            assert said[1] == " or ".join(f"{ridge} over {valley}" for ridge, valley in kinds[taxon].colours)
    assert 0.3 * len(table) < coloured < len(table)  # now and then left out


def test_patches_of_ground_come_last_and_are_called_what_they_show(small):
    ground = small[1][~small[1]["taxon"].str.startswith("invented")]
    assert len(ground) >= 6 and ground.index[0] == len(small[1]) - len(ground)
    for taxon, caption in ground.itertuples(index=False):
        kind, _, batch = taxon.rpartition(" ")
        assert caption in corpus.GROUNDS[kind] and int(batch) < corpus.BATCHES
    assert set(corpus.GROUNDS) - {"coral"} <= set(photos.GROUND)
    words = {name: set(" ".join(ways).split()) for name, ways in corpus.GROUNDS.items()}
    assert all("coral" not in said for name, said in words.items() if name != "coral")


def test_captions_teach_every_word_of_the_descriptions():
    rng = np.random.default_rng(0)
    taught = {word for kind in corpus.invent(0, 600) for word in re.findall(r"\w+", corpus.caption(kind, rng))}
    used = {word for text in corpus.descriptions()["text"] for word in re.findall(r"\w+", text)}
    assert used - taught == set()


def test_the_shipped_descriptions_are_what_the_code_writes():
    shipped = pd.read_csv(share("data", "descriptions", "morphology.csv"), keep_default_na=False)
    pd.testing.assert_frame_equal(shipped, corpus.descriptions())
    assert (shipped["words"] == shipped["text"].str.split().str.len()).all()
    assert shipped.groupby("set")["taxon"].nunique().to_dict() == {"general": 44, "morphology": 44}


def test_general_descriptions_name_neither_corallites_nor_exact_colours():
    table = corpus.descriptions().pivot(index="taxon", columns="set", values="text")
    assert "polygonal" in table.at["Favites", "morphology"] and "brown over lime" in table.at["Favites", "morphology"]
    assert not table["general"].str.contains("corallites|valleys|septa| over ").any()


@pytest.mark.parametrize("count, patches", [(0, 10), (corpus.MOST + 1, 10**6), (12, 11)])
def test_a_corpus_has_a_size(count, patches):
    with pytest.raises(ReefcoreError):
        corpus.make(0, count, patches, workers=1)
