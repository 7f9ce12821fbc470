"""Fine-tuning on taxonomy: loss, cache, preprocessing. Frozen encoders: loading, preprocessing, texts, scores."""

import json
import sys

import numpy as np
import open_clip
import pytest
import torch
import torch.multiprocessing
from PIL import Image
from torch import distributed

from reefcore import learners, recipes, weights
from reefcore.errors import ReefcoreError
from reefcore.vision_language import class_features, classify, load

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


OWN = {"mean": [0.5, 0.4, 0.3], "std": [0.3, 0.2, 0.1]}


def folder(path, model_cfg=CLIP, prepared=OWN, state=None):
    """Write what a repository of open_clip holds; return its path."""
    path.mkdir(exist_ok=True)
    config = {"model_cfg": model_cfg} | ({} if prepared is None else {"preprocess_cfg": prepared})
    (path / "open_clip_config.json").write_text(json.dumps(config))
    weights.save(state or open_clip.CLIP(**CLIP).state_dict(), path / "open_clip_model.safetensors")
    return path


def photos(n, side=32, seed=0):
    """Patches with edges and every brightness, where ways to resize differ."""
    rng = np.random.default_rng(seed)
    return rng.choice([0, 60, 200, 255], (n, side, side, 3)).astype(np.uint8)


@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("side", [24, 32, 75])
def test_patches_are_prepared_as_open_clip_prepares_photos(tmp_path, mode, interpolation, side):
    given = OWN | {"resize_mode": mode, "interpolation": interpolation}
    encoder = load("mine", folder(tmp_path, prepared=given))
    patches = photos(5, side)
    transform = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(size=32, **given), is_train=False
    )
    expected = torch.stack([transform(Image.fromarray(patch)) for patch in patches])
    found = encoder.prepared(patches)
    levels = (found - expected).abs() * torch.tensor(OWN["std"]).view(3, 1, 1) * 255
    # Both resize in 8 bits, in two passes; a value near a half may round the other way in each of them.
    assert levels.max() < (2.01 if side != 32 else 1e-3) and levels.mean() < 0.03


def test_features_are_open_clip_s_own_of_unit_length_whatever_the_batch(tmp_path):
    path = folder(tmp_path, CLIP | {"quick_gelu": True})
    encoder, patches = load("mine", path), photos(7)
    clip, _, transform = open_clip.create_model_and_transforms(f"local-dir:{path}")
    with torch.inference_mode():
        x = torch.stack([transform(Image.fromarray(patch)) for patch in patches])
        expected = clip.eval().encode_image(x, normalize=True).numpy()
        texts = clip.encode_text(open_clip.tokenize(["a coral"], 24), normalize=True).numpy()
    found = encoder.images(patches, batch=3)
    assert found.dtype == np.float32 and np.allclose(found, expected, atol=1e-5)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert np.allclose(encoder.texts(["a coral"]), texts, atol=1e-5)
    assert np.array_equal(load("mine", path).images(patches, batch=3), found)
    plain = load("mine", folder(tmp_path, CLIP, state=clip.state_dict()))  # the same weights, another activation
    assert not np.allclose(plain.images(patches), found, atol=1e-4)


@pytest.mark.parametrize(
    ("patches", "said"),
    [
        (photos(2).astype(np.float32) / 255, "not float32"),
        (photos(2)[:, :20], r"not uint8 \(2, 20, 32, 3\)"),
        (photos(2)[0], r"not uint8 \(32, 32, 3\)"),
        (photos(2)[:0], r"not uint8 \(0, 32, 32, 3\)"),
    ],
)
def test_other_than_8_bit_square_patches_are_refused(tmp_path, patches, said):
    with pytest.raises(ReefcoreError, match=f"patches must be 8-bit of shape .*{said}"):
        load("mine", folder(tmp_path)).images(patches)


@pytest.mark.parametrize(
    ("prepared", "said"),
    [
        (None, "no preprocess_cfg"),
        ({}, "no mean"),
        ({"hf_hub": "r/c"}, "no mean"),
        ({"mean": [0.5] * 3}, "no std"),
        (OWN | {"mean": None}, "no mean"),
        (OWN | {"mean": [0.5]}, "mean must be three numbers"),
        (OWN | {"std": 0.5}, "not iterable"),
        (OWN | {"std": [0.5, 0.5, 0]}, "std must be above zero"),
        (OWN | {"interpolation": "random"}, "interpolation may be bicubic, bilinear, not 'random'"),
        (OWN | {"resize_mode": "crop"}, "resize_mode may be shortest, longest, squash, not 'crop'"),
        ("none", "no attribute"),
    ],
)
def test_weights_without_their_preprocessing_are_refused(tmp_path, prepared, said):
    path = folder(tmp_path, prepared=prepared)
    with pytest.raises(ReefcoreError, match=rf"open_clip_config.json: CLIP weights need their prep.*\(.*{said}"):
        load("mine", path)


