"""Pretraining of the tiny CLIP: it learns, repeats, and lies in its folder as a hub repository does."""

import json

import numpy as np
import open_clip
import pandas as pd
import pytest
import torch

from reefcore import contrastive, weights
from reefcore.errors import ReefcoreError

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200), "white": (220, 220, 220)}


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    names = list(COLOURS) * 6
    patches = np.array([rng.normal(COLOURS[name], 15, (64, 64, 3)) for name in names]).clip(0, 255).astype(np.uint8)
    return patches, pd.DataFrame({"taxon": names, "caption": [f"{name} domes" for name in names]})


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    return folder, contrastive.pretrain(*corpus, folder, seed=1, steps=60)


def test_the_folder_loads_with_its_preprocessing_and_matches_texts(trained, corpus):
    folder, losses = trained
    assert sorted(path.name for path in folder.iterdir()) == [weights.CLIP_CONFIG, weights.CLIP_FILES[0]]
    preprocess = json.loads((folder / weights.CLIP_CONFIG).read_text())["preprocess_cfg"]
    assert preprocess["size"] == 64 and preprocess["mean"] == list(contrastive.MEAN)
    model, _, _ = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    model.eval()
    with torch.no_grad():
        texts = open_clip.tokenize([f"{name} domes" for name in COLOURS], context_length=model.context_length)
        x = torch.from_numpy(corpus[0]).permute(0, 3, 1, 2) / 255
        images = model.encode_image((x - contrastive.MEAN[0]) / contrastive.STD[0], normalize=True)
        answer = (images @ model.encode_text(texts, normalize=True).T).argmax(1)
    assert np.mean(np.array(list(COLOURS))[answer] == corpus[1]["taxon"]) > 0.8
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


def test_the_same_seed_gives_the_same_bytes_and_leaves_torch_as_it_was(corpus, tmp_path):
    torch.manual_seed(9)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        contrastive.pretrain(*corpus, tmp_path / name, seed=seed, steps=2)
    a, b, c = ((tmp_path / name / weights.CLIP_FILES[0]).read_bytes() for name in "abc")
    assert a == b and a != c
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads


def test_what_cannot_be_contrasted_is_refused(corpus, tmp_path):
    patches, table = corpus
    with pytest.raises(ReefcoreError, match="24 patches and 23 captions"):
        contrastive.pretrain(patches, table[:23], tmp_path)
    with pytest.raises(ReefcoreError, match="two taxa"):
        contrastive.pretrain(patches, table.assign(taxon="one"), tmp_path)
    assert list(tmp_path.iterdir()) == []
