"""Contrastive pretraining of a tiny CLIP on captioned patches (Radford et al. 2021, arXiv 2103.00020). Imports torch.

For the sample only: the model learns from invented taxa (`reefcore.sample.corpus`) and is then asked about taxa that it
never saw. It is a toy that shows how text about morphology can carry over to unseen taxa; it says nothing about corals,
about CLIP or about any published model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import open_clip
import pandas as pd
import torch
from open_clip.model import CLIP
from safetensors.torch import save_file
from torch import Tensor, nn

from reefcore.errors import ReefcoreError
from reefcore.files import atomic, write_json
from reefcore.weights import CLIP_CONFIG, CLIP_FILES

MEAN, STD = (0.4, 0.4, 0.4), (0.2, 0.2, 0.2)
BATCH, RATE, DECAY = 64, 3e-3, 0.05


def _config(side: int) -> dict:
    vision = {"timm_model_name": "test_byobnet", "timm_pool": "avg", "timm_proj": "linear", "image_size": side}
    text = {"context_length": 64, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 1}
    preprocess = {"size": side, "mode": "RGB", "mean": MEAN, "std": STD, "interpolation": "bicubic"}
    return {
        "model_cfg": {"embed_dim": 64, "vision_cfg": vision, "text_cfg": text},
        "preprocess_cfg": preprocess | {"resize_mode": "shortest", "fill_color": 0},
    }


def _turned(patches: np.ndarray, rng: np.random.Generator) -> Tensor:
    """Turn a batch by a quarter as often as `rng` says, flip it or not, and normalise it."""
    turned = np.rot90(patches, rng.integers(4), (1, 2))[:, :, :: int(rng.choice((-1, 1)))]
    x = torch.from_numpy(np.ascontiguousarray(turned)).permute(0, 3, 1, 2).float() / 255
    return ((x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]).contiguous(
        memory_format=torch.channels_last
    )


def pretrain(patches: np.ndarray, captions: pd.DataFrame, folder: str | Path, seed: int = 0, steps: int = 825) -> list:
    """Train a tiny CLIP on patches and captions, on one CPU thread, and write it as a hub repository is laid out.

    Parameters
    ----------
    patches : ndarray of uint8, shape (n, side, side, 3)
    captions : DataFrame
        ``taxon`` and ``caption`` of each patch; a batch has at most one patch of a taxon.
    folder : path
        Receives ``open_clip_config.json`` (model and preprocessing) and, last, ``open_clip_model.safetensors``.
    seed : int
        The same seed and input give the same bytes on one machine.
    steps : int
        Batches of `BATCH` patches.

    Returns
    -------
    list of float
        The loss of each step.

    Raises
    ------
    ReefcoreError
        Where patches and captions are not as many, or they show a single taxon.
    """
    if len(patches) != len(captions):
        raise ReefcoreError(f"there are {len(patches)} patches and {len(captions)} captions", do="give one for each")
    groups = list(captions.groupby("taxon").indices.values())
    if len(groups) < 2:
        raise ReefcoreError("contrast needs at least two taxa", do="make a corpus of more taxa")
    folder, config = Path(folder), _config(patches.shape[1])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, losses = _fit(config["model_cfg"], patches, list(captions["caption"]), groups, seed, steps)
    finally:
        torch.set_num_threads(threads)
    (folder / CLIP_FILES[0]).unlink(missing_ok=True)
    write_json(config, folder / CLIP_CONFIG)
    with atomic(folder / CLIP_FILES[0]) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, temporary)
    return losses


def _fit(config: dict, patches, captions: list[str], groups: list[np.ndarray], seed: int, steps: int):
    rng, model = np.random.default_rng(seed), CLIP(**config).to(memory_format=torch.channels_last)
    # The hundred words of the captions need no better embeddings than far-apart random ones, and 3 million numbers
    # need no optimiser. Captions name their aspects in any order: without positions at the start words count sooner.
    nn.init.normal_(model.token_embedding.weight).requires_grad_(False)
    nn.init.zeros_(model.positional_embedding)
    tokens = open_clip.tokenize(captions, context_length=config["text_cfg"]["context_length"])
    learnt = [weight for weight in model.parameters() if weight.requires_grad]
    decay = [{"params": [w for w in learnt if w.ndim > 1]}, {"params": [w for w in learnt if w.ndim < 2]}]
    decay[1]["weight_decay"] = 0.0
    optimiser = torch.optim.AdamW(decay, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=max(steps, 2), pct_start=0.15)
    contrast, losses = open_clip.ClipLoss(), []
    model.train()
    for _ in range(steps):
        chosen = np.array([rng.choice(groups[n]) for n in rng.permutation(len(groups))[:BATCH]])
        images = model.encode_image(_turned(patches[chosen], rng), normalize=True)
        loss = contrast(images, model.encode_text(tokens[chosen], normalize=True), model.logit_scale.exp())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, np.log(100))  # as in CLIP
        losses.append(loss.item())
    return model.eval(), losses