def test_a_recipe_states_the_preprocessing_that_a_configuration_leaves_out_and_no_more(tmp_path):
    stated = {"mean": [0.1] * 3, "std": [0.2] * 3}
    path, patches = folder(tmp_path, prepared={"hf_hub": "as BioCLIP has it"}), photos(2)
    seen = load("mine", path, stated).prepared(patches)
    assert torch.allclose(seen, (torch.from_numpy(patches).permute(0, 3, 1, 2) / 255 - 0.1) / 0.2, atol=1e-5)
    path = folder(tmp_path)
    assert torch.equal(load("mine", path, stated).prepared(patches), load("mine", path).prepared(patches))


def other(key, value, part=None):
    changed = {**CLIP[part], key: value} if part else value
    return CLIP | {part or key: changed}


@pytest.mark.parametrize(
    ("model_cfg", "said"),
    [
        (other("embed_dim", 16), "no weights of mine .*size mismatch"),
        (other("layers", 2, "vision_cfg"), "no weights of mine .*Missing key"),
        (other("image_size", 64, "vision_cfg"), "no weights of mine .*visual.positional_embedding"),
        (
            other("context_length", 30, "text_cfg"),
            r"no weights of mine .*positional_embedding is \(24, 16\) in the file",
        ),
        ({"embed_dim": 32}, "no weights of mine .*text_cfg"),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights_is_refused(tmp_path, model_cfg, said):
    with pytest.raises(ReefcoreError, match=said):
        load("mine", folder(tmp_path, model_cfg))


def test_a_folder_without_weights_with_cut_weights_or_with_other_sizes_or_words_is_refused(tmp_path):
    with pytest.raises(ReefcoreError, match=r"CLIP weights need their preprocessing.*No such file"):
        load("mine", tmp_path / "nowhere")
    with pytest.raises(ReefcoreError, match="must take square images of one size, not 32, 64 pixels"):
        load("mine", folder(tmp_path, prepared=OWN | {"size": [64, 64]}))
    words = other("vocab_size", 99, "text_cfg")
    with pytest.raises(ReefcoreError, match="vocabulary of its own and names no tokenizer"):
        load("mine", folder(tmp_path, words, state=open_clip.CLIP(**words).state_dict()))
    file = folder(tmp_path) / "open_clip_model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ReefcoreError, match=r"open_clip_model.safetensors: these are no weights of mine"):
        load("mine", tmp_path)
    file.unlink()
    with pytest.raises(ReefcoreError, match=r"there are no weights of mine; put open_clip_model.safetensors there"):
        load("mine", tmp_path)


def test_each_distinct_text_is_encoded_once(tmp_path, monkeypatch):
    encoder, read = load("mine", folder(tmp_path)), []
    encode = encoder.clip.encode_text
    monkeypatch.setattr(
        encoder.clip, "encode_text", lambda tokens, **k: read.append(len(tokens)) or encode(tokens, **k)
    )
    first = encoder.texts(["Porites", "Acropora", "Porites"])
    again = encoder.texts(["Acropora", "a photo of Porites", "Porites"])
    assert sum(read) == encoder.encoded == 3 and first.dtype == np.float32
    assert (
        np.array_equal(first[0], first[2]) and np.array_equal(again[2], first[0]) and np.array_equal(again[0], first[1])
    )


def test_a_text_that_is_too_long_is_named(tmp_path, caplog):
    encoder = load("mine", folder(tmp_path))
    just, long = " ".join(["coral"] * 22), " ".join(["coral"] * 23)
    encoder.texts([just, long])
    encoder.texts([long])
    assert encoder.cut == [long] and len(caplog.records) == 1
    assert "1 texts are longer than the model reads (24 tokens)" in caplog.text


def test_a_class_is_the_direction_of_the_mean_of_its_texts(tmp_path):
    encoder = load("mine", folder(tmp_path))
    found = class_features(encoder, {"Porites": ["a", "b", "c"], "Acropora": ["d"]})
    mean = encoder.texts(["a", "b", "c"]).mean(axis=0)
    assert np.allclose(found, [mean / np.linalg.norm(mean), encoder.texts(["d"])[0]], atol=1e-6)
    assert found.dtype == np.float32


def test_scores_are_a_softmax_of_scaled_cosines_and_rank_as_those_of_a_sigmoid():
    generator = torch.Generator().manual_seed(0)
    images, classes = (torch.nn.functional.normalize(torch.randn(n, 16, generator=generator), dim=1) for n in (500, 39))
    found = classify(images.numpy(), classes.numpy(), 100.0)
    assert found.dtype == np.float32
    assert np.allclose(found, (100 * images @ classes.T).softmax(dim=1).numpy(), atol=1e-5)
    sigmoid = torch.sigmoid((10 * images @ classes.T).double() - 12.9)  # scale and bias as of SigLIP
    scores = classify(images.numpy(), classes.numpy(), 10.0)
    assert np.array_equal(np.argsort(scores, axis=1), np.argsort(sigmoid.numpy(), axis=1))
    assert np.isfinite(classify(images.numpy(), classes.numpy(), 1e4)).all()


def test_words_of_its_own_need_transformers(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    path = folder(tmp_path, other("hf_tokenizer_name", "r/words", "text_cfg"))
    with pytest.raises(ReefcoreError, match=r"the package transformers reads; pip install 'reefcore\[language\]'"):
        load("mine", path)
