"""Recipes are checked before anything runs, cover the published tables, and say where each value comes from."""

import dataclasses
import json

import pytest
import yaml

from reefcore import cli, published, recipes
from reefcore.errors import ReefcoreError

AUGMENTATIONS = {
    "randaug": "randaugment",
    "colorjitter": "colour_jitter",
    "hflip": "horizontal_flip",
    "mixup": "mixup",
    "cutmix": "cutmix",
    "randerase": "random_erasing",
}
ALL = [recipes.load(name, size) for name in recipes.names() for size in ("full", "sample")]


@pytest.mark.parametrize("number", [3, 4, 7, 8, 9, 10, 11])
def test_every_row_of_a_training_table_has_one_recipe(number):
    rows = published.wide(number).iloc[:, 0]
    for size in ("full", "sample"):
        assert sorted(r.row for r in ALL if r.size == size and number in r.tables) == sorted(rows)


def test_rows_are_trained_on_the_sets_that_their_table_prints():
    for recipe in ALL:
        if 7 in recipe.tables or recipe.name in ("vit_two_heads", "vit_family"):
            assert recipe.schemes == ("S4",)
        else:
            assert recipe.schemes == (() if recipe.task == "masked" else ("S1", "S2", "S3", "S4"))


def test_the_rows_of_table_7_have_exactly_the_augmentations_of_their_name():
    for recipe in (r for r in ALL if 7 in r.tables):
        which, _, name = recipe.row.partition("-")
        expected = {"all": set(AUGMENTATIONS), "no": set(AUGMENTATIONS) - {name}, "only": {name}}[which]
        if name == "augmentation":
            expected = set(AUGMENTATIONS) if which == "all" else set()
        assert {name for name, key in AUGMENTATIONS.items() if getattr(recipe, key)} == expected
        assert not recipe.vertical_flip and not recipe.quarter_turns


@pytest.mark.parametrize("name", recipes.names() + recipes.names("substrate"))
def test_every_full_setting_says_where_it_comes_from_in_the_file_that_sets_it(name):
    said = recipes.sources(name)
    assert set(said) == set(recipes.SETTINGS)
    for key, source in said.items():
        assert source.startswith(("paper A.3", "paper A.4.2", "authors' code", "timm", "chosen: ")), key
        assert not source.startswith("chosen: in "), f"{key} has no source in the file that sets it"


def test_what_the_paper_states_is_what_the_full_recipes_have():
    full = {recipe.name: recipe for recipe in ALL if recipe.size == "full"}
    assert (full["vit"].lr, full["vit"].epochs, full["vit"].mixup, full["vit"].cutmix) == (2e-5, 100, 0.4, 0.5)
    assert (full["vit_mae"].lr, full["vit_mae"].layer_decay) == (5e-4, 0.65)
    assert full["vit_mae"].weights == "recipe:mae_pretraining"
    assert (full["mae_pretraining"].epochs, full["mae_pretraining"].task_args["mask_ratio"]) == (800, 0.75)
    assert (full["bioclip_ft"].lr, full["bioclip_ft"].weight_decay) == (1e-4, 0.2)
    assert full["loss_cb_focal"].beta == 0.9999 and full["loss_cb_focal"].input_size == 384
    assert {full[name].input_size for name in ("convnext_l", "beit_b")} == {384}
    assert full["efficientnet_b4"].input_size == 380 and full["deit_b"].input_size == 224


@pytest.mark.parametrize("recipe", [r for r in ALL if r.size == "full" and r.library == "timm"], ids=lambda r: r.name)
def test_timm_has_the_full_models_with_weights_of_their_size(recipe):
    timm = pytest.importorskip("timm")
    config = timm.get_pretrained_cfg(recipe.model, allow_unregistered=False)
    assert config.input_size[1] == recipe.input_size
    if recipe.weights == "hub":
        assert "." in recipe.model and config.has_weights


@pytest.mark.parametrize("recipe", [r for r in ALL if r.size == "sample"], ids=lambda r: r.name)
def test_the_sample_models_are_small_and_see_sample_patches(recipe):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    x = torch.zeros(2, 3, recipe.input_size, recipe.input_size)
    if recipe.library == "open_clip":
        model = pytest.importorskip("open_clip").CLIP(**recipe.model_args)
        assert model.eval().encode_image(x).shape == (2, recipe.model_args["embed_dim"])
    else:
        model = pytest.importorskip("timm").create_model(recipe.model, num_classes=5, **recipe.model_args)
        assert model.eval()(x).shape == (2, 5)
    assert sum(p.numel() for name, p in model.named_parameters() if "token_embedding" not in name) < 0.5e6


