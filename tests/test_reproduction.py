"""When a published number counts as reproduced, on invented results of a full profile."""

import json

import numpy as np
import pandas as pd
import pytest

from reefcore import cli, comparison, figures, published, reproduction
from reefcore.errors import ReefcoreError


def metrics(arm=0.01, shift=0.0):
    """Results as `reefcore evaluate` writes them: every run of Tables 3, 4 and 7-10, exactly as printed.

    Table 11 prints another number than Table 3 for one and the same cell, so that no results agree with both.
    """
    parts = []
    for number in published.TRAINED:
        recipe = {row: name for name, row in comparison.rows_of(number).items()}
        table = published.results(number)
        run = table["model"].map(recipe) + "-" + table["train"] + "-" + table["test"]
        parts.append(table.assign(run_id=run, scheme=table["test"], value=table["published"] + shift))
    table = pd.concat(parts).drop_duplicates(["run_id", "metric"], ignore_index=True)
    table = table.assign(ci_low=table["value"] - arm, ci_high=table["value"] + arm, n=4000, classes=39)
    return table[["run_id", "scheme", "metric", "value", "ci_low", "ci_high", "n", "classes"]]


def judged(table, kind="full"):
    return reproduction.verdicts(reproduction.gather({"metrics": table}), kind).set_index("item")


def moved(table, run, metric, by):
    at = (table["run_id"] == run) & (table["metric"] == metric)
    assert at.sum() == 1
    columns = ["value", "ci_low", "ci_high"]
    return table.assign(**table[columns].add(np.where(at, by, 0.0), axis=0))


def small(published, value, arm=1.0, step=0.01, item="Table 3"):
    """Results of one column, in percent."""
    table = pd.DataFrame({"published": published, "value": value}, dtype=float)
    rows = [f"m{i:03}" for i in range(len(table))]
    table = table.assign(item=item, row=rows, column="c", step=step, place=rows)
    return table.assign(ci_low=table["value"] - arm, ci_high=table["value"] + arm)


