"""Training by the command line: what is trained, what it depends on, how it stands, and how it is started elsewhere."""

import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import TOP

from reefcore import annotations, cli, metrics, workflow
from reefcore.errors import ReefcoreError
from reefcore.files import write_parquet
from reefcore.workflow import launch, steps

pytest.importorskip("torch")

PREPARED = ("annotations", "sources", "images", "reviews", "truth", "quality", "splits", "patches", "skipped")
KINDS = ("predictions", "validation", "history", "runs", "checkpoints")


@pytest.fixture(scope="module")
def survey(smoke, tmp_path_factory):
    """A checkout with what the smoke profile has before training, and a profile that trains one recipe on one set."""
    store = smoke.patches  # made here, if it is not there
    assert store.ids == smoke.table("patches")["annotation_id"].tolist()
    folder = tmp_path_factory.mktemp("survey")
    (folder / "notebooks").mkdir()
    for name in ("Snakefile", "requirements.lock"):
        shutil.copy(TOP / name, folder)
    for data in (folder / "data", folder / "sharded"):
        (data / ".keys").mkdir(parents=True)
        for name in (*(f"{name}.parquet" for name in PREPARED), "patches.npy"):
            shutil.copy2(smoke.folder / name, data / name)
        shutil.copytree(smoke.folder / "photos", data / "photos")
        for name in ("data", "curate", "splits", "patches"):
            shutil.copy2(steps.record_path(smoke.folder, name), data / ".keys")
    return folder


def write_profile(folder, smoke, name, **changes):
    """Write a profile that goes with the survey: the smoke profile's, with another data folder and few trainings."""
    settings = {key: list(v) if isinstance(v, tuple) else v for key, v in smoke.profile.settings.items()}
    del settings["name"]
    settings["recipe_changes"] = settings["recipe_changes"] | {"train_per_class": 4}
    settings |= {"data": "data", "recipes": ["vit"], "train_sets": ["S3"], "seeds": {}} | changes
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return f"{name}.yaml"


@pytest.fixture
def here(survey, smoke, monkeypatch):
    """Run the test in the survey's checkout."""
    monkeypatch.chdir(survey)
    write_profile(survey, smoke, "tiny")
    return survey


@pytest.fixture
def reefcore(here, capsys):
    """The command line, in this process: exit code, standard output, standard error."""

    def run(*arguments, profile="tiny.yaml"):
        for cached in (steps._runs, steps.plan, steps.key):  # another process would read the files anew
            cached.cache_clear()
        code = cli.main([*arguments, *(("--profile", profile) if profile else ())])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def listed(reefcore):
    """Give what `results` lists, by run and test set."""

    def rows(**options):
        code, out, _ = reefcore("results", "--json", **options)
        assert code == 0
        return {f"{row['run']} {row['test'] or ''}".strip(): row for row in json.loads(out)}

    return rows


def test_a_recipe_file_of_ones_own_is_trained_and_listed_as_own(here, reefcore, listed):
    (here / "own.yaml").write_text("extends: vit\nlr: 1.0e-3\n")
    code, out, err = reefcore("train", "own.yaml", "--scheme", "S3")
    assert code == 0 and "Making own-S3 (tiny)." in err
    assert [line.split("/data/")[1] for line in out.split()] == [
        *(f"{kind}/own-S3.parquet" for kind in KINDS[:-1]),
        "checkpoints/own-S3.safetensors",
    ]
    answers = pd.read_parquet(here / "data" / "predictions" / "own-S3.parquet")
    assert answers["run_id"].unique().tolist() == ["own-S3-S3", "own-S3-W"]
    row = listed()["own-S3 S3"]
    mine = answers[answers["run_id"] == "own-S3-S3"]
    assert (row["state"], row["n"], row["epochs"], row["device"]) == ("own", len(mine), 1, row["device"])
    assert row["macro_recall"] == pytest.approx(metrics.score(mine["y_true"], mine["y_pred"])["macro_recall"])
    assert "Making" not in reefcore("train", "own.yaml", "--scheme", "S3")[2]  # it is there


