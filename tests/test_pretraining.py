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


def test_three_quarters_are_hidden_and_the_others_untouched():
    x = torch.randn(5, 3, 32, 32)
    masked, reconstruction = autoencoder().reconstruct(x)
    hidden = (masked == 0).all(dim=1)
    assert hidden.reshape(5, 4, 8, 4, 8).float().mean(dim=(2, 4)).unique().tolist() == [0, 1]
    assert hidden.flatten(1).float().mean(dim=1).tolist() == [0.75] * 5
    assert len({tuple(one.flatten().tolist()) for one in hidden}) == 5  # each image its own mask
    seen = ~hidden[:, None].expand_as(x)
    assert torch.equal(masked[seen], x[seen]) and torch.equal(reconstruction[seen], x[seen])
    assert not torch.equal(reconstruction[~seen], x[~seen])


def test_masks_follow_torch_s_seed():
    learner, x = autoencoder(), waves(3)
    masked = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masked.append(learner.reconstruct(x)[0])
    assert torch.equal(masked[0], masked[1]) and not torch.equal(masked[0], masked[2])


def test_the_loss_sees_hidden_patches_only_whatever_their_brightness_and_contrast():
    learner, x = autoencoder().eval(), torch.randn(4, 3, 32, 32)
    torch.manual_seed(1)
    masked, _ = learner.reconstruct(x)
    losses = []
    for changed in (x, torch.where(masked == 0, 3 * x + 1, x), torch.where(masked == 0, x.flip(3), x)):
        torch.manual_seed(1)
        losses.append(learner(changed, None).item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] != pytest.approx(losses[0], rel=1e-3)


def test_it_learns_to_fill_in_what_it_does_not_see():
    recipe = recipes.load("mae_pretraining", changes=TINY)
    learner, x = learners.build(recipe, []), waves(2).repeat(8, 1, 1, 1)
    optimiser = torch.optim.AdamW(learner.parameter_groups(recipe), lr=1e-3)
    first = learner.reconstruct(x)[1]
    for _ in range(250):
        loss = learner(x, None)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    last = learner.reconstruct(x)[1]
    assert (last - x).square().mean() < 0.3 * (first - x).square().mean()


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
