"""Steps on few or no labels: what a profile may ask for, what the smoke profile makes, and the commands."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from reefcore import cli, few_shot, open_set, profiles, zero_shot
from reefcore.errors import ReefcoreError
from reefcore.workflow import build, experiments, steps


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"zero_shot": ("clipp",)}, "there is no zero-shot recipe 'clipp'; choose from bioclip, "),
        ({"zero_shot": ("clip_sample", "clip_sample")}, "two zero-shot recipes have the same name"),
        ({"zero_shot": ("clip_sample",), "kind": "full"}, "clip_sample is a toy of the sample profile"),
        ({"open_set": {"recipe": ["vit"]}}, "unknown key 'recipe' under open_set; use classes, "),
        ({"few_shot": {"shot": [1]}}, "unknown key 'shot' under few_shot; use epochs, "),
    ],
)
def test_a_profile_that_asks_for_what_is_not_there_is_refused(changes, sentence):
    profile = dataclasses.replace(profiles.load("smoke"), **changes)
    with pytest.raises(ReefcoreError, match=sentence):
        experiments.plan(profile)


def test_features_that_nobody_makes_are_refused_where_few_labels_are_asked_for_and_only_there(smoke):
    profile = dataclasses.replace(smoke.profile, few_shot={"settings": {"site": ["swin_b-S3"]}})
    assert "few_shot" in steps.plan(profile)
    with pytest.raises(ReefcoreError, match="'swin_b-S3' is no run of the profile, nor clip_sample; train it"):
        steps.ensure(profile, smoke.folder, "few_shot")


def test_the_smoke_profile_asks_its_toy_and_keeps_patches_and_texts_apart(smoke):
    table = smoke.table("zero_shot")
    runs = zero_shot.parts(table["run_id"].drop_duplicates())
    assert set(runs["recipe"]) == {"clip_sample"} and set(runs["test"]) <= {"S1", "S2", "S3", "U", "W"}
    assert set(runs["prompts"]) == {"name", "photo", "taxonomy", "general", "morphology"}
    scores = table.filter(like="score:").to_numpy()
    assert np.allclose(scores.sum(axis=1), 1, atol=1e-3)
    plan = steps.plan(smoke.profile)
    assert plan["zero-clip_sample"].needs[-1] == "features-clip_sample"
    other = dataclasses.replace(smoke.profile, descriptions="none.csv")
    keys = [steps.key(profile, smoke.folder, "features-clip_sample") for profile in (smoke.profile, other)]
    asks = [steps.key(profile, smoke.folder, "zero-clip_sample") for profile in (smoke.profile, other)]
    assert keys[0] == keys[1] and asks[0] != asks[1]  # other texts leave the patches encoded


def test_a_profile_without_models_has_an_empty_table(smoke):
    from reefcore import workflow

    bare = workflow.open(dataclasses.replace(smoke.profile, zero_shot=()))
    table = bare.table("zero_shot")
    assert table.empty and list(table) == ["run_id", "annotation_id", "y_true", "y_pred"]


def test_classes_kept_from_training_are_unknown_to_the_open_set_runs(smoke):
    table = smoke.table("open_set")
    known = open_set.is_known(table)
    validation = table["run_id"].str.endswith("-val")
    assert known[validation].all() and 0 < (~known).sum() < known.sum()
    assert open_set.names_of(table) == ["msp", "mls", "energy", "knn"]
    largest = table.filter(like="score:").max(axis=1)
    assert np.allclose(table["known:msp"], largest, atol=1e-4)
    assert (table["known:energy"] >= table["known:mls"]).all()


def test_few_labels_are_learnt_by_every_way_that_the_profile_names(smoke):
    table = smoke.table("few_shot")
    within = table[table["setting"] == "within"]
    assert set(within["features"]) == {"colour and texture", "clip_sample", "fine-tuned mae_pretraining"}
    assert set(table.loc[table["setting"] == "site", "features"]) == {"resnet101-S3"}
    assert set(within.loc[within["method"] == few_shot.TUNED, "shots"]) == {5}
    assert table["macro_recall"].between(0, 1).all() and within.loc[within["shots"] == 1, "repeat"].nunique() == 2


def test_in_a_sample_what_starts_from_a_run_waits_for_all_of_them(smoke):
    jobs = {job.name: job for job in build.jobs(["few_shot"], {"profile": "smoke"})}
    (marker,) = [job.marker for name, job in jobs.items() if name.startswith("step train")]
    few = next(job for name, job in jobs.items() if name.startswith("step few_shot"))
    assert marker in few.needs and not any("step resnet101-S3" in name for name in jobs)


def test_commands_list_models_and_refuse_what_cannot_be_asked(smoke, capsys, monkeypatch, tmp_path):
    assert cli.main(["zero-shot", "--list"]) == 0
    out = capsys.readouterr().out
    assert "BioCLIP" in out and "imageomics/bioclip" in out and "clip_sample" in out
    assert cli.main(["zero-shot", "--profile", "smoke"]) == 0
    assert capsys.readouterr().out.strip().endswith("clip_sample.parquet")
    monkeypatch.delenv("REEFCORE_CHAT_URL", raising=False)
    monkeypatch.delenv("REEFCORE_CHAT_LOCAL", raising=False)
    assert cli.main(["describe", "m", "--taxa", "Porites", "--output", str(tmp_path / "d.csv")]) == 2
    err = capsys.readouterr().err
    assert "REEFCORE_CHAT_URL" in err and not list(tmp_path.iterdir())
    assert cli.main(["zero-shot", "qwen2_5_vl", "--profile", "smoke"]) == 2
    assert "REEFCORE_CHAT_URL" in capsys.readouterr().err


def test_points_of_a_recipe_are_drawn_alike_and_no_more_than_it_asks(smoke):
    from reefcore.recipes import zero_shot as recipes

    recipe = dataclasses.replace(recipes.load("clip_sample"), points=7)
    first, classes = experiments._asked_points(recipe, smoke.profile, smoke.folder)
    assert first.groupby("test").size().max() == 7 and first.equals(
        experiments._asked_points(recipe, smoke.profile, smoke.folder)[0]
    )
    assert isinstance(first, pd.DataFrame) and classes == sorted(classes) and len(classes) > 5
