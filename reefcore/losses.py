"""Losses for long-tailed classes: cross-entropy, focal and their class-weighted forms. Torch is imported by `build`."""

from __future__ import annotations

import math

import numpy as np

from reefcore.errors import ReefcoreError

NAMES = ("ce", "focal", "cb_ce", "cb_focal", "cb_focal_authors", "weighted_ce", "weighted_focal")


def soft_targets(name: str) -> bool:
    """Tell whether a loss is defined for targets that mix classes: mixup, cutmix, label smoothing."""
    return name != "cb_focal_authors"


def weighs_classes(name: str) -> bool:
    """Tell whether a loss counts rare classes for more."""
    return name.startswith(("cb_", "weighted_"))


def class_weights(counts, beta: float | None = 0.9999) -> np.ndarray:
    """Weigh classes by the inverse of their effective number of training points (doi 10.1109/CVPR.2019.00949).

    Parameters
    ----------
    counts : sequence of numbers, length C
        Training points per class, in the order of the model's outputs; each above 0.
    beta : float, optional
        In [0, 1): 0 weighs all alike; towards 1 the weights approach the inverse of the counts. None: exactly that,
        and not scaled.

    Returns
    -------
    ndarray of float64, shape (C,)
        (1 - beta) / (1 - beta ** n), scaled to sum to C; for None N / n, with N the sum of the counts: C or more for
        classes that are no more frequent than the average.

    Raises
    ------
    ReefcoreError
        Where a count is not above 0 or not finite, or beta is out of range.
    """
    counts = np.asarray(counts, dtype="float64")
    if not (counts.ndim == 1 and counts.size and np.isfinite(counts).all() and (counts > 0).all()):
        raise ReefcoreError("every class needs a count of training points above 0", do="train on classes that occur")
    if beta is None:
        return counts.sum() / counts
    if not 0 <= beta < 1:
        raise ReefcoreError(f"beta must lie in [0, 1), not {beta}")
    weights = (1 - beta) / (1 - beta**counts)
    return weights * len(counts) / weights.sum()


def build(name, counts=None, beta=0.9999, gamma=2.0, alpha=0.25, label_smoothing=0.0):
    """Build a loss: a torch module called with (logits (n, C), targets) that returns the mean over the n patches.

    With CE_c = -log p_c, p the softmax of the logits, and w `class_weights`, the loss of class c is

    =================  ================================================================================================
    ce                 CE_c (``torch.nn.CrossEntropyLoss``)
    focal              alpha (1 - p_c)^gamma CE_c, alpha one factor for all classes (doi 10.1109/ICCV.2017.324)
    cb_ce              w_c CE_c. The mean is over patches: torch's weighted mean divides by the sum of their weights,
                       which takes the weight of a batch of one class out again.
    cb_focal           w_c (1 - p_c)^gamma CE_c: the class weight takes alpha's place (doi 10.1109/CVPR.2019.00949)
    cb_focal_authors   alpha (1 - p_c^w_c)^gamma w_c CE_c: the ReefNet authors' code takes p from the cross-entropy that
                       is already weighted
    weighted_ce        as cb_ce, with w_c = N / n_c, not scaled
    weighted_focal     as cb_focal, with w_c = N / n_c, not scaled: the code of the substrate paper's authors
    =================  ================================================================================================

    Targets are int64 (n,), positions of classes, or float (n, C), shares q of classes that sum to 1 (mixup, cutmix):
    the loss of a patch is then the sum of q_c times the loss of class c.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    counts : sequence of numbers, optional
        Training points per class; the losses that weigh classes need them.
    beta, gamma, alpha : float
        In [0, 1), at least 0, above 0.
    label_smoothing : float
        In [0, 1): the share of a target that is spread evenly over all classes.

    Raises
    ------
    ReefcoreError
        For an unknown name or values that make no sense, and, when called, for logits of another number of classes
        than counts, or for mixed targets where `soft_targets` says no.
    """
    import torch
    from torch.nn import functional as F

    if name not in NAMES:
        raise ReefcoreError(f"there is no loss {name!r}", do=f"choose from {', '.join(NAMES)}")
    if not (0 <= gamma < math.inf and 0 < alpha < math.inf and 0 <= label_smoothing < 1):
        given = f"gamma {gamma}, alpha {alpha}, label_smoothing {label_smoothing}"
        raise ReefcoreError(f"{given} make no loss", do="gamma is at least 0, alpha above 0, label_smoothing in [0, 1)")
    if label_smoothing and not soft_targets(name):
        raise ReefcoreError(f"the loss {name} is not defined with label smoothing", do="set label_smoothing to 0")
    if name == "ce":
        return torch.nn.CrossEntropyLoss(label_smoothing=label_smoothing)
    balanced = weighs_classes(name)
    if balanced and counts is None:
        raise ReefcoreError(f"the loss {name} needs the training points per class", do="give counts")
    factor = alpha if name in ("focal", "cb_focal_authors") else 1.0
    power = 0.0 if name.endswith("_ce") else gamma
    beta = None if name.startswith("weighted_") else beta

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            weights = torch.tensor(class_weights(counts, beta), dtype=torch.float32) if balanced else None
            self.register_buffer("weights", weights, persistent=False)  # of the data, not of the model

        def forward(self, logits, target):
            cost = -F.log_softmax(logits, dim=1)
            if balanced and logits.shape[1] != len(self.weights):
                what = f"counts of {len(self.weights)} classes do not fit {logits.shape[1]} outputs of the model"
                raise ReefcoreError(what, do="give one count per class")
            weighted = cost * self.weights if balanced else cost
            exponent = weighted if name == "cb_focal_authors" else cost
            # Where p rounds to 1 a power below 1 has no finite slope; the smallest number stands for 0.
            rest = (-torch.expm1(-exponent)).clamp_min(torch.finfo(cost.dtype).tiny)
            each = factor * rest**power * weighted
            if not target.is_floating_point():
                if not label_smoothing:
                    return each.gather(1, target[:, None]).mean()
                target = F.one_hot(target, logits.shape[1])
            elif not soft_targets(name):
                raise ReefcoreError(f"the loss {name} is not defined for mixed targets", do="set mixup and cutmix to 0")
            shares = target * (1 - label_smoothing) + label_smoothing / logits.shape[1]
            return (shares * each).sum(dim=1).mean()

    return Loss()