class TestGather:
    def test_every_printed_value_of_tables_2_to_12_stands_there(self):
        table = reproduction.gather({})
        sizes = table.groupby("item").size()
        assert sizes["Table 3"] == 60 and sizes["Table 2"] == 55 and sizes["Table 12"] == 16 and len(sizes) == 11
        assert table["value"].isna().all() and table["place"].is_unique
        printed = published.values().set_index("place")
        assert (table["published"].to_numpy() == printed.loc[table["place"], "value"].to_numpy(float)).all()

    def test_results_stand_beside_what_is_printed_in_its_unit(self):
        table = reproduction.gather({"metrics": metrics()}).set_index("place")
        row = table.loc["9/BioCLIP-FT/train_s4_test_s3s4"]
        assert row["value"] == pytest.approx(row["published"]) and row["ci_high"] - row["value"] == pytest.approx(1)
        assert row["n"] == 4000 and row["step"] == 0.01
        run = table[table["value"].notna()]
        assert set(run["item"]) == {f"Table {n}" for n in published.TRAINED}
        run = run[run["item"] != "Table 11"]
        assert run["value"].to_numpy() == pytest.approx(run["published"].to_numpy())

    def test_models_are_the_rows_of_table_12(self):
        table = reproduction.gather({}).set_index("place")
        assert table.loc["12/cross-source (QC)/BioCLIP", ["row", "column"]].tolist() == ["BioCLIP", "cross-source (QC)"]

    def test_zero_shot_runs_that_were_evaluated_are_those_of_table_5(self):
        row = (
            metrics()
            .iloc[[0]]
            .assign(run_id="bioclip.generated-zero-S3", scheme="S3", metric="macro_recall", value=0.1)
        )
        table = reproduction.gather({"metrics": row}).set_index("place")["value"]
        assert table.dropna().to_dict() == {"5/BioCLIP/cross_source_test_s3s4": 10.0}

    def test_counts_of_the_data_stand_beside_table_2_and_the_text(self, smoke):
        names = ("annotations", "sources", "images", "reviews", "quality", "splits", "candidates")
        tables = {name: smoke.table(name) for name in names}
        run = reproduction.gather(tables).dropna(subset=["value"])
        assert set(run["item"]) == {"Table 2", "text"} and run["ci_low"].isna().all()
        value, quality, split = run.set_index("place")["value"], tables["quality"], tables["splits"]
        assert value["review/step1/annotations"] == (quality["step1"] & ~quality["site"]).sum()
        assert value["dataset/images"] == len(tables["images"]) and value["dataset/ecoregions_figure_7"] > 0
        assert value["funnel/listed"] == len(tables["candidates"])
        sources = tables["sources"]
        away = sources.loc[sources["source"] != smoke.profile.site, "layout"]
        assert value["points/simple random"] == (away == "simple random").sum() > 0
        assert value["2/Train-S4/annotations"] == ((split["scheme"] == "S4") & (split["part"] == "train")).sum()
        assert 1 < value["2/Test-S1/expert_agreement_pct"] <= 100 and value["2/Test-W/sources"] == 1

    def test_scores_of_a_run_without_some_classes_are_those_of_table_6(self):
        ids = [f"p{i}" for i in range(40)]
        sure = np.linspace(0.5, 1, 40)
        table = pd.DataFrame({"run_id": "vit.open-S4-S4", "annotation_id": ids, "score:A": sure, "score:B": 1 - sure})
        table = table.assign(y_true=["C"] * 10 + ["A"] * 30, y_pred="A")
        table = pd.concat([table, table.assign(run_id="vit.open-S4-val"), table.assign(run_id="vit.open-S2-S2")])
        points = pd.DataFrame({"annotation_id": ids, "source": "s", "image": [f"i{i % 8}" for i in range(40)]})
        run = reproduction.gather({"open_set": table, "annotations": points}, 50).dropna(subset=["value"])
        run = run.set_index("place")
        assert run["value"].to_dict() == {"6/MSP/auroc": 1.0, "6/MSP/fpr_at_95_tpr": 0.0}
        assert run["n"].tolist() == [40, 40]
        other = table[table["run_id"] == "vit.open-S2-S2"]
        assert reproduction.gather({"open_set": other, "annotations": points})["value"].isna().all()


class TestValues:
    def test_an_interval_covers_outside_by_a_little_or_differs(self):
        table = reproduction.values(small([50, 50, 50, np.nan], [50.9, 51.2, 55, 50]).assign(published=50.0))
        assert table["verdict"].tolist()[:3] == [reproduction.COVERS, reproduction.CLOSE, reproduction.DIFFERS]
        assert table["difference"].tolist()[2] == 5

    def test_rounding_has_its_benefit(self):
        fine = small([50.0], [51.04], step=0.1)
        assert reproduction.values(fine)["verdict"][0] == reproduction.COVERS
        assert reproduction.values(fine.assign(step=0.01))["verdict"][0] == reproduction.CLOSE

    def test_without_an_interval_the_printed_digits_decide(self):
        table = reproduction.values(small([39, 39, 39], [39, 39.4, 40], arm=np.nan, step=1))
        assert table["verdict"].tolist() == [reproduction.SAME, reproduction.SAME, reproduction.OTHER]

    def test_a_value_of_many_may_lie_farther_out_than_one_alone(self):
        far = [51.5, *[50.0] * 59]
        assert reproduction.values(small([50.0], far[:1]))["verdict"][0] == reproduction.DIFFERS
        assert reproduction.values(small([50.0], [51.25]))["verdict"][0] == reproduction.CLOSE  # both sides: 99 %
        assert reproduction.values(small([50.0] * 60, far))["verdict"][0] == reproduction.CLOSE


