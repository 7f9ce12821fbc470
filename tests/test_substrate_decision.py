"""The alpha curve, operating points, costs, the second rule, and strata, on surveys with a known answer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from reefcore import figures
from reefcore.errors import ReefcoreError
from reefcore.figures import decision as draw
from reefcore.substrate import decide, decision, score
from reefcore.tables import SCORE, SUBSTRATES


def survey(frames: int = 60, seed: int = 0, where: str = "anywhere") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make patch predictions and frames, to deploy on where the lowest row, or the whole frame, is mostly Deploy."""
    rng = np.random.default_rng(seed)
    level = rng.random((frames, 4, 1)) if where == "below" else rng.random((frames, 1, 1))
    true = np.where(rng.random((frames, 4, 7)) < level, 2, rng.integers(0, 2, (frames, 4, 7)))
    deploy = (true[:, 3] == 2).mean(1) > 0.5 if where == "below" else (true == 2).mean((1, 2)) > 0.6
    p = rng.dirichlet(np.ones(3), true.shape) + 0.4 * np.eye(3)[true]
    p /= p.sum(-1, keepdims=True)
    frame, row, column = (place.ravel() for place in np.indices(true.shape))
    name = np.array([f"s{i // 10}/{i:03d}.jpg" for i in range(frames)])
    part = np.where(np.arange(frames) < frames // 2, "val", "test")
    patches = pd.DataFrame({"run_id": "m", "part": part[frame], "frame": name[frame], "row": row, "column": column})
    patches["y_true"] = np.array(SUBSTRATES)[true.ravel()]
    patches["y_pred"] = np.array(SUBSTRATES)[p.argmax(-1).ravel()]
    scores = pd.DataFrame(p.reshape(-1, 3), columns=[SCORE + c for c in SUBSTRATES])
    table = pd.DataFrame({"frame": name, "sequence": [n[:2] for n in name], "turbidity": rng.random(frames)})
    return pd.concat([patches, scores], axis=1), table.assign(label=np.where(deploy, "Deploy", "No-Deploy"))


@pytest.fixture(scope="module")
def data():
    return survey()


@pytest.fixture(scope="module")
def table(data):
    return decision.shares(*data)


def test_shares_are_counted_by_frame_and_decide_as_decide(data, table):
    patches, _ = data
    frame = patches[patches["frame"] == table["frame"][7]]["y_pred"]
    assert table["n"].eq(28).all() and len(table) == 60
    assert table["deploy"][7] == (frame == "Deploy").mean() and table["coral"][7] == (frame == "Coral").mean()
    by_frame = patches.groupby(["run_id", "part", "frame"])["y_pred"].agg(list)
    for alpha in (0, 0.25, *decision.ALPHAS, 1):
        assert (table["deploy"] > alpha).tolist() == [decide(classes, alpha) for classes in by_frame]


def test_shares_refuse_what_cannot_be_counted(data, caplog):
    patches, frames = data
    again = pd.concat([patches, patches.head(1)])
    cases = [
        (patches.drop(columns="row"), frames, "lacks row"),
        (patches.head(0), frames, "no patch predictions"),
        (patches.assign(y_pred="Sand"), frames, "'Sand' is no substrate"),
        (again, frames, "stands twice"),
        (patches, frames.tail(-1), "1 predicted frames are not in the table of frames, such as s0/000.jpg"),
        (patches, frames.assign(label="Maybe"), "is labelled Maybe"),
    ]
    for given, told, said in cases:
        with pytest.raises(ReefcoreError, match=said):
            decision.shares(given, told)
    assert len(decision.shares(patches, frames.assign(label=frames["label"].where(frames.index > 2)))) == 57
    assert "3 of 60 frames have no label" in caplog.text


def test_the_curve_is_scikit_learns_at_every_alpha(table):
    truth = table["truth"]
    found = decision.curve(table["deploy"], truth, n=50).pivot(index="alpha", columns="metric", values="value")
    assert set(decision.ALPHAS) < set(found.index) and len(found) == 29 + 2  # 0.5 is 14 / 28
    for alpha, row in found.iterrows():
        said = table["deploy"] > alpha
        assert row["accuracy"] == pytest.approx(accuracy_score(truth, said))
        assert row["recall"] == pytest.approx(recall_score(truth, said))
        assert row["f1"] == pytest.approx(f1_score(truth, said, zero_division=0))
        if said.any():
            assert row["precision"] == pytest.approx(precision_score(truth, said))
        else:
            assert np.isnan(row["precision"])


def test_intervals_hold_the_value_repeat_and_widen_by_sequence():
    truth = np.repeat([True, False], 60)
    groups = np.repeat(np.arange(12), 10)
    ratio = np.where(np.isin(groups, [0, 1, 7]), ~truth, truth) * 0.9  # whole sequences are wrong
    one = decision.curve(ratio, truth, None, [0.5], seed=1)
    many = decision.curve(ratio, truth, groups, [0.5], seed=1)
    assert one.equals(decision.curve(ratio, truth, None, [0.5], seed=1))
    assert not one.equals(decision.curve(ratio, truth, None, [0.5], seed=2))
    assert ((one["ci_low"] < one["value"]) & (one["value"] < one["ci_high"])).all()
    assert (many["ci_high"] - many["ci_low"] > 2 * (one["ci_high"] - one["ci_low"])).all()
    assert decision.curve(ratio, truth, np.zeros(120), [0.5], 10)["ci_low"].isna().all()


def test_the_operating_point_is_the_best_and_of_equals_the_nearest_half():
    ratio, truth = np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, False, True, True])
    assert decision.operating_point(ratio, truth) == {"alpha": 0.5179, "least": 15, "value": 1.0, "frames": 4}
    high = decision.operating_point(np.array([0.1, 0.75, 0.9]), np.array([False, False, True]))
    assert high["least"] == 22 and 0.75 < high["alpha"] < 0.9
    assert decision.operating_point(ratio, np.zeros(4, bool))["alpha"] == pytest.approx(0.9107)  # nothing is above it
    never = decision.operating_point(np.ones(3), np.zeros(3, bool))
    assert never["alpha"] == 1 and never["least"] == 29
    f1 = decision.operating_point(np.array([0.4, 0.6, 0.6, 0.6]), np.array([True, True, False, False]), "f1")
    assert f1["least"] <= 11 and f1["value"] == pytest.approx(2 / 3)


