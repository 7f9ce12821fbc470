"""The audit of tables of results: each rule on made-up data that breaks it, on data that does not, and at the edge."""

import itertools
import json

import numpy as np
import openpyxl
import pandas as pd
import pytest

from reefcore import audit, cli, metrics, published
from reefcore.audit import finding, read, rules
from reefcore.errors import ReefcoreError

MACRO = ("macro_precision", "macro_recall", "macro_f1")


def cell(metric, value, step=0.01, model="A", test="T1", table="t", unit="percent", **more):
    """Make one printed number."""
    place = f"{table}, {model}, {test}, {metric}{more.get('class', '')}"
    names = {"place": place, "table": table, "model": model, "train": "", "test": test, "metric": metric}
    return {**names, "value": value, "step": step, "unit": unit, **more}


def table(*cells) -> pd.DataFrame:
    """Make a table of results of cells, or of lists of them."""
    return pd.DataFrame([c for one in cells for c in (one if isinstance(one, list) else [one])])


def triple(p, r, f, **more):
    return [cell(metric, value, **more) for metric, value in zip(MACRO, (p, r, f), strict=True)]


def found(rule, *cells, **attrs):
    results = table(*cells)
    results.attrs = attrs
    return rule(rules.ready(results))[0]


class TestF1Bound:
    def test_above_the_mean_is_impossible(self):
        (one,) = found(rules.f1_bound, triple(79.40, 45.31, 66.14), triple(50, 60, 54, test="T2"))
        assert one["certainty"] == "impossible"
        assert "T1" in one["where"] and "T2" not in one["where"]
        assert one["values"] == "79.40; 45.31; 66.14"

    def test_rounding_has_its_benefit(self):  # half a step of F1, and the mean half step of the others
        assert not found(rules.f1_bound, triple(60.00, 70.00, 65.01))
        assert found(rules.f1_bound, triple(60.00, 70.00, 65.02))
        assert not found(rules.f1_bound, triple(0.60, 0.70, 0.66, unit="fraction"))

    def test_a_recall_printed_twice_must_be_exceeded_both_times(self):
        once = triple(60, 50, 58)
        assert found(rules.f1_bound, once)
        assert not found(rules.f1_bound, once, cell("macro_recall", 70.0, table="u"))

    def test_settings_that_no_table_names_are_not_joined_across_tables(self):
        cells = [c | {"table": name} for c, name in zip(triple(60, 50, 58, test=""), "abc", strict=True)]
        assert not found(rules.f1_bound, cells)


class TestHarmonic:
    @staticmethod
    def rows(share_harmonic, gap=1.0, n=10):
        out = []
        for i in range(n):
            p, r = 60.0 + i, 50.0 + 0.5 * i
            h = 2 * p * r / (p + r)
            out += triple(p, r, round(h if i < share_harmonic * n else h - gap, 2), model=f"M{i}", classes=12)
        return out

    def test_most_equal_to_it_is_one_finding(self):
        (one,) = found(rules.harmonic, self.rows(0.9))
        assert one["certainty"] == "ask" and "9 of 10" in one["text"] and "M9" in one["text"]
        (one,) = found(rules.harmonic, self.rows(0.9), stated={"macro_f1": "section 4"})
        assert one["certainty"] == "inconsistent" and "section 4" in one["text"]

    def test_those_above_it_by_more_than_rounding_are_counted(self):
        rows = self.rows(1.0)
        rows[2]["value"] += 0.02
        (one,) = found(rules.harmonic, rows)
        assert "1 lie above it" in one["text"]

    @pytest.mark.parametrize(("off", "many"), [(0.02, 1), (0.04, 0)])
    def test_near_is_three_steps(self, off, many):
        assert len(found(rules.harmonic, self.rows(0.0, gap=off))) == many

    def test_averages_that_are_close_tell_no_definition_apart(self):  # 2.5 apart: a gap of 0.025, no more than near
        assert not found(rules.harmonic, *[triple(62.5, 60.0, 61.22, model=f"M{i}", classes=12) for i in range(9)])

    def test_each_stands_beside_the_nearest_harmonic_mean(self):
        printed = rules.beside_harmonic(published.cells()).set_index(["model", "setting"])
        row = printed.loc["EfficientNet", "Train-S1 / Test-S1"]
        assert row["macro F1"] == pytest.approx(76.44)
        assert row["harmonic mean"] == pytest.approx(2 * 78.36 * 74.66 / (78.36 + 74.66))
        assert (printed["difference"].abs() < 0.031).sum() == 57  # one with the macro recall of Table 11

    def test_few_or_a_minority_or_two_classes_or_equal_averages_say_nothing(self):
        assert not found(rules.harmonic, self.rows(0.7))
        assert not found(rules.harmonic, self.rows(1.0, n=4))
        assert not found(rules.harmonic, [c | {"classes": 2} for c in self.rows(1.0)])
        # all points are called one class, so that macro averages are a sixth of that class's
        of_six = [np.array([p, 100, 2 * p * 100 / (p + 100)]) / 6 for p in range(70, 90, 2)]
        assert not found(rules.harmonic, *[triple(*v.round(2), model=f"M{i}", classes=6) for i, v in enumerate(of_six)])
        assert not found(rules.harmonic, *[triple(80.0, 80.2, 80.1, model=f"M{i}") for i in range(9)])