@pytest.fixture
def own(tmp_path):
    """Write a file that extends the ViT's recipe, and return its path."""

    def write(name="own", /, **values):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"extends": "vit"} | values))
        return path

    return write


def test_a_file_of_ones_own_changes_what_it_sets_and_no_more(own):
    path = own(lr=1, full={"epochs": 30}, sample={"epochs": 2, "lr": 0.5}, sources={"epochs": "chosen: in haste"})
    full, sample = recipes.load(path, "full"), recipes.load(path)
    assert (full.name, full.size, full.lr, full.epochs, full.row) == ("own", "full", 1.0, 30, "ViT")
    assert (sample.size, sample.lr, sample.epochs) == ("sample", 0.5, 2) and isinstance(full.lr, float)
    same = dataclasses.replace(full, name="vit", lr=2e-5, epochs=100)
    assert same == recipes.load("vit", "full")
    said = recipes.sources(path)
    assert said["epochs"] == "chosen: in haste" and said["lr"] == "chosen: in own.yaml"
    assert [file.name for file, _ in recipes._chain(path)] == ["_base.yaml", "vit.yaml", "own.yaml"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        full.lr = 2


def test_changes_stand_in_for_values_of_the_file_and_are_checked_too():
    assert recipes.load("vit", "full", {"epochs": 20}).epochs == 20
    with pytest.raises(ReefcoreError, match=r"vit\.yaml: unknown key 'epoch'"):
        recipes.load("vit", changes={"epoch": 2})
    with pytest.raises(ReefcoreError, match="no size 'huge' of a recipe; choose sample or full"):
        recipes.load("vit", "huge")


@pytest.mark.parametrize(
    "values, said",
    [
        ({"leraning_rate": 1}, "unknown key 'leraning_rate'; the keys are row"),
        ({"sample": {"leraning_rate": 1}}, "unknown key 'leraning_rate' under sample"),
        ({"full": {"row": "ViT"}}, "unknown key 'row' under full"),
        ({"sources": {"lrr": "chosen"}}, "unknown key 'lrr' under sources"),
        ({"sample": [1]}, "sample must be a list of"),
        ({"name": "other"}, "'name' is not set in the file"),
        ({"extends": "vitt"}, "extends: there is no recipe 'vitt'"),
        ({"extends": "own"}, "extends: own leads back"),
        ({"extends": None}, "the key 'row' is missing; set it at the top, under sample"),
        ({"sample": {"lr": "1e-4"}}, r"lr must be of type float, not '1e-4'; write .* such as 1\.0e-4"),
        ({"lr": "fast"}, "lr must be of type float, not 'fast'"),
        ({"lr": 0}, r"lr must lie in \(0, inf\), not 0"),
        ({"lr": float("nan")}, "lr must lie in .* not nan"),
        ({"weight_decay": float("inf")}, "weight_decay must lie in"),
        ({"epochs": 2.5}, "epochs must be of type int"),
        ({"epochs": True}, "epochs must be of type int"),
        ({"channels_last": 1}, "channels_last must be of type bool"),
        ({"amp": False}, "amp must be of type str, not False; put the word in quotes"),
        ({"mean": [0.1, 0.2]}, "mean must be a list of 3 numbers"),
        ({"std": [0.1, 0.2, 0.0]}, "std must lie in"),
        ({"betas": [0.9, 1.0]}, "betas must lie in"),
        ({"schemes": "S4"}, "schemes must be a list, not 'S4'"),
        ({"schemes": ["S5"]}, "schemes must be one of .* not 'S5'"),
        ({"optimiser": "lion"}, "optimiser must be one of 'adamw', 'sgd', not 'lion'"),
        ({"colour_jitter": 1.0}, "colour_jitter must lie in"),
        ({"horizontal_flip": 1.5}, "horizontal_flip must lie in"),
        ({"layer_decay": 0.0}, "layer_decay must lie in"),
        ({"batch_size": 1}, "batch_size must lie in"),
        ({"loss": "cb_ce", "beta": 1.0}, "beta must lie in"),
        ({"loss": ""}, "loss must be one of ce, .* not empty"),
        ({"loss": "dice"}, "loss must be one of .* not 'dice'"),
        ({"loss": "cb_focal_authors", "mixup": 0.4}, "mixup mixes the classes .* loss cb_focal_authors is not defined"),
        ({"loss": "cb_focal_authors", "label_smoothing": 0.1}, "label_smoothing mixes"),
        ({"randaugment": "rand-x3"}, "randaugment 'rand-x3' is not as timm writes it"),
        ({"warmup_epochs": 10, "epochs": 10}, r"warmup_epochs \(10\) must be below epochs \(10\)"),
        ({"min_per_class": 50, "train_per_class": 20}, r"min_per_class \(50\) exceeds train_per_class \(20\)"),
        ({"sampler": "weighted"}, "sampler must be one of '', 'inverse', not 'weighted'"),
        (
            {"sampler": "inverse", "loss": "cb_ce", "sample": {"min_per_class": 0}},
            "the loss cb_ce and the sampler inverse each make up for rare classes: together they do it twice; drop one",
        ),
        ({"sampler": "inverse", "sample": {"min_per_class": 5}}, "sampler and min_per_class both bring rare classes"),
        (
            {"extends": "substrate/resnet18", "balance_twice": False, "loss": "weighted_focal", "sampler": "inverse"},
            "weighted_focal and the sampler inverse each",
        ),
        ({"extends": "substrate/resnet18", "sample": {"task_args": {"hidden": 9}}}, "must set hidden, dropout and no"),
        ({"water_jitter": 1.5}, "water_jitter must lie in"),
        ({"model_args": {"num_classes": 3, "pretrained": True}}, "model_args may not set num_classes, pretrained"),
        ({"task": "species"}, "task 'species' with library 'timm' is none of genus by timm"),
        ({"task": "family", "library": "open_clip"}, "task 'family' with library 'open_clip' is none of"),
        ({"task": "genus_family"}, "task_args of task genus_family must set family_weight and no more"),
        ({"task_args": {"family_weight": 1.0}}, "task_args of task genus must set nothing"),
        (
            {"task": "genus_family", "task_args": {"family_weight": "x"}},
            "task_args family_weight must be of type float",
        ),
        (
            {"task": "genus_family", "task_args": {"family_weight": 0}},
            r"task_args family_weight must lie in \(0, inf\)",
        ),
        ({"extends": "mae_pretraining", "loss": "ce"}, "loss means nothing here: masked by timm has its own loss"),
        ({"extends": "mae_pretraining", "mixup": 0.1}, "mixup means nothing here"),
        (
            {"extends": "mae_pretraining", "weights": "recipe:mae_pretraining"},
            "are for timm models that are fine-tuned",
        ),
        ({"extends": "bioclip_ft", "cutmix": 0.1}, "cutmix means nothing here: genus by open_clip has its own loss"),
        ({"extends": "bioclip_ft", "label_smoothing": 0.1}, "label_smoothing means nothing here"),
        ({"extends": "bioclip_ft", "layer_decay": 0.7}, "layer_decay must be 1"),
        ({"extends": "bioclip_ft", "drop_path": 0.1}, "drop_path must be 0"),
        ({"weights": "imagenet"}, "weights must be scratch, hub, recipe:NAME or a .safetensors file"),
        ({"weights": "recipe:dino"}, "weights: 'dino' is no pretraining recipe"),
        ({"weights": "recipe:resnet101"}, "weights: 'resnet101' is no pretraining recipe"),
        (
            {"weights": "recipe:mae_pretraining", "model": "test_vit"},
            "model and model_args must be those of weights mae",
        ),
        (
            {"weights": "recipe:mae_pretraining", "sample": {"model_args": {"img_size": 32}}},
            "model_args must be those of weights mae",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_with_file_and_key(own, values, said):
    with pytest.raises(ReefcoreError, match=said) as caught:
        recipes.load(own(**values))
    assert "own.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_classes_are_balanced_twice_only_where_a_recipe_says_so(own):
    base = {"extends": "substrate/resnet18"}
    assert recipes.load("substrate/resnet18", "full").balance_twice and not recipes.load("resnet101").balance_twice
    for once in ({"loss": "focal"}, {"loss": "ce"}, {"sampler": ""}):
        for may in (True, False):
            assert recipes.load(own(**base, balance_twice=may, **once), "full").balance_twice == may
    with pytest.raises(ReefcoreError, match="together they do it twice; drop one, or set balance_twice to true"):
        recipes.load(own(**base, balance_twice=False), "full")


SUBSTRATE = {
    "mobilenetv3_small": 2044195,
    "mobilenetv3_large": 4859443,
    "resnet18": 11440707,
    "efficientnet_b0": 4664959,
}


@pytest.mark.parametrize("name, parameters", SUBSTRATE.items())
def test_the_substrate_recipes_have_the_authors_models_and_settings(name, parameters):
    learners = pytest.importorskip("reefcore.learners")
    full = recipes.load(f"substrate/{name}", "full")
    assert recipes.names("substrate") == sorted(f"substrate/{one}" for one in SUBSTRATE)
    assert not [one for one in recipes.names() if "/" in one] and full.name == name
    scratch = dataclasses.replace(full, weights="scratch")
    learner = learners.build(scratch, ["No-Deploy", "Coral", "Deploy"], counts=[5460, 1508, 2046])
    assert sum(p.numel() for p in learner.parameters()) == parameters
    assert (full.lr, full.batch_size, full.input_size, full.gamma, full.schedule) == (1e-4, 96, 256, 2.0, "plateau")
    assert (full.optimiser, full.weight_decay, full.sampler, full.loss) == ("adamw", 0, "inverse", "weighted_focal")
    head = [type(layer).__name__ for layer in learner.model.get_classifier()]
    assert head == ["Linear", "ReLU", "Dropout", "Linear"] and learner.model.get_classifier()[2].p == 0.15
    counts = recipes.load(f"substrate/{name}").task_args  # the sample's, with a head as small as its models
    assert counts["hidden"] < full.task_args["hidden"] == 512


def test_a_masked_autoencoder_is_checked_by_its_own_arguments(own):
    good = recipes.load("mae_pretraining").task_args
    for key, value in {"mask_ratio": 1.0, "decoder_depth": 0, "decoder_dim": 33, "decoder_heads": 2.0}.items():
        with pytest.raises(ReefcoreError, match=f"own.yaml: task_args {key} must"):
            recipes.load(own(extends="mae_pretraining", sample={"task_args": good | {key: value}}))


def test_circles_of_files_are_found(own):
    own("a", extends="b")
    with pytest.raises(ReefcoreError, match=r"a\.yaml: extends: b leads back"):
        recipes.load(own("b", extends="a"))


def test_files_that_are_no_recipes_are_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    for name in ("list.yaml", "broken.yaml", "missing.yaml"):
        with pytest.raises(ReefcoreError, match=name):
            recipes.load(tmp_path / name)
    with pytest.raises(ReefcoreError, match=r"no recipe 'vit_huge'; choose from aug_all, .*vit_scratch"):
        recipes.load("vit_huge")
    assert not [name for name in recipes.names() if name.startswith("_")]


def test_the_command_line_lists_and_shows_recipes(capsys):
    assert cli.main(["recipes", "list"]) == 0
    text = capsys.readouterr().out
    assert "ViT (MAE pretrained)" in text and "3,8,9,10,11" in text and "test_resnet" in text
    assert cli.main(["recipes", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed] == recipes.names() + recipes.names("substrate")
    assert listed[-1].keys() == {"name", "row", "tables", "schemes", "full", "sample"}

    assert cli.main(["recipes", "show", "vit_mae"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100 and "paper A.3: 5e-4" in text
    assert cli.main(["recipes", "show", "vit_mae", "--size", "sample", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    settings = {row["key"]: row for row in shown["settings"]}
    assert shown["size"] == "sample" and list(settings) == recipes.KEYS
    assert settings["lr"] == {"key": "lr", "value": 0.004, "source": "sample; full: 0.0005"}
    assert settings["epochs"]["value"] == 6 and settings["loss"]["source"].startswith("paper A.3")
    assert cli.main(["recipes", "show", "vit_huge"]) == 2
    assert "no recipe 'vit_huge'" in capsys.readouterr().err
