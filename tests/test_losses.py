"""Losses agree with their formulas written out for one patch at a time, and refuse what has no meaning."""

import subprocess
import sys

import numpy as np
import pytest

from reefcore import losses
from reefcore.errors import ReefcoreError

torch = pytest.importorskip("torch")
COUNTS = [100, 30, 7, 1]
LOGITS = np.random.default_rng(0).normal(0, 2, (12, 4))
LABELS = np.arange(12) % 4


def one(name, logits, label, beta=0.9999, gamma=2.0, alpha=0.25):
    """Compute the loss of one patch as the papers and the authors' code define it."""
    p = np.exp(logits[label]) / np.exp(logits).sum()
    raw = [1 / sum(beta**k for k in range(n)) for n in COUNTS]  # 1 / effective number, summed rather than closed
    w = raw[label] * len(raw) / sum(raw)
    weighted = -w * np.log(p)
    return {
        "ce": -np.log(p),
        "focal": -alpha * (1 - p) ** gamma * np.log(p),
        "cb_ce": weighted,
        "cb_focal": (1 - p) ** gamma * weighted,
        "cb_focal_authors": alpha * (1 - np.exp(-weighted)) ** gamma * weighted,
        "weighted_ce": -sum(COUNTS) / COUNTS[label] * np.log(p),
        "weighted_focal": -sum(COUNTS) / COUNTS[label] * (1 - p) ** gamma * np.log(p),
    }[name]


def value(loss, logits, target):
    return float(loss(torch.tensor(logits), torch.tensor(target)))


@pytest.mark.parametrize("name", losses.NAMES)
@pytest.mark.parametrize("options", [{}, {"beta": 0.9, "gamma": 0.5, "alpha": 0.6}, {"gamma": 0.0}])
def test_the_mean_over_patches_of_the_formula(name, options):
    expected = np.mean([one(name, x, y, **options) for x, y in zip(LOGITS, LABELS, strict=True)])
    assert value(losses.build(name, COUNTS, **options), LOGITS, LABELS) == pytest.approx(expected, rel=1e-5)


def test_effective_numbers_of_points():
    assert losses.class_weights([1, 2, 10], beta=0.9) == pytest.approx(
        3 / np.array([1, 1.9, 6.5132156]) / (1 + 1 / 1.9 + 1 / 6.5132156), rel=1e-7
    )
    assert losses.class_weights(COUNTS, beta=0.0) == pytest.approx(np.ones(4))
    rare = losses.class_weights([1, 1000], beta=1 - 1e-9)
    assert rare[0] / rare[1] == pytest.approx(1000, rel=1e-4) and rare.sum() == pytest.approx(2)


def test_counts_are_in_the_order_of_the_outputs():
    there, back = losses.build("cb_ce", COUNTS), losses.build("cb_ce", COUNTS[::-1])
    assert value(there, LOGITS[:, ::-1].copy(), 3 - LABELS) == pytest.approx(value(back, LOGITS, LABELS))
    assert value(there, LOGITS[:1], [3]) > value(back, LOGITS[:1], [3])


def test_a_batch_of_one_class_keeps_its_weight():
    ratio = value(losses.build("cb_ce", COUNTS), LOGITS, np.full(12, 3)) / value(
        losses.build("ce"), LOGITS, np.full(12, 3)
    )
    assert ratio == pytest.approx(losses.class_weights(COUNTS)[3], rel=1e-5) and ratio > 2


@pytest.mark.parametrize("name", [name for name in losses.NAMES if losses.soft_targets(name)])
def test_mixed_targets_cost_the_mix_of_their_classes(name):
    loss, a, b = losses.build(name, COUNTS), LABELS, (LABELS + 1) % 4
    mixed = 0.3 * np.eye(4)[a] + 0.7 * np.eye(4)[b]
    expected = 0.3 * value(loss, LOGITS, a) + 0.7 * value(loss, LOGITS, b)
    assert value(loss, LOGITS, mixed) == pytest.approx(expected, rel=1e-6)
    even = np.mean([value(loss, LOGITS, np.full(12, c)) for c in range(4)])
    smooth = losses.build(name, COUNTS, label_smoothing=0.2)
    assert value(smooth, LOGITS, a) == pytest.approx(0.8 * value(loss, LOGITS, a) + 0.2 * even, rel=1e-6)
    assert value(smooth, LOGITS, mixed) == pytest.approx(0.8 * expected + 0.2 * even, rel=1e-6)


@pytest.mark.parametrize("name", losses.NAMES)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_gradients_are_finite_where_the_model_is_certain(name, gamma, kind):
    logits = (torch.eye(4) * 200).to(kind).requires_grad_()  # p of the target is exactly 1, then exactly 0
    for target in (torch.arange(4), (torch.arange(4) + 1) % 4):
        loss = losses.build(name, COUNTS, gamma=gamma)(logits, target)
        (slope,) = torch.autograd.grad(loss, logits)
        assert torch.isfinite(loss) and torch.isfinite(slope).all()


def test_class_weights_go_with_the_module_and_not_into_checkpoints():
    loss = losses.build("cb_focal", COUNTS)
    assert dict(loss.named_buffers())["weights"].shape == (4,) and not loss.state_dict()


@pytest.mark.parametrize(
    "name, options, said",
    [
        ("dice", {}, "no loss 'dice'; choose from ce, focal"),
        ("cb_ce", {}, "cb_ce needs the training points per class"),
        ("weighted_focal", {}, "weighted_focal needs the training points per class"),
        ("weighted_ce", {"counts": [3, 0]}, "above 0"),
        ("cb_ce", {"counts": []}, "above 0"),
        ("cb_ce", {"counts": [3, 0]}, "above 0"),
        ("cb_ce", {"counts": [3, float("nan")]}, "above 0"),
        ("cb_focal", {"counts": [3, 1], "beta": 1.0}, "beta must lie in"),
        ("cb_focal", {"counts": [3, 1], "beta": -0.1}, "beta must lie in"),
        ("focal", {"gamma": -1.0}, "gamma -1.0"),
        ("focal", {"gamma": float("inf")}, "gamma inf"),
        ("focal", {"alpha": float("nan")}, "alpha nan"),
        ("focal", {"alpha": 0.0}, "alpha 0.0"),
        ("ce", {"label_smoothing": 1.0}, "label_smoothing 1.0"),
        ("cb_focal_authors", {"counts": [3, 1], "label_smoothing": 0.1}, "not defined with label smoothing"),
    ],
)
def test_what_makes_no_loss_is_refused(name, options, said):
    with pytest.raises(ReefcoreError, match=said):
        losses.build(name, **options)


def test_what_does_not_fit_is_refused_when_called():
    with pytest.raises(ReefcoreError, match="counts of 2 classes do not fit 4 outputs"):
        value(losses.build("cb_ce", [3, 1]), LOGITS, LABELS)
    with pytest.raises(ReefcoreError, match="cb_focal_authors is not defined for mixed targets"):
        value(losses.build("cb_focal_authors", COUNTS), LOGITS, np.eye(4)[LABELS])


def test_names_and_class_weights_need_no_torch():
    code = "import sys; from reefcore import losses; losses.class_weights([1, 2]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
