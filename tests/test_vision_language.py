"""Contrastive fine-tuning on taxonomy: its texts, its loss on one process and on two, its cache, its preprocessing."""

import json

import open_clip
import pytest
import torch
import torch.multiprocessing
from torch import distributed

from reefcore import learners, recipes, vision_language, weights
from reefcore.errors import ReefcoreError

CLASSES = ["Acropora", "Fungiidae", "Pocillopora", "Porites"]
CLIP = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "patch_size": 8, "width": 32, "layers": 1, "head_width": 8},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def tiny(**changes):
    return recipes.load("bioclip_ft", changes={"model_args": CLIP, "input_size": 32} | changes)


def patches(n, seed=0):
    """Noise in which classes 0, 1 and 2 have a colour."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 4
    x = torch.randn(n, 3, 32, 32, generator=generator)
    for channel in range(3):
        x[:, channel] += (y == channel).view(-1, 1, 1)
    return x, y


def test_texts_are_the_ranks_of_worms_and_end_where_the_class_does():
    assert vision_language.taxonomy_strings(["Acropora", "Fungiidae"]) == {
        "Acropora": "Animalia Cnidaria Hexacorallia Scleractinia Acroporidae Acropora",
        "Fungiidae": "Animalia Cnidaria Hexacorallia Scleractinia Fungiidae",
    }
    with pytest.raises(ReefcoreError, match="no taxonomy is known of Turf algae, Xyz"):
        vision_language.taxonomy_strings(["Porites", "Turf algae", "Xyz"])


def test_it_learns_classes_from_a_batch_in_which_each_text_comes_often():
    recipe = tiny()
    learner = learners.build(recipe, CLASSES)
    optimiser = torch.optim.AdamW(learner.parameter_groups(recipe), lr=2e-3)
    for step in range(40):
        loss = learner(*patches(32, step))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    x, y = patches(200, 99)
    with torch.no_grad():
        assert (learner.eval().logits(x).argmax(dim=1) == y).float().mean() > 0.9


def test_the_loss_is_open_clip_s_over_texts_of_the_targets():
    learner, (x, y) = learners.build(tiny(), CLASSES), patches(8)
    image, text = learner.features(x), learner.clip.encode_text(learner.tokens[y], normalize=True)
    expected = open_clip.ClipLoss()(image, text, learner.clip.logit_scale.exp())
    assert torch.allclose(learner(x, y), expected, atol=1e-5)
    assert torch.allclose(image.norm(dim=1), torch.ones(8)) and torch.allclose(text.norm(dim=1), torch.ones(8))
    with torch.no_grad():
        learner.clip.logit_scale.fill_(9)
    assert learner.eval().logits(x).abs().max() <= 100.01


def one_of_two(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    learner, (x, y) = learners.build(tiny(), CLASSES), patches(16)
    loss = learner(x[rank::2], y[rank::2])
    loss.backward()
    distributed.barrier()
    torch.save((loss.detach(), learner.clip.visual.proj.grad), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def test_two_processes_contrast_with_each_other_s_patches(tmp_path):
    torch.multiprocessing.spawn(one_of_two, (str(tmp_path),), nprocs=2)
    losses, gradients = zip(*(torch.load(tmp_path / f"{rank}.pt") for rank in range(2)), strict=True)
    torch.manual_seed(0)
    learner, (x, y) = learners.build(tiny(), CLASSES), patches(16)
    loss = learner(x, y)
    loss.backward()
    assert torch.allclose(sum(losses) / 2, loss, atol=1e-5)
    assert torch.allclose(sum(gradients) / 2, learner.clip.visual.proj.grad, atol=1e-5)


def test_mixed_targets_are_refused():
    learner, (x, _) = learners.build(tiny(), CLASSES), patches(4)
    with pytest.raises(ReefcoreError, match="mixed classes have no text; set mixup and cutmix to 0"):
        learner(x, torch.eye(4))


def test_texts_are_encoded_once_for_evaluation_and_again_when_a_weight_changes(monkeypatch):
    learner, (x, _) = learners.build(tiny(), CLASSES).eval(), patches(4)
    calls = []
    encode = learner.clip.encode_text
    monkeypatch.setattr(learner.clip, "encode_text", lambda *a, **k: calls.append(1) or encode(*a, **k))
    with torch.inference_mode():
        first, second = learner.logits(x), learner.logits(x)
    assert len(calls) == 1 and torch.equal(first, second)
    with torch.no_grad():
        learner.clip.text_projection.mul_(-1)
        assert torch.allclose(learner.logits(x), -first, atol=1e-5)
    other = learners.build(tiny(), CLASSES)
    learner.load_state_dict(other.state_dict())
    with torch.no_grad():
        assert torch.allclose(learner.logits(x), other.eval().logits(x), atol=1e-5)
    learner.train()
    learner.logits(x).sum().backward()
    assert learner.clip.text_projection.grad is not None


def with_file(folder, preprocess_cfg, **changes):
    path = weights.save(open_clip.CLIP(**CLIP).state_dict(), folder / "clip.safetensors")
    config = {"model_cfg": CLIP, "preprocess_cfg": preprocess_cfg}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return tiny(weights=str(path), **{"model_args": {}} | changes)


def test_pretrained_weights_see_pixels_as_they_were_trained_to(tmp_path):
    pixels = torch.rand(4, 3, 32, 32)
    own = {"mean": [0.5, 0.4, 0.3], "std": [0.3, 0.2, 0.1]}
    seen = []
    for recipe in (
        with_file(tmp_path, own, mean=[0.1, 0.2, 0.3], std=[0.5, 0.6, 0.7]),
        with_file(tmp_path, own, mean=[0.3, 0.3, 0.3], std=[0.2, 0.2, 0.2]),
        with_file(tmp_path, own, model_args={"preprocess_cfg": {"mean": [0.1] * 3, "std": [0.2] * 3}}),
    ):
        learner = learners.build(recipe, CLASSES).eval()
        again = learners.build(learner.recipe, CLASSES).eval()
        again.load_state_dict(learner.state_dict())
        x = (pixels - torch.tensor(recipe.mean).view(3, 1, 1)) / torch.tensor(recipe.std).view(3, 1, 1)
        with torch.no_grad():
            assert torch.equal(again.logits(x), learner.logits(x))
            stated = recipe.model_args.get("preprocess_cfg", own)
            mean, std = (torch.tensor(stated[key]).view(3, 1, 1) for key in ("mean", "std"))
            direct = learner.clip.encode_image((pixels - mean) / std, normalize=True)
            assert torch.allclose(learner.features(x), direct, atol=1e-5)
            seen.append(direct)
    assert not torch.allclose(seen[0], seen[2], atol=1e-3)


def test_another_input_size_than_the_weights_is_refused(tmp_path):
    with pytest.raises(ReefcoreError, match="takes images of 32 pixels, not of 64; set input_size to 32"):
        learners.build(with_file(tmp_path, {}, input_size=64), CLASSES)