class TestPairs:
    def test_signs_and_whether_chance_could_make_them(self):
        table = reproduction.pairs(small([60, 57, 51, 49.5], [59, 61.5, 40, 52], 3.5)).set_index(["first", "second"])
        said = table["verdict"]
        assert said["m000", "m001"] == reproduction.OPPOSITE and said["m002", "m003"] == reproduction.BEYOND
        assert said["m000", "m002"] == reproduction.TOLD and said["m000", "m003"] == reproduction.UNTOLD
        row = table.loc[("m000", "m002")]
        assert row["ci_high"] - row["value"] == pytest.approx(np.hypot(3.5, 3.5))

    def test_arms_of_different_length_go_to_the_right_ends(self):
        table = small([60, 50], [60, 50]).assign(ci_low=[57, 49], ci_high=[64, 52])
        row = reproduction.pairs(table).iloc[0]
        assert row["ci_low"] == pytest.approx(10 - np.hypot(3, 2)) and row["ci_high"] == pytest.approx(
            10 + np.hypot(4, 1)
        )

    def test_what_rounding_can_make_is_no_difference(self):
        assert len(reproduction.pairs(small([50.01, 50.0], [40, 50]))) == 0
        assert len(reproduction.pairs(small([50.02, 50.0], [40, 50]))) == 1

    def test_columns_are_compared_where_they_are_one_metric(self):
        pairs = reproduction.pairs(reproduction.gather({"metrics": metrics()}))
        of = pairs[pairs["of"] == "columns"]
        assert {"Table 3", "Table 12"} <= set(of["item"]) and not {"Table 2", "Table 6", "Table 7"} & set(of["item"])
        assert set(pairs.loc[pairs["item"] == "Table 11", "of"]) == {"columns"}

    def test_a_turned_setting_is_opposite_beyond_chance(self):
        table = metrics()
        w = table["run_id"].str.endswith("-W") & (table["metric"] == "macro_recall")
        table.loc[w, ["value", "ci_low", "ci_high"]] -= 0.3
        pairs = reproduction.pairs(reproduction.gather({"metrics": table}))
        turned = pairs[(pairs["item"] == "Table 11") & (pairs["verdict"] == reproduction.BEYOND)]
        assert len(turned) and turned["second"].str.endswith(" / W").all()

    def test_orders_count_pairs_and_correlate(self):
        results = small([60, 57, 51], [52, 57, 60])
        row = reproduction.orders(results, reproduction.pairs(results)).iloc[0]
        assert row["same"] == 0 and row["pairs"] == 3 and row["kendall"] == -1 and row[reproduction.BEYOND] == 3
        nothing = reproduction.gather({})
        assert reproduction.orders(nothing, reproduction.pairs(nothing)).empty


