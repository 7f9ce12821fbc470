"""What a classifier adds to a site: labels beside the people's, cover put right for its mistakes, where to look next.

A classifier is trained on the points that people labelled and tried on photos it did not learn from; then it labels the
points that no person did. Nothing is fetched: without a checkpoint or weights at hand the features are colour and
texture (`reefcore.texture`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd

from reefcore import annotations as readers
from reefcore import benthos, cover, inference, open_set, tables, texture
from reefcore import covariates as photographs
from reefcore.errors import ReefcoreError
from reefcore.metrics import draws_of, photo_of
from reefcore.tables import COLUMNS, KNOWN, SCORE

logger = logging.getLogger(__name__)

SIDES = 32, 224  # least and most pixels of a patch's side; CoralNet's is 224
PART = 12  # of the photo's shorter side in a patch's: about what 224 is to a camera of 8 megapixels
AGAIN = 5  # times the labelled points: so many more are answered at most
KEEP = 0.95  # share of the points people labelled that counts as known
NEAR = 8  # bits that hashes of photos may differ in where they are kept together
FEW = 100  # points of a class that a cap leaves it, where it has them
SHARED = 4  # times that a corrected cover is shared out anew: little of the bias is left, and little noise has come in
SCARCE = 30  # labelled points, fewer than which a class is worth more of
FACTS = ["label", "rank", "aphia_id", "broad_category", "condition", "genus", "functional_group", "life_form"]
PHOTO = ["source", "image"]
CLASSIFIER = {
    **{"name": "str", "macro_f1": "float64", "accuracy": "float64", "chosen": "bool", "why": "str"},
    **dict.fromkeys(["points", "photos", "classes", "rare", "patch", "folds"], "int64"),
}
ANSWERS = {"y_pred": "str", "confidence": "float64", "known": "float64", "accepted": "bool"}


class Frozen(NamedTuple):
    """What gives features of patches: its name, the patch to cut (0: any), the side it reads, and the function."""

    name: str
    crop: int
    side: int
    make: Callable[[np.ndarray], np.ndarray]


def empty(why: str = "") -> dict[str, pd.DataFrame]:
    """Give the tables of `classify` without a row, or with the one that says why there is nothing."""
    rows = [(texture.NAME, np.nan, np.nan, False, why, 0, 0, 0, 0, 0, 0)] if why else []
    none = {name: kind.dtype for name, kind in COLUMNS["annotations"].items()}
    return {
        "classifier": pd.DataFrame(rows, columns=list(CLASSIFIER)).astype(CLASSIFIER),
        "predictions": pd.DataFrame(columns=list(COLUMNS["predictions"])).astype("str"),
        "machine": pd.DataFrame(columns=[*none, *ANSWERS]).astype(none | ANSWERS),
    }


def target(annotations: pd.DataFrame) -> pd.Series:
    """Say what a classifier learns to answer: ``label``, and ``label_raw`` where that is empty.

    Where the functional group is not the one of the taxon, it stands behind it: what is dead or overgrown looks unlike
    the taxon, and counts elsewhere: "Porites (Dead coral)".
    """
    named = annotations["label"].fillna(annotations["label_raw"]).astype("str")
    if "functional_group" not in annotations:
        return named
    usual = annotations["label"].map(benthos.OF_CATEGORY).astype("str")
    usual = usual.mask(annotations["rank"].isin(["species", "genus", "family", "order"]), benthos.HARD_CORAL)
    group = annotations["functional_group"].astype("str")
    other = (group.notna() & usual.notna() & annotations["label"].notna() & group.ne(usual)).fillna(False)
    return named.mask(other, named + " (" + group + ")")


def patch_side(images: pd.DataFrame) -> int:
    """Choose the side of patches in pixels: CoralNet's 224, or a twelfth of a photo's shorter side if that is less.

    Parameters
    ----------
    images : DataFrame
        ``width`` and ``height``; the median of the shorter sides counts. At least 32; 224 where no size is known.
    """
    shorter = images[["width", "height"]].min(axis=1, skipna=False).median()
    return SIDES[1] if pd.isna(shorter) else int(np.clip(shorter // PART, *SIDES))


def together(points: pd.DataFrame, pairs: pd.DataFrame | None = None, by: str = "image") -> np.ndarray:
    """Number the groups that a cross-validation may not divide: photos, with those that look the same.

    Parameters
    ----------
    points : DataFrame
        ``source``, ``image``, and ``site``, ``transect`` where `by` asks for it.
    pairs : DataFrame, optional
        See `reefcore.covariates.near_duplicates`.
    by : {'image', 'transect'}
        A photo without a transect is a group by itself.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    photo = points["source"] + "\x1f" + points["image"]
    code, names = pd.factorize(photo, sort=True)
    first = points.assign(code=code).drop_duplicates("code").sort_values("code")
    links = [np.empty((0, 2), dtype=int)]
    if pairs is not None and len(pairs):
        ends = [names.get_indexer(pairs[f"source_{s}"] + "\x1f" + pairs[f"image_{s}"]) for s in "ab"]
        both = np.column_stack(ends)
        links.append(both[(both >= 0).all(axis=1)])
    if by != "image" and by in first:
        where = [name for name in ("source", "site", by) if name in first]
        group = first.groupby(where, dropna=False).ngroup().to_numpy()
        start = pd.Series(np.arange(len(first))).groupby(group).transform("first").to_numpy()
        links.append(np.column_stack([start, np.arange(len(first))])[first[by].notna().to_numpy()])
    a, b = np.concatenate(links).T
    graph = coo_array((np.ones(len(a)), (a, b)), shape=(len(names), len(names)))
    return connected_components(graph, directed=False)[1][code]