def test_results_tells_what_is_up_to_date_stale_and_not_trained(here, smoke, reefcore, listed):
    assert reefcore("train")[0] == 0  # all of the profile
    both = {"recipes": ["vit", "resnet101"]}
    two = write_profile(here, smoke, "two", **both)
    rows = listed(profile=two)
    assert {name: rows[name]["state"] for name in ("vit-S3 S3", "vit-S3 W", "resnet101-S3")} == {
        "vit-S3 S3": "up to date", "vit-S3 W": "up to date", "resnet101-S3": "not trained"
    }  # fmt: skip
    assert rows["vit-S3 S3"]["row"] == "ViT" and rows["resnet101-S3"]["macro_recall"] is None
    changes = smoke.profile.recipe_changes | {"lr": 0.5}
    other = write_profile(here, smoke, "other", recipe_changes=changes)
    assert listed(profile=other)["vit-S3 S3"]["state"] == "stale"
    code, out, _ = reefcore("results", profile=two)
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and out.startswith(smoke.notice) and ["resnet101-S3", "ResNet", "not", "trained"] in lines
    n = str(rows["vit-S3 W"]["n"])
    assert any(line[:5] == ["vit-S3", "ViT", "up", "to", "date"] and n in line for line in lines)
    (here / "data" / "runs" / "vit-S3.parquet").rename(here / "kept")  # as a run that is killed while it writes
    assert listed()["vit-S3 S3"]["state"] == "stale" and listed()["vit-S3 S3"]["epochs"] is None
    (here / "kept").rename(here / "data" / "runs" / "vit-S3.parquet")


def test_a_run_depends_on_every_file_of_its_recipe_and_on_no_other(here, reefcore):
    def key():
        for cached in (steps._runs, steps.plan, steps.key):
            cached.cache_clear()
        project = workflow.open("tiny.yaml")
        profile, (name,) = steps.asked(project.profile, ["child.yaml"], ["S3"])
        return steps.key(profile, project.folder, name)

    files = {"parent": "extends: vit\nlr: 1.0e-3\n", "child": "extends: parent\n", "stranger": "extends: vit\n"}
    for name, text in files.items():
        (here / f"{name}.yaml").write_text(text)
    first = key()
    for name, same in {"parent": False, "child": False, "stranger": True}.items():
        (here / f"{name}.yaml").write_text(files[name] + "weight_decay: 0.01\n")
        assert (key() == first) is same, name
        (here / f"{name}.yaml").write_text(files[name])
        assert key() == first


def test_another_seed_is_another_run_beside_the_others(here, smoke, reefcore, listed):
    assert reefcore("train", "vit", "--scheme", "S3")[0] == reefcore("train", "vit", "--scheme", "S3", "--seed", "1")[0]
    tables = [pd.read_parquet(here / "data" / "predictions" / f"{name}-S3.parquet") for name in ("vit", "vit.seed1")]
    assert set(tables[1]["run_id"]) == {"vit.seed1-S3-S3", "vit.seed1-S3-W"}
    assert tables[0]["annotation_id"].equals(tables[1]["annotation_id"])
    assert not np.allclose(*(table.filter(like="score:") for table in tables))
    rows = listed()
    assert rows["vit-S3 S3"]["state"] == "up to date" and rows["vit.seed1-S3 S3"]["state"] == "own"
    # A profile that asks for two seeds of this run has them already.
    project = workflow.open(write_profile(here, smoke, "seeds", seeds={"vit-S3": 2}))
    assert listed(profile="seeds.yaml")["vit.seed1-S3 S3"]["state"] == "up to date"
    facts = project.table("runs")
    assert facts["run"].tolist() == ["vit-S3", "vit.seed1-S3"] and facts["seed"].tolist() == [0, 1]
    assert project.table("history")["run"].unique().tolist() == ["vit-S3", "vit.seed1-S3"]
    assert set(project.table("validation")["run_id"]) == {"vit-S3-val", "vit.seed1-S3-val"}