class TestVerdicts:
    def test_exact_results_reproduce_every_table_that_was_run(self):
        told = judged(metrics())
        run = [f"Table {n}" for n in published.TRAINED if n != 11]
        assert (told.loc[run, "verdict"] == "reproduced").all() and not told.loc[run, "fails"].any()
        assert (told.drop([*run, "Table 11"])["verdict"] == "not run").all()
        assert told.loc["Table 3", ["values", "covers", "needed", "expected to miss"]].tolist() == pytest.approx(
            [60, 60, 53, 3]
        )

    def test_one_value_outside_is_expected_and_one_far_outside_is_not(self):
        near = judged(moved(metrics(), "vit-S1-S1", "macro_recall", 0.012))
        assert near.loc["Table 3", ["verdict", "close but outside"]].tolist() == ["reproduced", 1]
        far = judged(moved(metrics(), "vit-S1-S1", "macro_recall", 0.08))
        assert far.loc["Table 3", ["verdict", "differs", "fails"]].tolist() == ["partly", 1, True]
        assert far.loc["Table 8", "verdict"] == "reproduced"

    def test_an_order_that_is_turned_beyond_chance_is_not_reproduced(self):
        table = metrics(0.04)
        first, second = "efficientnet_b4-S3-S3", "resnet101-S3-S3"  # about ten points apart in Table 3
        table = moved(moved(table, first, "macro_recall", -0.05), second, "macro_recall", 0.05)
        assert judged(table).loc["Table 3", [reproduction.BEYOND, "fails"]].tolist() == [0, False]
        table = table.assign(ci_low=table["value"] - 0.012, ci_high=table["value"] + 0.012)
        told = judged(moved(moved(table, first, "macro_recall", -0.02), second, "macro_recall", 0.02))
        assert told.loc["Table 3", reproduction.BEYOND] >= 1 and told.loc["Table 3", "verdict"] == "partly"

    def test_an_opposite_pair_alone_is_enough(self):
        told = reproduction.verdicts(small([50.03, 50.0, *[40] * 8], [49.4, 50.6, *[40] * 8], 0.4), "full").iloc[0]
        assert told["differs"] == 0 and told["covers"] >= told["needed"]
        assert told[reproduction.BEYOND] == 1 and told["verdict"] == "partly"

    @pytest.mark.parametrize(("near", "verdict"), [(0, "reproduced"), (1, "partly")])
    def test_one_miss_more_than_chance_makes_is_too_many(self, near, verdict):
        misses = 40 - reproduction.needed(40) + near
        told = reproduction.verdicts(small([50.0] * 40, [51.3] * misses + [50.0] * (40 - misses)), "full").iloc[0]
        assert told["differs"] == 0 and told["close but outside"] == misses and told["verdict"] == verdict

    def test_a_table_that_is_not_all_run_is_reproduced_in_part(self):
        table = metrics()
        told = judged(table[~table["run_id"].str.startswith("swin_b-S1")])
        assert told.loc["Table 3", ["verdict", "not run", "fails"]].tolist() == ["partly", 1, False]

    def test_without_intervals_exact_digits_count_and_others_do_not(self):
        none = metrics().assign(ci_low=np.nan, ci_high=np.nan)
        assert judged(none).loc["Table 9", ["verdict", reproduction.SAME]].tolist() == ["reproduced", 60]
        none = moved(none, "vit-S1-S1", "macro_f1", 0.0003)
        assert judged(none).loc["Table 9", ["verdict", reproduction.OTHER]].tolist() == ["partly", 1]

    def test_intervals_that_hold_everything_show_nothing(self):
        told = judged(metrics(arm=1.0)).loc["Table 3", ["verdict", "covers", "fails"]]
        assert told.tolist() == ["partly", 60, False]

    def test_a_sample_is_never_reproduced_though_all_is_counted(self):
        told = judged(metrics(), "sample")
        assert told.loc["Table 3", ["verdict", "covers"]].tolist() == [reproduction.SYNTHETIC, 60]

    def test_a_bias_everywhere_reproduces_nothing(self):
        assert (judged(metrics(shift=-0.06)).loc[["Table 3", "Table 9"], "verdict"] == "not").all()

    def test_needed_leaves_one_honest_table_in_a_hundred(self):
        hits = np.random.default_rng(0).binomial(60, 0.95, 20_000)
        assert (
            (hits < reproduction.needed(60)).mean()
            < 1.2 * reproduction.FAMILY
            < (hits <= reproduction.needed(60)).mean()
        )
        assert reproduction.needed(0) == 0

    @pytest.mark.parametrize(("bias", "few", "most"), [(0.0, 190, 200), (2.5, 0, 5)])
    def test_honest_reproductions_are_told_from_biased_ones(self, bias, few, most):
        rng, seeds = np.random.default_rng(1), []
        for seed in range(200):
            truth, spread = rng.uniform(40, 80, 40), rng.uniform(0.5, 1.5, 40)
            value = truth + bias + rng.normal(0, spread)
            seeds.append(small(truth.round(2), value, 1.96 * spread, item=f"seed {seed}"))
        told = reproduction.verdicts(pd.concat(seeds, ignore_index=True), "full")
        assert few <= (told["verdict"] == "reproduced").sum() <= most
        assert bias or told["covers"].mean() / 40 == pytest.approx(0.95, abs=0.01)


