"""What training costs: parameters and operations of a recipe's model, and GPU-hours estimated from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from reefcore import recipes, taxonomy
from reefcore.errors import ReefcoreError
from reefcore.recipes import Recipe

CLASSES = 39  # of the paper's Table 3: the heads have that many outputs
PASSES = 3  # a training step in forward passes: the backward pass takes about two
#: What a model of the hub is built as where only its size is asked for: its configuration would be a download.
BUILT_AS = {"hf-hub:imageomics/bioclip": "ViT-B-16"}  # BioCLIP is CLIP's ViT-B/16 (Stevens et al. 2023)

_COUNTED: dict[tuple, dict[str, int]] = {}  # building a model takes a second or so


def of(recipe: Recipe) -> dict[str, int]:
    """Count the parameters of a recipe's model, and the floating-point operations of one patch's forward pass.

    The model is built without memory (torch's ``meta`` device) and without weights. A multiplication and an addition
    are two operations, as ``torch.utils.flop_counter`` counts them: matrix products, convolutions and attention,
    nothing that is small beside them. Texts of a CLIP model are encoded once per batch. Imports torch.

    Returns
    -------
    dict
        ``parameters`` (all that are trained) and ``flops``.

    Raises
    ------
    ReefcoreError
        Where the library cannot build the model.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from reefcore import learners

    taxa = sorted(taxonomy.taxa()["taxon"])[:CLASSES]
    size = replace(recipe, weights="scratch", loss=recipe.loss and "ce")  # no loss counts beside the model
    if recipe.model in BUILT_AS:
        import open_clip

        size = replace(size, model="CLIP", model_args=open_clip.get_model_config(BUILT_AS[recipe.model]))
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        learner = learners.build(size, taxa, families=taxonomy.family_of(taxa).to_dict()).train()
        x = torch.empty(recipe.batch_size, 3, recipe.input_size, recipe.input_size)
        learner(x, None) if recipe.task == "masked" else learner.logits(x)
    trained = sum(part.numel() for part in learner.parameters() if part.requires_grad)
    return {"parameters": trained, "flops": counter.get_total_flops() // recipe.batch_size}


def gpu_hours(flops, patches, epochs, peak: float, utilisation: float):
    """Estimate the GPU-hours of a training: 3 x flops x patches x epochs / (peak x utilisation).

    Parameters
    ----------
    flops, patches, epochs : float or array
        Operations of a patch's forward pass, patches of an epoch, epochs.
    peak : float
        Operations per second that the GPU's maker states for the precision in use.
    utilisation : float
        The fraction of the peak that training reaches, in (0, 1]; 0.2 to 0.4 is common.

    Raises
    ------
    ReefcoreError
        Where `peak` or `utilisation` is out of its range.
    """
    if not (peak > 0 and 0 < utilisation <= 1):
        what = f"a peak of {peak:g} operations per second and a utilisation of {utilisation:g} give no time"
        raise ReefcoreError(what, do="give a peak above 0 and a utilisation above 0 and at most 1")
    return PASSES * 1.0 * flops * patches * epochs / (peak * utilisation) / 3600  # as floats: whole numbers overflow


def table(names: Iterable[str], size: str = "full") -> pd.DataFrame:
    """List what recipes are and count; see `of`.

    Returns
    -------
    DataFrame
        ``recipe``, ``row`` (of the published tables), ``model``, ``input`` (px), ``epochs``, ``parameters``, ``flops``.
    """
    lines = []
    for name in names:
        r = recipes.load(name, size)
        key = (r.task, r.library, r.model, str(r.model_args), r.input_size)  # rows of one table often share a model
        if key not in _COUNTED:
            _COUNTED[key] = of(r)
        lines.append((r.name, r.row, r.model, r.input_size, r.epochs, *_COUNTED[key].values()))
    return pd.DataFrame(lines, columns=["recipe", "row", "model", "input", "epochs", "parameters", "flops"])
