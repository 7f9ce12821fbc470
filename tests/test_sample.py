"""The sample's survey: the paper's shape, the same bytes each time, labels that lead back to what is there."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from reefcore import curation, published, review, sample, taxonomy
from reefcore.errors import ReefcoreError
from reefcore.sample import survey, taxa


@pytest.fixture(scope="module")
def table():
    return survey.sources(0)


@pytest.fixture(scope="module")
def simulated(table, chosen):
    """The whole survey with points drawn from the planned covers, as if every photo showed exactly its plan."""
    homes = survey.communities(table, 0)
    rows = []
    for _, row in table.iterrows():
        for number in range(1, row["images"] + 1):
            photo = survey.plan_photo(row, homes[row["source"]], 0, number)
            names, cover = list(photo.covers), np.array(list(photo.covers.values()))
            drawn = np.random.default_rng(photo.seed).choice(names, photo.points, p=cover / cover.sum())
            rows += [(photo.source, photo.image, i, i, taxon) for i, taxon in enumerate(drawn)]
    points = pd.DataFrame(rows, columns=["source", "image", "row", "column", "taxon"])
    with pytest.MonkeyPatch.context() as patch:  # how the sources write is decided once for all tests
        patch.setattr(survey, "spellings", lambda *given: chosen)
        return (points, *survey.annotations(points, table, 0))


@pytest.fixture(scope="module")
def chosen(table):
    """How each source writes each label."""
    return survey.spellings(table, survey.communities(table, 0), 0)


def test_sources_have_the_papers_numbers(table):
    away = table[table["source"] != survey.SITE]
    assert len(away) == published.value("dataset/sources")
    assert away["ecoregion"].nunique() == published.value("dataset/ecoregions")
    assert away["layout"].value_counts().to_dict() == survey.LAYOUTS
    assert table["source"].is_unique and table["source"].str.startswith("sample-").all()
    assert (~table["located"]).sum() == 1 and away["bad"].sum() == survey.BAD_SOURCES


def test_another_seed_is_another_survey(table):
    pd.testing.assert_frame_equal(table, survey.sources(0))
    assert not table["look"].equals(survey.sources(1)["look"])


def test_a_small_sample_has_both_oceans():
    small = survey.sources(0, 0.05)
    assert len(small) == 15 and set(small["ocean"]) == {"Atlantic", "Indo-Pacific"}


def test_taxa_live_in_their_ocean_and_in_enough_sources(table):
    homes = survey.communities(table, 0)
    ocean = table.set_index("source")["ocean"]
    lives = taxa.table().set_index("taxon")["ocean"]
    for source, community in homes.items():
        assert set(lives[community.index]) <= {"both", ocean[source]}
        assert community.sum() == pytest.approx(1)
    count = pd.Series(
        [taxon for source in homes if source != survey.SITE for taxon in homes[source].index]
    ).value_counts()
    assert set(count.index) == set(lives.index) and count.min() >= 6
    assert set(homes[survey.SITE].index) == set(survey.SITE_TAXA)


@pytest.mark.parametrize(("layout", "count"), [("simple random", 50), ("stratified random", 10), ("uniform grid", 100)])
def test_points_lie_inside(layout, count):
    at = survey.place_points(count, layout, 60, 90, np.random.default_rng(0))
    assert len(at) == pytest.approx(count, abs=4) and (at >= 0).all() and (at < [60, 90]).all()
    if layout == "stratified random":
        assert len(at) == 10 and (at[:, 0] < 30).sum() == 5  # 2 rows of 5 (A.2.6)


def test_grid_is_regular():
    at = survey.place_points(100, "uniform grid", 100, 100, np.random.default_rng(0))
    assert np.unique(np.diff(np.unique(at[:, 0]))).tolist() == [10]


def test_labels_lead_back_to_what_their_source_meant(table, simulated):
    _, annotations, _, truth = simulated
    assert annotations["label"].notna().all()
    joined = annotations.drop_duplicates("annotation_id").merge(truth, on="annotation_id")
    background = ~joined["taxon"].isin(taxa.table()["taxon"])
    assert (joined["label"] == joined["taxon"])[background].all()
    site = joined[(joined["source"] == survey.SITE) & ~background]
    assert (site["label"] == site["taxon"]).all()
    spelt = annotations.groupby("label")["label_raw"].nunique()
    assert (spelt > 1).sum() > 25


def test_label_noise_differs_between_pairs(simulated):
    _, annotations, _, truth = simulated
    corals = curation.hard_corals(annotations.drop_duplicates("annotation_id")).merge(truth, on="annotation_id")
    pairs = (
        corals.assign(right=corals["label"] == corals["taxon"])
        .groupby(["source", "label"])["right"]
        .agg(["mean", "size"])
    )
    large = pairs[pairs["size"] >= 20]["mean"]
    assert large.min() < 0.75 and (large > 0.95).mean() > 0.3


def test_review_filters_follow_the_paper(simulated):
    _, annotations, reviews, _ = simulated
    elsewhere = annotations[annotations["source"] != survey.SITE]
    curated, _ = curation.curate(elsewhere, min_annotations=0, min_sources=0)
    quality, _ = review.filter_by_review(curated, reviews)
    summary = review.filter_summary(quality, reviews).set_index("stage")["agreement"]
    for stage, value in summary.items():
        assert 100 * value == pytest.approx(published.value(f"review/{stage}/agreement"), abs=4)
    verdicts = reviews.merge(curated, on="annotation_id").groupby(["source", "label"]).size()
    assert verdicts.max() == survey.PER_PAIR


def test_duplicates_are_there_to_be_found(simulated):
    _, annotations, _, truth = simulated
    kept, dropped = curation.drop_duplicates(annotations)
    assert 0 < len(dropped) < 0.02 * len(annotations)
    assert set(kept["annotation_id"]) == set(truth["annotation_id"])


def test_every_spelling_is_understood(table, chosen):
    ocean = table.set_index("source")["ocean"]
    for side in taxonomy.OCEANS:
        here = {key: spelling for key, spelling in chosen.items() if ocean[key[0]] == side}
        meant = taxonomy.match_labels(here.values(), side).set_index("label")["taxon"]
        assert all(meant[spelling] == label for (_, label), spelling in here.items())


def digest(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_same_seed_same_bytes_whatever_the_workers(tmp_path, monkeypatch):
    every, taken = survey.sources, [0, 8, -1]  # three of the sources; the last is the site
    monkeypatch.setattr(survey, "sources", lambda *given: every(*given).iloc[taken].reset_index(drop=True))
    sample.generate(tmp_path / "one", seed=3, scale=0.004, workers=1)
    sample.generate(tmp_path / "two", seed=3, scale=0.004, workers=2)
    first = digest(tmp_path / "one")
    assert first == digest(tmp_path / "two") and len(first) > 12


def test_scale_is_checked(tmp_path):
    with pytest.raises(ReefcoreError, match="a sample of scale 0 cannot be made"):
        sample.generate(tmp_path, scale=0)


def test_every_point_lies_in_its_photo(smoke):
    images = smoke.table("images")
    joined = smoke.table("annotations").merge(images, on=["source", "image"], how="left", validate="m:1")
    assert (joined["row"] < joined["height"]).all() and (joined["column"] < joined["width"]).all()
    files = {(path.parent.name, path.name) for path in smoke.photos.rglob("*.jpg")}
    assert files == set(images[["source", "image"]].itertuples(index=False, name=None))


def test_gallery_and_patches_to_show(smoke):
    photos, names = sample.gallery(smoke.photos, smoke.table("images"), 4)
    assert len(photos) == 4 and len(set(names)) == 4 and photos[0].ndim == 3
    points = smoke.table("patches").merge(
        smoke.table("annotations").drop_duplicates("annotation_id"), on="annotation_id"
    )
    chosen = sample.some_of_each(points, smoke.table("truth"), 2)
    assert chosen["label"].value_counts().max() <= 2 and (chosen["label"] == chosen["taxon"]).all()
    assert points.loc[chosen.index, "annotation_id"].tolist() == chosen["annotation_id"].tolist()
