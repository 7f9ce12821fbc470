"""What training costs: counts against models that are known, and the estimate against its formula."""

import numpy as np
import pytest

from reefcore import cost, learners, recipes
from reefcore.errors import ReefcoreError


@pytest.mark.parametrize(
    ("name", "parameters", "flops"),
    [
        ("resnet101", 42.6e6, 2 * 7.8e9),  # 44.5 million with 1,000 classes; multiply-adds as timm's model card
        ("swin_b", 86.8e6, 2 * 15.4e9),  # 87.8 million with 1,000 classes
        ("bioclip_ft", 149.6e6, 2 * 17.6e9),  # CLIP's ViT-B/16; its image side as ViT-B/16
        (
            "mae_pretraining",
            329e6,
            2 * (0.25 * 61.6e9 + 5.2e9),
        ),  # ViT-L/16 on a quarter, and the decoder
    ],
)
def test_full_models_have_their_known_size(name, parameters, flops):
    found = cost.of(recipes.load(name, "full"))
    assert found["parameters"] == pytest.approx(parameters, rel=0.01)
    assert found["flops"] == pytest.approx(flops, rel=0.05)


def test_counts_are_those_of_the_model_that_is_trained_and_of_one_patch():
    recipe = recipes.load("vit", "sample")
    model = learners.build(recipe, [f"class {i}" for i in range(cost.CLASSES)])
    found = cost.of(recipe)
    assert found["parameters"] == sum(part.numel() for part in model.parameters())
    assert cost.of(recipes.load("vit", "sample", {"batch_size": 7})) == found


def test_hours_follow_the_formula_and_do_not_overflow():
    assert cost.gpu_hours(1e9, 3600, 10, peak=1e12, utilisation=0.3) == pytest.approx(3 * 1e9 * 10 / 0.3e12)
    flops = np.array([382_130_632_704])  # whole numbers, whose product is past 64 bits
    assert cost.gpu_hours(flops, 733_391, 100, 125e12, 0.3)[0] == pytest.approx(622.8, rel=0.01)
    for peak, utilisation in ((0, 0.3), (1e12, 0), (1e12, 1.2)):
        with pytest.raises(ReefcoreError, match="give no time"):
            cost.gpu_hours(1, 1, 1, peak, utilisation)


def test_rows_that_share_a_model_share_its_cost():
    table = cost.table(["vit", "loss_ce", "resnet101"], "sample")
    assert table["recipe"].tolist() == ["vit", "loss_ce", "resnet101"] and table["row"].tolist()[1] == "CE"
    assert table.at[0, "flops"] == table.at[1, "flops"] != table.at[2, "flops"]
