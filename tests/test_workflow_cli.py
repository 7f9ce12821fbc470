"""The command line: codes and sentences."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from reefcore import cli, profiles
from reefcore.errors import ReefcoreError
from reefcore.workflow import status

GOOD = """\
kind: sample
notice: "A test."
data: build/x
seed: 0
crop: 8
recipes: [a]
train_sets: [S1]
resamples: 5
"""


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("seed: 0", "sead: 0", "unknown key 'sead'; the keys are kind, notice"),
        ("crop: 8\n", "", "the key 'crop' is missing"),
        ("crop: 8", "crop: 8.5", "crop must be of type int, not 8.5"),
        ("crop: 8", "crop: true", "crop must be of type int, not True"),
        ("crop: 8", "crop: 0", "crop must be at least 1, not 0"),
        ("[a]", "a", "recipes must be a list of text, not 'a'"),
        ("[a]", "[1]", "recipes must be a list of text"),
        ("[S1]", "[S9]", "train_sets may hold S1, S2, S3, S4"),
        ("kind: sample", "kind: other", "kind must be one of sample, full"),
        ('"A test."', '" "', "notice may not be empty"),
        ("seed: 0", "seed: -1", "seed must be at least 0"),
        ("seed: 0", "seed: 0\nscale: 0", "scale must lie in"),
        (
            "seed: 0",
            "seed: 0\ncriteria: {minimum: 3}",
            "criteria may hold min_annotations, min_per_source, min_sources",
        ),
        ("seed: 0", "seed: 0\ncross_sources: {test: 3}", "cross_sources may hold n_test, n_val"),
        (GOOD, "- 1", "a profile is a list of `key: value` lines"),
        (GOOD, "a: [", "this profile is not YAML"),
    ],
)
def test_a_profile_that_is_wrong_is_refused_with_file_and_key(tmp_path, old, new, sentence):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ReefcoreError) as caught:
        profiles.load(path)
    assert str(caught.value).startswith(f"{path}: ") and sentence in str(caught.value)


def test_the_profiles_that_travel_along_are_right():
    assert profiles.names() == ["full", "sample", "smoke"]
    for name in profiles.names():
        profile = profiles.load(name)
        assert profile.name == name and profile.notice
    assert "synthetic" in profiles.load("sample").notice.lower()


def test_the_full_profile_says_what_it_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("REEFNET_DATA", raising=False)
    assert cli.main(["train", "--profile", "full"]) == 2
    assert "environment variable REEFNET_DATA, which is not set" in capsys.readouterr().err
    monkeypatch.setenv("REEFNET_DATA", str(tmp_path))
    assert profiles.load("full").folder(tmp_path) == tmp_path


def test_commands_for_another_machine_need_no_data_here(monkeypatch, capsys):
    monkeypatch.delenv("REEFNET_DATA", raising=False)
    assert cli.main(["train", "vit", "--scheme", "S3", "--profile", "full", "--commands"]) == 0
    assert "reefcore train vit --scheme S3 --profile full" in capsys.readouterr().out
    assert cli.main(["train", "vit", "--scheme", "S9", "--profile", "full", "--commands"]) == 2


def test_evaluate_scores_the_predictions_of_any_program(smoke, tmp_path, capsys):
    predictions = smoke.table("predictions", ["run_id", "annotation_id", "y_true", "y_pred"])
    run = predictions[predictions["run_id"] == predictions["run_id"].iloc[0]]
    run.to_csv(tmp_path / "mine.csv", index=False)
    arguments = ["evaluate", str(tmp_path / "mine.csv"), "--profile", "smoke", "--resamples", "50", "--json"]
    assert cli.main([*arguments, "--output", str(tmp_path / "metrics.parquet")]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(pd.read_parquet(tmp_path / "metrics.parquet"))
    values = {row["metric"]: row["value"] for row in rows}
    assert values["accuracy"] == pytest.approx((run["y_true"] == run["y_pred"]).mean())
    run.assign(y_pred=run["y_pred"].mask(run.index == run.index[1])).to_csv(tmp_path / "mine.csv", index=False)
    assert cli.main(arguments) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["n"] == len(run) - 1
    assert "mine.csv:3: y_pred: is empty" in printed.err and f"{len(run) - 1} of {len(run)} rows kept" in printed.err
    assert "y_true is not" not in printed.err
    run.assign(y_true=run["y_pred"]).to_csv(tmp_path / "mine.csv", index=False)
    wrong = (run["y_true"] != run["y_pred"]).sum()
    assert cli.main(arguments) == 0
    assert f"y_true is not the label of the annotation for {wrong:,} of {len(run):,}" in capsys.readouterr().err


def test_numbers_that_make_no_sense_are_refused(smoke, tmp_path, capsys):
    for arguments, said in {
        ("run", "all", "--profile", "smoke", "--cores", "0"): "nothing can be run on 0 cores",
        ("run", "sample", "--profile", "smoke", "-p", "seed=-1"): "the seed -1 is negative",
        ("sample", str(tmp_path / "new"), "--seed", "-1"): "the seed -1 is negative",
        (
            "select",
            str(tmp_path / "s"),
            "--profile",
            "smoke",
            "--like",
            "sample-01",
            "--max-colour-distance",
            "-1",
        ): "negative",
    }.items():
        assert cli.main(list(arguments)) == 2
        assert said in capsys.readouterr().err


def test_train_names_the_files_of_everything_in_the_profile(smoke, capsys):
    smoke.table("predictions")
    assert cli.main(["train", "--profile", "smoke"]) == 0
    printed = capsys.readouterr().out.split()
    assert {Path(path).parent.name for path in printed} == {
        "predictions",
        "validation",
        "history",
        "runs",
        "checkpoints",
    }
    assert {Path(path).stem for path in printed} == {"mae_pretraining", *smoke.table("runs")["run"]}
    assert "vit_mae.seed1-S3" in {Path(path).stem for path in printed} and all(Path(path).exists() for path in printed)


def test_annotations_check_says_what_is_in_files_and_refuses_with_code_2(tmp_path, capsys):
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("Name,Row,Column,Label\na.jpg,10,20,Porites\na.jpg,11,21,Sand\n")
    bad.write_text("one,two\n1,2\n")
    assert cli.main(["annotations", "check", str(good)]) == 0
    assert "good.csv" in capsys.readouterr().out
    assert cli.main(["annotations", "check", str(good), str(bad), "--json"]) == 2
    reports = json.loads(capsys.readouterr().out)
    assert reports[0]["rows"] == 2 and reports[1]["refused"]


def test_sample_makes_a_survey_in_a_new_folder_only(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main(["sample", str(tmp_path)]) == 2
    assert "this folder is not empty; name a new one" in capsys.readouterr().err


def test_a_sentence_without_a_traceback_unless_asked(capsys):
    assert cli.main(["evaluate", "nothing.parquet"]) == 2
    assert capsys.readouterr().err.startswith("reefcore: nothing.parquet: ")
    with pytest.raises(ReefcoreError):
        cli.main(["--debug", "evaluate", "nothing.parquet"])


def test_an_interrupt_is_code_130(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "index", interrupted)
    assert cli.main(["status"]) == 130


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["run"],
        ["run", "all", "-p", "novalue"],
        ["evaluate", "x", "--over", "all"],
        ["train", "--workers", "0"],
        ["prepare", "--workers", "-1"],
    ],
)
def test_wrong_usage_is_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2 and "usage: reefcore" in capsys.readouterr().err


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "reefcore", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("reefcore ")
