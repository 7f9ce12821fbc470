"""What the full reproduction takes: every run once, more of a machine never slower, subsets that hold what they say."""

import json

import numpy as np
import pandas as pd
import pytest

from reefcore import cost, estimates, profiles, published, recipes
from reefcore.errors import ReefcoreError
from reefcore.workflow import estimating

PHOTO = {"bytes": 3e6, "seconds": 2.0}


@pytest.fixture(scope="module")
def runs():
    return estimating.runs(profiles.load("full"))


@pytest.fixture(scope="module")
def models(runs):
    """The recipes with a round number of operations, so that nothing need be built."""
    names = sorted(set(runs.loc[runs["kind"] != "asked", "recipe"]))
    return pd.DataFrame({"recipe": names, "parameters": 100_000_000, "flops": 1e11})


@pytest.fixture(scope="module")
def work(runs, models):
    return estimates.jobs(runs, models, estimates.Parts(), estimates.machine("h100", 4, 64))


def test_every_run_is_counted_once_over_all_tables_and_figures(work):
    table = estimates.items(work, estimates.Parts())
    assert table["new_gpu_hours"].sum() == pytest.approx(work["gpu_hours"].sum())
    assert table["new_hours"].sum() == pytest.approx(work["hours"].sum()) and work["job"].is_unique
    by_item = table.set_index("item")
    assert by_item.at["Table 8", "gpu_hours"] == by_item.at["Table 3", "gpu_hours"] > 0  # the same runs
    assert by_item.at["Table 8", "new_gpu_hours"] == 0 and by_item.loc[["Table 1", "Table 2"], "runs"].eq(0).all()
    # ten rows on four sets, two more seeds of one, and what that row starts from
    assert by_item.at["Table 3", "runs"] == 10 * 4 + 2 + 1 and by_item.at["Table 4", "runs"] == 16
    assert by_item.at["Table 7", "runs"] == 14 and by_item.at["Table 6", "runs"] == 2
    assert by_item.at["Figure 11", "runs"] == 2 and estimates.of_item("Figure 11", work) == {
        "vit_mae-S3",
        "mae_pretraining",
    }


def test_hours_are_those_of_the_formula_of_the_cost_chapter(work):
    on = estimates.machine("h100", 4, 64)
    vit = work.set_index("job").loc["vit-S1"]
    size = published.wide(2).set_index("split")["annotations"]
    trained, checked, tested = (int(size[f"{part}-S1"]) for part in ("Train", "Val", "Test"))
    plain = cost.gpu_hours(1e11, trained, 100, on.peak, on.utilisation)
    assert vit["gpu_hours"] == pytest.approx(plain * (1 + (checked + tested / 100) / trained / 3))
    change = estimates.CHANGE * recipes.load("vit", "full").input_size ** 2
    reads = 100 * (trained * (estimates.READ + change) + checked * estimates.READ) + tested * estimates.READ
    assert vit["core_hours"] == pytest.approx(reads / 3600)
    assert vit["hours"] == pytest.approx(max(vit["gpu_hours"] / 4, vit["core_hours"] / 64))


def test_more_of_a_machine_is_never_slower(runs, models):
    def hours(**changes):
        on = estimates.machine(**{"gpu": "a100", "gpus": 2, "cores": 16} | changes)
        return estimates.jobs(runs, models, estimates.Parts(), on)["hours"].to_numpy()

    for changes in ({"gpus": 3}, {"gpus": 64}, {"cores": 17}, {"gpu": "h100"}, {"utilisation": 0.4}):
        assert (hours(**changes) <= hours() * 1.000001).all() and hours(**changes).sum() <= hours().sum(), changes
    assert hours(gpus=1000).sum() == hours(gpus=1001).sum()  # then the cores that read patches set the pace
    assert hours(gpus=1000, cores=320).sum() < hours(gpus=1000).sum()


def test_subsets_give_what_their_runs_and_photos_allow(work):
    parts, on = estimates.Parts(), estimates.machine("h100", disk=5e11)
    table = estimates.subsets(work, parts, on, PHOTO).set_index("subset")
    gives = table["gives"].str.split(", ").map(set)
    first, alone, tests = gives.iloc[0], gives["the annotations alone"], gives["the test photos, nothing trained"]
    assert table.index[0].startswith("smallest useful") and table.iloc[0]["night"] and table.iloc[0]["photos"] == 0
    assert {"Table 1", "Table 2", "Table 13", "Figure 2"} <= alone == first and "Table 3" not in alone
    assert (
        tests - alone == {"Table 12"} and "Table 5 (not what" in table.at["the test photos, nothing trained", "in_part"]
    )
    headline = next(name for name in table.index if "headline" in name)
    assert {"Figure 10", "Figure 11"} <= gives[headline] and "Table 3 (2 of 43 runs)" in table.at[headline, "in_part"]
    assert gives["Tables 3 and 8 to 11"] - alone >= {"Table 3", "Table 8", "Table 9", "Table 10", "Table 11"}
    assert not any({"Figure 14", "Figure 6", "Table 5"} & found for found in gives)  # a chat server, and a screenshot
    every = table.loc["everything"]
    assert (
        (every[["photos", "disk_bytes", "gpu_hours", "hours"]] >= table[["photos", "disk_bytes", "gpu_hours", "hours"]])
        .all()
        .all()
    )
    assert every["gpu_hours"] == pytest.approx(work["gpu_hours"].sum()) and not every["fits"] and table.iloc[0]["fits"]
    assert every["download_hours"] == pytest.approx((every["photos"] * 2 + 4.16e9 / 1e8) / 3600)  # polite, not fast
    some = estimates.subsets(work, parts, on, PHOTO, tables=[7])["subset"].tolist()
    assert some[-1] == "Table 7" and "the annotations alone" not in some