class TestRange:
    def test_what_no_share_or_rank_can_be(self):
        assert found(rules.outside, cell("accuracy", 100.01)) and found(rules.outside, cell("accuracy", -0.01))
        assert found(rules.outside, cell("auroc", 1.2, unit="fraction"))
        assert found(rules.outside, cell("mean_rank", 0.9, unit="rank"))
        assert found(rules.outside, cell("mean_rank", 12.1, unit="rank", classes=12))
        assert not found(rules.outside, cell("accuracy", 100.0), cell("mean_rank", 1.0, unit="rank", classes=12))

    def test_auroc_and_fpr_bound_each_other(self):
        def pair(a, f):
            return [cell("auroc", a, 1e-4, unit="fraction"), cell("fpr_at_95_tpr", f, 1e-4, unit="fraction")]

        assert found(rules.outside, pair(0.4, 0.5)) and found(rules.outside, pair(0.99, 0.9))
        assert not found(rules.outside, pair(0.966, 0.9))  # all of them tied but 5 %: the curve is a slope
        assert not found(rules.outside, pair(0.8169, 0.6067)) and not found(rules.outside, pair(0.1616, 0.9902))


class TestReversed:
    @staticmethod
    def scores(a, f, n=np.nan):
        rows = [("MSP", 0.8169, 0.6067), ("other", a, f)]
        names = ("auroc", "fpr_at_95_tpr")
        return [
            cell(m, v, 1e-4, model=k, unit="fraction", n=n) for k, *vs in rows for m, v in zip(names, vs, strict=True)
        ]

    def test_far_below_chance_gives_what_it_is_turned_round(self):
        (one,) = found(rules.reversed_score, self.scores(0.1616, 0.9902))
        assert one["certainty"] == "ask" and "0.8384" in one["text"] and "MSP has 0.8169" in one["text"]
        (one,) = found(rules.reversed_score, self.scores(0.1616, 0.9902), stated={"auroc": "section 5"})
        assert one["certainty"] == "inconsistent"

    @pytest.mark.parametrize(
        ("a", "f", "n"),
        [(0.45, 0.96, 40), (0.45, 0.96, 40000), (0.2, 0.97, 30), (0.38, 0.6, 9e4), (0.36, 0.96, np.nan)],
    )
    def test_a_little_below_or_few_points_or_a_low_fpr_is_not_that(self, a, f, n):
        assert not found(rules.reversed_score, self.scores(a, f, n))


class TestGranularity:
    def test_no_whole_number_gives_them(self):
        cells = [cell("accuracy", v, n=4606, model=str(v)) for v in (93.56, 92.12, 92.48)]
        (one,) = found(rules.granularity, cells, other_n={4606: {4609: "section 9"}})
        assert one["certainty"] == "impossible" and one["values"] == "93.56; 92.48"
        assert "Out of 4,609 (section 9) 1 cannot" in one["text"]  # 93.56 and 92.12 can

    def test_digits_cut_off_everywhere_are_fine_and_beside_rounded_ones_worth_asking(self):
        cut, rounded = cell("accuracy", 66.6, 0.1, n=3), cell("accuracy", 66.7, 0.1, n=3, model="B")
        assert not found(rules.granularity, cut) and not found(rules.granularity, rounded)
        (one,) = found(rules.granularity, cut, rounded)
        assert one["certainty"] == "ask"

    @pytest.mark.parametrize(("value", "ok"), [(12.5, True), (12.4, False), (13, True), (12, True)])
    def test_a_half_may_be_rounded_either_way(self, value, ok):
        step = 1.0 if isinstance(value, int) else 0.1
        assert bool(found(rules.granularity, cell("accuracy", value, step, n=8))) != ok

    def test_a_large_n_a_mean_of_runs_and_no_n_cannot_be_tested(self):
        large = table(cell("accuracy", 93.56, n=40881))
        findings, looked = rules.granularity(rules.ready(large))
        assert not findings and "cannot bite" in looked[0]["remark"]
        assert "cannot bite" in rules.granularity(rules.ready(table(cell("accuracy", 93.56, n=10_000))))[1][0]["remark"]
        assert not found(rules.granularity, cell("accuracy", 93.56, n=4606, spread=True), cell("accuracy", 93.56))

    def test_recall_of_a_class_by_its_own_points(self):
        row = {"class": "Porites", "n": 7}
        assert found(rules.granularity, cell("recall", 0.80, unit="fraction", **row))
        assert not found(rules.granularity, cell("recall", 0.86, unit="fraction", **row))


