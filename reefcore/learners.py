"""Learners: what a recipe trains, as torch modules that know their own loss. Imports torch.

One interface serves every row of the published tables: genus and family heads here, masked pretraining in
`reefcore.pretraining`, contrastive fine-tuning in `reefcore.vision_language`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reefcore import losses, weights
from reefcore.errors import ReefcoreError
from reefcore.recipes import Recipe


class Learner(nn.Module):
    """A model with its loss.

    Attributes
    ----------
    classes : list of str
        What it scores, in the order of its outputs; empty for pretraining.
    recipe : Recipe
        The recipe from which `build` makes the same architecture with nothing to fetch: what a checkpoint keeps.
    """

    classes: list[str]
    recipe: Recipe

    def __init__(self, recipe: Recipe, classes: list[str]):
        super().__init__()
        self.recipe, self.classes = replace(recipe, weights="scratch"), list(classes)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Give the loss of a batch, a scalar.

        Parameters
        ----------
        x : float tensor, shape (n, 3, side, side)
            Normalised patches.
        target : int64 tensor, shape (n,), or float tensor, shape (n, classes)
            Positions in `classes`, or the shares of each class in patches that were mixed.
        """
        raise NotImplementedError

    def features(self, x: Tensor) -> Tensor:
        """Give what the scores are made of, the last layer before them: (n, 3, side, side) -> (n, dim)."""
        raise NotImplementedError

    def scored(self, features: Tensor) -> Tensor:
        """Score features: (n, dim) -> (n, classes)."""
        raise NotImplementedError

    def logits(self, x: Tensor) -> Tensor:
        """Score normalised patches: (n, 3, side, side) -> (n, classes)."""
        return self.scored(self.features(x))

    def parameter_groups(self, recipe: Recipe) -> list[dict]:
        """Group the trained parameters for an optimiser: biases and one-dimensional weights are not decayed.

        Where `recipe.layer_decay` is below 1, groups have an ``lr_scale`` (1 at the head, `layer_decay` to the power of
        the depth below), by which the trainer multiplies their learning rate.
        """
        from timm.optim import param_groups_weight_decay

        return param_groups_weight_decay(self, recipe.weight_decay)


class Classifier(Learner):
    """A model of timm with one head, linear for taxa (genera, or families) and of two layers for substrates."""

    def __init__(self, recipe: Recipe, classes: list[str], counts=None, path: str | None = None):
        super().__init__(recipe, classes)
        self.model = backbone(recipe, len(classes), path)
        if recipe.task == "substrate":
            _two_layers(self.model, len(classes), **recipe.task_args)
        self.loss = _loss(recipe, counts)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return self.loss(self.model(x), target)

    def features(self, x: Tensor) -> Tensor:
        return self.model.forward_head(self.model.forward_features(x), pre_logits=True)

    def scored(self, features: Tensor) -> Tensor:
        return self.model.get_classifier()(features)

    def parameter_groups(self, recipe: Recipe) -> list[dict]:
        from timm.optim import param_groups_layer_decay, param_groups_weight_decay

        skip = self.model.no_weight_decay() if hasattr(self.model, "no_weight_decay") else ()
        if recipe.layer_decay == 1:
            return param_groups_weight_decay(self.model, recipe.weight_decay, no_weight_decay_list=skip)
        return param_groups_layer_decay(
            self.model, recipe.weight_decay, no_weight_decay_list=skip, layer_decay=recipe.layer_decay
        )


