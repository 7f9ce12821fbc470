"""A classifier without downloads: colour and texture of patches, and a linear discriminant that knows what it is told.

Nothing is learnt but from the labels at hand. Frozen features of any model go through the same head and the same
grouped cross-validation, so that both are compared on equal terms.
"""

from __future__ import annotations

import dataclasses
import io
import json
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import metrics, predictions
from reefcore.errors import ReefcoreError
from reefcore.files import atomic
from reefcore.patches import resized
from reefcore.tables import KNOWN

__all__ = ["NAME", "SIDE", "Classifier", "CrossValidated", "cross_validate", "features"]

NAME = "colour and texture"
SIDE = 128  # pixels: the side that patches are resized to
LEAST = 5  # points of a class, fewer than which teach nothing that could be tested
SHRUNK = 0.5  # part of the sphere in a covariance; set once, for hundreds to thousands of points
FAR = 3.0  # spreads from the mean: no feature counts for more, as those of a dark or blurred patch would
AT_ONCE = 64  # patches: bounds memory
NUMBERS = 1143  # of `features`

# sRGB to linear light (IEC 61966-2-1), and linear light to XYZ relative to the white of D65 (CIE 15).
_LEVELS = np.arange(256) / 255
_LINEAR = np.where(_LEVELS <= 0.04045, _LEVELS / 12.92, ((_LEVELS + 0.055) / 1.055) ** 2.4).astype(np.float32)
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.119192, 0.9503041]]
)
_XYZ = (_XYZ / _XYZ.sum(axis=1, keepdims=True)).T.astype(np.float32)
_RING = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
_BITS = np.arange(256)[:, None] >> np.arange(8) & 1
#: Code of eight neighbours -> its class of ten that turning the patch does not change: how many are set, or "mixed".
_UNIFORM = np.where((np.roll(_BITS, 1, axis=1) != _BITS).sum(axis=1) <= 2, _BITS.sum(axis=1), 9)


def features(patches: np.ndarray) -> np.ndarray:
    """Describe patches by colour and texture, with nothing learnt.

    Parameters
    ----------
    patches : ndarray of uint8, shape (n, side, side, 3)
        Resized to `SIDE` pixels.

    Returns
    -------
    ndarray of float32, shape (n, 1143)
        In CIE Lab: mean, spread and skewness of each channel, over the patch and over its middle half (18); shares of
        lightness, of colour (a with b), and of hue weighted by chroma (184). The same moments and shares of colour once
        more with the patch's mean colour taken for grey, against the cast of water (153; Buchsbaum 1980,
        doi:10.1016/0016-0032(80)90058-7). Completed local binary patterns of lightness at three scales (600), and of a
        and b at two (80): sign, size and centre, whichever way the patch is turned (Guo et al. 2010,
        doi:10.1109/TIP.2010.2044957). Log energy in four bands of frequency and six directions from the strongest, per
        channel (72), and shares of slopes at three scales (36). Shares are square roots, so that differences are of the
        Hellinger distance.

    Raises
    ------
    ReefcoreError
        Where these are no 8-bit colour patches.
    """
    if patches.ndim != 4 or patches.shape[3] != 3 or patches.dtype != np.uint8 or not patches.shape[1]:
        raise ReefcoreError(
            f"{patches.dtype} of shape {patches.shape} are no patches", do="give 8-bit colours, (n, side, side, 3)"
        )
    made = np.empty((len(patches), NUMBERS), dtype=np.float32)
    for start in range(0, len(patches), AT_ONCE):
        part = np.stack([resized(patch, SIDE) for patch in patches[start : start + AT_ONCE]])
        made[start : start + AT_ONCE] = _described(part)
    return made


