"""Orders, differences and sentences about tables of trained models, and how they are shown."""

import itertools

import numpy as np
import pandas as pd
import pytest

from reefcore import comparison, figures, metrics, published, ranking
from reefcore.figures.style import Shown

LOSSES = {"loss_ce": "CE", "loss_cb_ce": "CB-CE", "loss_focal": "Focal", "loss_cb_focal": "CB-Focal"}
POINTS = 120


@pytest.fixture(scope="module")
def world():
    """Points of six classes, from rare to common in training, and three losses that find 30, 60 and 90 % of them."""
    rng = np.random.default_rng(0)
    ids = np.array([f"{i:03d}" for i in range(POINTS)])
    truth = np.array(list("abcdef"))[np.arange(POINTS) % 6]
    annotations = pd.DataFrame({"annotation_id": ids, "source": "s", "image": ids.astype("U2"), "label": truth})
    train = pd.DataFrame({"annotation_id": [f"t{i}" for i in range(21)], "label": list("abbcccddddeeeeeffffff")})
    splits = pd.DataFrame({"annotation_id": train["annotation_id"], "scheme": "S1", "part": "train"})
    runs = []
    for recipe, found in (("loss_ce", 0.3), ("loss_focal", 0.6), ("loss_cb_focal", 0.9)):
        answers = np.where(rng.random(POINTS) < found, truth, "z")
        runs.append(
            pd.DataFrame({"run_id": f"{recipe}-S1-S1", "annotation_id": ids, "y_true": truth, "y_pred": answers})
        )
    everything = pd.concat([annotations, train.assign(source="s", image="train")], ignore_index=True)
    return pd.concat(runs, ignore_index=True), splits, everything


def as_printed(number=3):
    """Return a table of the paper, as if this profile had reproduced it exactly."""
    table = published.results(number)
    rows = dict(zip(table["model"], table["model"], strict=True))
    runs = table["model"] + "-" + table["train"] + "-" + table["test"]
    scores = table.assign(run_id=runs, value=table["published"], ci_low=0.1, ci_high=0.9, n=9, classes=3)
    return comparison.beside(scores.drop(columns=["model", "train", "test", "published"]), rows, number)


def test_an_order_agrees_with_itself_and_not_with_its_reverse():
    table = as_printed()
    assert ranking.order_agreement(table)[["kendall", "spearman"]].to_numpy() == pytest.approx(1)
    turned = ranking.order_agreement(table.assign(value=-table["value"]))
    assert (turned["kendall"].to_numpy() == pytest.approx(-1)) and (turned["models"] == 10).all()
    few = ranking.order_agreement(table.assign(value=table["value"].where(table["model"].isin(["ViT", "Swin"]))))
    assert few["models"].eq(2).all() and few["kendall"].isna().all()


def test_settings_are_compared_by_pairs_of_models_in_one_order():
    pairs = ranking.setting_agreement(as_printed())
    wide = published.results(3).pivot(index="model", columns=["train", "test"], values="published")
    one, two = wide[("S1", "S1")], wide[("S2", "S2")]
    signs = [
        np.sign((one[a] - one[b]) * (two[a] - two[b])) for a, b in itertools.combinations(wide.index, 2)
    ]  # no ties in these columns
    assert len(pairs) == 15 and pairs["kendall"].iloc[0] == pytest.approx(np.mean(signs))
    square = ranking.square(pairs, "kendall")
    assert square.shape == (6, 6) and square.equals(square.T) and np.isnan(np.diag(square)).all()
    turned = ranking.square(pairs, "kendall", -1)
    assert turned.equals(-turned.T) and turned.iloc[0, 1] == square.iloc[0, 1]


def test_differences_of_rows_and_their_print(world):
    predictions, _, annotations = world
    pairs = [("CB-CE", "CE"), ("Focal", "CE"), ("CB-Focal", "CE")]
    table = ranking.differences(predictions, annotations, LOSSES, 4, pairs, n=200)
    assert table["setting"].unique().tolist() == ["S1 / S1", "S2 / S2", "S3 / S3&S4", "S4 / S3&S4"]
    assert table["value"].notna().tolist() == [False, True, True] + [False] * 9 and table["published"].notna().all()
    row = table.iloc[2]
    assert row["published"] == pytest.approx(0.8186 - 0.7737) and 0.4 < row["value"] < 0.8 and row["apart"]
    shown = ranking.in_points(table)
    assert shown["reproduced"].iloc[2] == pytest.approx(100 * row["value"])
    assert shown["told apart"].head(3).tolist()[1:] == ["yes", "yes"] and pd.isna(shown["told apart"].iloc[0])
    assert ranking.told_apart(table).to_numpy().tolist() == [["S1 / S1", 2, 2]]
    every = ranking.differences(predictions, annotations, LOSSES, 4, n=200)
    assert len(every) == 6 * 4 and every["value"].notna().sum() == 3