class TestMacroBounds:
    def test_range_is_that_of_all_ways_to_be_right(self):
        for counts in ([1, 2, 4], [3, 3], [1, 1, 5]):
            ways = {}
            for hits in itertools.product(*(range(c + 1) for c in counts)):
                recall = np.mean([h / c for h, c in zip(hits, counts, strict=True)])
                ways.setdefault(sum(hits), []).append(recall)
            for correct, recalls in ways.items():
                expected = pytest.approx((min(recalls), max(recalls)))
                assert rules.macro_recall_range([*counts, 0], correct) == expected

    def test_number_of_classes_alone_bounds_it(self):
        size = {"n": 1000, "classes": 10}
        assert found(rules.macro_bounds, cell("accuracy", 50.0, **size), cell("macro_recall", 96.0, **size))
        assert found(rules.macro_bounds, cell("accuracy", 90.0, **size), cell("macro_recall", 8.9, **size))
        assert not found(rules.macro_bounds, cell("accuracy", 50.0, **size), cell("macro_recall", 94.0, **size))
        two = {"n": 1000, "classes": 2}
        assert not found(rules.macro_bounds, cell("accuracy", 95.0, **two), cell("macro_recall", 10.0, **two))

    def test_sizes_of_classes_bound_it_exactly(self):
        rows = [
            cell("recall", v, unit="fraction", **{"class": c, "n": n}) for c, v, n in (("a", 0.9, 90), ("b", 0.5, 10))
        ]
        both = [cell("accuracy", 0.86, unit="fraction", n=100), cell("macro_recall", 0.7, unit="fraction", n=100)]
        assert not found(rules.macro_bounds, rows, both)
        assert found(rules.macro_bounds, rows, both[0], both[1] | {"value": 0.99})
        assert not found(rules.macro_bounds, rows[:1], both[0], both[1] | {"value": 0.99})
        digits = {"value": 0.8, "step": 0.1}  # 0.8 of 100 is up to 85 with rounding, and up to 90 cut off
        assert not found(rules.macro_bounds, rows, both[0] | digits, both[1] | {"value": 0.94})


class TestTwice:
    def test_two_tables_that_differ(self):
        (one,) = found(rules.twice, cell("macro_recall", 79.32), cell("macro_recall", 75.29, table="u"))
        assert one["certainty"] == "inconsistent" and one["values"] == "79.32; 75.29"

    def test_a_last_digit_or_another_setting_is_fine(self):
        assert not found(rules.twice, cell("macro_recall", 42.94), cell("macro_recall", 42.93, table="u"))
        assert not found(rules.twice, cell("macro_recall", 42.9, 0.1), cell("macro_recall", 42.85, table="u"))
        assert not found(rules.twice, cell("macro_recall", 79.32), cell("macro_recall", 75.29, table="u", test="T2"))
        assert not found(rules.twice, cell("accuracy", 79.32, test=""), cell("accuracy", 75.29, table="u", test=""))


def grid(seed=0, models=8, settings=6) -> list[dict]:
    """Make a table of unlike numbers: accuracy and three averages of models over settings."""
    rng = np.random.default_rng(seed)
    out = []
    for model, test in itertools.product(range(models), range(settings)):
        values = np.array([88, 60, 52, 57]) + rng.uniform(-8, 8, 4)
        for metric, value in zip(("accuracy", *MACRO), values.round(2), strict=True):
            out.append(cell(metric, float(value), model=f"M{model}", test=f"T{test}", table=metric))
    return out


def change(cells, copies):
    """Write into cells of model M0 the value of other cells: (metric, test) <- (model, metric, test)."""
    at = {(c["model"], c["metric"], c["test"]): c for c in cells}
    for (metric, test), source in copies.items():
        at["M0", metric, test]["value"] = at[source]["value"]
    return cells