def _described(patches: np.ndarray) -> np.ndarray:
    n, quarter = len(patches), SIDE // 4
    linear = _LINEAR[patches].transpose(0, 3, 1, 2)
    lab = _lab(linear)
    half, inner = _halved(lab), lab[:, :, quarter:-quarter, quarter:-quarter]
    light, a, b = (lab[:, i].reshape(n, -1) for i in range(3))
    found = [_moments(lab), _moments(inner), _shares(_bin(light, 0, 100, 16), 16), _colours(lab)]
    found.append(_shares(_bin(np.arctan2(b, a), -np.pi, np.pi, 24), 24, np.hypot(a, b)))
    small = _halved(linear)
    grey = _lab(np.minimum(small / np.maximum(small.mean(axis=(2, 3), keepdims=True), 1e-4) * 0.2, 1.5))
    found += [_moments(grey), _colours(grey)]
    scales = [lab[:, 0], half[:, 0], _halved(half[:, 0])]
    found += [_patterns(scale) for scale in scales]
    found += [_patterns(scale, whole=False) for i in (1, 2) for scale in (half[:, i], _halved(half[:, i]))]
    found += [_directions(half[:, i]) for i in range(3)]
    for scale in scales:
        slope = np.hypot(scale[:, 2:, 1:-1] - scale[:, :-2, 1:-1], scale[:, 1:-1, 2:] - scale[:, 1:-1, :-2])
        found.append(_shares(_bin(np.log1p(slope), 0, 4.5, 12), 12))
    return np.concatenate(found, axis=1)


def _lab(linear: np.ndarray) -> np.ndarray:
    """Turn linear red, green, blue into CIE Lab, both of shape (n, 3, height, width)."""
    xyz = np.einsum("nihw,ij->njhw", linear, _XYZ, optimize=True)
    x, y, z = np.moveaxis(np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116), 1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1).astype(np.float32)


def _halved(x: np.ndarray) -> np.ndarray:
    return (x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]) / 4


def _moments(x: np.ndarray) -> np.ndarray:
    x = x.reshape(*x.shape[:2], -1)
    mean = x.mean(axis=2)
    off = x - mean[..., None]
    square = off * off
    return np.concatenate([mean, np.sqrt(square.mean(axis=2)), np.cbrt((square * off).mean(axis=2))], axis=1)


def _bin(x: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    return np.clip(((x - low) * (bins / (high - low))).astype(np.int64), 0, bins - 1)


def _colours(lab: np.ndarray) -> np.ndarray:
    a, b = (_bin(lab[:, i], -40, 40, 12) for i in (1, 2))
    return _shares(a * 12 + b, 144)


def _shares(bins: np.ndarray, number: int, weights: np.ndarray | None = None) -> np.ndarray:
    n = len(bins)
    places = (bins.reshape(n, -1) + np.arange(n)[:, None] * number).ravel()
    counts = np.bincount(places, None if weights is None else weights.ravel(), n * number).reshape(n, number)
    return np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-9))


def _patterns(grey: np.ndarray, whole: bool = True) -> np.ndarray:
    """Count completed local binary patterns: jointly with the centre (200), or sign and size apart (20)."""
    height, width = grey.shape[1:]
    centre = grey[:, 1:-1, 1:-1]
    steps = [grey[:, 1 + y : height - 1 + y, 1 + x : width - 1 + x] - centre for y, x in _RING]
    sizes = [np.abs(step) for step in steps]
    usual = np.mean([size.mean(axis=(1, 2)) for size in sizes], axis=0)[:, None, None]
    sign, size = np.zeros(centre.shape, np.uint8), np.zeros(centre.shape, np.uint8)
    for bit, (step, length) in enumerate(zip(steps, sizes, strict=True)):
        sign |= (step >= 0).astype(np.uint8) << bit
        size |= (length >= usual).astype(np.uint8) << bit
    sign, size = _UNIFORM[sign], _UNIFORM[size]
    if not whole:
        return np.concatenate([_shares(sign, 10), _shares(size, 10)], axis=1)
    return _shares(sign * 20 + size * 2 + (centre >= centre.mean(axis=(1, 2), keepdims=True)), 200)


def _bank(side: int, bands: int = 4, directions: int = 6) -> np.ndarray:
    """Make the squared log-Gabor filters of a half spectrum, shape (bands, directions, side, side // 2 + 1)."""
    y, x = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    far, angle = np.hypot(y, x) + 1e-9, np.arctan2(y, x)
    middles = 0.35 / 2.0 ** np.arange(bands)
    rings = np.exp(-((np.log(far / middles[:, None, None]) / np.log(0.6)) ** 2))
    off = np.angle(np.exp(2j * (angle - np.pi * np.arange(directions)[:, None, None] / directions))) / 2
    return (rings[:, None] * np.exp(-((off * 1.2 * directions / np.pi) ** 2))).astype(np.float32)


