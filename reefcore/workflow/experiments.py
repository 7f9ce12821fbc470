"""The steps behind the chapters on few or no labels: encoders, zero-shot answers, open sets, few-shot curves."""

from __future__ import annotations

import dataclasses
import functools
import logging
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import recipes, training
from reefcore.errors import ReefcoreError
from reefcore.few_shot import TEXTURE
from reefcore.files import atomic, read_parquet, write_parquet
from reefcore.profiles import Profile
from reefcore.recipes import zero_shot as asked
from reefcore.recipes.zero_shot import ZeroShot
from reefcore.tables import KNOWN, positions
from reefcore.workflow import keys, steps
from reefcore.workflow.steps import Step

logger = logging.getLogger(__name__)

AT_ONCE = 512  # patches in memory at a time, at the size in which they are kept
MOST_NEIGHBOURS = 20_000  # training points whose features are kept for the kNN score
OPEN = {"recipes", "train_sets", "classes", "min_test", "min_train", "most"}
FEW = {"settings", "tunings", "epochs", "shots", "repeats", "tuned_repeats", "tuned_shots"}
TEXTURE_SIDE = 32  # pixels to which patches are reduced for it


def plan(profile: Profile) -> list[Step]:
    """List the steps of a profile's experiments, each after those it needs."""
    found, asks = [], [asked.load(name) for name in profile.zero_shot]
    if len({recipe.name for recipe in asks}) < len(asks):
        raise ReefcoreError("two zero-shot recipes have the same name", profile.path, "rename one")
    few = _few(profile)
    routes = profile.substrate.get("pseudo", {}).get("routes", ())
    if any(recipe.weights == "sample" for recipe in asks) or "clip_sample" in (*few["used"], *routes):
        if profile.kind != "sample":
            raise ReefcoreError("clip_sample is a toy of the sample profile", profile.path, "leave it out")
        uses = ("reefcore.contrastive", "reefcore.sample.corpus")
        found.append(Step("clip_sample", _clip_sample, ("encoders/clip_sample",), (), uses, ("seed", "corpus")))
    for recipe in asks:
        given = {"recipe": keys.text_hash(repr(dataclasses.asdict(recipe)))}
        needs = ("data", "splits", "patches", *(["clip_sample"] if recipe.weights == "sample" else []))
        uses = ("reefcore.vision_language", "reefcore.patches", "reefcore.shards")
        settings = ("seed",)
        if recipe.kind == "clip":
            name = f"features-{recipe.name}"
            encoded = {"model": keys.text_hash(f"{recipe.model} {recipe.weights} {recipe.settings}")}
            outputs = (f"features/{recipe.name}.npy", f"features/{recipe.name}.parquet")
            build = functools.partial(_features, recipe)
            # Other prompts leave the patches encoded.
            found.append(Step(name, build, outputs, needs, uses, given=encoded))
            needs = (*needs, name)
        else:
            uses, settings = ("reefcore.multimodal", "reefcore.patches", "reefcore.shards"), ("seed", "resamples")
        if profile.descriptions:
            file = keys.root() / profile.descriptions
            given["descriptions"] = keys.digest(file) if file.is_file() else "missing"
        build = functools.partial(_ask, recipe)
        uses = (*uses, "reefcore.prompts")
        found.append(
            Step(f"zero-{recipe.name}", build, (f"zero_shot/{recipe.name}.parquet",), needs, uses, settings, given)
        )
    zero = [step for step in found if step.name.startswith("zero-")]
    outputs = tuple(output for step in zero for output in step.outputs)
    found.append(Step("zero_shot", _gathered, outputs, tuple(step.name for step in zero)))
    if profile.open_set:
        runs = open_runs(profile)
        for name, (recipe, train_set) in runs.items():
            loaded = recipes.load(recipe, profile.kind, profile.recipe_changes)
            found.append(
                Step(
                    name,
                    functools.partial(_open, name, recipe, train_set),
                    (f"open_set/{name}.parquet",),
                    ("data", "splits", "patches"),
                    ("reefcore.training", "reefcore.recipes", "reefcore.open_set", "reefcore.shards"),
                    ("seed", "recipe_changes", "shards", "kind", "open_set"),
                    steps._made_of(loaded),
                )
            )
        found.append(Step("open_set", _gathered, tuple(f"open_set/{name}.parquet" for name in runs), tuple(runs)))
    if profile.few_shot:
        needs = ("data", "splits", "patches", *few["needs"])
        uses = ("reefcore.few_shot", "reefcore.fitting", "reefcore.vision_language", "reefcore.shards")
        settings = ("seed", "few_shot", "resamples", "recipe_changes", "kind")
        found.append(Step("few_shot", _few_shot, ("few_shot.parquet",), needs, uses, settings))
    return found


