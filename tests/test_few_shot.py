"""Few labels: nested supports, photos on one side only, labels not seen before, intervals, and what is said of it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score

from reefcore import few_shot, figures, published
from reefcore.errors import ReefcoreError
from reefcore.patches import ArrayPatches
from reefcore.tables import positions

GENERA = ["Acropora", "Montipora", "Porites"]
TITLES = {"within": "Within", "site": "Site"}


def world(points=240, photos=40, seed=0):
    """Annotations of three genera, all in S2's two parts by photo and in W, with features that tell them apart."""
    rng = np.random.default_rng(seed)
    photo = np.arange(points) % photos
    table = pd.DataFrame(
        {
            "annotation_id": [f"{i:04d}" for i in rng.permutation(points)],
            "source": "reef",
            "image": [f"{i}.jpg" for i in photo],
            "label": np.array(GENERA)[rng.integers(3, size=points)],
        }
    )
    part = np.where(photo < photos // 2, "train", "test")
    ids = table["annotation_id"]
    splits = pd.concat(
        [
            pd.DataFrame({"annotation_id": ids, "scheme": "S2", "part": part}),
            pd.DataFrame({"annotation_id": ids, "scheme": "W", "part": "test"}),
        ]
    )
    x = np.eye(3)[table["label"].map(GENERA.index)] + rng.normal(0, 0.7, (points, 3))
    return splits, table, lambda wanted: x[positions(wanted, ids)].astype(np.float32)


@pytest.fixture(scope="module")
def results():
    splits, table, features = world()
    settings = {"within": ["good"], "site": ["good"]}
    return few_shot.run(splits, table, {"good": features}, settings=settings, shots=(1, 5, 20), repeats=3, n=100)


def test_supports_are_nested_and_a_rare_class_gives_all_it_has():
    labels = ["a"] * 30 + ["b"] * 3
    drawn = few_shot.supports(labels, [10, 1, 5], seed=3)
    assert list(drawn) == [1, 5, 10]
    assert set(drawn[1]) < set(drawn[5]) < set(drawn[10])
    assert [np.bincount(support >= 30).tolist() for support in drawn.values()] == [[1, 1], [5, 3], [10, 3]]
    assert not np.array_equal(drawn[10], few_shot.supports(labels, [10], seed=4)[10])
    with pytest.raises(ReefcoreError, match="give numbers from 1"):
        few_shot.supports(labels, [0, 5])


def test_no_photo_is_labelled_and_tested():
    splits, table, _ = world()
    found = few_shot.pools(splits, table, seed=1)
    assert set(found) == {"within", "site"}  # there is no S4
    for pool, test in found.values():
        assert not set(pool["image"]) & set(test["image"]) and len(pool) + len(test) == len(table)
    assert not few_shot.pools(splits, table, seed=2)["site"][0].equals(found["site"][0])


def test_the_order_of_rows_changes_nothing(results):
    splits, table, features = world()
    settings = {"within": ["good"], "site": ["good"]}
    again = few_shot.run(
        *(splits.sample(frac=1, random_state=0), table.sample(frac=1, random_state=1), {"good": features}),
        **{"settings": settings, "shots": (20, 5, 1), "repeats": 3, "n": 100},
    )
    pd.testing.assert_frame_equal(again, results)


def test_points_that_are_no_annotations_or_have_no_label_are_refused():
    splits, table, _ = world()
    with pytest.raises(ReefcoreError, match="5 of 240 points of W are no annotations"):
        few_shot.pools(splits, table.drop(table.index[:5]))
    table.loc[3, "label"] = None
    with pytest.raises(ReefcoreError, match="1 of 240 points of W"):
        few_shot.pools(splits, table)


@pytest.mark.parametrize("method", few_shot.METHODS)
def test_every_method_learns_and_answers_with_classes_it_was_shown(method):
    _, table, features = world()
    x, y = features(table["annotation_id"]), table["label"].to_numpy(object)
    answers = few_shot.learn(method, x[:120], y[:120], x[120:])
    assert balanced_accuracy_score(y[120:], answers) > 0.6
    few = few_shot.learn(method, x[:3], np.array(["Porites", "Porites", "Acropora"], object), x)
    assert set(few) <= {"Porites", "Acropora"}
    assert set(few_shot.learn(method, x[:2], np.array(["Porites", "Porites"], object), x)) == {"Porites"}


def test_a_method_that_is_not_there_is_refused():
    with pytest.raises(ReefcoreError, match="linear probe, class mean"):
        few_shot.learn("magic", np.zeros((2, 1)), np.array(["a", "b"]), np.zeros((1, 1)))


def test_a_run_says_what_was_given_and_what_it_is_worth(results):
    assert len(results) == 2 * 3 * 3 * 3
    within = results[(results["setting"] == "within") & (results["method"] == "linear probe")]
    means = within.groupby("shots")["macro_recall"].mean()
    assert means[20] > 0.6 and means[20] > means[1]
    assert within.groupby("shots")["labels"].unique().map(list).to_dict() == {1: [3], 5: [15], 20: [60]}
    assert within["classes"].eq(3).all() and within["unseen"].eq(0).all() and within["photos"].eq(20).all()
    assert within["draws"].map(len).eq(100).all()


def test_a_class_that_cannot_be_labelled_is_counted_and_always_wrong():
    splits, table, features = world()
    test_ids = splits.query("scheme == 'S2' and part == 'test'")["annotation_id"]
    table.loc[table["annotation_id"].isin(test_ids) & (table["label"] == "Porites"), "label"] = "Pavona"
    done = few_shot.run(splits, table, {"good": features}, settings={"within": ["good"]}, shots=(20,), repeats=1, n=10)
    assert done["unseen"].eq(1).all() and done["macro_recall"].max() <= 2 / 3


def test_fine_tuning_gets_the_support_and_a_seed_of_its_own():
    splits, table, features = world()
    calls = []

    def tune(ids, labels, test, seed):
        known = table.set_index("annotation_id")["label"]
        assert known[ids].tolist() == list(labels) and not set(ids) & set(test)
        calls.append((len(ids), seed))
        return known[test].to_numpy(object)

    done = few_shot.run(
        *(splits, table, {"good": features}, {"tuned": tune}),
        **{
            "settings": {"within": ["good", "tuned"]},
            "shots": (1, 5),
            "repeats": 3,
            "tuned_repeats": 2,
            "tuned_shots": (5,),
        },
        **{"seed": 7, "n": 10},
    )
    assert calls == [(15, 7), (15, 8)]
    tuned = done[done["method"] == few_shot.TUNED]
    assert tuned["macro_recall"].eq(1).all() and tuned["features"].eq("tuned").all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"settings": {"wihtin": ["good"]}}, "choose from within, cross, site"),
        ({"settings": {"within": ["bad"]}}, "no features 'bad'.*choose from good, resnet101-S3, tuned"),
        ({"settings": {"within": ["resnet101-S3"]}}, "trained on labels of the sources.*use it in the setting site"),
        ({"settings": {"cross": ["resnet101-S3"]}}, "trained on labels"),
        ({"settings": {"within": ["tuned"]}, "tuned_shots": (7,)}, r"tuned_shots \[7\] are not all among shots"),
        ({"settings": {"within": ["tuned"]}, "tuned_shots": (5,), "tuned_repeats": 9}, "5 supports, 9 of them"),
        ({"settings": {"within": ["good"]}, "repeats": 0}, "0 supports"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(options, sentence):
    splits, table, features = world()
    with pytest.raises(ReefcoreError, match=sentence):
        few_shot.run(splits, table, {"good": features, "resnet101-S3": features}, {"tuned": None}, **options)


def test_a_setting_without_points_is_said(caplog):
    splits, table, features = world()
    done = few_shot.run(splits, table, {"good": features}, settings={"cross": ["good"]})
    assert done.empty and "cross: there are no points on both sides" in caplog.text
    curves = few_shot.curves(done)
    assert curves.empty and few_shot.answer(curves, "cross").endswith("nothing was run.")


def test_intervals_hold_other_supports_and_other_photos():
    rng = np.random.default_rng(0)
    about = {
        "setting": "within",
        "features": "f",
        "method": "class mean",
        "shots": 5,
        "labels": 10,
        "offered": 2,
        "complete": 2,
    }
    about |= {"classes": 2, "unseen": 0, "photos": 50}

    def made(supports, photos, repeats=4):
        """Draws whose spread between supports and between resampled photos is known."""
        centre, moved = rng.normal(0.5, supports, repeats), rng.normal(0, photos, 4000)
        rows = [about | {"repeat": i, "macro_recall": c, "draws": c + moved} for i, c in enumerate(centre)]
        return few_shot.curves(pd.DataFrame(rows)).iloc[0], centre

    row, centre = made(0.0, 0.02)
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * 1.96 * 0.02, rel=0.1)
    assert row["macro_recall"] == pytest.approx(centre.mean()) and row["chance"] == 0.5 and row["repeats"] == 4
    spread = {repeats: [] for repeats in (2, 3, 8)}
    for repeats, ratios in spread.items():
        for _ in range(60):
            row, centre = made(0.05, 1e-6, repeats)
            ratios.append((row["ci_high"] - row["ci_low"]) / (centre.std(ddof=1) / np.sqrt(repeats)))
    assert all(2.2 < np.mean(ratios) < 4.2 for ratios in spread.values())  # 2 x 1.96 of a normal mean
    row, _ = made(0.05, 0.02, 1)  # of the photos alone
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * 1.96 * 0.02, rel=0.1)
    about["photos"] = 1
    assert np.isnan(made(0.05, 0.02)[0]["ci_low"])