def test_predictions_of_other_programs_stand_beside_the_runs(here, smoke, reefcore, listed):
    assert reefcore("train")[0] == 0
    mine = pd.read_parquet(here / "data" / "predictions" / "vit-S3.parquet").query("run_id == 'vit-S3-S3'")
    mine = mine[["annotation_id", "y_true"]].assign(y_pred=mine["y_true"])  # an oracle
    mine.to_csv(here / "nameless.csv", index=False)
    mine.assign(run_id="oracle-S3").to_csv(here / "oracle.csv", index=False)
    mine.assign(run_id="vit-S3-S3").to_csv(here / "thief.csv", index=False)
    mine.assign(run_id="x-S3").to_csv(here / "vit-S3.csv", index=False)
    project = workflow.open(write_profile(here, smoke, "beside", predictions=["oracle.csv"]))
    assert set(project.table("predictions")["run_id"]) == {"vit-S3-S3", "vit-S3-W", "oracle-S3"}
    scores = project.table("metrics").query("metric == 'macro_recall'").set_index("run_id")["value"]
    assert scores["oracle-S3"] == 1 and scores["vit-S3-S3"] < 1
    row = listed(profile="beside.yaml")["oracle S3"]
    assert (row["state"], row["macro_recall"], row["epochs"]) == ("own", 1, None)
    mine.assign(run_id="mine-S3-S3").to_csv(here / "answers.csv", index=False)
    two = pd.concat([mine.assign(run_id=name, y_true="x") for name in ("a-S3", "b-S3")])
    two.to_csv(here / "two.csv", index=False)
    profile = write_profile(here, smoke, "named", predictions=["answers.csv", "two.csv"])
    _, _, err = reefcore("train", profile=profile)
    assert f"two.csv: y_true is not the label of the annotation for {len(two):,} of {len(two):,} points" in err
    assert "answers.csv: " not in err
    rows = listed(profile=profile)
    assert [key for key, row in rows.items() if row["state"] == "own" and row["run"] in ("answers", "a", "b")] == [
        "answers S3", "a S3", "b S3"
    ] and "mine-S3 S3" not in rows  # fmt: skip
    alone = workflow.open(write_profile(here, smoke, "alone", predictions=["oracle.csv"], recipes=[]))
    assert set(alone.table("predictions")["run_id"]) == {"oracle-S3"}
    with pytest.raises(ReefcoreError, match="the profile alone trains nothing, and so has no history"):
        alone.table("history")
    for name, said in {
        "none": "this file of predictions does not exist; see predictions in .*beside.yaml",
        "thief": "thief.csv: the run_id vit-S3-S3 is that of a run of the profile; give one .*",
        "nameless": "nameless.csv: the run_id nameless does not end in a test set; give one such as mine-S3-W",
        "vit-S3": "vit-S3.csv: a run or another file of the profile has this name; rename the file",
    }.items():
        profile = write_profile(here, smoke, "beside", predictions=[f"{name}.csv"])
        code, _, err = reefcore("train", profile=profile)
        assert code == 2 and re.search(f"reefcore: .*{said}\\.\n$", err), err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "vitt"], "there is no recipe 'vitt'; choose from aug_all, .*, or name a file"),
        (["train", "none.yaml"], "none.yaml: this recipe cannot be read; check the path"),
        (["train", "vit", "--scheme", "S9"], "there is no training set 'S9'; choose from S1, S2, S3, S4"),
        (["train", "vit", "--seed", "-1"], "the seed -1 is negative; choose 0 or more"),
        (["train", "aug_all", "--scheme", "S1"], "aug_all is trained on S4, not on S1; choose from its sets"),
        (["train", "vit", "aug_all", "--scheme", "S1"], "aug_all is trained on S4, not on S1; choose from its sets"),
        (["train", "--scheme", "S1"], "no recipe of the profile only_s4 is trained on S1"),
        (["train"], ".*only_s4.yaml: the profile only_s4 names no recipes; name what to train"),
        (["train", "mae_pretraining", "--seed", "1"], "mae_pretraining is a pretraining, without training sets .*"),
        (["train", "vit.yaml"], "vit.yaml: a recipe of one's own needs a name of its own, .*; rename the file"),
        (["train", "vit.seed1.yaml"], "vit.seed1.yaml: a recipe of one's own needs a name of its own, .*"),
        (["train", "one.yaml", "more/one.yaml"], "one.yaml: two recipes have the name one; rename .*"),
        (
            ["prepare", "patch"],
            r"there is no step 'patch'; choose from data, .*, patches, [\w, .-]*pseudo_worth",
        ),
    ],
)
def test_what_cannot_be_trained_or_prepared_is_refused_in_one_sentence(here, smoke, reefcore, arguments, sentence):
    (here / "one.yaml").write_text("extends: vit\n")
    profile = write_profile(here, smoke, "only_s4", recipes=["aug_all"] if len(arguments) > 1 else [])
    code, out, err = reefcore(*arguments, profile=profile)
    assert code == 2 and out == ""
    assert re.fullmatch(f"reefcore: {sentence}\\.\n", err), err


def test_prepare_makes_what_is_not_there_and_says_so(here, reefcore):
    (here / "data" / "patches.npy").unlink()
    code, out, err = reefcore("prepare")
    assert code == 0 and err == "Making patches (tiny).\n" and (here / "data" / "patches.npy").exists()
    assert [Path(line).name for line in out.split()] == ["patches.npy", "patches.parquet", "skipped.parquet"]
    code, out, err = reefcore("prepare", "splits", "patches")
    assert (
        code == 0 and err == "" and [Path(line).name for line in out.split()][:2] == ["splits.parquet", "patches.npy"]
    )