def some(labels: pd.Series, photos: pd.Series, most: int, seed: int = 0) -> np.ndarray:
    """Draw points where there are too many: classes as common as they are, but at least 100 of each, over many photos.

    Returns
    -------
    ndarray of int
        Positions, rising; all where there are no more than `most`. A little over `most` where many classes are rare.
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    order = np.random.default_rng(seed).permutation(len(labels))
    drawn = pd.DataFrame({"label": labels.to_numpy()[order], "photo": photos.to_numpy()[order], "at": order})
    drawn["turn"] = drawn.groupby(["label", "photo"]).cumcount()  # a second point of a photo after the first of all
    drawn = drawn.sort_values("turn", kind="stable")
    count = drawn.groupby("label")["at"].transform("size")
    quota = np.maximum(np.minimum(count, FEW), count * most // len(labels))
    return np.sort(drawn.loc[drawn.groupby("label").cumcount() < quota, "at"].to_numpy())


def frozen(checkpoint: str | Path = "", weights: str = "") -> Frozen:
    """Load a model whose features are used as they are. Nothing is fetched from a network.

    Parameters
    ----------
    checkpoint : path
        Of `reefcore train`, .safetensors; comes first.
    weights : str
        A folder with a model of open_clip as the hub has it, ``hf-hub:`` and the repository of one, or the name of a
        model of timm; the last two from the cache of the Hugging Face hub.

    Raises
    ------
    ReefcoreError
        Where they are not at hand, or are something else.
    """
    if checkpoint:
        from reefcore import fitting

        fitted = fitting.load(checkpoint)
        side = fitted.recipe.input_size
        return Frozen(Path(checkpoint).stem, fitted.crop, side, lambda patches: fitting.features(fitted, patches))
    with _offline():
        if Path(weights).is_dir() or weights.startswith("hf-hub:"):
            from reefcore import vision_language

            folder = Path(weights).is_dir()
            name = Path(weights).name if folder else weights.removeprefix("hf-hub:")
            encoder = vision_language.load(name, weights if folder else "hub")
            return Frozen(name, 0, encoder.side, encoder.images)
        return _of_timm(weights)


def _of_timm(name: str) -> Frozen:
    import torch

    from reefcore.weights import timm_model

    model = timm_model(name, 0, "hub").eval()
    config = model.pretrained_cfg
    mean, std = (torch.tensor(config[key]).view(1, 3, 1, 1) for key in ("mean", "std"))

    @torch.inference_mode()
    def make(patches: np.ndarray) -> np.ndarray:
        parts = torch.from_numpy(np.ascontiguousarray(patches)).permute(0, 3, 1, 2).split(64)
        return torch.cat([model((part.float() / 255 - mean) / std) for part in parts]).numpy()

    return Frozen(name, 0, config["input_size"][-1], make)


@contextlib.contextmanager
def _offline():
    """Let the hub's library look at its cache alone: naming weights is no leave to use the network."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def classify(
    points: pd.DataFrame,
    images: pd.DataFrame,
    photos: str | Path,
    *,
    covariates: pd.DataFrame | None = None,
    checkpoint: str | Path = "",
    weights: str = "",
    patch: int = 0,
    points_per_photo: int = 25,
    most: int = 20_000,
    keep_together: str = "image",
    folds: int = 5,
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """Train a classifier on the points that people labelled, try it, and label the points that no person did.

    Parameters
    ----------
    points : DataFrame
        Annotations. Who labelled a point says `reefcore.annotations.labelled_by`; what nobody is known to have
        labelled counts as a person's. What is learnt is `target`.
    images : DataFrame
        ``source``, ``image``, ``photo`` (path below `photos`, NA without), ``width``, ``height``; its other columns are
        handed on to points laid on photos.
    photos : path
    covariates : DataFrame, optional
        See `reefcore.covariates.table`: photos that look the same (up to 8 bits) are kept in one fold.
    checkpoint, weights
        See `frozen`: features tried beside colour and texture, and used if their macro F1 is higher. A checkpoint must
        not have learnt from these photos.
    patch : int
        Side of the patches in pixels; 0 for `patch_side`, or that of the checkpoint.
    points_per_photo : int
        Laid in a grid on photos that have no point at all.
    most : int
        Labelled points used, see `some`; five times as many are labelled, of photos drawn by chance.
    keep_together, folds
        See `together` and `reefcore.texture.cross_validate`.
    seed : int

    Returns
    -------
    dict of DataFrame
        ``classifier``: per set of features ``name``, ``macro_f1``, ``accuracy`` (over all points tried, those of rare
        classes too), ``chosen``, ``why`` (sentences: what was used and why, what was left out), ``points``, ``photos``,
        ``classes`` (learnt), ``rare`` (labels with too few points to learn), ``patch`` (pixels), ``folds``.
        ``predictions``: of the points people labelled, by classifiers that saw none of their photo; run_id is
        ``site-`` and the features. ``machine``: annotations of the points that no person labelled, labelled by the
        classifier (``label_raw`` stays what a file says), with ``y_pred``, ``confidence`` (its probability), ``known``
        (see `reefcore.texture.Classifier.known`), ``accepted`` (known at least as the surest 95 % of the tried points)
        and ``score:CLASS``. Where nothing can be learnt, the tables of `empty`.
    """
    points = points.drop(columns=[name for name in ("photo",) if name in points])
    table = points.merge(images[[*PHOTO, "photo"]].drop_duplicates(PHOTO), on=PHOTO, how="left")
    by_machine = _by_machine(points)
    lost = {"on photos that are not there": int(table["photo"].isna().sum())}
    there = table["photo"].notna().to_numpy()
    human = table[there & ~by_machine].reset_index(drop=True)
    single = human.drop_duplicates("annotation_id", ignore_index=True)
    lost["given twice"] = len(human) - len(single)
    kept = some(target(single), single["photo"], most, seed)
    lost["beyond what the classifier takes"] = len(single) - len(kept)
    human = single.iloc[kept].reset_index(drop=True)
    if not len(human):
        return empty("No classifier: no point that a person labelled has its photo.")
    models, without = [Frozen(texture.NAME, 0, texture.SIDE, texture.features)], ""
    if checkpoint or weights:
        try:
            models.append(frozen(checkpoint, weights))
        except ReefcoreError as error:
            without = f"{checkpoint or weights} was not used: {error.what}"
    size = (
        patch or next((model.crop for model in models if model.crop), 0) or patch_side(images[images["photo"].notna()])
    )
    made, reasons = {}, np.full(len(human), "", dtype=object)
    for model in models:  # the same points have no patch whatever the model
        made[model.name], reasons = _answered(human, photos, size, model, model.make)
    for reason, number in pd.Series(reasons[reasons != ""], dtype="str").value_counts().items():
        why = "outside the photo" if reason.startswith("the point at") else f"without a patch ({reason})"
        lost[why] = lost.get(why, 0) + int(number)
    human = human[reasons == ""].reset_index(drop=True)
    pairs = None if covariates is None else photographs.near_duplicates(covariates, NEAR)
    try:
        groups = together(human, pairs, keep_together)
        tried = texture.cross_validate(made, target(human), groups, folds, seed, human["annotation_id"])
    except ReefcoreError as error:
        return empty(f"No classifier: {error.what}.")
    rows = tried.scores[tried.scores["fold"] == "all"]
    rest, aside = _unlabelled(
        table, images, photos, there & by_machine, covariates, points_per_photo, AGAIN * most, seed
    )
    said = " ".join([_why(rows, tried, without, lost), *aside])
    classifier = pd.DataFrame(
        {
            "name": rows["features"],
            "macro_f1": rows["macro_f1"],
            "accuracy": rows["accuracy"],
            "chosen": rows["features"] == tried.chosen,
            "why": [said if name == tried.chosen else "Tried, and not better." for name in rows["features"]],
            "points": len(human),
            "photos": len(human.drop_duplicates(PHOTO)),
            "classes": len(tried.classifier.classes),
            "rare": len(tried.rare),
            "patch": size,
            "folds": tried.scores.loc[tried.scores["fold"] != "all", "fold"].nunique(),
        }
    ).astype(CLASSIFIER)
    predictions = tried.predictions.assign(run_id=f"site-{tried.chosen}")
    model = next(model for model in models if model.name == tried.chosen)
    machine = _labelled(rest, human, photos, size, model, tried, images)
    return {"classifier": classifier.reset_index(drop=True), "predictions": predictions, "machine": machine}