def test_sizes_come_from_splits_where_there_are_any():
    printed, size = estimates.Parts(), published.wide(2).set_index("split")["annotations"]
    assert printed.points([("S3", "train")]) == size["Train-S3"] and "stated" in printed.how
    assert printed.points([("S3", "test"), ("S4", "test")]) == size["Test-S3&S4"]  # one and the same
    everything = printed.points(estimates.PRINTED)
    assert everything == size[["Train-S1", "Val-S1", "Test-S1", "Test-W"]].sum()
    assert printed.photos([("W", "test")]) == 0 and 5 < everything / printed.photos(estimates.PRINTED) < 5.2
    ids = [f"p{i}" for i in range(8)]
    annotations = pd.DataFrame({"annotation_id": ids, "source": list("aaaabbbw"), "image": list("11223345")})
    rows = [
        (0, "S1", "train"),
        (1, "S1", "test"),
        (4, "S1", "train"),
        (4, "S3", "test"),
        (6, "S3", "val"),
        (7, "W", "test"),
    ]
    splits = pd.DataFrame([(ids[i], s, p) for i, s, p in rows], columns=["annotation_id", "scheme", "part"])
    parts = estimates.Parts(splits, annotations)
    assert parts.points([("S1", "train"), ("S3", "test")]) == 2 and parts.photos([("S1", "train"), ("S1", "test")]) == 2
    assert parts.photos([("W", "test")]) == 0 and parts.free() == 2  # p0 and p6 are never tested
    assert "counted" in parts.how


def test_measured_runs_count_by_the_time_they_took(runs, models):
    row = {"run": "vit-S4", "recipe": "vit", "train_patches": 1000, "epochs": 10, "seconds": 7200.0, "device": "cuda"}
    on = estimates.machine("h100", 4, 64)
    parts = estimates.Parts()
    for device, known in (("cuda", True), ("cpu", False)):
        table = estimates.jobs(runs, models, parts, on, pd.DataFrame([row | {"device": device}])).set_index("job")
        assert table.at["vit-S4", "done"] == known
        if known:
            assert table.at["vit-S4", "hours"] == 2 and table.at["vit-S4", "how"] == "measured"
            assert table.at["vit-S3", "hours"] == parts.points([("S3", "train")]) * 100 / (1e4 / 7200) / 3600
            assert "measured speed" in table.at["vit-S3", "how"] and table.at["swin_b-S3", "how"] == "computed"


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("2TB", 2e12), ("500 GB", 5e11), ("100MB/s", 1e8), ("1GiB", 2**30), ("12e9", 1.2e10), ("5kB", 5e3)],
)
def test_amounts_are_read(text, bytes_):
    assert estimates.amount(text) == bytes_


@pytest.mark.parametrize("text", ["3bananas", "", "GB", "1.2.3GB", "100Mbit/s"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(ReefcoreError, match="no amount of bytes; write it as"):
        estimates.amount(text)


def test_machines_that_make_no_sense_are_refused_with_what_is_known():
    with pytest.raises(ReefcoreError, match=r"'k80' is not known; choose from v100, .*h100.* or give its peak"):
        estimates.machine("k80")
    assert estimates.machine("k80", peak=8e12).peak == 8e12 and estimates.machine("H100").peak == 989.4e12
    for wrong in ({"gpus": 0}, {"cores": -1}, {"bandwidth": 0}):
        with pytest.raises(ReefcoreError, match="make no machine"):
            estimates.machine(**wrong)
    with pytest.raises(ReefcoreError, match="utilisation"):
        estimates.machine(utilisation=1.5)
    known = estimates.known_gpus()
    assert known["gpu"].is_unique and known["peak_tflops"].between(10, 5000).all() and known["source"].notna().all()


def test_the_command_says_it_in_words_and_in_json(models, monkeypatch, capsys):
    from reefcore.cli import main

    monkeypatch.delenv("REEFNET_DATA", raising=False)  # before anybody has fetched anything
    monkeypatch.setattr(cost, "table", lambda names, size="full": models)
    asked = ["full", "estimate", "--gpu", "h100", "--disk", "500GB"]
    assert main(asked) == 0
    text = capsys.readouterr().out
    for words in (
        "4 x NVIDIA H100",
        "smallest useful",
        "Table 12",
        "stated by the maker",
        "assumed",
        "Not counted",
        "NO",
    ):
        assert words in text, words
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"machine", "items", "subsets", "jobs", "basis"} <= set(found) and found["machine"]["gpus"] == 4
    assert all(
        row["how"].split(":")[0].split(" ")[0] in ("stated", "computed", "measured", "assumed", "assumed;", "given")
        for row in found["basis"]
    )
    assert main([*asked, "--table", "7", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["jobs"]) == 14
    assert main(["full", "estimate", "--table", "14"]) == 2 and "no Table 14" in capsys.readouterr().err
    assert main(["full", "estimate", "--disk", "x"]) == 2 and main(["full", "estimate", "--profile", "sample"]) == 2
    assert np.isinf(estimates.machine().disk)