def test_refusals(table):
    truth = table["truth"]
    for call, said in [
        (lambda: decision.operating_point(table["deploy"], truth, "luck"), "'luck' is no criterion"),
        (lambda: decision.operating_point([], np.array([], bool)), "no frame to decide"),
        (lambda: decision.curve(table["deploy"], truth.astype(int)), "true or false"),
        (lambda: decision.curve(table["deploy"] * 28, truth), "outside 0 to 1"),
        (lambda: decision.curve(table["deploy"], truth, alphas=[1.2]), "alpha=1.2"),
        (lambda: decision.curve(table["deploy"], truth, groups=[1, 2]), "2 groups for 60 frames"),
        (lambda: decision.cost(table["deploy"], truth, -1, 1), "cannot be weighed"),
        (lambda: decision.second_rule(pd.DataFrame({"Deploy, row 0": [1.0]}), [True], [0]), "have one decision"),
    ]:
        with pytest.raises(ReefcoreError, match=said):
            call()


def test_costs_are_counted_and_the_cheapest_alpha_rises_with_the_price_of_a_wrong_one(table):
    ratio, truth = table["deploy"], table["truth"]
    costs = decision.cost(ratio, truth, 5, 2, n=200)
    for row in costs.itertuples():
        said = ratio > row.alpha
        assert row.cost == pytest.approx((5 * (said & ~truth) + 2 * (~said & truth)).mean())
    assert costs["chosen"].sum() == pytest.approx(1) and costs["least"].tolist() == list(range(1, 30))
    best = decision.operating_point(ratio, truth, "cost", wrong=5, missed=2)
    assert best["value"] == pytest.approx(costs["cost"].min())
    even = decision.operating_point(ratio, truth, "cost")
    assert even["alpha"] == decision.operating_point(ratio, truth)["alpha"]  # costs alike: the most accurate
    priced = decision.cheapest(ratio, truth, n=100)
    assert priced["alpha"].is_monotonic_increasing and priced["alpha"].nunique() > 1
    assert ((priced["ci_low"] <= priced["alpha"]) & (priced["alpha"] <= priced["ci_high"])).all()
    assert priced["never"].to_numpy() == pytest.approx(truth.mean())