class TestRepeats:
    def test_two_in_parallel_are_one_finding(self):
        same = {("macro_f1", t): ("M0", "accuracy", t) for t in ("T2", "T3")}
        (one,) = found(rules.repeats, change(grid(), same))
        assert one["certainty"] == "inconsistent" and "macro F1 (T2 and T3)" in one["text"]

    def test_two_shifted_by_two_columns_are_one_finding(self):
        away = {("macro_precision", f"T{i}"): ("M0", "accuracy", f"T{i + 2}") for i in (2, 3)}
        (one,) = found(rules.repeats, change(grid(), away))
        assert "accuracy (T4 and T5)" in one["text"] and "macro precision (T2 and T3)" in one["text"]

    def test_a_percentage_that_is_a_rank_is_worth_asking(self):
        recalls = [cell("macro_recall", v, test=t) for v, t in ((9.92, "T2"), (10.33, "T3"))]
        ranks = [cell("mean_rank", v, test=t, unit="rank") for v, t in ((10.33, "T1"), (9.13, "T2"))]
        (one,) = found(rules.repeats, recalls, ranks)
        assert one["certainty"] == "ask" and one["values"] == "10.33; 10.33"

    def test_one_alone_two_models_or_round_numbers_are_fine(self):
        assert not found(rules.repeats, grid())
        assert not found(rules.repeats, change(grid(), {("macro_f1", "T2"): ("M0", "accuracy", "T2")}))
        others = {("macro_f1", t): ("M3", "accuracy", t) for t in ("T2", "T3", "T4")}
        assert not found(rules.repeats, change(grid(), others))
        cells, some = grid(), itertools.product(("accuracy", "macro_f1"), ("T1", "T2"))
        some = {("M0", *pair) for pair in some}
        cells = [c | {"value": 70.0} if (c["model"], c["metric"], c["test"]) in some else c for c in cells]
        assert not found(rules.repeats, cells)

    def test_what_chance_makes_in_all_that_is_compared_is_fine(self):
        lone = {("macro_f1", "T1"): ("M0", "accuracy", "T1")}
        assert not found(rules.repeats, change(grid(), lone))
        assert [one["certainty"] for one in found(rules.repeats, change(grid(models=1, settings=4), lone))] == ["ask"]
        two = change(grid(models=4), {("macro_f1", t): ("M0", "accuracy", t) for t in ("T2", "T3")})
        assert found(rules.repeats, two)
        assert not found(rules.repeats, [c | {"value": round(c["value"], 1), "step": 0.1} for c in two])

    def test_a_percentage_among_many_ranks_like_it_is_fine(self):
        models = [(f"M{i}", i / 10) for i in range(6)]
        recalls = [
            cell("macro_recall", round(v + d, 2), model=m, test=f"T{v}") for m, d in models for v in (9.92, 10.33)
        ]
        ranks = [c | {"metric": "mean_rank", "unit": "rank", "table": "u", "test": "T1"} for c in recalls]
        assert not found(rules.repeats, recalls, ranks)

    def test_balanced_classes_make_accuracy_macro_recall(self):
        everywhere = {("macro_recall", f"T{i}"): ("M0", "accuracy", f"T{i}") for i in range(6)}
        cells = change(grid(models=1), everywhere)
        assert not found(rules.repeats, cells)

    def test_the_same_quantity_in_two_tables_is_agreement(self):
        again = [c | {"table": "again"} for c in grid() if c["metric"] == "accuracy"]
        assert not found(rules.repeats, grid(), again)


class TestShifted:
    def test_a_row_plus_a_constant_over_settings(self):
        cells = grid()
        rows = {m: [c for c in cells if c["model"] == m and c["metric"] == "macro_f1"] for m in ("M1", "M2")}
        for to, of in zip(rows["M2"], rows["M1"], strict=True):
            to["value"] = of["value"] + 1.5
        (one,) = found(rules.shifted, cells)
        assert "M1" in one["text"] and "M2" in one["text"] and "-1.50" in one["text"]
        rows["M2"][3]["value"] += 0.03  # two roundings make two steps
        assert not found(rules.shifted, cells)

    def test_a_row_plus_a_constant_over_metrics(self):
        cells = [c | {"table": "t"} for c in grid(settings=1)]
        for to, of in zip(cells[4:8], cells[:4], strict=True):
            to["value"] = of["value"] - 2
        (one,) = found(rules.shifted, cells)
        assert one["certainty"] == "inconsistent" and "M0" in one["text"]

    def test_two_models_alike_in_all_metrics(self):
        cells = [c | {"table": "t", "n": 5000} for c in grid(settings=1)]
        for to, of in zip(cells[4:8], cells[:4], strict=True):
            to["value"] = of["value"]
        assert [one["certainty"] for one in found(rules.shifted, cells)] == ["inconsistent"]
        assert [one["certainty"] for one in found(rules.shifted, [c | {"n": np.nan} for c in cells])] == ["ask"]
        assert not found(rules.shifted, [c | {"n": 60} for c in cells])
        assert not found(rules.shifted, [c | {"classes": 2} for c in cells])
        cells[4]["value"], cells[0]["value"] = cells[5]["value"], cells[1]["value"]  # three numbers, not four
        assert not found(rules.shifted, cells)

    def test_rows_alike_by_nature_are_fine(self):
        assert not found(rules.shifted, grid())
        near = [cell(m, 99.4 + 0.1 * i, model=f"M{i}", step=0.1) for i in range(6) for m in ("accuracy", *MACRO)]
        assert not found(rules.shifted, near)