def test_a_run_on_other_points_is_left_out_of_the_differences_and_named(world):
    predictions, _, annotations = world
    whole = ranking.differences(predictions, annotations, LOSSES, 4, n=50)
    assert whole.attrs["left_out"] == []
    mine = predictions.query("run_id == 'loss_ce-S1-S1'").assign(run_id="mine-S1-S1")
    rows = {"mine": "mine"} | LOSSES
    for other in (mine.iloc[2:], mine.assign(y_true=mine["y_true"].replace("a", "b"))):
        for both in ([predictions, other], [other, predictions][:: 1 if len(other) < len(mine) else -1]):
            table = ranking.differences(pd.concat(both), annotations, rows, 4, n=50)
            assert table.attrs["left_out"] == ["mine-S1-S1"]
            here = table[(table["first"] != "mine") & (table["second"] != "mine")].reset_index(drop=True)
            pd.testing.assert_frame_equal(here, whole, check_like=True)
            assert table["value"].notna().sum() == 3
    shuffled = pd.concat([mine.sample(frac=1, random_state=0), predictions])
    assert ranking.differences(shuffled, annotations, rows, 4, n=50).attrs["left_out"] == []


def test_thirds_are_of_the_rarest_and_commonest_classes(world):
    predictions, splits, annotations = world
    options = {"pairs": [("Focal", "CE")], "n": 100}
    table = ranking.thirds(predictions, splits, annotations, LOSSES, **options).set_index("third")
    for third, classes in (("rarest", "ab"), ("commonest", "ef")):
        part = predictions[predictions["y_true"].isin(list(classes))].groupby("run_id")
        recall = part[["y_true", "y_pred"]].apply(lambda run: metrics.score(run["y_true"], run["y_pred"]))
        gain = recall["loss_focal-S1-S1"]["macro_recall"] - recall["loss_ce-S1-S1"]["macro_recall"]
        assert table.at[third, "value"] == pytest.approx(gain) and table.at[third, "classes"] == 2
    other = predictions.assign(run_id="other-S1-S1")
    assert ranking.thirds(other, splits, annotations, LOSSES, **options).empty


def test_seeds_are_gathered_beside_the_interval_of_the_first():
    runs = [("m-S3-S3", 0.5), ("m.seed1-S3-S3", 0.6), ("m.seed2-S3-S3", 0.7), ("m-S1-S1", 0.9), ("mm-S3-S3", 0.1)]
    runs += [("m.family-S3-S3", 0.2)]  # another head of the same model
    table = pd.DataFrame(runs, columns=["run_id", "value"]).assign(metric="accuracy")
    table = table.assign(ci_low=table["value"] - 0.1, ci_high=table["value"] + 0.2)
    row = ranking.seed_spread(table, "m").squeeze()
    assert (row["setting"], row["seeds"]) == ("S3 / S3&S4", 3)
    assert row[["mean", "sd", "range", "ci_low", "width"]].tolist() == pytest.approx([0.6, 0.1, 0.2, 0.4, 0.3])
    assert ranking.seed_spread(table.head(1), "m").empty


def test_conventions_move_a_run_with_classes_only_predicted():
    runs = pd.DataFrame(
        {"run_id": "m-S3-W", "annotation_id": list("1234"), "y_true": list("aabb"), "y_pred": list("aabz")}
    )
    row = ranking.conventions(pd.concat([runs, runs.assign(run_id="x-S3-W")]), {"m": "M"}).squeeze()
    assert (row["model"], row["setting"], row["classes"], row["only predicted"]) == ("M", "S3 / W", 2, 1)
    assert row["macro recall"] == 0.75 and row["macro recall, truth or prediction"] == 0.5
    assert row["macro F1"] == pytest.approx((1 + 2 / 3) / 2)
    assert row["macro F1, harmonic"] == pytest.approx(2 * 1 * 0.75 / 1.75) and row["micro recall"] == row["accuracy"]