def test_features_are_means_by_row_and_third(data):
    patches, _ = data
    found = decision.features(patches).set_index("frame")
    one = patches[patches["frame"] == "s1/012.jpg"]
    lowest = one[one["row"] == 3]["score:Deploy"].mean()
    middle = one[one["column"].isin([2, 3, 4])]["score:Coral"].mean()
    assert found.loc["s1/012.jpg", ["Deploy, row 3", "Coral, middle"]].tolist() == pytest.approx([lowest, middle])
    assert found.shape == (60, 2 + 14)
    for broken in (patches.drop(one[one["row"] == 3].index), patches.assign(**{"score:Deploy": np.nan})):
        with pytest.raises(ReefcoreError, match="lacks patches of its grid, or scores"):
            decision.features(broken)


@pytest.mark.parametrize(("where", "sequences"), [("below", 12), ("below", 1)])
def test_the_second_rule_finds_where_to_look(where, sequences):
    patches, frames = survey(240, 3, where)
    table = decision.shares(patches, frames).merge(decision.features(patches))
    val, test = table[table["part"] == "val"], table[table["part"] == "test"]
    rule = decision.second_rule(val, val["truth"], val["sequence"] if sequences > 1 else np.zeros(len(val)))
    alpha = decision.operating_point(val["deploy"], val["truth"])["alpha"]
    duel = decision.compare(test["deploy"] > alpha, rule.decide(test), test["truth"], n=300).set_index("metric")
    assert duel.at["accuracy", "ci_low"] > 0 and duel.at["accuracy", "better"] > 0.97
    assert duel.at["accuracy", "second"] == pytest.approx((rule.decide(test) == test["truth"]).mean())
    assert rule.weights()["Deploy"].idxmax() == "row 3" and rule.weights().shape == (7, 2)


def test_a_rule_is_no_better_than_itself(table):
    said = table["deploy"] > 0.5
    duel = decision.compare(said, said, table["truth"], n=50)
    assert (duel[["value", "ci_low", "ci_high"]] == 0).all(axis=None) and (duel["better"] == 0.5).all()


def test_strata_are_the_metrics_of_their_frames(data, caplog):
    patches, frames = data
    frames = frames.assign(depth=np.where(frames.index < 5, np.nan, 3.0))
    patches = patches[patches["part"] == "val"]
    found = decision.strata(patches, frames, 0.5, edges={"turbidity": [0.4]}, n=200)
    by = found[found["by"] == "turbidity"].set_index(["stratum", "metric"])
    low, high = list(dict.fromkeys(by.index.get_level_values(0)))[:2]
    clear = patches[patches["frame"].isin(frames.loc[frames["turbidity"] <= 0.4, "frame"])]
    assert by.at[(low, "patch macro F1"), "value"] == pytest.approx(score(clear["y_true"], clear["y_pred"])["macro_f1"])
    decided = decision.shares(clear, frames)
    right = ((decided["deploy"] > 0.5) == decided["truth"]).mean()
    assert by.at[(low, "frame accuracy"), "value"] == pytest.approx(right)
    assert by.at[(low, "frame accuracy"), "frames"] == len(decided)
    gap = by.at[(high, "frame accuracy"), "value"] - right
    assert by.at[("difference", "frame accuracy"), "value"] == pytest.approx(gap)
    depth = found[found["by"] == "depth"]
    assert set(depth["stratum"]) == {"3.0 to 3.0 m"} and "5 of 30 frames have no depth" in caplog.text
    single = decision.strata(patches, frames.assign(sequence="a"), 0.5, ["turbidity"], groups="sequence", n=5)
    assert single["ci_low"].isna().all()
    with pytest.raises(ReefcoreError, match="one run and one part"):
        decision.strata(data[0], frames, 0.5)
    with pytest.raises(ReefcoreError, match="no frame has a value of depth"):
        decision.strata(patches, frames.assign(depth=np.nan), 0.5, ["depth"])


def test_figures_are_drawn(table):
    ratio, truth = table["deploy"].to_numpy(), table["truth"].to_numpy()
    drawn = {
        "curve": draw.alpha_curve(decision.curve(ratio, truth, n=20), decision.ALPHAS, 0.55, 0.778),
        "cost": draw.cost_curve(decision.cost(ratio, truth, 4, 1, n=20), truth.mean()),
        "cheapest": draw.cheapest_alpha(decision.cheapest(ratio, truth, n=20), 4),
        "decided": draw.decided(ratio, truth, 0.55),
    }
    for name, figure in drawn.items():
        shown = figures.show(figure, name, "A caption.", "What it shows.", "A notice.")
        assert "A notice." in shown.markup and len(shown.markup) > 5000
    assert any("77.8%" in text.get_text() for text in drawn["curve"].legends[0].texts)
