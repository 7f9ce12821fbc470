"""Builds on a cluster: what jobs ask for, and a build through Snakemake's executor for SLURM, against a double."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml
from conftest import TOP

from reefcore import cli
from reefcore.errors import ReefcoreError
from reefcore.profiles import load
from reefcore.workflow import build, keys, resources, steps

SLURM = """\
#!{python}
# A double of SLURM: sbatch runs the job before it answers, or cancels it, and keeps what it was asked.
import json, os, pathlib, subprocess, sys
top, name, given = pathlib.Path(__file__).resolve().parent, pathlib.Path(sys.argv[0]).name, sys.argv[1:]
if name == "sbatch":
    rule = given[given.index("--comment") + 1].removeprefix("rule_")
    jobs = sorted(top.glob("*.job"))
    number, tried = str(len(jobs) + 1), sum(json.loads(job.read_text())["rule"] == rule for job in jobs)
    log = pathlib.Path(given[given.index("--output") + 1].replace("%j", number))
    command = next(word for word in given if word.startswith("--wrap=")).removeprefix("--wrap=")
    others = [path for job in json.loads(pathlib.Path("build/plan.json").read_text())
              if job["rule"] != rule and not (path := pathlib.Path(job["marker"])).exists()]
    if rule == "chapter_40_gone" or rule == "chapter_30_alone" and not tried:
        log.write_text("slurmstepd: error: *** JOB 7 ON vm CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***\\n")
        state = "CANCELLED"
    else:
        for other in others:  # other jobs end at the same time
            other.parent.mkdir(parents=True, exist_ok=True)
            other.touch()
        with log.open("w") as file:
            ended = subprocess.run(command, shell=True, stdout=file, stderr=file)
        state = "FAILED" if ended.returncode else "COMPLETED"
        assert all(other.exists() for other in others), "a job touched a marker of another"
        for other in others:
            other.unlink()
    kept = {{"rule": rule, "given": [word for word in given if "--wrap" not in word], "state": state}}
    (top / f"{{number}}.job").write_text(json.dumps(kept))
    print(number)
elif name == "squeue":
    for job in top.glob("*.job"):
        print(f"{{job.stem}}|{{json.loads(job.read_text())['state']}}")
elif name == "srun":
    words = [word for word in given if not word.startswith("-")]
    os.execv(words[0], given[given.index(words[0]):])
elif name == "scontrol":
    print("MinJobAge = 300 sec")
elif name == "sinfo":
    print("main*")
