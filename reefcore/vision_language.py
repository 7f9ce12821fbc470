"""Contrastive fine-tuning on taxonomy (BioCLIP-FT, paper section A.3.1) with open_clip. Imports torch.

A class is the text of its ranks; a patch is scored by how near its image features come to each class's text features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import open_clip
import torch
from torch import Tensor, distributed

from reefcore import taxonomy, weights
from reefcore.errors import ReefcoreError
from reefcore.learners import Learner
from reefcore.recipes import Recipe

KINGDOM = ("Animalia", "Cnidaria")  # of every hard coral; the tables of taxa begin at the class


def taxonomy_strings(classes: Iterable[str]) -> dict[str, str]:
    """Spell out the ranks of taxa, from kingdom to genus, as WoRMS has them.

    Parameters
    ----------
    classes : iterable of str
        Genera or families of hard corals, of `reefcore.taxonomy.taxa`. A family's string ends with it, as that of
        Fungiidae in ReefNet.

    Returns
    -------
    dict of str
        As ``"Animalia Cnidaria Hexacorallia Scleractinia Acroporidae Acropora"``: BioCLIP's own way to write what the
        paper writes with semicolons.

    Raises
    ------
    ReefcoreError
        Naming those that the table of taxa lacks.
    """
    lineages = {}
    for *above, family, taxon in taxonomy.taxa()[["class", "order", "family", "taxon"]].to_numpy():
        lineages[family] = (*KINGDOM, *above, family)
        lineages.setdefault(taxon, (*lineages[family], taxon))
    classes = list(classes)
    if missing := [name for name in classes if name not in lineages]:
        raise ReefcoreError(
            f"no taxonomy is known of {', '.join(missing)}", do="use accepted names of hard-coral genera or families"
        )
    return {name: " ".join(lineages[name]) for name in classes}


class TaxonomyClip(Learner):
    """A CLIP model that learns to match patches with the taxonomy strings of their classes.

    Patches arrive normalised by the recipe; pretrained weights see them normalised by their own mean and std, which
    travel with them, unless ``model_args: {preprocess_cfg: {mean: .., std: ..}}`` states others.

    Attributes
    ----------
    prompts : list of str
        The text of each class.

    Raises
    ------
    ReefcoreError
        Where the model cannot be had or takes another input size than the recipe's, or a class is no known taxon.
    """

    def __init__(self, recipe: Recipe, classes: list[str]):
        super().__init__(recipe, classes)
        self.clip, options = weights.clip_model(recipe.model, recipe.weights, recipe.model_args)
        self.recipe = replace(self.recipe, model_args=options)
        side = self.clip.visual.image_size  # a number for a ResNet, a pair for a ViT
        side = side[0] if isinstance(side, tuple) else side
        if side != recipe.input_size:
            what = f"{recipe.model} takes images of {side} pixels, not of {recipe.input_size}"
            raise ReefcoreError(what, f"recipe {recipe.name}", f"set input_size to {side}")
        given = torch.tensor([recipe.mean, recipe.std])
        own = options.get("preprocess_cfg", {})
        wanted = torch.tensor([own.get("mean", recipe.mean), own.get("std", recipe.std)])
        self.register_buffer("scale", (given[1] / wanted[1]).view(3, 1, 1), persistent=False)
        self.register_buffer("shift", ((given[0] - wanted[0]) / wanted[1]).view(3, 1, 1), persistent=False)
        self.prompts = list(taxonomy_strings(classes).values())
        self.register_buffer("tokens", open_clip.tokenize(self.prompts, self.clip.context_length), persistent=False)
        self._known: tuple = (None, None)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Give the contrastive loss of a batch, as ``open_clip.ClipLoss``, over all processes where there are several.

        Patches of one class have one text, yet count as each other's negatives, as in the original: the loss cannot
        reach 0, and a common genus pushes its own patches apart. Every process needs a batch of the same size.
        """
        if target.is_floating_point():
            raise ReefcoreError(
                "patches of mixed classes have no text", f"recipe {self.recipe.name}", "set mixup and cutmix to 0"
            )
        present, back = target.unique(return_inverse=True)
        several = distributed.is_available() and distributed.is_initialized()
        loss = open_clip.ClipLoss(
            **self.recipe.task_args,
            rank=distributed.get_rank() if several else 0,
            world_size=distributed.get_world_size() if several else 1,
        )
        return loss(self.features(x), self._encode(self.tokens[present])[back], self._scale())

    def scored(self, features: Tensor) -> Tensor:
        return self._scale() * features @ self._class_features().T

    def features(self, x: Tensor) -> Tensor:
        """Encode normalised patches: (n, 3, side, side) -> unit vectors (n, dim)."""
        return self.clip.encode_image(x * self.scale + self.shift, normalize=True)

    def _encode(self, tokens: Tensor) -> Tensor:
        return self.clip.encode_text(tokens, normalize=True)

    def _class_features(self) -> Tensor:
        """Encode the classes' texts; for evaluation once, until a weight changes (by a step, a load, an average)."""
        if self.training:
            self._known = (None, None)
            return self._encode(self.tokens)
        state = [(p._version, p.data_ptr()) for p in self.clip.parameters()]
        if self._known[0] != state:
            with torch.no_grad():
                self._known = (state, self._encode(self.tokens).float())
        return self._known[1]

    def _scale(self) -> Tensor:
        """Give what cosines are multiplied by, at most 100 as in the original."""
        return self.clip.logit_scale.clamp(0, math.log(100)).exp()