class TwoHeads(Classifier):
    """One model with a linear head for the genus and one for the family, trained on the weighted sum of both losses.

    Attributes
    ----------
    families : list of str
        What `family_logits` scores, in order.
    """

    def __init__(self, recipe: Recipe, classes: list[str], families: Mapping[str, str], counts=None, path=None):
        super().__init__(recipe, classes, counts, path)
        of = families_of(classes, families)
        self.families = sorted(set(of))
        self.weight = recipe.task_args["family_weight"]
        position = torch.tensor([self.families.index(family) for family in of])
        self.register_buffer("membership", F.one_hot(position, len(self.families)).float(), persistent=False)
        self.family_head = nn.Linear(self.model.num_features, len(self.families))
        self.family_loss = _loss(recipe, None if counts is None else torch.tensor(counts).float() @ self.membership)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        features = self.features(x)
        genus, family = self.scored(features), self.family_head(features)
        soft = target.is_floating_point()
        of = target @ self.membership if soft else self.membership.argmax(dim=1)[target]
        return self.loss(genus, target) + self.weight * self.family_loss(family, of)

    def family_logits(self, x: Tensor) -> Tensor:
        """Score normalised patches for `families`: (n, 3, side, side) -> (n, families)."""
        return self.family_head(self.features(x))

    def parameter_groups(self, recipe: Recipe) -> list[dict]:
        from timm.optim import param_groups_weight_decay

        return super().parameter_groups(recipe) + param_groups_weight_decay(self.family_head, recipe.weight_decay)


def build(recipe: Recipe, classes: list[str], counts=None, families=None, weights: str | None = None) -> Learner:
    """Build what a recipe trains.

    Parameters
    ----------
    recipe : Recipe
    classes : list of str
        What targets are positions in: genera, or for the task 'family' families.
    counts : sequence of int, optional
        Training points per class, for class-balanced losses.
    families : dict of str, optional
        The family of each genus, for the task 'genus_family'; `Fungiidae` is its own.
    weights : path, optional
        The file that the recipe named in ``weights: recipe:<name>`` left.

    Raises
    ------
    ReefcoreError
        Where the library cannot build the model, its weights cannot be had or are another model's, or something that
        the task needs is not given.
    """
    if recipe.weights.startswith("recipe:") and weights is None:
        name = recipe.weights.removeprefix("recipe:")
        raise ReefcoreError(f"recipe {recipe.name} starts from the weights of {name}", do=f"train {name} first")
    if recipe.task == "masked":
        from reefcore.pretraining import MaskedAutoencoder

        learner = MaskedAutoencoder(recipe)
    elif recipe.library == "open_clip":
        from reefcore.vision_language import TaxonomyClip

        learner = TaxonomyClip(recipe, classes)
    elif recipe.task == "genus_family":
        learner = TwoHeads(recipe, classes, families or {}, counts, weights)
    else:
        learner = Classifier(recipe, classes, counts, weights)
    return learner.to(memory_format=torch.channels_last) if recipe.channels_last else learner


def families_of(genera: Iterable[str], families: Mapping[str, str]) -> list[str]:
    """Give the family of each genus, in order.

    Raises
    ------
    ReefcoreError
        Where `families` lacks one.
    """
    genera = list(genera)
    if missing := [genus for genus in genera if genus not in families]:
        raise ReefcoreError(f"the family of {', '.join(missing)} is not given")
    return [families[genus] for genus in genera]


def backbone(recipe: Recipe, classes: int, path: str | None = None) -> nn.Module:
    """Build a recipe's timm model with a head of so many classes, from the weights it names or from a file."""
    options = dict(recipe.model_args)
    if recipe.drop_path:
        options["drop_path_rate"] = recipe.drop_path
    return weights.timm_model(recipe.model, classes, path or recipe.weights, **options)


def _two_layers(model: nn.Module, classes: int, hidden: int, dropout: float) -> None:
    """Put Linear, ReLU, Dropout, Linear in the place of a model's last linear layer."""
    parent, _, name = model.default_cfg["classifier"].rpartition(".")
    last = model.get_classifier()
    if not isinstance(last, nn.Linear):
        what = f"the last layer of {model.default_cfg['architecture']} is of type {type(last).__name__}"
        raise ReefcoreError(what, do="choose a model that ends in a linear layer")
    layers = nn.Linear(last.in_features, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes)
    setattr(model.get_submodule(parent), name, nn.Sequential(*layers))


def _loss(recipe: Recipe, counts) -> nn.Module:
    settings = {key: getattr(recipe, key) for key in ("beta", "gamma", "alpha", "label_smoothing")}
    return losses.build(recipe.loss, counts, **settings)