def curve(values, width=0.01, features="good", method="linear probe", chance=0.1, **changes):
    """Curves as of `few_shot.curves`, one row per value."""
    rows = [
        {
            "setting": "site",
            "features": features,
            "method": method,
            "shots": k,
            "macro_recall": value,
            "labels": 10.0 * k,
            "repeats": 3,
        }
        | {
            "ci_low": value - width,
            "ci_high": value + width,
            "chance": chance,
            "offered": 10,
            "complete": 10,
            "classes": 10,
        }
        for k, value in zip((1, 5, 20, 50), values, strict=True)
    ]
    return pd.DataFrame(rows).assign(unseen=0, **changes)


def test_the_answer_where_the_curve_levels_off():
    said = few_shot.answer(curve([0.2, 0.4, 0.68, 0.70], complete=[10, 10, 8, 3]), "site")
    assert said.startswith("About 20 labels per genus (200 in all; 8 of 10 genera have so many) get you")
    assert "68.0% [67.0% to 69.0%], by linear probe on good; chance is 10.0%" in said
    assert "With 50 (500 in all; 3 of 10 genera have so many) it is 70.0%" in said
    assert "+2.0 points, +1.5 per doubling of the labels, though the intervals overlap" in said.replace("−", "-")


def test_the_answer_where_it_has_not_levelled_off():
    said = few_shot.answer(curve([0.2, 0.3, 0.4, 0.7]), "site")
    assert said.startswith("About 50 labels") and said.endswith("+30.0 points from 20 labels: it has not levelled off.")
    said = few_shot.answer(curve([0.2, 0.3, 0.6, 0.7], width=0.08), "site")
    assert said.endswith("20 labels: the intervals overlap, so whether more would help cannot be told.")