def test_results_table_marks_the_best_in_words_too_and_keeps_its_last_rows():
    table = as_printed(4)
    table.loc[table["model"] == "CE", ["value", "ci_low", "ci_high", "difference"]] = np.nan
    shown = figures.results_table(table, comparison.test_sets(table))
    assert (
        list(shown.columns) == ["model", "number", "S1 / S1", "S2 / S2", "S3 / S3&S4", "S4 / S3&S4"] and len(shown) == 6
    )
    cells = shown.set_index("model")["S1 / S1"]
    assert '<strong>81.86</strong><span class="visually-hidden"> best</span>' in cells["CB-Focal"].markup
    assert '<u>78.39</u><span class="visually-hidden"> second best</span>' in cells["Focal"].markup
    assert cells["CE"].text == "77.37 | –" and "[10.0, 90.0]" in cells["CB-CE"].markup
    assert cells["Number of test points"].text == "40,881 | 9"
    page = figures.show_table(shown, "t", "c", "p", foot=2)._repr_html_()
    body, foot = page.split("<tfoot>")
    assert (
        "CB-Focal" in body and "Number of test classes" in foot and foot.count("<tr>") == 2 and "this profile" in foot
    )
    assert '<th scope="col" class=number>S1 / S1</th>' in page


def test_a_table_of_two_metrics_has_a_column_of_each():
    shown = figures.results_table(as_printed(7), comparison.test_sets(as_printed(7)))
    assert list(shown.columns) == ["model", "number", "macro recall", "accuracy"] and len(shown) == 14 + 2
    assert "<strong>81.36" in shown.set_index("model").at["no-randerase", "accuracy"].markup
    assert isinstance(shown["accuracy"].iloc[-1], Shown)


def test_forest_tells_what_is_apart_by_its_marker(world):
    predictions, _, annotations = world
    table = ranking.differences(predictions, annotations, LOSSES, 4, [("CB-CE", "CE"), ("Focal", "CE")], n=100)
    axes = figures.forest(table, "setting", "first", "points").axes[:4]
    assert [a.get_title() for a in axes] == table["setting"].unique().tolist()
    filled, hollow, paper = axes[0].lines[:3]
    assert filled.get_xdata().tolist() == [pytest.approx(100 * table["value"].iloc[1])]
    assert hollow.get_markerfacecolor() == "white" and np.isnan(hollow.get_xdata()).all()
    assert paper.get_xdata().tolist() == pytest.approx((100 * table["published"].iloc[:2]).tolist())
    panels = figures.forest(as_printed(), "setting", "model", "%", differences=False).axes
    assert [axes.get_subplotspec().rowspan.start for axes in panels] == [0, 0, 0, 1, 1, 1]  # six do not fit in a row
    levels = panels[0]
    assert levels.get_xlim() == (0, 100) and len(levels.lines) == 2
    kappa = pd.DataFrame({"of": "kappa", "who": ["a"], "value": [0.1], "ci_low": [-0.2], "ci_high": [0.3]})
    alone = figures.forest(kappa, "of", "who", "%", differences=False)
    assert alone.axes[0].get_xlim() == (-20, 100) and not alone.legends  # none is cut; one kind needs no key
    assert not alone.axes[0].lines[0].get_clip_on() and not alone.axes[0].lines[0].get_in_layout()


def test_matrices_print_their_numbers_and_stars():
    square = pd.DataFrame([[np.nan, -1.5], [1.5, np.nan]], index=["a", "b"], columns=["a", "b"])
    figure = figures.matrices({"one": square, "two": square}, "points", ".1f", marks=square > 0)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert texts == ["−1.5", "1.5*"] * 2
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes[:2]] == ["one", "two"]


def test_class_weights_are_drawn_by_beta_with_a_marker_each():
    table = pd.DataFrame({"beta": [0.9, 0.9, 0.99, 0.99], "count": [5, 50, 5, 50], "weight": [1, 1, 1.5, 0.5]})
    axes = figures.class_weights(table).axes[0]
    assert [line.get_label() for line in axes.lines] == ["beta 0.9", "beta 0.99"]
    assert len({line.get_marker() for line in axes.lines}) == 2
    assert axes.lines[1].get_ydata().tolist() == [1.5, 0.5]


def test_learning_has_a_panel_of_each_model_and_quantity():
    table = pd.DataFrame({"model": list("abc") * 2, "epoch": [1] * 3 + [2] * 3, "loss": 2.0, "val_macro_recall": 0.5})
    panels = figures.learning(table).axes
    assert [axes.get_title(loc="left") or axes.get_title() for axes in panels] == list("abcabc")
    assert panels[0].lines[-1].get_ydata().tolist() == [2, 2] and panels[3].lines[-1].get_ydata().tolist() == [50, 50]
    assert len(panels[0].lines) == 4  # every model in grey, its own in colour