def test_shards_train_as_the_array_does(here, smoke, reefcore):
    profile = write_profile(here, smoke, "sharded", data="sharded", shards=True)
    for name in ("tiny.yaml", profile):
        assert reefcore("train", "vit", "--scheme", "S3", profile=name)[0] == 0
    project = workflow.open(profile)
    assert not project.patches.in_memory
    assert project.patches.ids == project.table("patches")["annotation_id"].tolist()
    one, other = (pd.read_parquet(here / folder / "predictions" / "vit-S3.parquet") for folder in ("data", "sharded"))
    assert one[["run_id", "annotation_id", "y_true"]].equals(other[["run_id", "annotation_id", "y_true"]])
    scores = [table.filter(like="score:").to_numpy() for table in (one, other)]
    about_mean = [(one - one.mean(axis=0)).ravel() for one in scores]
    assert np.corrcoef(*about_mean)[0, 1] > 0.9  # measured: 0.99, and 0.48 of two seeds


def test_a_trained_model_answers_for_annotations_and_photos(here, reefcore):
    assert reefcore("train")[0] == 0
    checkpoint, data = "data/checkpoints/vit-S3.safetensors", here / "data"
    known = pd.read_parquet(data / "predictions" / "vit-S3.parquet").query("run_id == 'vit-S3-W'")
    points = pd.read_parquet(data / "annotations.parquet")
    write_parquet(points[points["annotation_id"].isin(known["annotation_id"])], here / "points.parquet")
    arguments = ("predict", checkpoint, "points.parquet", "--photos", "data/photos", "--output", "points.out.parquet")
    code, out, err = reefcore(*arguments, profile=None)
    assert (code, out) == (0, "points.out.parquet\n") and "synthetic reefs only" in err
    answers = pd.read_parquet(here / "points.out.parquet").set_index("annotation_id").loc[known["annotation_id"]]
    assert np.allclose(answers.filter(like="score:"), known.filter(like="score:"), atol=1e-5)  # the same patches
    assert answers["y_true"].tolist() == known["y_true"].tolist() and set(answers["run_id"]) == {"vit-S3"}

    source = min(data.joinpath("photos").iterdir(), key=lambda folder: len(list(folder.iterdir())))
    photos = sorted(path.name for path in source.iterdir())
    code, out, _ = reefcore("predict", checkpoint, str(source), "--points", "4", "--json", profile=None)
    report = json.loads(out)
    assert code == 0 and (report["points"], report["photos"]) == (4 * len(photos), len(photos))
    read = annotations.read(here / "predictions.csv")
    assert sorted(read["image"].unique()) == photos and read["source"].unique().tolist() == [source.name]
    assert set(read["label_raw"]) <= set(report["classes"])
    assert reefcore("predict", "points.parquet", str(source), "--force", profile=None)[0] == 2  # not a checkpoint


def test_a_killed_training_goes_on_and_ends_as_one_that_was_not(here, smoke, reefcore):
    (here / "long.yaml").write_text("extends: vit\n")
    changes = smoke.profile.recipe_changes | {"train_per_class": 4, "epochs": 10}
    profile = write_profile(here, smoke, "many_epochs", recipe_changes=changes)
    command = ["train", "long.yaml", "--scheme", "S3"]
    progress, answers = here / "data/progress/long-S3.safetensors", here / "data/predictions/long-S3.parquet"
    outputs = [here / f"data/{kind}/long-S3.parquet" for kind in ("predictions", "validation")]
    outputs.append(here / "data/checkpoints/long-S3.safetensors")
    process = subprocess.Popen(
        [sys.executable, "-m", "reefcore", *command, "--profile", profile],
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(TOP), "OMP_NUM_THREADS": "1"},
    )
    until = time.monotonic() + 60
    while not progress.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and progress.exists() and not answers.exists()
    left = progress.with_name(f".{progress.stem}.1.tmp.safetensors")  # as if killed while it wrote
    left.touch()
    code, _, err = reefcore(*command, profile=profile)
    epoch = re.search(r"long-S3 goes on after epoch (\d+)\.", err)
    assert code == 0 and epoch and 1 <= int(epoch[1]) < 10
    assert not progress.exists() and not left.exists() and not list((here / "data").rglob(".*.tmp*"))
    resumed = [path.read_bytes() for path in outputs]
    answers.unlink()
    assert "goes on" not in reefcore(*command, profile=profile)[2]
    assert [path.read_bytes() for path in outputs] == resumed


