"""What a recipe trains: heads for genera and families, their losses, their parameter groups, their checkpoints."""

import itertools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from reefcore import learners, recipes, weights
from reefcore.errors import ReefcoreError

GENERA = ["Acropora", "Montipora", "Porites", "Fungiidae"]
FAMILIES = {"Acropora": "Acroporidae", "Montipora": "Acroporidae", "Porites": "Poritidae", "Fungiidae": "Fungiidae"}
TINY = {"library": "timm", "model": "test_vit", "model_args": {"img_size": 32, "patch_size": 8}, "input_size": 32}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def x():
    return torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def tiny(name="vit", **changes):
    return recipes.load(name, changes=TINY | changes)


TARGET = torch.tensor([0, 1, 2, 3, 0, 2])


@pytest.mark.parametrize("name", [name for name in recipes.names() if recipes.load(name).weights == "scratch"])
def test_every_sample_recipe_takes_a_step(name):
    recipe = recipes.load(name)
    learner = learners.build(recipe, GENERA, counts=[40, 30, 20, 10], families=FAMILIES)
    patches = torch.randn(6, 3, recipe.input_size, recipe.input_size)
    learner(patches, TARGET).backward()
    grouped = [p for group in learner.parameter_groups(recipe) for p in group["params"]]
    trained = [p for p in learner.parameters() if p.requires_grad]
    assert {id(p) for p in grouped} == {id(p) for p in trained} and len(grouped) == len(trained)
    assert all(p.grad is not None for p in trained)  # DistributedDataParallel stops where one is left out
    if learner.classes:
        assert learner.classes == GENERA
        with torch.no_grad():
            scores = learner.eval().logits(patches)
            assert scores.shape == (6, 4) and learner.features(patches).shape[0] == 6
            if recipe.library == "timm":  # features and head are the model itself, cut in two
                assert torch.allclose(scores, learner.model(patches), atol=1e-5)


def test_the_loss_is_the_recipe_s_with_its_smoothing_and_counts(x):
    learner = learners.build(tiny(label_smoothing=0.1), GENERA).eval()
    assert torch.allclose(learner(x, TARGET), F.cross_entropy(learner.logits(x), TARGET, label_smoothing=0.1))
    balanced = learners.build(tiny("loss_cb_ce"), GENERA, counts=[1000, 10, 10, 10]).eval()
    assert balanced(x, torch.zeros(6).long()) < 0.2 * F.cross_entropy(balanced.logits(x), torch.zeros(6).long())
    with pytest.raises(ReefcoreError, match="cb_ce needs the training points"):
        learners.build(tiny("loss_cb_ce"), GENERA)


def test_a_head_of_two_layers_takes_the_place_of_a_linear_layer_only(x):
    tops = {"test_resnet": "fc", "test_efficientnet": "classifier", "test_convnext": "head.fc", "test_vit": "head"}
    for model, place in tops.items():
        args = {"img_size": 32} if "vit" in model else {}
        recipe = replace(recipes.load("substrate/resnet18"), model=model, model_args=args)
        learner = learners.build(recipe, GENERA, counts=[4, 3, 2, 1]).eval()
        assert learner.model.get_submodule(place)[0].out_features == 64
        assert torch.allclose(learner.logits(x), learner.model(x), atol=1e-5)
    with pytest.raises(ReefcoreError, match="the last layer of test_byobnet is of type Identity; choose"):
        learners.build(replace(recipe, model="test_byobnet", model_args={}), GENERA[:0], [1])


def test_two_heads_add_the_loss_of_families_that_follow_from_genera(x):
    recipe = tiny("vit_two_heads", task_args={"family_weight": 0.5})
    learner = learners.build(recipe, GENERA, families=FAMILIES).eval()
    assert learner.families == ["Acroporidae", "Fungiidae", "Poritidae"]
    family = torch.tensor([0, 0, 2, 1, 0, 2])
    genus_loss = F.cross_entropy(learner.logits(x), TARGET)
    expected = genus_loss + 0.5 * F.cross_entropy(learner.family_logits(x), family)
    assert torch.allclose(learner(x, TARGET), expected)
    soft = F.one_hot(TARGET, 4).float()
    assert torch.allclose(learner(x, soft), expected, atol=1e-6)
    mixed = (soft + soft.flip(0)) / 2
    shares = (F.one_hot(family, 3) + F.one_hot(family, 3).flip(0)) / 2
    expected = F.cross_entropy(learner.logits(x), mixed) + 0.5 * F.cross_entropy(learner.family_logits(x), shares)
    assert torch.allclose(learner(x, mixed), expected, atol=1e-6)


def test_a_genus_without_a_family_is_named():
    with pytest.raises(ReefcoreError, match="the family of Porites, Fungiidae is not given"):
        learners.build(tiny("vit_two_heads"), GENERA, families={"Acropora": "A", "Montipora": "A"})


def test_layers_decay_towards_the_input_and_norms_and_biases_are_not_decayed():
    recipe = tiny(layer_decay=0.5, weight_decay=0.1)
    learner = learners.build(recipe, GENERA)
    scale = {id(p): group["lr_scale"] for group in learner.parameter_groups(recipe) for p in group["params"]}
    blocks = [scale[id(block.attn.qkv.weight)] for block in learner.model.blocks]
    assert scale[id(learner.model.head.weight)] == 1
    assert [b / a for a, b in itertools.pairwise(blocks)] == [2.0] * (len(blocks) - 1)
    assert scale[id(learner.model.patch_embed.proj.weight)] < blocks[0]
    two = learners.build(tiny("vit_two_heads"), GENERA, families=FAMILIES)
    for one in (recipe, replace(recipe, layer_decay=1.0)):
        decay = {id(p): group["weight_decay"] for group in two.parameter_groups(one) for p in group["params"]}
        model = two.model
        kept = [model.blocks[0].norm1.weight, model.head.bias, model.pos_embed, model.cls_token, two.family_head.bias]
        assert {decay[id(p)] for p in kept} == {0}
        assert decay[id(model.head.weight)] == decay[id(two.family_head.weight)] == 0.1


def test_drop_path_and_channels_last_reach_the_model():
    learner = learners.build(tiny(drop_path=0.3), GENERA)
    assert learner.model.blocks[-1].drop_path1.drop_prob == pytest.approx(0.3)
    assert learner.model.patch_embed.proj.weight.is_contiguous(memory_format=torch.channels_last)


def test_a_checkpoint_is_rebuilt_from_its_recipe_with_nothing_to_fetch(x, tmp_path):
    first = learners.build(tiny("vit_two_heads"), GENERA, families=FAMILIES)
    path = weights.save(first.state_dict(), tmp_path / "first.safetensors")
    second = learners.build(tiny("vit_two_heads", weights=str(path)), GENERA, families=FAMILIES)
    again = learners.build(second.recipe, GENERA, families=FAMILIES)
    again.load_state_dict(second.state_dict())
    assert second.recipe.weights == "scratch"
    assert torch.equal(again.eval().logits(x), second.eval().logits(x))
    assert torch.equal(second.model.pos_embed, first.model.pos_embed)


def test_weights_of_a_recipe_must_be_given():
    with pytest.raises(ReefcoreError, match="starts from the weights of mae_pretraining; train mae_pretraining"):
        learners.build(recipes.load("vit_mae"), GENERA)