class TestRead:
    @pytest.mark.parametrize("ending", ["parquet", "csv"])
    def test_what_evaluate_writes_is_read(self, tmp_path, ending):
        path, table = tmp_path / f"results.{ending}", metrics()
        table.to_parquet(path) if ending == "parquet" else table.drop(columns="scheme").to_csv(path, index=False)
        read = reproduction.read(path, "full")
        assert len(read) == len(table) and read.attrs["profile"] == "full"

    @pytest.mark.parametrize(
        ("column", "value", "said"),
        [
            ("value", 0.9999, ":4: value: 0.9999 does not lie in"),
            ("value", 61.2, ":4: value: 61.2 must be at most 1"),
            ("ci_low", np.nan, ":4: ci_low: nan is only one end"),
            ("run_id", "vit_mea-S3-S3", ":4: run_id: vit_mea-S3-S3 is of no recipe"),
            ("run_id", "vit_mae-S3", ":4: run_id: vit_mae-S3 does not end"),
            ("run_id", "vit_mae-S9-S3", ":4: run_id: vit_mae-S9-S3 does not end"),
        ],
    )
    def test_a_bad_row_is_named(self, tmp_path, column, value, said):
        table = metrics().drop(columns="scheme")
        table.loc[2, column] = value
        table.to_csv(tmp_path / "r.csv", index=False)
        with pytest.raises(ReefcoreError) as error:
            reproduction.read(tmp_path / "r.csv", "full")
        assert said in str(error.value) and str(error.value).count(". ") == 0

    def test_a_row_twice_a_missing_column_and_an_empty_file_are_refused(self, tmp_path):
        table, path = metrics(), tmp_path / "r.csv"
        for frame, said in (
            (pd.concat([table, table.head(1)]), "stands twice"),
            (table.drop(columns="ci_high"), "lacks the column ci_high"),
            (table.head(0), "no result"),
            (table.assign(profile=["full"] * (len(table) - 1) + ["sample"]), "two profiles are named: full, sample"),
        ):
            frame.to_csv(path, index=False)
            with pytest.raises(ReefcoreError, match=said):
                reproduction.read(path, "full")
        with pytest.raises(ReefcoreError, match="not a readable CSV"):
            reproduction.read(tmp_path / "none.csv")


class TestCommand:
    def run(self, capsys, *words):
        code = cli.main(["reproduced", *map(str, words)])
        return code, capsys.readouterr()

    def test_exit_codes_and_reports(self, tmp_path, capsys):
        path = tmp_path / "r.csv"
        exact = metrics()
        exact = exact[~exact["run_id"].str.startswith("bioclip_ft")]
        exact.assign(profile="full").to_csv(path, index=False)
        code, said = self.run(capsys, path)
        assert code == 0 and "Values that differ: 0" in said.out and "reproduced" in said.out
        moved(exact, "vit-S1-S1", "macro_recall", 0.08).to_csv(path, index=False)
        code, said = self.run(capsys, path, "--profile", "full", "--json")
        report = json.loads(said.out)
        assert code == 1 and [row["place"] for row in report["values"]] == ["3/ViT/train_s1_test_s1"]
        code, said = self.run(capsys, path, "--profile", "sample")
        assert code == 0 and reproduction.SYNTHETIC in said.out

    def test_without_a_file_it_takes_what_the_profile_has_and_trains_nothing(self, smoke, capsys):
        smoke.table("splits")
        code, said = self.run(capsys, "--profile", "smoke", "--json")
        told = {row["item"]: row for row in json.loads(said.out)["tables"]}
        assert code == 0 and told["Table 2"]["verdict"] == reproduction.SYNTHETIC
        assert told["Table 2"]["values"] == 55 and told["Table 2"]["not run"] < 55

    def test_a_file_must_say_its_profile_once(self, tmp_path, capsys):
        path = tmp_path / "r.csv"
        metrics().to_csv(path, index=False)
        code, said = self.run(capsys, path)
        assert code == 2 and "no profile is named" in said.err
        metrics().assign(profile="full").to_csv(path, index=False)
        code, said = self.run(capsys, path, "--profile", "sample")
        assert code == 2 and "full, sample" in said.err


def test_the_figure_names_each_verdict():
    results = small([60, 57, 51, 49.5], [59, 61.5, 40, 52], 3.5)
    axes = figures.judged(reproduction.values(results), reproduction.pairs(results)).axes
    text = " ".join(label.get_text() for one in axes for label in one.get_yticklabels())
    for name in (reproduction.COVERS, reproduction.CLOSE, reproduction.DIFFERS, reproduction.BEYOND):
        assert name in text