def asked_of(profile: Profile, names: list[str]) -> Profile:
    """Return a profile that asks these zero-shot recipes, or its own where none is named.

    Raises
    ------
    ReefcoreError
        Where a recipe is not known, or none is named anywhere.
    """
    if not (names or profile.zero_shot):
        known = ", ".join(asked.names())
        raise ReefcoreError(f"the profile {profile.name} asks no model", profile.path, f"name one of {known}")
    return dataclasses.replace(profile, zero_shot=tuple(dict.fromkeys(names)) or profile.zero_shot)


def open_runs(profile: Profile) -> dict[str, tuple[str, str]]:
    """Name the trainings without some classes: run -> (recipe, training set)."""
    if wrong := sorted(set(profile.open_set) - OPEN):
        raise ReefcoreError(f"unknown key {wrong[0]!r} under open_set", profile.path, f"use {', '.join(sorted(OPEN))}")
    chosen = profile.open_set.get("recipes", []), profile.open_set.get("train_sets", ["S4"])
    return {f"{recipe}.open-{one}": (recipe, one) for recipe in chosen[0] for one in chosen[1]}


def _few(profile: Profile) -> dict:
    """Settle what few-shot learning uses, which steps make it, and what nobody makes (``lacks``)."""
    if wrong := sorted(set(profile.few_shot) - FEW):
        raise ReefcoreError(f"unknown key {wrong[0]!r} under few_shot", profile.path, f"use {', '.join(sorted(FEW))}")
    wanted = {name for names in profile.few_shot.get("settings", {}).values() for name in names} - {TEXTURE}
    tunings = {name: name.partition(" ")[2] for name in wanted if name.startswith("fine-tuned ")}
    used = sorted({tunings.get(name, name) for name in wanted})
    known = {*steps.runs(profile), "clip_sample"}
    lacks = [name for name in used if name not in known]
    return {"used": used, "needs": [name for name in used if name in known], "tunings": tunings, "lacks": lacks}


def _gathered(profile: Profile, folder: Path, workers: int) -> None:
    """Stand for steps that have each made their part."""


def _clip_sample(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import contrastive
    from reefcore.sample import corpus

    options = dict(profile.corpus)
    size = {"steps": options.pop("steps")} if "steps" in options else {}
    patches, captions = corpus.make(profile.seed, workers=workers, **options)
    contrastive.pretrain(patches, captions, folder / "encoders" / "clip_sample", profile.seed, **size)


def _tested(folder: Path) -> pd.DataFrame:
    """Give the points that any scheme tests and that have a patch: ``annotation_id``, ``patch``."""
    splits = read_parquet(folder / "splits.parquet")
    ids = splits.loc[splits["part"] == "test", "annotation_id"].drop_duplicates().sort_values()
    held = read_parquet(folder / "patches.parquet")["annotation_id"]
    table = pd.DataFrame({"annotation_id": ids.array, "patch": positions(ids, held)})
    if lost := int((table["patch"] < 0).sum()):
        logger.warning("%d of %d test points have no patch and are left out.", lost, len(table))
    return table[table["patch"] >= 0].reset_index(drop=True)


def _source(recipe: ZeroShot, folder: Path) -> str | Path:
    return folder / "encoders" / "clip_sample" if recipe.weights == "sample" else recipe.weights


def _encoded(encoder, patches, places: np.ndarray) -> np.ndarray:
    """Encode patches, some hundred at a time; the encoder resizes them itself, as its weights want it."""
    parts = [places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE)]
    return np.concatenate([encoder.images(patches.read(part, patches.size)) for part in parts])


