"""Splits: no leak, whatever the order of rows; every label stays trainable."""

import numpy as np
import pandas as pd
import pytest

from reefcore import splits
from reefcore.errors import ReefcoreError


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    rows = []
    for source in range(12):
        for image in range(int(rng.integers(4, 40))):
            for point in range(8):
                rows.append(
                    (
                        f"s{source:02d}",
                        f"{image}.jpg",
                        rng.choice(list("ABCDEF"), p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]),
                        point,
                    )
                )
    frame = pd.DataFrame(rows, columns=["source", "image", "label", "point"])
    return frame.assign(annotation_id=[f"{i:05d}" for i in rng.permutation(len(frame))])


def part_of(table, scheme, points):
    return table[table["scheme"] == scheme].merge(points, on="annotation_id")


def test_no_image_is_on_both_sides(points):
    table = splits.within_source(points, seed=1)
    joined = part_of(table, "S1", points)
    assert len(joined) == len(points)
    assert (joined.groupby(["source", "image"])["part"].nunique() == 1).all()
    assert splits.leaks(table, points)["images"].tolist() == [0]


def test_each_source_gives_about_its_share(points):
    joined = part_of(splits.within_source(points, seed=1, test=0.25, val=0.1), "S1", points)
    images = joined.drop_duplicates(["source", "image"]).groupby("source")["part"].value_counts().unstack(fill_value=0)
    total = images.sum(axis=1)
    assert ((images["test"] - 0.25 * total).abs() <= 3).all() and ((images["val"] - 0.1 * total).abs() <= 3).all()
    assert images["test"].sum() / total.sum() == pytest.approx(0.25, abs=0.04)


def test_labels_are_balanced_better_than_by_chance(points):
    """In each source, the share of a label's images that is for testing is nearer the wanted one than by chance."""
    present = points.drop_duplicates(["source", "image", "label"])
    overall = present.groupby(["source", "label"]).size()

    def deviation(images):
        got = (
            present.merge(images[["source", "image"]])
            .groupby(["source", "label"])
            .size()
            .reindex(overall.index, fill_value=0)
        )
        return ((got / overall - 0.2).abs() * overall).sum() / overall.sum()

    images = points.drop_duplicates(["source", "image"])
    ours, chance = [], []
    for seed in range(4):
        table = splits.within_source(points, seed=seed, test=0.2, val=0.0)
        tested = points["annotation_id"].isin(table.loc[table["part"] == "test", "annotation_id"])
        ours.append(deviation(points[tested].drop_duplicates(["source", "image"])))
        chance.append(deviation(images.groupby("source").sample(frac=0.2, random_state=seed)))
    assert np.mean(ours) < 0.9 * np.mean(chance)


def test_order_of_rows_does_not_matter_and_seed_does(points):
    first = splits.within_source(points, seed=1)
    again = splits.within_source(points.sample(frac=1, random_state=3), seed=1)
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(splits.within_source(points, seed=2))


def test_s2_is_s1_restricted(points):
    keep = set(points["annotation_id"].iloc[::3])
    table = splits.within_source(points, seed=1, keep=keep)
    s1 = table[table["scheme"] == "S1"].set_index("annotation_id")["part"]
    s2 = table[table["scheme"] == "S2"].set_index("annotation_id")["part"]
    assert set(s2.index) == keep and (s1[s2.index] == s2).all()


def test_tiny_sources_are_all_training():
    tiny = pd.DataFrame({"annotation_id": ["a", "b"], "source": "s", "image": ["1", "2"], "label": ["A", "B"]})
    assert splits.within_source(tiny)["part"].tolist() == ["train", "train"]


def test_across_sources_holds_out_whole_sources(points):
    keep = set(points["annotation_id"].iloc[::2])
    table = splits.across_sources(points, seed=0, keep=keep, n_test=3, n_val=2)
    s3, s4 = part_of(table, "S3", points), part_of(table, "S4", points)
    assert (s3.groupby("source")["part"].nunique() == 1).all()
    assert s3.drop_duplicates("source")["part"].value_counts().to_dict() == {"train": 7, "test": 3, "val": 2}
    for part in ("val", "test"):  # shared, and of the strict filter
        ids = [set(s.loc[s["part"] == part, "annotation_id"]) for s in (s3, s4)]
        assert ids[0] == ids[1] and ids[0] <= keep
    train = s3[s3["part"] == "train"]
    assert set(s3["label"]) == set(train["label"]) and not set(train["annotation_id"]) <= keep
    assert set(s4["annotation_id"]) <= keep


def test_agreement_and_coverage_choose_the_test_sources(points):
    agreement = pd.Series(0.5, index=sorted(points["source"].unique()))
    agreement["s07"] = 1.0
    part = splits.allocate_sources(points, agreement, 1, 1)
    assert part["s07"] == "test"


def test_a_label_of_one_source_is_never_held_out(points):
    lonely = points.assign(label=points["label"].mask(points["source"] == "s03", "ONLY"))
    part = splits.allocate_sources(lonely, pd.Series(dtype=float), 4, 4)
    assert part["s03"] == "train"
    own = points.assign(label=points["source"])
    with pytest.raises(ReefcoreError, match="no source can be taken for test without losing a label"):
        splits.allocate_sources(own, pd.Series(dtype=float), 1, 1)


