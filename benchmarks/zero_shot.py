"""Zero-shot: features of patches beside the model alone, the same as photos one by one, and scores of cached features.

Encoding patches is timed in turn with the model on tensors made before: 0.9 of its speed and more is the aim.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import Row, alternately, seconds

POINTS, CLASSES, TEXTS, DIM = 34_000, 39, 5, 512
SAMPLED = 200  # points that are scored one by one; the time is scaled up
VIT = {"image_size": 224, "patch_size": 16, "width": 192, "layers": 12, "head_width": 64}
TINY = {"image_size": 64, "patch_size": 8, "width": 64, "layers": 3, "head_width": 16}


def rows() -> Iterator[Row]:
    """Encode patches with a small and a tiny model, encode the texts of 39 classes, and score 34,000 points."""
    import torch

    torch.set_num_threads(1)
    for name, vision, n in (("small ViT", VIT, 16), ("tiny ViT", TINY, 512)):
        with tempfile.TemporaryDirectory() as folder:
            yield from _encoding(name, vision, n, Path(folder))
    yield from _scoring()


def _encoder(vision: dict, folder: Path):
    """Write a model with random weights as a repository on the hub is, and load it."""
    import open_clip

    from reefcore import vision_language, weights

    text = {"context_length": 77, "vocab_size": 49408, "width": 128, "heads": 2, "layers": 4}
    config = {"embed_dim": 128, "vision_cfg": vision, "text_cfg": text}
    prepared = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
    (folder / weights.CLIP_CONFIG).write_text(json.dumps({"model_cfg": config, "preprocess_cfg": prepared}))
    weights.save(open_clip.CLIP(**config).state_dict(), folder / weights.CLIP_FILES[0])
    return vision_language.load("benchmark", folder)


def _encoding(name: str, vision: dict, n: int, folder: Path) -> Iterator[Row]:
    import open_clip
    import torch
    from PIL import Image

    encoder, side = _encoder(vision, folder), vision["image_size"]
    patches = np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    larger = np.random.default_rng(0).integers(0, 256, (n, 2 * side, 2 * side, 3), dtype=np.uint8)
    ready = encoder.prepared(patches)
    settings = open_clip.transform.PreprocessCfg(side)
    transform = open_clip.transform.image_transform_v2(settings, is_train=False)

    def alone():
        with torch.inference_mode():
            encoder.clip.encode_image(ready, normalize=True).cpu()

    def photos():
        with torch.inference_mode():
            x = torch.stack([transform(Image.fromarray(patch)) for patch in larger]).to(encoder.device)
            encoder.clip.encode_image(x, normalize=True).cpu()

    for what, plain, given in (
        (f"{side} px", "the model on ready tensors", patches),
        (f"{2 * side} to {side} px", "open_clip's transform per photo", larger),
    ):
        way = alone if given is patches else photos
        plain_s, library_s = alternately(way, lambda given=given: encoder.images(given, batch=n))
        said = [f"{plain}: {n / plain_s:.0f}/s", plain_s, f"Encoder.images: {n / library_s:.0f}/s", library_s]
        yield Row(f"encode patches, {name}, {what}", *said)
    if vision is VIT:
        texts = {f"Genus {i}": [f"a photo {j} of genus {i}" for j in range(TEXTS)] for i in range(CLASSES)}
        yield _texts(encoder, texts)


def _texts(encoder, texts: dict[str, list[str]]) -> Row:
    import torch

    from reefcore.vision_language import class_features

    every = [text for of_class in texts.values() for text in of_class]

    def plain():
        with torch.inference_mode():
            encoder.clip.encode_text(encoder.tokenizer(every).to(encoder.device), normalize=True).cpu()

    class_features(encoder, texts)
    plain_s = seconds(plain, repeats=1)
    library_s = seconds(lambda: class_features(encoder, texts))
    return Row("texts of 39 classes, once more", "encoded again", plain_s, "class_features, cached", library_s)


def _scoring() -> Iterator[Row]:
    from reefcore.vision_language import classify

    rng = np.random.default_rng(0)
    images, classes = (rng.normal(size=(n, DIM)).astype(np.float32) for n in (POINTS, CLASSES))
    images, classes = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, classes))

    def plain():
        for image in images[:SAMPLED]:
            logits = np.array([100 * float(np.dot(image, of_class)) for of_class in classes])
            (np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()).argmax()

    plain_s = seconds(plain) * POINTS / SAMPLED
    library_s = seconds(lambda: classify(images, classes, 100.0))
    yield Row("scores of 34,000 x 39", "a loop over points and classes", plain_s, "classify", library_s)