def _features(recipe: ZeroShot, profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import vision_language

    points = _tested(folder)
    encoder = vision_language.load(recipe.model, _source(recipe, folder), recipe.settings)
    found = _encoded(encoder, steps.store(profile, folder), points["patch"].to_numpy())
    with atomic(folder / "features" / f"{recipe.name}.npy") as temporary:
        np.save(temporary, found)
    write_parquet(points[["annotation_id"]], folder / "features" / f"{recipe.name}.parquet")


def _labelled(folder: Path) -> pd.DataFrame:
    """Read the splits table with the ``label`` of each row."""
    splits = read_parquet(folder / "splits.parquet")
    known = read_parquet(folder / "annotations.parquet", ["annotation_id", "label"]).drop_duplicates("annotation_id")
    return splits.assign(
        label=known["label"].to_numpy(object)[positions(splits["annotation_id"], known["annotation_id"])]
    )


def _asked_points(recipe: ZeroShot, profile: Profile, folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Give the points that a recipe is asked (``test``, ``annotation_id``, ``label``), and the classes it chooses from.

    The classes are those of the labels that any scheme trains on or tests: the 39 of the benchmark.
    """
    splits = _labelled(folder)
    classes = sorted(splits.loc[splits["scheme"].isin(["S1", "S2", "S3", "S4"]), "label"].unique())
    points = splits[(splits["part"] == "test") & splits["scheme"].isin(recipe.tests)].rename(columns={"scheme": "test"})
    points = points[points["annotation_id"].isin(_tested(folder)["annotation_id"])]
    points = points.sort_values(["test", "annotation_id"], ignore_index=True)
    if recipe.points:
        shuffled = points.iloc[np.random.default_rng(profile.seed).permutation(len(points))]
        points = shuffled[shuffled.groupby("test").cumcount() < recipe.points]
        points = points.sort_values(["test", "annotation_id"], ignore_index=True)
    return points[["test", "annotation_id", "label"]], classes


def descriptions_of(profile: Profile) -> pd.DataFrame | None:
    """Read the table of descriptions that a profile names, if any."""
    from reefcore import descriptions

    return descriptions.read(keys.root() / profile.descriptions) if profile.descriptions else None


def prompt_sets(names, classes: list[str], descriptions: pd.DataFrame | None) -> tuple[list[str], dict]:
    """Divide prompt sets into those that can be asked, and those that lack texts: set -> what to do."""
    from reefcore import prompts

    there, missing = [], {}
    for name in names:
        try:
            prompts.texts(classes, name, descriptions)
            there.append(name)
        except ReefcoreError as error:
            missing[name] = str(error)
    return there, missing


def _ask(recipe: ZeroShot, profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import predictions, prompts

    points, classes = _asked_points(recipe, profile, folder)
    own = descriptions_of(profile)
    sets, missing = prompt_sets(recipe.prompts, classes, own)
    for name, why in missing.items():
        logger.warning("%s is not asked with the prompt set %s: %s", recipe.name, name, why)
    if not sets:
        raise ReefcoreError(f"{recipe.name} cannot be asked", do="; ".join(missing.values()))
    if recipe.kind == "chat":
        _chat(recipe, profile, folder, points, classes, sets, own)
        return
    from reefcore import vision_language

    encoder = vision_language.load(recipe.model, _source(recipe, folder), recipe.settings)
    held = read_parquet(folder / "features" / f"{recipe.name}.parquet")["annotation_id"]
    images = np.load(folder / "features" / f"{recipe.name}.npy")
    at, tables = positions(points["annotation_id"], held), []
    for name in sets:
        features = vision_language.class_features(encoder, prompts.texts(classes, name, own))
        scores = vision_language.classify(images, features, encoder.scale)
        for test, rows in points.groupby("test", sort=True):
            run = f"{recipe.name}.{name}-zero-{test}"
            asked_of = scores[at[rows.index]]
            tables.append(predictions.from_scores(run, rows["annotation_id"], rows["label"], asked_of, classes))
    write_parquet(pd.concat(tables, ignore_index=True), folder / "zero_shot" / f"{recipe.name}.parquet")


def _chat(recipe, profile, folder, points, classes, sets, own) -> None:
    """Ask a multimodal language model; every answer is kept under ``answers``, and none is asked for twice.

    The environment says where: ``REEFCORE_CHAT_URL`` (and ``REEFCORE_CHAT_KEY``), or ``REEFCORE_CHAT_LOCAL=1``; and
    how much may be asked, see `reefcore.chat.budget`.
    """
    from reefcore import chat, multimodal

    client, patches, tables, counts = chat.client(recipe.model), steps.store(profile, folder), [], []
    budget = chat.budget()  # one for all prompt sets
    places = positions(points["annotation_id"], pd.Series(patches.ids, dtype="str"))
    file = folder / "answers" / f"{recipe.name}.jsonl"
    for name in sets:
        images = (patches.read(np.array([place]), recipe.settings["side"])[0] for place in places)
        table, counted = multimodal.ask(
            recipe, client, images, points, classes, name, file, descriptions=own, seed=profile.seed, budget=budget
        )
        tables.append(table)
        counts.append(counted)
    write_parquet(pd.concat(tables, ignore_index=True), folder / "zero_shot" / f"{recipe.name}.parquet")
    write_parquet(pd.concat(counts, ignore_index=True), file.with_suffix(".parquet"))


def _open(name: str, recipe: str, train_set: str, profile: Profile, folder: Path, workers: int) -> None:
    """Train without some classes, and say of every test and validation point how surely it is of a known one."""
    from reefcore import fitting, open_set

    splits, patches = _labelled(folder), steps.store(profile, folder)
    annotations = read_parquet(folder / "annotations.parquet", columns=["annotation_id", "label"])
    labels = splits.pop("label")

    def counts(scheme: str, part: str) -> pd.Series:
        return labels[(splits["scheme"] == scheme) & (splits["part"] == part)].value_counts()

    # The paper chooses on Train-S4 and Test-S3&S4; a run within sources leaves out the same classes.
    options = {key: profile.open_set[key] for key in ("min_test", "min_train", "most") if key in profile.open_set}
    without = open_set.hold_out(
        counts("S4", "train"), counts("S4", "test"), profile.open_set.get("classes", 8), seed=profile.seed, **options
    )
    tests = splits["part"].ne("test") | splits["scheme"].eq(train_set)
    done = training.run(
        recipes.load(recipe, profile.kind, profile.recipe_changes),
        train_set,
        patches,
        annotations,
        splits[tests],
        name=name,
        without=without,
        seed=profile.seed,
        about={"notice": profile.notice},
    )
    held = pd.Series(patches.ids, dtype="str")
    trained = splits.loc[
        (splits["scheme"] == train_set) & (splits["part"] == "train") & ~labels.isin(without), "annotation_id"
    ].sort_values()
    trained = positions(trained, held)
    trained = trained[trained >= 0]
    chosen = np.sort(np.random.default_rng(profile.seed).permutation(trained)[:MOST_NEIGHBOURS])
    near = fitting.features(done.fitted, (patches, chosen))
    tables = []
    for table in (done.predictions, done.validation):
        logits, features = fitting.outputs(done.fitted, (patches, positions(table["annotation_id"], held)))
        told = open_set.scores(logits) | {"knn": open_set.knn(near, features)}
        tables.append(table.assign(**{f"{KNOWN}{score}": values for score, values in told.items()}))
    write_parquet(pd.concat(tables, ignore_index=True), folder / "open_set" / f"{name}.parquet")


def _few_shot(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import few_shot

    splits = read_parquet(folder / "splits.parquet")
    annotations = read_parquet(folder / "annotations.parquet", ["annotation_id", "source", "image", "label"])
    patches = steps.store(profile, folder)
    held = pd.Series(patches.ids, dtype="str")
    splits = splits[splits["annotation_id"].isin(held)]
    settled, options = _few(profile), dict(profile.few_shot)
    if settled["lacks"]:  # said only here: whoever trains other recipes does not ask for few labels
        what = f"few_shot settings: {settled['lacks'][0]!r} is no run of the profile, nor clip_sample"
        raise ReefcoreError(what, profile.path, "train it, or leave it out")
    epochs = options.pop("epochs", 5)
    makers = {TEXTURE: lambda ids: few_shot.colour_texture(patches.read(positions(ids, held), TEXTURE_SIDE))}
    for name in settled["used"]:
        makers[name] = functools.partial(_of_model, name, profile, folder, patches, held)
    tunings = {
        name: functools.partial(_tuned, run, epochs, profile, folder, patches, held)
        for name, run in settled["tunings"].items()
    }
    options |= {"seed": profile.seed, "n": min(profile.resamples, 200)}  # of every fit: hundreds of them
    table = few_shot.run(splits, annotations, makers, tunings, **options)
    write_parquet(table, folder / "few_shot.parquet")


@functools.lru_cache(maxsize=8)
def _frozen(name: str, profile: Profile, folder: Path):
    """Load what gives features: an encoder, a trained model, or what a pretraining left."""
    from reefcore import fitting, learners, vision_language

    if name == "clip_sample":
        return vision_language.load(name, folder / "encoders" / name)
    checkpoint = folder / "checkpoints" / f"{name}.safetensors"
    run = next(run for run in steps._runs(profile) if run.name == name)
    if run.train_set:
        return fitting.load(checkpoint)
    recipe = recipes.load(run.recipe, profile.kind, profile.recipe_changes)
    recipe = dataclasses.replace(recipe, task="genus", task_args={}, loss="ce", weights=str(checkpoint))
    learner = learners.build(recipe, ["no", "class"])  # its head is not looked at
    return fitting.Fitted(learner, recipe, pd.DataFrame(), 0, profile.crop)


def _of_model(name: str, profile: Profile, folder: Path, patches, held: pd.Series, ids: pd.Series) -> np.ndarray:
    from reefcore import fitting

    model, places = _frozen(name, profile, folder), positions(ids, held)
    if name == "clip_sample":
        return _encoded(model, patches, places)
    return fitting.features(model, (patches, places))


def _tuned(
    name: str, epochs: int, profile: Profile, folder: Path, patches, held: pd.Series, ids, labels, test, seed: int
) -> np.ndarray:
    """Fine-tune what a run or a pretraining left on a few points, and answer for others."""
    from reefcore import fitting

    start = _frozen(name, profile, folder)
    classes = sorted(set(labels))
    checkpoint = str(folder / "checkpoints" / f"{name}.safetensors")
    if name in steps.runs(profile) and not start.recipe.schemes:  # a pretraining is tuned as the recipe that uses it is
        own = next((r.recipe for r in steps._runs(profile) if r.starts_from == name), None)
        recipe = recipes.load(own, profile.kind, profile.recipe_changes) if own else start.recipe
        rate = recipe.lr
    else:
        recipe, rate = start.recipe, start.recipe.lr / 4  # what labels have taught is to be kept
    changes = {"weights": checkpoint, "epochs": epochs, "warmup_epochs": min(1.0, epochs / 4), "lr": rate}
    recipe = dataclasses.replace(recipe, **changes, mixup=0.0, cutmix=0.0)
    if len(classes) < 2:
        return np.full(len(test), classes[0], dtype=object)
    y = np.searchsorted(classes, labels).astype("int64")
    nothing = (np.zeros(0, "int64"),) * 2
    fitted = fitting.fit(recipe, patches, (positions(ids, held), y), nothing, classes, seed=seed)
    scores = fitting.predict(fitted, (patches, positions(test, held)))
    return np.asarray(classes, dtype=object)[scores.argmax(axis=1)]
