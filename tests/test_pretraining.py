"""Masked-autoencoder pretraining: what is hidden, what is learnt, and that fine-tuning goes on from it."""

import pytest
import torch

from reefcore import learners, recipes, weights
from reefcore.errors import ReefcoreError

TINY = {"model": "test_vit", "model_args": {"img_size": 32, "patch_size": 8}, "input_size": 32}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def autoencoder(**changes):
    return learners.build(recipes.load("mae_pretraining", changes=TINY | changes), [])


def waves(n):
    """Images that a few visible patches tell apart: the waves of `n` phases."""
    at = torch.linspace(0, 12.57, 32)
    phase = torch.linspace(0, 4.5, n).view(n, 1, 1, 1)
    return (torch.sin(at.view(1, 1, 32, 1) + phase) + torch.cos(at.view(1, 1, 1, 32) + phase)).repeat(1, 3, 1, 1)


def hidden(learner, x):
    """Where the next step hides an image: (n, 1, 32, 32), of 4 x 4 patches."""
    positions, _ = learner._predict(x)
    mask = torch.zeros(len(x), 16).scatter(1, positions, 1).bool().reshape(-1, 1, 4, 4)
    return mask.repeat_interleave(8, 2).repeat_interleave(8, 3)


def test_three_quarters_are_hidden_in_each_image_others():
    masks = hidden(autoencoder(), torch.randn(5, 3, 32, 32)).flatten(1)
    assert masks.float().mean(dim=1).tolist() == [0.75] * 5
    assert len({tuple(mask.tolist()) for mask in masks}) == 5


def test_masks_follow_torch_s_seed():
    learner, x = autoencoder(), waves(3)
    masked = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masked.append(hidden(learner, x))
    assert torch.equal(masked[0], masked[1]) and not torch.equal(masked[0], masked[2])


def test_the_loss_sees_hidden_patches_only_whatever_their_brightness_and_contrast():
    learner, x = autoencoder().eval(), torch.randn(4, 3, 32, 32)
    torch.manual_seed(1)
    mask, losses = hidden(learner, x), []
    for changed in (x, torch.where(mask, 3 * x + 1, x), torch.where(mask, x.flip(3), x)):
        torch.manual_seed(1)
        losses.append(learner(changed, None).item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] != pytest.approx(losses[0], rel=1e-3)


def test_it_learns_to_fill_in_what_it_does_not_see():
    recipe = recipes.load("mae_pretraining", changes=TINY)
    learner, x = learners.build(recipe, []), waves(2).repeat(8, 1, 1, 1)
    optimiser = torch.optim.AdamW(learner.parameter_groups(recipe), lr=1e-3)
    first = learner(x, None).item()
    for _ in range(170):
        loss = learner(x, None)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert learner(x, None).item() < 0.3 * first


@pytest.mark.parametrize("more", [{}, {"global_pool": "avg"}, {"reg_tokens": 2}])
def test_fine_tuning_goes_on_from_the_encoder(tmp_path, more):
    arguments = {"model_args": TINY["model_args"] | more}
    encoder = autoencoder(**arguments).encoder_state()
    path = weights.save(encoder, tmp_path / "encoder.safetensors")
    recipe = recipes.load("vit", changes=TINY | arguments)
    learner = learners.build(recipe, ["Porites", "Acropora"], weights=str(path))
    missing, unexpected = learner.model.load_state_dict(encoder, strict=False)
    assert missing == ["head.weight", "head.bias"] and unexpected == []
    assert all(torch.equal(learner.model.state_dict()[key], value) for key, value in encoder.items())
    assert learner.model.pos_embed.requires_grad
    assert learner(torch.randn(2, 3, 32, 32), torch.tensor([0, 1])).isfinite()


def test_only_a_vit_can_be_pretrained():
    with pytest.raises(ReefcoreError, match="masked pretraining needs a ViT, which test_resnet is not"):
        autoencoder(model="test_resnet", model_args={})
