"""Recipes are checked before anything runs, and those of the library fit the published table."""

import dataclasses

import pandas as pd
import pytest
import yaml

from reefcore import recipes
from reefcore.errors import ReefcoreError
from reefcore.files import share


def test_every_recipe_loads_and_names_a_published_row():
    rows = set(pd.read_csv(share("data", "published", "table_03_macro_recall.csv"))["model"])
    assert {"efficientnet_tiny", "resnet_tiny", "vit_tiny_sample"} <= set(recipes.names())
    for name in recipes.names():
        recipe = recipes.load(name)
        assert recipe.name == name and recipe.paper_row in rows and not recipe.pretrained


@pytest.fixture
def changed(tmp_path):
    """Write the ResNet recipe with some keys changed or (None) left out, and return its path."""

    def write(**changes):
        values = dataclasses.asdict(recipes.load("resnet_tiny"))
        values = {key: list(v) if isinstance(v, tuple) else v for key, v in values.items() if key != "name"} | changes
        path = tmp_path / "own.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in values.items() if value is not None}))
        return path

    return write


def test_a_file_of_ones_own_is_a_recipe(changed):
    recipe = recipes.load(changed(lr=1, epochs=3))
    assert (recipe.name, recipe.lr, recipe.epochs) == ("own", 1.0, 3) and isinstance(recipe.lr, float)
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.lr = 2


def test_changes_stand_in_for_keys_of_the_file_and_are_checked_too():
    assert recipes.load("resnet_tiny", {"epochs": 2}).epochs == 2
    with pytest.raises(ReefcoreError, match=r"resnet_tiny\.yaml: unknown key 'epoch'"):
        recipes.load("resnet_tiny", {"epoch": 2})


@pytest.mark.parametrize(
    "changes, key",
    [
        ({"leraning_rate": 1}, "leraning_rate"),
        ({"lr": None}, "lr"),
        ({"lr": "fast"}, "lr"),
        ({"lr": 0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"epochs": 2.5}, "epochs"),
        ({"epochs": True}, "epochs"),
        ({"pretrained": 1}, "pretrained"),
        ({"mean": [0.1, 0.2]}, "mean"),
        ({"mean": [0.1, 0.2, "x"]}, "mean"),
        ({"std": [0.1, 0.2, 0.0]}, "std"),
        ({"optimiser": "lion"}, "optimiser"),
        ({"schedule": "linear"}, "schedule"),
        ({"colour_jitter": 1.0}, "colour_jitter"),
        ({"weight_decay": -0.1}, "weight_decay"),
        ({"batch_size": 1}, "batch_size"),
        ({"warmup_epochs": 10, "epochs": 10}, "warmup_epochs"),
        ({"min_per_class": 50, "train_per_class": 20}, "min_per_class"),
        ({"model_args": {"num_classes": 3}}, "num_classes"),
        ({"name": "other"}, "name"),
    ],
)
def test_what_cannot_be_is_refused_naming_file_and_key(changed, changes, key):
    with pytest.raises(ReefcoreError) as caught:
        recipes.load(changed(**changes))
    assert "own.yaml" in str(caught.value) and key in str(caught.value)


def test_files_that_are_no_recipes_are_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    for name in ("list.yaml", "broken.yaml", "missing.yaml"):
        with pytest.raises(ReefcoreError, match=name):
            recipes.load(tmp_path / name)
    with pytest.raises(ReefcoreError, match=r"no recipe 'resnet_huge'; choose from .*resnet_tiny"):
        recipes.load("resnet_huge")