_BANK = _bank(SIDE // 2)


def _directions(grey: np.ndarray) -> np.ndarray:
    """Measure the log energy of bands and directions, the strongest direction first: turning a patch changes little."""
    power = np.abs(np.fft.rfft2(grey - grey.mean(axis=(1, 2), keepdims=True))).astype(np.float32) ** 2
    energy = np.log(np.tensordot(power, _BANK, axes=([1, 2], [2, 3])) + 1e-3)
    turned = (np.arange(6) + energy.sum(axis=1).argmax(axis=1)[:, None]) % 6
    return np.take_along_axis(energy, turned[:, None], axis=2).reshape(len(grey), -1)


@dataclasses.dataclass(frozen=True, eq=False)
class Classifier:
    """A linear discriminant with one shrunk covariance, its probabilities tempered.

    The covariance within classes is the mean of what is found and of a sphere as large (Friedman 1989,
    doi:10.1080/01621459.1989.10478752), so that there may be more features than points; classes are as common as in
    training.

    Attributes
    ----------
    classes : ndarray of str, shape (classes,)
        Sorted; the order of `predict_proba`.
    mean, scale : ndarray, shape (dim,)
        Features are brought to mean 0 and spread 1 by these.
    weights, bias : ndarray, shapes (dim, classes) and (classes,)
    space, centres : ndarray, shapes (dim, k) and (classes, k)
        The directions in which classes differ, as long as the spread within classes, and where classes lie in them.
    prior : ndarray, shape (classes,)
        How common the classes were in training.
    temperature, doubt : float
        Probabilities are the softmax of the logits over the temperature, and to the share of doubt the prior.
    about : dict
        What else is to be kept with it, such as the name of the features; anything JSON can hold.
    """

    classes: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    space: np.ndarray
    centres: np.ndarray
    prior: np.ndarray
    temperature: float = 1.0
    doubt: float = 0.0
    about: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def fit(cls, x: np.ndarray, labels, tempered: tuple = (1.0, 0.0), about: dict | None = None) -> Classifier:
        """Learn from features and labels.

        Parameters
        ----------
        x : ndarray, shape (n, dim)
        labels : sequence of str, length n
        tempered : (float, float)
            Temperature and doubt; see `temper`.

        Raises
        ------
        ReefcoreError
            Where there are fewer than two classes, or features that are no finite numbers.
        """
        x, labels = np.asarray(x, dtype=np.float32), np.asarray(labels, dtype=str)
        classes, code = np.unique(labels, return_inverse=True)
        if len(classes) < 2 or x.shape != (len(labels), x.shape[-1]) or not np.isfinite(x).all():
            raise ReefcoreError(
                f"a classifier cannot learn from features of shape {x.shape} and {len(labels)} labels of "
                f"{len(classes)} classes",
                do="give finite numbers (n, dim), and labels of two classes or more",
            )
        mean, scale = x.mean(axis=0), x.std(axis=0)
        scale[scale < 1e-6] = 1
        z = np.clip((x - mean) / scale, -FAR, FAR)
        counts = np.bincount(code)
        means = np.stack([z[code == i].mean(axis=0) for i in range(len(classes))]).astype(np.float64)
        within = z - means.astype(np.float32)[code]
        covariance = (within.T @ within).astype(np.float64) * ((1 - SHRUNK) / len(z))
        covariance[np.diag_indices_from(covariance)] += SHRUNK * max(float((within**2).mean()), 1e-6)
        middle = means.mean(axis=0)
        weights = np.linalg.solve(covariance, (means - middle).T)
        bias = np.log(counts / counts.sum()) - ((means + middle) * weights.T).sum(axis=1) / 2
        length, turn = np.linalg.eigh((means - middle) @ weights)  # Gram matrix of the means once whitened
        held = length > 1e-8 * length.max()
        space = weights @ turn[:, held] / np.sqrt(length[held])
        arrays = (
            part.astype(np.float32) for part in (mean, scale, weights, bias, space, means @ space, counts / len(z))
        )
        return cls(classes, *arrays, *map(float, tempered), about or {})

    def logits(self, x: np.ndarray) -> np.ndarray:
        """Score features, before they are tempered: (n, dim) -> (n, classes)."""
        return self._scaled(x) @ self.weights + self.bias

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Give probabilities of features: (n, dim) -> float32 (n, classes), rows of sum one."""
        return _tempered(self.logits(x), self.prior, self.temperature, self.doubt)

    def known(self, x: np.ndarray) -> np.ndarray:
        """Say how near features are to the nearest class: minus the distance, in spreads within classes.

        The Mahalanobis distance (Lee et al. 2018, arXiv 1807.03888), in the directions in which classes differ.

        Returns
        -------
        ndarray of float32, shape (n,)
            At most 0; higher means known.
        """
        at = self._scaled(x) @ self.space
        square = (at**2).sum(axis=1)[:, None] - 2 * at @ self.centres.T + (self.centres**2).sum(axis=1)
        return -np.sqrt(np.maximum(square.min(axis=1), 0))

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, dtype=np.float32)
        if x.ndim != 2 or x.shape[1] != len(self.mean):
            what = f"features of shape {x.shape} are not those it was trained on, of {len(self.mean)} numbers"
            raise ReefcoreError(what, do="make them as in training")
        return np.clip((x - self.mean) / self.scale, -FAR, FAR)

    def save(self, path: str | Path) -> Path:
        """Write it as .npz: arrays and a text of JSON, nothing that runs when it is read."""
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        kept["about"] = json.dumps(self.about, sort_keys=True)
        with atomic(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **kept)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """Read what `save` wrote.

        Raises
        ------
        ReefcoreError
            Where the file is missing or is something else.
        """
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
                kept = {field.name: file[field.name] for field in dataclasses.fields(cls)}
            kept |= {name: float(kept[name]) for name in ("temperature", "doubt")}
            kept["about"] = json.loads(str(kept["about"]))
            return cls(**kept)
        except (OSError, ValueError, KeyError, EOFError, TypeError) as error:
            said = " ".join(str(error).split())[:120]
            raise ReefcoreError(f"this is no classifier ({said})", path, "give the .npz that was saved") from None


def _tempered(logits: np.ndarray, prior: np.ndarray, temperature: float, doubt: float) -> np.ndarray:
    at = logits / temperature
    p = np.exp(at - at.max(axis=1, keepdims=True))
    return ((1 - doubt) * p / p.sum(axis=1, keepdims=True) + doubt * prior).astype(np.float32)


def temper(logits: np.ndarray, prior: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Find the temperature and the doubt with the least negative log-likelihood; (1, 0) without points.

    A temperature alone (`reefcore.calibration.temperature`) would have to allow for the few labels that are wrong or
    cannot be seen, and make all answers unsure; doubt takes these on itself.

    Parameters
    ----------
    logits : ndarray, shape (n, classes)
    prior : ndarray, shape (classes,)
    truth : ndarray of int, shape (n,)
        Positions of classes; points of no class (-1), or of one that was not learnt (logit -inf), are left out.

    Returns
    -------
    temperature : float
        Between exp(-3) and exp(5).
    doubt : float
        0 to 0.5.
    """
    from scipy.optimize import minimize

    use = (truth >= 0) & np.isfinite(logits[np.arange(len(logits)), truth])
    logits, truth = logits[use].astype(np.float64), truth[use]
    if not len(truth):
        return 1.0, 0.0

    def loss(values: np.ndarray) -> float:
        p = _tempered(logits, prior, np.exp(values[0]), values[1])
        return float(-np.log(np.maximum(p[np.arange(len(p)), truth], 1e-12)).mean())

    found = minimize(loss, [1.5, 0.1], method="Nelder-Mead", bounds=[(-3, 5), (0, 0.5)], options={"xatol": 1e-3})
    return float(np.exp(found.x[0])), float(found.x[1])


@dataclasses.dataclass(frozen=True, eq=False)
class CrossValidated:
    """What a cross-validation found.

    Attributes
    ----------
    predictions : DataFrame
        Of the features that were chosen: a predictions table in the order of the points, every point answered by a
        classifier that saw no point of its group; ``known:msp`` (the largest probability) and ``known:distance`` (see
        `Classifier.known`). Points of rare classes are among them, and always wrong.
    scores : DataFrame
        ``features``, ``fold`` (1 to the number of folds, or "all": points of all folds together), ``macro_f1``,
        ``accuracy`` (fractions), ``points``.
    chosen : str
        The features with the highest macro F1 over all points; of equals the first given.
    rare : Series
        Class -> points, of classes that are never answered: fewer than 5 points, or all in one group.
    classifier : Classifier
        Trained on the chosen features of all points, tempered as is best for the answers of all folds.
    """

    predictions: pd.DataFrame
    scores: pd.DataFrame
    chosen: str
    rare: pd.Series
    classifier: Classifier


def cross_validate(
    features: Mapping[str, np.ndarray],
    labels,
    groups,
    folds: int = 5,
    seed: int = 0,
    ids=None,
    run_id: str | None = None,
) -> CrossValidated:
    """Try features of labelled points on groups of points that were not learnt from.

    Parameters
    ----------
    features : mapping of ndarray
        Name -> features of the points, (n, dim). Put first what is to be taken of equals.
    labels : sequence of str, length n
    groups : sequence, length n
        What may not be divided: the photo of each point, or photos that resemble each other.
    folds : int
        At least 2; no more than there are groups. Classes are spread evenly over folds as far as groups allow.
    seed : int
        Deals groups into folds.
    ids : sequence of str, optional
        The annotation_id of each point; by default its position.
    run_id : str, optional
        By default the name of the features that are chosen.

    Returns
    -------
    CrossValidated
        Probabilities of a fold are tempered by the answers of the other folds, never by its own.

    Raises
    ------
    ReefcoreError
        Where there are not two groups, or not two classes with 5 points in two groups.
    """
    labels = np.asarray(labels, dtype=str)
    group = pd.factorize(pd.Series(groups), sort=True)[0]
    table = pd.DataFrame({"label": labels, "group": group}).groupby("label")["group"].agg(["size", "nunique"])
    rare = table["size"][(table["size"] < LEAST) | (table["nunique"] < 2)]
    classes = table.index.difference(rare.index).to_numpy(dtype=str)
    if len(classes) < 2 or group.max(initial=-1) < 1:
        raise ReefcoreError(
            f"{len(labels)} labelled points of {len(table)} labels in {group.max(initial=-1) + 1} photos do not teach "
            f"a classifier: {len(classes)} of the labels have {LEAST} points or more in two photos or more",
            do="label more photos, or group labels",
        )
    truth = pd.Index(classes).get_indexer(labels)
    parts = _folds(labels, group, min(folds, group.max() + 1), seed)
    ids = np.arange(len(labels)).astype(str) if ids is None else ids
    tables, rows, tempered = {}, [], {}
    prior = np.bincount(truth[truth >= 0]) / (truth >= 0).sum()
    for name, x in features.items():
        logits, known = np.full((len(labels), len(classes)), -np.inf), np.zeros(len(labels))  # -inf: not learnt
        for test in parts:
            learnt = ~test & (truth >= 0)
            fitted = Classifier.fit(x[learnt], labels[learnt])
            places = np.searchsorted(classes, fitted.classes)
            logits[np.ix_(test, places)] = fitted.logits(x[test])
            known[test] = fitted.known(x[test])
        p = np.zeros(logits.shape, dtype=np.float32)
        for test in parts:
            p[test] = _tempered(logits[test], prior, *temper(logits[~test], prior, truth[~test]))
        tempered[name] = temper(logits, prior, truth)
        made = predictions.from_scores(run_id or name, ids, labels, p, list(classes))
        tables[name] = made.assign(**{f"{KNOWN}msp": p.max(axis=1), f"{KNOWN}distance": known.astype(np.float32)})
        for fold, test in [("all", np.ones(len(labels), bool)), *((str(i), part) for i, part in enumerate(parts, 1))]:
            found = metrics.score(labels[test], made["y_pred"].to_numpy()[test])
            rows.append((name, fold, found["macro_f1"], found["accuracy"], int(test.sum())))
    scores = pd.DataFrame(rows, columns=["features", "fold", "macro_f1", "accuracy", "points"])
    whole = scores[scores["fold"] == "all"].set_index("features")["macro_f1"]
    chosen = str(whole.idxmax())
    kept = truth >= 0
    fitted = Classifier.fit(
        features[chosen][kept], labels[kept], tempered[chosen], {"features": chosen, "run": run_id or chosen}
    )
    return CrossValidated(tables[chosen], scores, chosen, rare, fitted)


def _folds(labels: np.ndarray, group: np.ndarray, number: int, seed: int) -> list[np.ndarray]:
    """Deal groups into folds, each a mask of its points; folds that would be empty are left out."""
    from sklearn.model_selection import StratifiedGroupKFold

    with warnings.catch_warnings(action="ignore"):  # that rare classes are not in every fold is known
        dealt = StratifiedGroupKFold(number, shuffle=True, random_state=seed).split(labels, labels, group)
        tests = [np.isin(np.arange(len(labels)), test) for _, test in dealt]
    return [test for test in tests if test.any()]