def _why(rows: pd.DataFrame, tried: texture.CrossValidated, without: str, lost: dict[str, int]) -> str:
    if len(rows) > 1:
        best = rows.set_index("features")["macro_f1"]
        other = best.drop(tried.chosen)
        said = f"{tried.chosen}: macro F1 {best[tried.chosen]:.3f} on photos not learnt from, "
        said += f"{other.index[0]} {other.iloc[0]:.3f}; of equals, colour and texture is taken."
    else:
        said = without or "no checkpoint or weights at hand"
        said = f"{said[0].upper()}{said[1:]}: {texture.NAME}."
    if len(tried.rare):
        names = ", ".join(f"{name} ({number})" for name, number in tried.rare.head(5).items())
        more = f" and {len(tried.rare) - 5} more" if len(tried.rare) > 5 else ""
        said += f" Labels with too few points or photos are never answered, and count as wrong: {names}{more}."
    gone = "; ".join(f"{number:,} {reason}" for reason, number in lost.items() if number)
    return said + (f" Points left out: {gone}." if gone else "")


def _answered(
    points: pd.DataFrame, photos, size: int, model: Frozen, answer: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """Cut the patches of points and answer for them a few photos at a time; see `reefcore.inference.of_points`."""
    width = answer(np.zeros((1, model.side, model.side, 3), np.uint8)).shape[1]
    shape = SimpleNamespace(classes=range(width), crop=size, recipe=SimpleNamespace(input_size=model.side))
    at = points.assign(source="", image=points["photo"])
    return inference.of_points(shape, at, photos, lambda _, patches: answer(patches))


def _unlabelled(table, images, photos, by_machine, covariates, number: int, most: int, seed: int) -> tuple:
    """Gather the points that a machine labelled in the file, and lay points on the photos that have none.

    Also gives sentences of the photos that are left aside: those that look like one with points would count twice.
    """
    rest, said = table[by_machine], []
    bare = images[images["photo"].notna()].merge(table[PHOTO].drop_duplicates(), on=PHOTO, how="left", indicator=True)
    bare = bare[bare["_merge"] == "left_only"].drop_duplicates(PHOTO)
    if covariates is not None:
        twins = _with_twin(bare, photographs.near_duplicates(covariates))
        bare = bare[~twins]
        if twins.any():
            said.append(f"Photos without points that look like one with points, and get none: {twins.sum():,}.")
    if len(bare) and number:
        names = pd.DataFrame({"source": "", "image": bare["photo"]})
        laid, _ = inference.lay_points(names, photos, number, "grid", seed)
        facts = bare[[name for name in bare if name in (*PHOTO, "photo") or name in table]]
        laid = laid.drop(columns="source").rename(columns={"image": "photo"}).merge(facts, on="photo")
        laid["label_raw"] = pd.Series(np.nan, index=laid.index, dtype="str")
        rest = pd.concat([rest, laid.reindex(columns=rest.columns)], ignore_index=True) if len(rest) else laid
    if len(rest) > most:
        photo = rest.groupby("photo").ngroup().to_numpy()
        order = np.random.default_rng(seed).permutation(photo.max() + 1)
        kept = order[np.bincount(photo)[order].cumsum() <= most]
        said.append(f"Photos that were more than it labels, drawn by chance: {len(order) - len(kept):,}.")
        rest = rest[np.isin(photo, kept)]
    return rest.reset_index(drop=True), said


def _with_twin(some: pd.DataFrame, pairs: pd.DataFrame) -> np.ndarray:
    """Tell which photos look like one that is not among them."""
    here = pd.MultiIndex.from_frame(some[PHOTO])
    ends = [pd.MultiIndex.from_frame(pairs[[f"source_{end}", f"image_{end}"]]) for end in "ab"]
    a, b = (end.isin(here) for end in ends)
    return here.isin(ends[0][a & ~b].append(ends[1][b & ~a]))


def _labelled(rest, human, photos, size: int, model: Frozen, tried: texture.CrossValidated, images) -> pd.DataFrame:
    """Answer for points that no person labelled."""
    if not len(rest):
        return empty()["machine"]
    learnt = tried.classifier

    def answer(patches: np.ndarray) -> np.ndarray:
        x = model.make(patches)
        return np.column_stack([learnt.predict_proba(x), learnt.known(x)]).astype(np.float32)

    found, reasons = _answered(rest, photos, size, model, answer)
    if (reasons != "").any():
        logger.warning("%d of %d points without a person's label have no patch.", (reasons != "").sum(), len(rest))
    rest = rest[reasons == ""].drop(columns="photo").reset_index(drop=True)
    p, known = found[:, :-1], found[:, -1].astype(np.float64)
    answers = pd.Series(learnt.classes[p.argmax(axis=1)], dtype="str")
    usual = facts_of(human)
    for name in FACTS:
        if name in human:
            rest[name] = answers.map(usual[name]).astype(human[name].dtype)
    rest["label_raw"] = rest["label_raw"].fillna(answers).astype("str")
    if "labelled_by" in human:
        rest["labelled_by"] = pd.Series("machine", index=rest.index, dtype="str")
    rest = tables.complete(rest)
    known_ones = tried.predictions["y_true"].isin(learnt.classes)
    at = open_set.threshold(tried.predictions.loc[known_ones, f"{KNOWN}distance"], keep=KEEP)
    scores = pd.DataFrame(p, columns=[f"{SCORE}{name}" for name in learnt.classes])
    rest = rest.assign(y_pred=answers, confidence=p.max(axis=1).astype(np.float64), known=known, accepted=known >= at)
    return pd.concat([rest, scores], axis=1)


def facts_of(annotations: pd.DataFrame, columns: list[str] | None = None) -> pd.DataFrame:
    """Say what the points of each `target` most often have in other columns (of equals the first by name; or nothing).

    Returns
    -------
    DataFrame
        Index: targets; `columns`, by default those of `FACTS` that are there.
    """
    name = target(annotations)
    found = {}
    for column in columns or [column for column in FACTS if column in annotations]:
        pairs = pd.DataFrame({"target": name, "value": annotations[column]})
        counts = pairs.groupby(["target", "value"], dropna=False).size().rename("n").reset_index()
        best = counts.sort_values(["n", "value"], ascending=[False, True], kind="stable").drop_duplicates("target")
        found[column] = best.set_index("target")["value"]
    return pd.DataFrame(found)


def by_people(annotations: pd.DataFrame) -> pd.DataFrame:
    """Keep the points that no machine labelled."""
    return annotations[~_by_machine(annotations)]


def _by_machine(annotations: pd.DataFrame) -> np.ndarray:
    """Tell which points a machine labelled in the file; what nobody is known to have labelled counts as a person's."""
    return (readers.labelled_by(annotations) == "machine").fillna(False).to_numpy(dtype=bool)


def beside(
    annotations: pd.DataFrame,
    machine: pd.DataFrame,
    by: str = "label",
    *,
    weight: str = "image",
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Put the cover from people's labels beside that from people's and the machine's.

    Parameters
    ----------
    annotations : DataFrame
        Points that a machine labelled in the file are not counted as people's.
    machine : DataFrame
        See `classify`.
    by, weight, n, level, seed : see `reefcore.cover.percent_cover`

    Returns
    -------
    DataFrame
        `by`; ``human``, ``human and machine``, ``machine``, each percent with ``low`` and ``high`` after its name (0 to
        100, of all images); ``difference`` (percentage points, machine less human: other photos by another observer)
        with ``difference low``, ``difference high`` and ``probability`` of its sign; ``images human``, ``images
        machine``. Of what there is nothing, NA.
    """
    people = by_people(annotations)
    sets = {"human": people, "human and machine": pd.concat([people, machine], ignore_index=True), "machine": machine}
    options = {"weight": weight, "n": n, "level": level, "seed": seed}
    found, images = {}, {}
    for name, frame in sets.items():
        if len(frame):
            table = cover.percent_cover(frame, by, "all", **options).set_index(by)
            images[name] = int(table["images"].max())
            parts = {"percent": name, "ci_low": f"{name} low", "ci_high": f"{name} high"}
            found |= {new: table[old] for old, new in parts.items()}
    if not found:
        raise ReefcoreError("there is no point to compute a cover from", do="give annotations or predictions")
    result = pd.DataFrame(found)
    shares = [name for name in sets if name in result]
    result[shares] = result[shares].fillna(0.0)  # a category that one side has not is not there
    both = [people.assign(who="a"), machine.assign(who="b")]
    if all(map(len, both)):
        moved = cover.change(pd.concat(both, ignore_index=True), by, "who", **options).set_index(by)
        names = {"difference": "difference", "ci_low": "difference low", "ci_high": "difference high"}
        result = result.join(moved[[*names, "probability"]].rename(columns=names))
    columns = [f"{name}{end}" for name in (*sets, "difference") for end in ("", " low", " high")] + ["probability"]
    result = result.reindex(columns=columns).astype("float64").rename_axis(by)
    result["images human"], result["images machine"] = images.get("human", 0), images.get("machine", 0)
    return result.loc[sorted(result.index, key=_brackets_last)].reset_index()


def corrected_cover(
    predictions: pd.DataFrame,
    machine: pd.DataFrame,
    annotations: pd.DataFrame,
    by: str = "label",
    *,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Put the machine's cover right for the mistakes that it makes, as far as they are known.

    Of the points people labelled, answered by classifiers that saw none of their photo, it is counted what the points
    of each class are taken for. By that the machine's points are shared out among the classes, first as if these were
    as common as among the people's points (the estimator of Olofsson et al. 2014, doi:10.1016/j.rse.2014.02.015, for
    maps), then three times more as common as the last sharing found (D'Agostini 1995, doi:10.1016/0168-9002(95)00274-X;
    steps of the EM of Saerens et al. 2002, doi:10.1162/089976602753284446, on answers). Once would draw every reef
    towards the people's composition; going on to the end, as turning the confusion around does, makes noise of some
    hundred points. It holds where a class is mistaken on the machine's photos as it is on the people's.

    Parameters
    ----------
    predictions, machine : see `classify`
    annotations : DataFrame
        Give the category of each label and the photo of each prediction.
    by : see `reefcore.cover.percent_cover`
    n, seed : int
        Draws of photos, people's and machine's apart.
    level : float

    Returns
    -------
    DataFrame
        `by`, ``images``, ``count``, ``total`` (the machine's points), ``percent`` (as the machine says, each image
        counting the same), ``corrected``, ``ci_low``, ``ci_high`` (of the corrected; 0 to 100). Empty without points
        of a machine; the interval is NA where either side has one photo.
    """
    names = [by, "images", "count", "total", "percent", "corrected", "ci_low", "ci_high"]
    if not len(machine) or not len(predictions):
        return pd.DataFrame(columns=names)
    people = by_people(annotations)
    names_of = cover.categories_of(people, by).mask(cover.not_benthos(people), cover.NOT_BENTHOS)
    category = facts_of(people.assign(category=names_of), ["category"])["category"]
    truth, said = (predictions[name].map(category) for name in ("y_true", "y_pred"))
    answers = machine["y_pred"].map(category)
    if (strange := truth.isna() | said.isna()).any() or answers.isna().any():
        bad = predictions.loc[strange, "y_true"] if strange.any() else machine.loc[answers.isna(), "y_pred"]
        what = f"{len(bad)} answers are of labels that no person gave, such as {bad.iloc[0]}"
        raise ReefcoreError(what, do="give the annotations that the classifier learnt from")
    every = sorted({*truth, *said, *answers}, key=_brackets_last)
    code, size = {name: i for i, name in enumerate(every)}, len(every)
    cells = _counts(
        truth.map(code) * size + said.map(code), photo_of(predictions["annotation_id"], annotations), size**2
    )
    counts = _counts(answers.map(code), machine["source"] + "\x1f" + machine["image"], size)
    shares = counts / counts.sum(axis=1, keepdims=True)
    drawn = [
        np.vstack([np.ones((1, len(part)), int), *draws_of(len(part), n, [seed, i])])
        for i, part in enumerate((cells, shares))
    ]
    confusion = (drawn[0] @ cells).reshape(-1, size, size)
    observed = drawn[1] @ shares / len(shares)
    corrected = _unfolded(confusion, observed)
    if cover.NOT_BENTHOS in code and size > 1:  # no cover counts it
        kept = [name != cover.NOT_BENTHOS for name in every]
        every, counts = [name for name in every if name != cover.NOT_BENTHOS], counts[:, kept]
        observed, corrected = (
            part[:, kept] / np.maximum(part[:, kept].sum(axis=1, keepdims=True), 1e-12)
            for part in (observed, corrected)
        )
    corrected = 100 * corrected
    fewest = min(len(cells), len(shares))
    low = high = np.full(len(every), np.nan)
    if fewest > 1:
        tail = cover.tail_of(level, fewest)
        low, high = np.quantile(corrected[1:], [tail, 1 - tail], axis=0)
    values = [
        every,
        len(shares),
        counts.sum(axis=0).astype(int),
        int(counts.sum()),
        100 * observed[0],
        corrected[0],
        low,
        high,
    ]
    return pd.DataFrame(dict(zip(names, values, strict=True)))


def _brackets_last(category: str) -> tuple[bool, str]:
    """Give the key that sorts categories as `reefcore.cover` does: those that are no names, in brackets, at the end."""
    return category.startswith("("), category


def _unfolded(confusion: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Share answers out among classes, a few times: (draws, classes, answers) and (draws, answers) -> (draws, classes).

    An answer that no point of a class was ever given is taken as it is.
    """
    given = confusion.sum(axis=2)
    taken = confusion / np.maximum(given, 1)[:, :, None]  # of each class
    found = given / given.sum(axis=1, keepdims=True)
    for _ in range(SHARED):
        expected = np.einsum("di,dij->dj", found, taken)
        never = expected == 0
        ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=~never)
        found = found * np.einsum("dij,dj->di", taken, ratio) + np.where(never, observed, 0)
    return found


def _counts(codes: pd.Series, photos: pd.Series, size: int) -> np.ndarray:
    """Count codes per photo, photos in the order of their names: (photos, size)."""
    photo = pd.factorize(photos, sort=True)[0]
    return np.bincount(photo * size + codes.to_numpy(), minlength=(photo.max() + 1) * size).reshape(-1, size)


def flags(machine: pd.DataFrame) -> pd.DataFrame:
    """Count per photo the points that look like nothing that was labelled.

    Returns
    -------
    DataFrame
        ``source``, ``image``, ``points``, ``flagged`` (not ``accepted``), ``share``; the largest share first.
    """
    table = machine.groupby(PHOTO)["accepted"].agg(points="size", kept="sum").reset_index()
    table["flagged"] = table["points"] - table["kept"].astype("int64")
    table["share"] = table["flagged"] / table["points"]
    return table.drop(columns="kept").sort_values(["share", *PHOTO], ascending=[False, True, True], ignore_index=True)


def per_hour(points: int = 25, seconds: float = 8.0) -> int:
    """Say how many photos a person labels in an hour: so many points each, so many seconds per point. At least 1."""
    if points < 1 or seconds <= 0:
        raise ReefcoreError(f"{points} points of {seconds} seconds are no work", do="give numbers above 0")
    return max(1, int(3600 / (points * seconds)))


def worth(
    machine: pd.DataFrame, predictions: pd.DataFrame, images: int = 20, covariates: pd.DataFrame | None = None
) -> pd.DataFrame:
    """List the photos that are worth an expert's next hour, the best first.

    A photo gains, on average over its points: its doubt (one less the margin between the two likeliest labels), its
    share of points that look like nothing labelled (not ``accepted``), and the probability of labels of which people
    gave fewer than 30 points; these count the same. One photo after the other is taken, its gain times how far its
    labels are from those of the photos taken before (total variation), so that the list is not ten times one photo.

    Parameters
    ----------
    machine, predictions : see `classify`
    images : int
        Photos on the list; see `per_hour`.
    covariates : DataFrame, optional
        See `reefcore.covariates.table`: of photos that look the same only one is on the list, and none
        that looks like a photo that is not in `machine`, which people labelled.

    Returns
    -------
    DataFrame
        ``rank`` (from 1), ``source``, ``image``, ``points``, ``doubt``, ``unknown``, ``scarce`` (each 0 to 1), ``gain``
        (their sum), ``why`` (in words).
    """
    names = ["rank", *PHOTO, "points", "doubt", "unknown", "scarce", "gain", "why"]
    columns = [name for name in machine if name.startswith(SCORE)]
    if not len(machine) or not columns:
        return pd.DataFrame(columns=names)
    classes = [name.removeprefix(SCORE) for name in columns]
    p = machine[columns].to_numpy("float64")
    given = predictions["y_true"].value_counts().reindex(classes, fill_value=0)
    order = np.argsort(-p, axis=1, kind="stable")[:, :2]
    best = np.take_along_axis(p, order, axis=1)
    points = pd.DataFrame({"doubt": 1 - best[:, 0] + best[:, 1], "unknown": ~machine["accepted"].to_numpy(dtype=bool)})
    points["scarce"] = p[:, given.to_numpy() < SCARCE].sum(axis=1)
    keys = [machine[name].array for name in PHOTO]
    table = points.astype("float64").groupby(keys).mean().rename_axis(PHOTO)
    profile = pd.DataFrame(p).groupby(keys).mean().to_numpy()
    gain, groups = table.sum(axis=1).to_numpy(), points.groupby(keys).indices
    pairs = None if covariates is None else photographs.near_duplicates(covariates, NEAR)
    alike = together(table.reset_index(), pairs)
    free = np.ones(len(table), bool) if pairs is None else ~_with_twin(table.reset_index(), pairs)
    novelty, rows = np.ones(len(table)), []
    while free.any() and len(rows) < images:
        place = int(np.where(free, gain * novelty, -1).argmax())
        name = table.index[place]
        here = groups[name]
        why = _in_words(points.iloc[here], order[here], classes, given)
        rows.append((len(rows) + 1, *name, len(here), *table.iloc[place], gain[place], why))
        free &= alike != alike[place]
        novelty = np.minimum(novelty, np.abs(profile - profile[place]).sum(axis=1) / 2)
    return pd.DataFrame(rows, columns=names)


def _in_words(points: pd.DataFrame, order: np.ndarray, classes: list[str], given: pd.Series) -> str:
    n, unknown, unsure = len(points), int(points["unknown"].sum()), (points["doubt"] > 0.5).to_numpy()
    said = []
    if unknown:
        said.append(f"{unknown} of {n} points look{'s' * (unknown == 1)} like nothing that was labelled")
    if unsure.any():
        pairs = pd.Series([" and ".join(sorted(classes[i] for i in pair)) for pair in order[unsure]])
        verb = "is" if unsure.sum() == 1 else "are"
        said.append(f"{unsure.sum()} of {n} points {verb} in doubt, most often between {pairs.mode().iloc[0]}")
    first = pd.Series([classes[i] for i in order[:, 0]]).value_counts()
    for name, number in first[[given[name] < SCARCE for name in first.index]].head(2).items():
        said.append(f"{number} may be {name}, with only {readers.points.counted(given[name], 'labelled point')}")
    return "; ".join(said) or "its mix of labels is unlike that of the photos above"