def test_the_answer_where_nothing_beats_chance():
    said = few_shot.answer(curve([0.1, 0.11, 0.12, 0.13], width=0.05), "site")
    assert "nothing that was tried is above chance (10.0%) for sure" in said and "About" not in said
    assert "[no interval]" in few_shot.answer(curve([0.1, 0.2, 0.4, 0.5], width=np.nan), "site")


def test_the_answer_names_what_cheaper_ways_reach():
    ways = [
        curve([0.2, 0.5, 0.6, 0.7], features="tuned model", method=few_shot.TUNED),
        curve([0.2, 0.5, 0.6, 0.65], features="model", method="class mean"),
        curve([0.2, 0.3, 0.4, 0.5], features=few_shot.TEXTURE, method="nearest neighbours"),
    ]
    said = few_shot.answer(pd.concat(ways, ignore_index=True), "site")
    assert "by tuned model;" in said
    assert "Without any weights the best at 50 is nearest neighbours on colour and texture: 50.0%" in said
    assert "Without fine-tuning the best at 50 is class mean on model: 65.0%" in said
    assert "Without" not in few_shot.answer(ways[2], "site")


def test_colour_and_texture_tell_apart_what_looks_different():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    stripes = np.zeros_like(noise)
    stripes[:, ::8] = 255
    found = few_shot.colour_texture(np.concatenate([noise, stripes, stripes.swapaxes(1, 2)]))
    assert found.shape == (60, 45) and found.dtype == np.float32 and np.isfinite(found).all()
    y = np.repeat(["noise", "across", "down"], 20).astype(object)
    answers = few_shot.learn("class mean", found[::2], y[::2], found[1::2])
    assert (answers == y[1::2]).all()
    assert np.array_equal(few_shot.colour_texture(noise[3:4])[0], found[3])  # whatever else is in the batch
    assert np.isfinite(few_shot.colour_texture(np.zeros((1, 32, 32, 3), np.uint8))).all()
    for wrong in (noise / 255, noise[..., 0], noise[:0]):
        with pytest.raises(ReefcoreError, match="give 8-bit colours"):
            few_shot.colour_texture(wrong)