class TestPerClass:
    ROWS = (("a", 0.80, 0.60, 0.69, 50), ("b", 0.50, 0.75, 0.60, 20))

    @classmethod
    def cells(cls, **averages):
        out = []
        for label, *values, n in cls.ROWS:
            for metric, value in zip(("precision", "recall", "f1"), values, strict=True):
                out.append(cell(metric, value, unit="fraction", n=n, **{"class": label}))
        return out + [cell(m, v, unit="fraction", n=70) for m, v in averages.items()]

    def test_rows_and_their_averages_agree(self):
        good = {"macro_precision": 0.65, "macro_recall": 0.68, "weighted_recall": 0.64, "accuracy": 0.64}
        assert not found(rules.per_class, self.cells(**good))  # 0.675 may be rounded to 0.68 or 0.67
        assert not found(rules.per_class, self.cells(macro_recall=0.67))

    @pytest.mark.parametrize("wrong", [{"macro_precision": 0.68}, {"weighted_recall": 0.675}, {"accuracy": 0.7}])
    def test_an_average_that_the_rows_do_not_give(self, wrong):
        (one,) = found(rules.per_class, self.cells(**wrong))
        assert one["certainty"] == "inconsistent"

    def test_averages_are_left_alone_where_classes_are_missing(self):
        assert not found(rules.per_class, [c for c in self.cells(macro_precision=0.9) if c.get("class") != "b"])

    def test_f1_of_a_class_is_a_harmonic_mean(self):
        cells = self.cells()
        cells[2]["value"] = 0.67
        (one,) = found(rules.per_class, cells)
        assert one["certainty"] == "impossible"