def test_make_and_summary(points):
    quality = points.assign(site=points["source"] == "s11", step1=True, step2=points.index % 2 == 0)
    table = splits.make(points, quality, seed=0, n_test=2, n_val=2)
    assert set(table["scheme"]) == {"S1", "S2", "S3", "S4", "W", "U"}
    summary = splits.summary(table, points).set_index(["scheme", "part"])
    assert summary.at[("W", "test"), "annotations"] == (points["source"] == "s11").sum()
    assert (
        summary.at[("S3", "test"), "sources"] == 2
        and summary.at[("S3", "test"), "classes_in_train"] == summary.at[("S3", "test"), "classes"]
    )
    assert summary["agreement"].isna().all()
    assert list(summary.loc["S1"].index) == ["train", "val", "test"]
    assert splits.leaks(table, points).set_index("scheme")["sources"].to_dict() == {
        "S1": 11,
        "S2": 11,
        "S3": 0,
        "S4": 0,
        "W": 0,
        "U": 0,
    }
    parts = {
        scheme: set(table.loc[(table["scheme"] == scheme) & (table["part"] == "test"), "annotation_id"])
        for scheme in ("S3", "U")
    }
    unfiltered = points[points["annotation_id"].isin(parts["U"])]
    tested = points[points["annotation_id"].isin(parts["S3"])]["source"].unique()
    assert parts["S3"] < parts["U"] and len(parts["U"]) == points["source"].isin(tested).sum()
    assert set(unfiltered["source"]) == set(tested)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: p.drop(columns="image"), "annotations lack image"),
        (lambda p: p.assign(label=p["label"].mask(p.index == 3)), "an annotation without a label"),
        (lambda p: pd.concat([p, p.head(1)]), "an annotation stands twice"),
    ],
)
def test_bad_input(points, change, sentence):
    with pytest.raises(ReefcoreError, match=sentence):
        splits.within_source(change(points))


def test_bad_fractions(points):
    with pytest.raises(ReefcoreError, match="leave nothing to train on"):
        splits.within_source(points, test=0.7, val=0.3)
    with pytest.raises(ReefcoreError, match="7 test and 17 validation sources cannot be taken from 12 sources"):
        splits.across_sources(points)


def test_a_column_of_the_release_is_taken_as_it_is(points):
    brought = points.assign(
        split=["Training", "VALID", "test", None, ""] * (len(points) // 5) + ["test"] * (len(points) % 5)
    )
    table = splits.released(brought, "S2")
    assert set(table["scheme"]) == {"S2"} and set(table["part"]) == {"train", "val", "test"}
    assert len(table) == brought["split"].isin(["Training", "VALID", "test"]).sum()
    assert not len(splits.released(points))
    with pytest.raises(ReefcoreError, match="the column Split_W says 'maybe' for 1 annotations"):
        splits.released(points.head(1).assign(Split_W="maybe"))


def test_make_prefers_what_the_release_brings(points):
    quality = points.assign(site=False, step1=True, step2=True)
    own = splits.make(points, quality, n_test=2, n_val=2)
    brought = splits.make(points.assign(split_S1="train"), quality, n_test=2, n_val=2)
    assert set(brought.loc[brought["scheme"] == "S1", "part"]) == {"train"}
    rest = [table[table["scheme"] != "S1"].reset_index(drop=True) for table in (own, brought)]
    assert rest[0].equals(rest[1])


def test_near_duplicates_across_parts_are_counted(points):
    table = splits.within_source(points, seed=1)
    where = part_of(table, "S1", points).drop_duplicates(["source", "image"]).set_index("part")
    train, test = where.loc["train"], where.loc["test"]
    twins = pd.DataFrame(
        {
            "source_a": [train["source"].iloc[0], train["source"].iloc[0], "elsewhere"],
            "image_a": [train["image"].iloc[0], train["image"].iloc[0], "x.jpg"],
            "source_b": [test["source"].iloc[0], train["source"].iloc[1], test["source"].iloc[0]],
            "image_b": [test["image"].iloc[0], train["image"].iloc[1], test["image"].iloc[0]],
        }
    )
    assert splits.leaks(table, points, twins)["near_duplicates"].tolist() == [1]


def test_label_shift_is_0_for_the_same_and_1_for_other_labels():
    points = pd.DataFrame({"annotation_id": list("abcdef"), "label": ["P", "Q", "P", "Q", "R", "R"]})
    table = pd.DataFrame(
        {"annotation_id": list("abcdef"), "scheme": "S1", "part": ["train"] * 2 + ["val"] * 2 + ["test"] * 2}
    )
    shift = splits.label_shift(table, points).set_index("part")
    assert shift["shift"].to_dict() == {"test": 1, "val": 0}
    assert shift.at["test", "only_here"] == 1 and shift.at["test", "only_train"] == 2


def test_one_source_and_a_class_in_one_image_only(points):
    one = points[points["source"] == "s00"].copy()
    one.loc[one["image"] == "0.jpg", "label"] = "Z"
    table = splits.within_source(one, seed=1)
    assert (part_of(table, "S1", one).groupby("image")["part"].nunique() == 1).all()
    with pytest.raises(ReefcoreError, match="7 test and 17 validation sources cannot be taken from 1 sources"):
        splits.across_sources(one)