def commands(text: str) -> dict[str, str]:
    """Cut what --commands prints into its parts, by their headings."""
    parts = re.split(r"(?m)^# (prepare|one GPU|one node|SLURM)\n", text)
    assert parts[0] == ""
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_commands_to_copy_are_what_bash_and_the_parser_take(here, reefcore):
    (here / "my recipes").mkdir(exist_ok=True)
    (here / "my recipes" / "mine.yaml").write_text("extends: vit\n")
    asked = ["train", "vit", "my recipes/mine.yaml", "--scheme", "S2", "--scheme", "S3", "--seed", "2"]
    code, out, _ = reefcore(*asked, "--commands")
    parts = commands(out)
    assert code == 0 and list(parts) == ["prepare", "one GPU", "one node", "SLURM"]
    wanted = cli._parser().parse_args([*asked, "--profile", "tiny.yaml"])
    for name, text in parts.items():
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        words = shlex.split(text[text.index("reefcore ") :])
        if name == "prepare":
            assert words == ["reefcore", "prepare", "patches", "--profile", "tiny.yaml"]
        else:
            assert cli._parser().parse_args(words[1:]) == wanted
    assert parts["SLURM"].startswith("#!/bin/bash\n#SBATCH ") and "-m reefcore train" in parts["SLURM"]


def torchrun(line: str, folder) -> subprocess.CompletedProcess:
    """Start a line of --commands with two processes on this machine's CPU."""
    assert "torchrun --standalone --nproc-per-node 8 " in line
    line = line.replace("torchrun", f"{sys.executable} -m torch.distributed.run").replace("-node 8 ", "-node 2 ")
    env = os.environ | {"PYTHONPATH": str(TOP), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_two_processes_pretrain_and_train_by_the_printed_line(here, reefcore):
    _, out, _ = reefcore("train", "vit_mae", "--scheme", "S3", "--commands")
    done = torchrun(commands(out)["one node"], here)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Making vit_mae-S3 (tiny).") == done.stderr.count("Making mae_pretraining (tiny).") == 1
    assert [line.split("/data/")[1] for line in done.stdout.split()] == [
        *(f"{kind}/vit_mae-S3.parquet" for kind in KINDS[:-1]),
        "checkpoints/vit_mae-S3.safetensors",
    ]
    answers = pd.read_parquet(here / "data" / "predictions" / "vit_mae-S3.parquet")
    assert answers["run_id"].unique().tolist() == ["vit_mae-S3-S3", "vit_mae-S3-W"]
    assert (
        not answers.duplicated(["run_id", "annotation_id"]).any() and answers.filter(like="score:").notna().all().all()
    )
    project = workflow.open("tiny.yaml")
    profile, names = steps.asked(project.profile, ["vit_mae"], ["S3"])
    assert names == ["vit_mae-S3"]
    for name in ("mae_pretraining", "vit_mae-S3"):
        assert steps.is_fresh(profile, project.folder, name)  # nothing is left to do for one process
    checkpoint = "data/checkpoints/mae_pretraining.safetensors"
    code, _, err = reefcore("predict", checkpoint, "data/photos", "--output", "none.csv", profile=None)
    assert code == 2 and "mae_pretraining.safetensors: this is not a checkpoint" in err


def test_many_processes_refuse_what_is_not_prepared_and_end(here, smoke):
    write_profile(here, smoke, "empty", data="empty")
    began = time.monotonic()
    done = torchrun(launch.lines(["vit"], ["S3"], "empty.yaml")["one node"], here)
    sentence = "the data that vit-S3 needs are not up to date, and are no work for many processes; make them first"
    assert sentence in done.stderr and "reefcore prepare patches --profile" in done.stderr
    assert done.returncode and re.search(r"exitcode\s*: 2", done.stderr) and time.monotonic() - began < 60
    assert not (here / "empty" / "predictions").exists()


def test_everything_of_a_profile_is_trained_by_two_processes_one_run_after_the_other(here, monkeypatch):
    project = workflow.open("tiny.yaml")
    profile = dataclasses.replace(project.profile, recipes=("vit", "resnet101"))
    made = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(steps, "ensure", lambda profile, folder, name, workers: made.append(name))
    steps._train(profile, here / "nowhere", 2)
    assert made == ["vit-S3", "resnet101-S3"]  # no processes of its own