sys.exit(name == "sacct")
"""


# The executor asks how jobs stand every few seconds, and less often the longer nothing ends.
SOON = """
import sys
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
RemoteExecutor.next_seconds_between_status_checks = property(lambda self: 0.2, lambda self, value: None)
from reefcore import cli
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def slurm(tmp_path):
    """The commands of SLURM, in a folder for PATH; what was submitted lies there as ``NUMBER.job``."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "double").write_text(SLURM.format(python=sys.executable))
    (folder / "double").chmod(0o755)
    for name in ("sbatch", "squeue", "srun", "scontrol", "sinfo", "sacct", "scancel"):
        shutil.copy(folder / "double", folder / name)
    settings = {"slurm-status-command": "squeue", "default-resources": {"slurm_partition": "reef"}}
    (folder / "settings").mkdir()  # a value that is a file beside them would be taken for its path
    (folder / "settings" / "config.yaml").write_text(yaml.safe_dump(settings))
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="SLURM is of Linux")
def test_a_build_on_a_cluster(checkout, slurm):
    checkout.notebook("30_alone", "1 + 1")
    checkout.notebook("40_gone", "2 + 2")
    cluster = ("--executor", "slurm", "--jobs", "1", "--workflow-profile", str(slurm / "settings"))
    command = [sys.executable, "-c", SOON, "run", "all", *cluster]
    env = os.environ | {"PATH": f"{slurm}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=checkout.folder, env=env, capture_output=True, text=True, timeout=300)
    jobs = [json.loads((slurm / f"{n}.job").read_text()) for n in range(1, len([*slurm.glob("*.job")]) + 1)]
    ended = {name: [job["state"] for job in jobs if job["rule"].endswith(name)] for name in ("alone", "gone")}
    assert ended == {"alone": ["CANCELLED", "COMPLETED"], "gone": ["CANCELLED", "CANCELLED"]}, done.stderr
    asked = [" ".join(job["given"]) for job in jobs if job["rule"].endswith("alone")]
    assert "--mem 4000 " in asked[0] and "--mem 8000 " in asked[1]
    assert all(
        "-p reef" in text and "-t 120 " in text and "--cpus-per-task=1" in text and "gpu" not in text for text in asked
    )
    assert done.returncode == 1 and "the build is not complete" in done.stderr
    why = "it ended without saying why: JOB 7 ON vm CANCELLED AT 2026-01-01 DUE TO TIME LIMIT"
    log = r"\.snakemake/slurm_logs/rule_chapter_40_gone/\d\.log"
    said = re.findall(rf"^reefcore: chapter (.*) \(log: {log}\)$", done.stderr, re.MULTILINE)
    assert said == [f"40_gone: {why}"] and (checkout.chapters / "30_alone.ipynb").exists()


def test_on_a_cluster_each_training_is_a_job(smoke):
    def planned(apart):
        names = {job.name: job for job in build.jobs(["40_supervised"], {"profile": "smoke"}, "out", apart)}
        return names, [name for name in names if re.search(r"-S\d smoke$", name)]

    (one, none), (each, runs) = planned(False), planned(True)
    assert none == [] and one["step train smoke"].resources["threads"] == 2
    assert {name.split()[1] for name in runs} == {run for run in steps.runs(smoke.profile) if "-S" in run}
    train = each["step train smoke"]
    assert {each[name].marker for name in runs} < set(train.needs) and train.resources["threads"] == 1
    plain = [{**job, "command": ""} for job in build.keep([*each.values()])]
    assert plain == [{**job, "command": ""} for job in json.loads((keys.root() / build.PLAN).read_text())]


def test_what_a_job_asks_for_can_be_said_in_the_profile(tmp_path, smoke, monkeypatch):
    full = load("full")
    asked = resources.of(full, "training")
    assert asked["gpu"] == 1 and {*asked} == {*resources.ASKED} and resources.of(smoke.profile, "training")["gpu"] == 0
    text = full.path.read_text() + "resources:\n  all: {slurm_account: reef, runtime: 60}\n  training: {gpu: 4}\n"
    (tmp_path / "mine.yaml").write_text(text)
    mine = load(tmp_path / "mine.yaml")
    assert resources.of(mine, "training") == asked | {"slurm_account": "reef", "runtime": 60, "gpu": 4}
    assert resources.of(mine, "tables")["gpu"] == 0
    assert mine.settings | {"name": "full"} == full.settings  # no result depends on it
    kinds = {step: resources.kind(full, step) for step in steps.plan(full)}
    assert {kinds[s] for s in ("vit-S1", "mae_pretraining", "substrate-resnet18")} == {"training"}
    assert (kinds["patches"], kinds["few_shot"], kinds["zero-bioclip"]) == ("photos", "experiments", "encoding")
    assert (kinds["splits"], kinds["train"], kinds["vit.open-S4"]) == ("tables", "gathering", "experiments")
    shown = resources.table()
    assert shown.count("\n") == 1 + len(resources.KINDS) and "8 cores, 64 GB, 48 h, 1 GPU" in shown
    monkeypatch.syspath_prepend(TOP / "book" / "_ext")
    page = [(TOP / "book" / "cluster.md").read_text()]
    importlib.import_module("cluster").on_read(None, "cluster", page)
    assert shown in page[0]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"train": {}}, r"unknown key 'train'; the keys are all, data, .*training"),
        ({"training": 4}, r"resources: training must hold names with values, not 4"),
        ({"training": {"gpu": "two"}}, r"resources: gpu of training cannot be 'two'; give a whole number, at least 0"),
        ({"all": {"threads": 0}}, r"resources: threads of training cannot be 0; give a whole number, at least 1"),
        ({"all": {"gres": True}}, r"resources: gres of training cannot be True; give .* or a text"),
    ],
)
def test_resources_that_cannot_be_are_refused(smoke, given, sentence):
    with pytest.raises(ReefcoreError, match=sentence):
        resources.of(replace(smoke.profile, resources=given), "training")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--executor", "slurm"], "--executor, --jobs and --workflow-profile are of a cluster and go together"),
        (["--jobs", "3"], "give --executor, such as slurm"),
        (["--executor", "none", "--jobs", "3"], "Snakemake has no executor none here; pip install snakemake-"),
        (["--executor", "slurm", "--jobs", "3", "--workflow-profile", "."], "holds no settings of Snakemake"),
    ],
)
def test_a_build_on_a_cluster_that_cannot_be_is_refused(checkout, capfd, options, sentence):
    checkout.notebook("30_alone", "1 + 1")
    assert cli.main(["run", "all", *options]) == 2
    assert sentence in capfd.readouterr().err


def test_gpus_of_one_machine_are_shared_out(tmp_path, monkeypatch):
    monkeypatch.setenv(keys.ROOT, str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    assert resources.gpus() == ["4", "6", "7"] and resources.claim(0) == []
    taken = []
    for wanted, given in ((2, ["4", "6"]), (1, ["7"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")  # as another job of the build sees it
        taken.append(resources.claim(wanted))
        assert taken[-1] == given and os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(given)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert resources.claim(2) == []  # without any, the processor is used


def test_a_training_with_several_gpus_becomes_torchrun(tmp_path, monkeypatch, smoke):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    became = []
    monkeypatch.setattr(os, "execv", lambda program, words: became.extend(words))
    monkeypatch.setattr(steps, "ensure", lambda *given: None)
    marker = tmp_path / "done" / "vit"
    for name in ("vit-S1", "few_shot"):  # what is no training stays with one
        key = steps.key(smoke.profile, smoke.folder, name)
        words = ["job", "step", name, "--profile", "smoke", "--key", key, "--marker", str(marker), "--gpus", "2"]
        monkeypatch.setattr(sys, "argv", ["reefcore", "--with-parent", *words])
        assert cli.main(words) == 0 and marker.exists()
    assert became[3:] == ["--standalone", "--nproc-per-node", "2", "-m", "reefcore", "--with-parent", *became[9:]]
    assert became[9:12] == ["job", "step", "vit-S1"]


def test_a_refusal_is_not_tried_again_and_other_ends_are(tmp_path, monkeypatch, smoke, capfd):
    marker = tmp_path / "vit"
    key = steps.key(smoke.profile, smoke.folder, "vit-S1")
    words = ["job", "step", "vit-S1", "--profile", "smoke", "--key", key, "--marker", str(marker)]
    monkeypatch.setenv(keys.ROOT, str(tmp_path))
    ends = [ReefcoreError("no patches"), OSError(5, "Stale file handle", "x"), ReefcoreError("the kernel died")]
    monkeypatch.setattr(steps, "key", lambda *given: key)

    def ensure(*given):
        raise ends.pop(0)

    monkeypatch.setattr(steps, "ensure", ensure)
    assert cli.main(words) == 2 and build.refusal(marker).read_text() == "no patches."
    job = build.Job("step vit-S1 smoke", marker, (), {}, "")
    assert build.failures([job], 0) == ["step vit-S1 smoke: no patches."]
    assert cli.main([*words, "--attempt", "2"]) == 2 and len(ends) == 2
    for _ in (0, 1):
        assert cli.main(words) == 2 and not build.refusal(marker).exists()
    assert capfd.readouterr().err.count("no patches.\n") == 2


def test_plain_snakemake_reads_the_plan_of_a_cluster(checkout):
    checkout.notebook("30_alone", "1 + 1")
    command = [sys.executable, "-m", "snakemake", "-n", "--executor", "slurm", "--jobs", "2", "--retries", "1"]
    done = subprocess.run(command, cwd=checkout.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "chapter_30_alone" in said and re.search(r"mem_mb=4000\b", said) and re.search(r"runtime=120\b", said)