def true_results(seed: int) -> pd.DataFrame:
    """Make tables of models that really were evaluated: confusion matrices, scored, rounded to 1 to 3 decimals."""
    rng = np.random.default_rng(seed)
    percent, digits = rng.random() < 0.5, int(rng.integers(1, 4))
    over = str(rng.choice(metrics.OVER))
    rows = []
    models, settings = int(rng.integers(1, 8)), int(rng.integers(1, 7))
    skills = rng.beta(*[(8, 2), (2, 2), (200, 1), (1, 4)][rng.integers(4)], size=models)
    for test in range(settings):
        classes, n = int(rng.integers(2, 30)), int(10 ** rng.uniform(1.7, 4.8))
        shares = rng.dirichlet(np.full(classes, rng.choice([0.2, 1, 1e6])))
        counts = np.maximum(1, (shares * n).astype(int))
        if classes > 5 and rng.random() < 0.3:  # trained on more classes than are tested
            counts[rng.choice(classes, classes // 3, replace=False)] = 0
        per_class = rng.random() < 0.15
        for model, skill in enumerate(skills):
            spread = rng.choice([5, 50, 1e4])
            right = rng.beta(skill * spread + 0.01, (1 - skill) * spread + 0.01, size=classes)
            wrong = rng.dirichlet(np.full(classes, rng.choice([0.1, 1, 50])), size=classes)
            chances = wrong * (1 - right)[:, None] + np.diag(right)
            cm = np.array([rng.multinomial(c, p / p.sum()) for c, p in zip(counts, chances, strict=True)])
            scores = {k: float(v) for k, v in metrics._from_confusion(cm, over).items() if k != "micro_recall"}
            listed = np.flatnonzero(cm.sum(1) + (cm.sum(0) if over == "truth_or_prediction" else 0))
            size = {"n": float(cm.sum()), "classes": float(len(listed)), "class": ""}
            numbers = [(k, v, size) for k, v in scores.items()]
            for i in listed if per_class else ():
                hits, truth, said = cm[i, i], cm[i].sum(), cm[:, i].sum()
                own = {
                    "precision": hits / max(1, said),
                    "recall": hits / max(1, truth),
                    "f1": 2 * hits / (truth + said),
                }
                numbers += [(k, v, {"n": float(truth), "classes": np.nan, "class": f"c{i}"}) for k, v in own.items()]
            scale, places = (100, digits) if percent else (1, digits + 1)
            unit = "percent" if percent else "fraction"
            for metric, value, more in numbers:
                value = round(value * scale, places)
                rows.append(cell(metric, value, 10.0**-places, f"M{model}", f"T{test}", unit=unit, **more))
    return pd.DataFrame(rows)


@pytest.mark.parametrize("block", range(10))
def test_true_results_never_give_a_finding(block):
    for seed in range(block * 20, block * 20 + 20):
        findings = audit.run(true_results(seed))
        assert findings.empty, (seed, findings["text"].tolist())


def test_rows_that_differ_by_little_more_than_a_constant_are_fine():
    for seed in range(40):  # what makes a test set hard is most of what differs; models add a little
        rng = np.random.default_rng(seed)
        base = rng.uniform(40, 90, (1, 6)) + rng.normal(0, 2, (8, 1)) + rng.normal(0, 0.4, (8, 6))
        cells = [cell("accuracy", round(v, 1), 0.1, f"M{m}", f"T{t}") for (m, t), v in np.ndenumerate(base)]
        assert audit.run(table(cells)).empty, seed


class TestPaper:
    FOUND = audit.run()

    def test_the_findings_are_those_of_the_rules(self):
        tables = self.FOUND[self.FOUND["rule"].isin(audit.SETTLE)]
        assert set(tables["rule"]) == {"f1_bound", "granularity", "harmonic", "twice", "repeats", "reversed_score"}
        assert len(tables) == 8 and set(self.FOUND["certainty"]) <= set(finding.CERTAINTY)
        assert list(self.FOUND.columns) == audit.FINDINGS and not self.FOUND.isna().any().any()

    def test_only_one_model_and_one_test_set_cannot_be(self):
        sure = self.FOUND[self.FOUND["certainty"] == "impossible"].set_index("rule")["where"]
        assert "BioCLIP-FT" in sure["f1_bound"] and "ViT" not in sure["f1_bound"]
        (one,) = self.FOUND[self.FOUND["rule"] == "granularity"].itertuples()
        assert all("Test-W" in place for place in one.where.split("; "))
        assert one.certainty == "inconsistent" and "section 8" in one.text  # some numbers may be means over runs

    def test_what_the_text_says_of_a_number_printed_twice_is_said(self):
        assert "A.4.4" in self.FOUND.set_index("rule").loc["twice", "text"]

    def test_what_could_not_bite_is_said(self):
        looked = self.FOUND.attrs["checked"]
        assert looked["remark"].str.contains("cannot bite").sum() == 4
        assert "42.94 and 42.93" in " ".join(looked["remark"])

    def test_the_report_says_what_would_settle_it(self):
        text = audit.report(self.FOUND)
        assert text.count("What would settle it") == len(self.FOUND) and audit.LIMITS[:30] in text


def test_metrics_of_this_project_are_clean():
    rng = np.random.default_rng(0)
    labels = list("abcdefgh")
    parts = []
    for run in ("x-S1-S1", "x-S3-W", "y-S1-S1"):
        true = rng.choice(labels, 300, p=np.array([8, 7, 6, 5, 4, 3, 2, 1]) / 36)
        pred = np.where(rng.random(300) < 0.6, true, rng.choice(labels, 300))
        scores = metrics.score(true, pred)
        parts += [{"run_id": run, "metric": k, "value": v, "n": 300, "classes": 8} for k, v in scores.items()]
    results = audit.of_metrics(pd.DataFrame(parts))
    assert set(results["model"]) == {"x", "y"} and "micro_recall" not in set(results["metric"])
    assert audit.run({"metrics": results}).empty
    wrong = results.assign(value=results["value"].mask(results["metric"] == "macro_f1", 0.99))
    assert "f1_bound" in set(audit.run(wrong)["rule"])


class TestRead:
    @staticmethod
    def read(tmp_path, text, name="my.csv", encoding="utf-8"):
        (tmp_path / name).write_text(text, encoding=encoding)
        return read.read(tmp_path / name)

    def test_columns_units_steps_and_places(self, tmp_path):
        text = 'Model,Prec.,Macro Recall (%),F1-Score,Top-1,samples,who\n**A**,0.712,80.10,0.7,93.6%,"40,881",x\n'
        got = self.read(tmp_path, text, encoding="utf-8-sig")
        assert got["metric"].tolist() == [*MACRO, "accuracy"] and set(got["model"]) == {"A"}
        assert got["unit"].tolist() == ["fraction", "percent", "fraction", "percent"]
        assert got["step"].tolist() == pytest.approx([0.001, 0.01, 0.1, 0.1]) and set(got["n"]) == {40881}
        assert got["place"][1] == "my.csv, line 2, column Macro Recall (%)"
        assert got.attrs["unread"] == ["who"] and got.attrs["columns"]["Prec."] == "macro precision, fraction"

    def test_a_spread_anywhere_makes_a_row_a_mean_of_runs(self, tmp_path):
        got = self.read(tmp_path, "model,acc,f1\nA,0.82 [0.8, 0.9],1\nB,0.81,0.7\n".replace("[0.8, 0.9]", "[0.8-0.9]"))
        assert got["spread"].tolist() == [True, True, False, False]
        assert self.read(tmp_path, "model,acc,acc_std,n\nA,0.853,0.01,30\n")["spread"].all()

    def test_other_sheets_are_said_not_to_be_read(self, tmp_path):
        book = openpyxl.Workbook()
        book.active.append(["model", "acc"])
        book.active.append(["A", 0.5])
        book.create_sheet("more")
        book.save(tmp_path / "two.xlsx")
        assert read.read(tmp_path / "two.xlsx").attrs["unread"] == ["the other sheets"]

    def test_names_hold_no_control_characters(self, tmp_path):
        assert set(self.read(tmp_path, 'model,acc\n"A\nlong\x1b[31m",0.5\n')["model"]) == {"A long [31m"}

    def test_semicolons_with_decimal_commas_and_tabs(self, tmp_path):
        got = self.read(tmp_path, "method;F1;acc;n\nA;71,25;93,5;4.606\n")
        assert got["value"].tolist() == [71.25, 93.5] and set(got["n"]) == {4606}
        assert self.read(tmp_path, "method\taccuracy\nA\t93.5\n")["value"].tolist() == [93.5]

    def test_missing_cells_and_means_of_runs(self, tmp_path):
        got = self.read(tmp_path, "model,acc,f1\nA,82.1 ± 0.3,—\nB,81.0 (0.2),NA\nC,80.55,n/a\n")
        assert got["value"].tolist() == [82.1, 81.0, 80.55] and got["spread"].tolist() == [True, True, False]

    def test_rows_of_one_model_are_told_apart_by_what_was_not_read(self, tmp_path):
        got = self.read(tmp_path, "model,lr,acc\nA,0.1,82.1\nA,0.2,83.1\nB,,80.0\nB,,81.0\n")
        assert (
            got["model"].tolist() == ["A, 0.1", "A, 0.2", "B, , line 4", "B, , line 5"] or len(set(got["model"])) == 4
        )

    def test_a_label_may_be_a_class_or_a_model(self, tmp_path):
        assert set(self.read(tmp_path, "label,precision,recall,f1\nA,0.5,0.7,0.55\n")["class"]) == {""}
        assert set(self.read(tmp_path, "label,recall,support\nA,0.5,2\n")["class"]) == {"A"}
        assert set(self.read(tmp_path, "genus,recall\nPorites,0.5\n")["class"]) == {"Porites"}

    def test_small_percentages_are_percentages(self, tmp_path):
        assert set(self.read(tmp_path, "model,recall\nA,2.50\nB,0.91\n")["unit"]) == {"percent"}

    def test_a_classification_report(self, tmp_path):
        text = ",precision,recall,f1-score,support\na,0.80,0.60,0.69,50\nb,0.50,0.75,0.60,20\n"
        text += "accuracy,0.64,0.64,0.64,0.64\nmacro avg,0.65,0.68,0.64,70\nweighted avg,0.71,0.64,0.66,70\n"
        got = self.read(tmp_path, text)
        assert set(got.loc[got["class"] == "", "metric"]) >= {"accuracy", "macro_f1", "weighted_recall"}
        assert got.loc[got["metric"] == "accuracy", "value"].tolist() == [0.64]
        assert audit.run(got).empty
        wrong = self.read(tmp_path, text.replace("0.65,0.68,0.64", "0.65,0.68,0.60"))
        assert set(audit.run(wrong)["rule"]) == {"per_class"}

    @pytest.mark.parametrize(
        ("text", "where", "what"),
        [
            ("model,accuracy\nA,0.812\nB,81.9\n", "my.csv:2: accuracy", "looks like a fraction"),
            ("model,accuracy\nA,81.2%\nB,0.82\n", "my.csv:3: accuracy", "looks like a fraction"),
            ("model,accuracy\nA,81\nB,high\n", "my.csv:3: accuracy", "'high' is not a number"),
            ("model,accuracy\nA,81,2\n", "my.csv:2", "has 3 values"),
            ("foo,bar\n1,2\n", "my.csv", "no column of results"),
            ("model,accuracy\n", "my.csv", "no number"),
            ("model  accuracy\nA  0.8\n", "my.csv", "save it as CSV"),
            ("metric,A,B\nrecall,0.8,0.7\naccuracy,0.8,0.7\n", "my.csv", "exchange rows and columns"),
            ("model,accuracy,n\nA,0.8,-5\n", "my.csv:2: n", "no count"),
            ("model,accuracy\nA,1e400\n", "my.csv:2: accuracy", "no finite number"),
            ("run_id,annotation_id,y_true,y_pred\nr,1,a,b\n", "my.csv", "file of predictions"),
        ],
    )
    def test_what_cannot_be_read_is_one_sentence_with_its_place(self, tmp_path, text, where, what):
        with pytest.raises(ReefcoreError) as error:
            self.read(tmp_path, text)
        assert f"{tmp_path / where}: " in str(error.value) and what in str(error.value)

    def test_parquet_is_a_table_of_metrics_or_refused(self, tmp_path):
        one = {"run_id": "x-S1-S1", "metric": "accuracy", "value": 0.5, "n": 10, "classes": 3}
        pd.DataFrame([one]).to_parquet(tmp_path / "m.parquet")
        assert read.read(tmp_path / "m.parquet")["train"].tolist() == ["S1"]
        pd.DataFrame({"y_true": ["a"]}).to_parquet(tmp_path / "p.parquet")
        with pytest.raises(ReefcoreError, match="score predictions first"):
            read.read(tmp_path / "p.parquet")


class TestCommand:
    def test_finds_prints_and_exits_by_what_it_found(self, tmp_path, capsys):
        mine, bad, good = (tmp_path / name for name in ("mine.csv", "bad.csv", "good.csv"))
        mine.write_text("model,precision,recall,f1,accuracy,n\nA,0.60,0.70,0.75,0.9,10\n")
        good.write_text("model,precision,recall,f1,accuracy,n\nA,0.60,0.70,0.64,0.9,10\n")
        bad.write_text("model,f1\nA,x\n")
        assert cli.main(["audit", str(mine)]) == 1
        assert "Impossible (f1_bound)" in capsys.readouterr().out
        assert cli.main(["audit", str(mine), str(good), "--json"]) == 1
        got = json.loads(capsys.readouterr().out)
        assert set(got) == {"findings", "checked"} and set(got["findings"][0]) == set(audit.FINDINGS)
        assert cli.main(["audit", str(good)]) == 0 and "Nothing was found" in capsys.readouterr().out
        assert cli.main(["audit", str(bad)]) == 2 and "Traceback" not in capsys.readouterr().err

    def test_without_a_file_it_is_the_paper(self, capsys):
        assert cli.main(["audit", "--json", "--certainty", "impossible"]) == 1
        got = json.loads(capsys.readouterr().out)
        assert {one["certainty"] for one in got["findings"]} == {"impossible"}


def test_a_table_without_the_columns_of_results_is_refused():
    with pytest.raises(ReefcoreError, match=r"name one precision|no columns"):
        audit.run(pd.DataFrame({"model": ["A"]}))


def test_a_table_of_models_and_a_metrics_table_are_taken_as_they_are():
    wide = pd.DataFrame({"model": ["A", "B"], "precision": [0.7, 0.8], "recall": [0.6, None], "f1": [0.72, 0.8]})
    (one,) = audit.run({"mine": wide}).to_dict("records")
    assert one["rule"] == "f1_bound" and one["values"] == "0.7; 0.6; 0.72" and one["where"].startswith("mine, line 2")
    metrics = pd.DataFrame({"run_id": "vit-S1-S1", "metric": ["accuracy"], "value": 1.2, "n": 9, "classes": 3})
    assert "range" in set(audit.run(metrics)["rule"])
    with pytest.raises(ReefcoreError, match="lacks place"):
        audit.run(metrics.drop(columns="run_id"))


def test_a_lone_repeat_is_worth_asking_in_a_small_table_and_says_its_chance():
    numbers = [(74.66, 78.36, 97.24), (66.04, 63.91, 93.71), (73.21, 77.52, 96.89), (71.80, 75.47, 71.80)]
    table = pd.DataFrame(numbers, columns=["precision", "recall", "accuracy"]).assign(n=40881, model=list("ABCD"))
    (one,) = audit.run(table).to_dict("records")
    assert (one["rule"], one["certainty"], one["values"]) == ("repeats", "ask", "71.80; 71.80")
    assert "by chance" in one["text"]
    assert audit.run(table.assign(accuracy=table["accuracy"] + 0.01)).empty