def test_a_reef_of_one_s_own_needs_annotations_and_patches_alone():
    _, mine, _ = world()
    tint = mine["label"].map(GENERA.index).to_numpy()
    array = np.random.default_rng(0).integers(0, 80, (len(mine), 16, 16, 3), dtype=np.uint8)
    array[np.arange(len(mine)), :, :, tint] += 100
    patches = ArrayPatches(array, mine["annotation_id"])
    done = few_shot.run(
        *(mine[["annotation_id"]].assign(scheme="W", part="test"), mine),
        {few_shot.TEXTURE: lambda ids: few_shot.colour_texture(patches.read(positions(ids, patches.ids), 16))},
        **{"settings": {"site": [few_shot.TEXTURE]}, "shots": (1, 5), "repeats": 2, "n": 50},
    )
    assert few_shot.answer(few_shot.curves(done), "site").startswith("About 5 labels per genus (15 in all)")


def test_the_figure_has_a_panel_of_each_setting_that_was_run_and_its_intervals(results):
    curves = few_shot.curves(results).query("method == 'linear probe'")
    later = published.few_shot_later().assign(setting="site").query("how == 'few-shot' and test == 'Al-Wajh'")
    figure = figures.label_curves(curves, {**TITLES, "cross": "Across"}, later)
    assert [axes.get_title() for axes in figure.axes] == list(TITLES.values())
    assert [len(axes.collections) for axes in figure.axes] == [1, 1]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["good", "chance", "later version of the paper, other models"]


def test_later_versions_are_fractions_of_a_metric_that_is_said_to_be_inferred():
    later = published.few_shot_later()
    point = later.query("model == 'MiniCPM-V 4.5' and test == 'Al-Wajh' and shots == 5")
    assert point["published"].tolist() == pytest.approx([0.0852]) and later["published"].between(0, 1).all()
    assert (
        later["where"].str.contains("inferred").all() and later["shots"].isna().eq(later["how"] == "all labels").all()
    )
