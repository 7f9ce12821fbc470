"""The steps before the chapters: from a survey to its metrics, each made again only when what it is made of changed."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import profiles, recipes, training
from reefcore.errors import ReefcoreError, problems_text
from reefcore.files import atomic, read_parquet, write_json, write_parquet
from reefcore.parallel import pool
from reefcore.profiles import TRAIN_SETS, Profile
from reefcore.tables import COLUMNS, HARD_CORALS, IDENTITY, among
from reefcore.workflow import keys

logger = logging.getLogger(__name__)

#: Tables of which each run makes its part -> the step that stands for all of them.
SEVERAL = dict.fromkeys(("predictions", "validation", "history", "runs"), "train")
SEVERAL |= {"zero_shot": "zero_shot", "open_set": "open_set"}
SEVERAL |= dict.fromkeys(("patch_predictions", "frame_predictions", "substrate_history", "substrate_runs"), "substrate")
SURVEY = ("annotations.parquet", "sources.parquet", "images.parquet", "reviews.parquet")
ANYWAY = "REEFCORE_ANYWAY"  # the environment variable by which patches are made though the disk seems too small
SAID = ("problems.parquet", "release.parquet", "mapping.parquet")  # of the full profile: what was read, and left out
WORKERS = 2  # processes at a time where nobody says otherwise: the two cores this project is sized for


def rank() -> int | None:
    """Return which of the processes of torchrun this is, or None where it is alone."""
    return int(os.environ["RANK"]) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else None


@dataclass(frozen=True)
class Step:
    """One step: what it makes, from what, and how.

    Attributes
    ----------
    name : str
    build : callable
        ``build(profile, folder, workers)`` puts the outputs into the data folder.
    outputs : tuple of str
        Files and folders, relative to the data folder.
    needs : tuple of str
        The steps whose outputs it reads.
    modules : tuple of str
        The modules it calls; those they import count too.
    settings : tuple of str
        The keys of the profile it depends on.
    given : dict
        Other things it depends on.
    external : bool
        Whether nobody makes the outputs: then what they are is what they hold.
    optional : bool
        Whether outputs may be missing.
    inputs : callable, optional
        ``inputs(profile, folder)`` says what else in the data folder it is made of: a name -> a hash.
    before : tuple of str
        Of a step that makes its needs itself, several at a time: what these need.
    """

    name: str
    build: Callable[[Profile, Path, int], None]
    outputs: tuple[str, ...]
    needs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    given: dict = dataclasses.field(default_factory=dict)
    external: bool = False
    before: tuple[str, ...] = ()
    optional: bool = False
    inputs: Callable[[Profile, Path], dict[str, str]] | None = None


def _sample(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import sample

    sample.generate(folder, profile.seed, profile.scale, workers)


def _outside(profile: Profile, folder: Path, workers: int) -> None:
    """Stand for what comes from outside (`reefcore fetch`), whole, in part or not yet."""


def _release(profile: Profile, folder: Path) -> dict[str, str]:
    """Say what the released files hold, without hashing gigabytes at each look."""
    from reefcore import released

    fetched = released.read_json(folder / "released" / "fetched.json")
    return {
        f"input {file.name}": keys.known_digest(file, folder, fetched.get(file.name))
        for file in released.files(folder / "released")
    }


def _brought(profile: Profile, folder: Path) -> dict[str, str]:
    """Say which tables of the survey were put into the folder, where the step `data` does not make them."""
    from reefcore import released

    names = released.brought(folder)
    return {f"input {n}": keys.known_digest(folder / n, folder) if (folder / n).exists() else "missing" for n in names}


def _tables(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import released

    if released.is_there(folder):
        released.make(folder, profile.site)
    elif missing := [name for name in SURVEY if not (folder / name).exists()]:
        released.refuse(folder)
        raise ReefcoreError(
            f"the profile {profile.name} has neither the released files nor {', '.join(missing)} in its data folder",
            folder,
            f"get them: reefcore fetch annotations metadata --profile {profiles.given(profile)}",
        )
    else:
        released.say_nothing(folder)


def _photos(profile: Profile, folder: Path) -> dict[str, str]:
    """Say which photos are there; they can be hundreds of gigabytes: names and sizes must do."""
    there = (folder / "photos").is_dir()
    return {"input photos": keys.glance(folder / "photos", times=False) if there else "missing"}


def _covariates_there(profile: Profile, folder: Path, workers: int) -> None:
    """Measure the photos that are there; of none, the table has all its columns and no row."""
    if (folder / "photos").is_dir():
        return _covariates(profile, folder, workers)
    from reefcore import covariates

    write_parquet(pd.DataFrame(columns=covariates.COLUMNS).astype(covariates.DTYPES), folder / "covariates.parquet")
    images = read_parquet(folder / "images.parquet", ["source", "image"])
    write_parquet(images.assign(reason="the photo is not there"), folder / "unreadable.parquet")


def _covariates(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import covariates

    table, unreadable = covariates.table(read_parquet(folder / "images.parquet"), folder / "photos", workers)
    write_parquet(table, folder / "covariates.parquet")
    write_parquet(unreadable, folder / "unreadable.parquet")


def read_annotations(
    folder: Path,
    columns: list[str] | None = None,
    corals: bool = False,
    source: str | None = None,
    categories: bool = False,
) -> pd.DataFrame:
    """Read the annotations of a data folder, of six million rows no more than is needed; see `Project.table`."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path, kept = folder / "annotations.parquet", None
    if not (corals or source or categories):
        return read_parquet(path, columns)
    if corals:
        kept = pc.utf8_lower(pc.field("broad_category")).isin(list(HARD_CORALS))
    if source:
        kept = pc.field("source") == source if kept is None else kept & (pc.field("source") == source)
    texts = [name for name in COLUMNS["annotations"] if name != "annotation_id"]  # what a file has more can be unique
    table = pq.read_table(path, columns=columns, filters=kept, read_dictionary=texts if categories else None)
    return table.to_pandas()


def _curate(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import review

    # Of a repeated point both rows have the same raw label, so that the other labels need not be looked at.
    columns = [*IDENTITY, *"annotation_id label rank aphia_id broad_category".split()]
    annotations, reviews = read_annotations(folder, columns, corals=True), read_parquet(folder / "reviews.parquet")
    write_parquet(review.quality(annotations, reviews, profile.site, **profile.criteria), folder / "quality.parquet")


def _candidates(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import curation
    from reefcore.sample import candidates

    if profile.kind == "sample":
        kept = read_parquet(folder / "quality.parquet").query("not site")["source"].value_counts()
        table = candidates.table(read_parquet(folder / "sources.parquet"), kept, profile.seed)
    else:
        table = curation.candidates()  # of the real ones, those that reached the manual review are on record
    write_parquet(table, folder / "candidates.parquet")


def _split(profile: Profile, folder: Path, workers: int) -> None:
    import pyarrow.parquet as pq

    from reefcore import splits

    named = pq.read_schema(folder / "annotations.parquet").names  # all that is read of them is a split they bring along
    columns = [name for name in named if name == "annotation_id" or str(name).casefold().startswith("split")]
    annotations, quality = read_annotations(folder, columns), read_parquet(folder / "quality.parquet")
    table = splits.make(annotations, quality, seed=profile.seed, **profile.cross_sources)
    write_parquet(table, folder / "splits.parquet")


def cut_points(folder: Path) -> pd.DataFrame:
    """Give the points of a data folder that any scheme uses: those whose patches are cut."""
    used = read_parquet(folder / "splits.parquet", columns=["annotation_id"])["annotation_id"]
    points = read_parquet(folder / "annotations.parquet").drop_duplicates("annotation_id")
    return points[among(points["annotation_id"], used)].sort_values("annotation_id", kind="stable")


def _patches(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import cutting, patches

    points = cut_points(folder)
    if profile.shards:
        forecast = cutting.plan(points, folder / "photos", profile.crop, folder / "shards", workers)
        for line in cutting.said(forecast):
            logger.info("%s", line)
        cutting.check(forecast, folder / "shards", anyway=bool(os.environ.get(ANYWAY)))
        ids, skipped = cutting.write(points, folder / "photos", profile.crop, folder / "shards", workers)
        kept = pd.DataFrame({"annotation_id": ids})
    else:
        pixels, skipped = patches.cut(points, folder / "photos", profile.crop, workers)
        with atomic(folder / "patches.npy") as temporary:
            np.save(temporary, pixels)
        kept = points.loc[~among(points["annotation_id"], skipped["annotation_id"]), ["annotation_id"]]
    write_parquet(skipped, folder / "skipped.parquet")
    write_parquet(kept, folder / "patches.parquet")


def store(profile: Profile, folder: Path):
    """Open the patches of a profile: an ArrayPatches, or a ShardPatches where the profile keeps shards."""
    from reefcore import shards

    if profile.shards:
        if not any((folder / "shards").glob("*.parquet")):
            do = "get some by `reefcore fetch images`, then run `reefcore prepare patches`"
            raise ReefcoreError("there is no patch: no photo of the points was there to cut one of", folder, do)
        return shards.ShardPatches(folder / "shards")
    return _array(folder, *((file := (folder / "patches.npy").stat()).st_mtime_ns, file.st_ino))


@functools.lru_cache(maxsize=1)  # a process trains many runs, and what it has resized serves the next
def _array(folder: Path, *version: int):
    from reefcore import patches

    array = np.load(folder / "patches.npy", mmap_mode="r")
    return patches.ArrayPatches(array, read_parquet(folder / "patches.parquet")["annotation_id"])


def _train(profile: Profile, folder: Path, workers: int) -> None:
    """Train every run that is not up to date, in processes that each import torch once."""
    # A pretraining comes first, and what waits for it last.
    runs = sorted(_runs(profile), key=lambda run: run.starts_from != "")
    for path in profile.predictions:
        ensure(profile, folder, f"given-{Path(path).stem}")
    together(profile, folder, [run.name for run in runs], workers)


def together(profile: Profile, folder: Path, names: list[str], workers: int) -> None:
    """Train runs that are not up to date, several at a time."""
    stale = [name for name in names if not is_fresh(profile, folder, name)]
    # In full size each run fills the machine, and under torchrun all processes are needed for each.
    if workers == 1 or len(stale) < 2 or profile.kind == "full" or rank() is not None:
        for name in stale:
            ensure(profile, folder, name, 1)
        return
    with pool(min(workers, len(stale))) as processes:
        jobs = {processes.submit(ensure, profile, folder, name, 1): name for name in stale}
        try:
            for done, job in enumerate(as_completed(jobs), start=1):
                job.result()
                logger.info("Trained %s (%d of %d).", jobs[job], done, len(jobs))
        except BaseException:
            processes.shutdown(wait=False, cancel_futures=True)
            raise


def _run(run: Run, profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import weights

    splits, resume = read_parquet(folder / "splits.parquet"), folder / "progress" / f"{run.name}.safetensors"
    options = {"seed": profile.seed + run.seed, "resume": resume, "about": {"notice": profile.notice}}
    checkpoint = folder / "checkpoints" / f"{run.name}.safetensors"
    recipe = recipes.load(run.recipe, profile.kind, profile.recipe_changes)
    patches = store(profile, folder)
    if not run.train_set:
        done = training.pretrain(recipe, patches, splits, **options)
    else:
        start = folder / "checkpoints" / f"{run.starts_from}.safetensors" if run.starts_from else None
        annotations = read_parquet(folder / "annotations.parquet", columns=["annotation_id", "label"])
        done = training.run(recipe, run.train_set, patches, annotations, splits, name=run.name, start=start, **options)
    if int(os.environ.get("RANK", 0)):
        return  # of several processes, the first writes
    tables = {"predictions": done.predictions, "validation": done.validation} if run.train_set else {}
    for kind, table in (tables | {"history": done.history, "runs": done.facts}).items():
        write_parquet(table, folder / kind / f"{run.name}.parquet")
    if run.train_set:
        done.fitted.save(checkpoint)
    else:
        weights.save(done.fitted.learner.encoder_state(), checkpoint, {"pretraining": recipe.name})
    resume.unlink(missing_ok=True)  # only now is nothing lost


def _given(path: str, profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import metrics, predictions

    annotations = read_parquet(folder / "annotations.parquet", columns=["annotation_id", "label"])
    table = predictions.read(keys.root() / path, annotations)
    problems = table.attrs.pop("problems")  # pandas cannot handle a table there
    if len(problems):
        bad = problems["line"].nunique()
        logger.warning("%s", problems_text(problems, path, len(table), len(table) + bad))
    for run_id in table["run_id"].unique():
        run, _, test = run_id.rpartition("-")
        if run in runs(profile) or test not in metrics.SCHEMES:
            why = "is that of a run of the profile" if run in runs(profile) else "does not end in a test set"
            raise ReefcoreError(f"the run_id {run_id} {why}", path, "give one such as mine-S3-W")
    for doubt in metrics.doubts(table, annotations):
        logger.warning("%s: %s; the table is taken as it is.", path, doubt)
    predictions.write(table, folder / "predictions" / f"{Path(path).stem}.parquet")


def _measure(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import metrics

    annotations = read_parquet(folder / "annotations.parquet", columns=["annotation_id", "source", "image"])
    tables = [
        read_parquet(folder / output) for output in plan(profile)["train"].outputs if output.startswith("predictions/")
    ]
    columns = ["run_id", "annotation_id", "y_true", "y_pred"]
    predictions = pd.concat([table[columns] for table in tables], ignore_index=True)
    write_parquet(
        metrics.evaluate(predictions, annotations, n=profile.resamples, seed=profile.seed), folder / "metrics.parquet"
    )


@dataclass(frozen=True)
class Run:
    """One training: a recipe on a training set with a seed; without a training set, a pretraining."""

    recipe: str
    train_set: str
    seed: int = 0
    starts_from: str = ""

    @property
    def name(self) -> str:
        """See `reefcore.training.name_of`; a pretraining has the name of its recipe."""
        name = Path(self.recipe).stem
        return training.name_of(name, self.train_set, self.seed) if self.train_set else name


@functools.cache
def _runs(profile: Profile) -> tuple[Run, ...]:
    """List the runs of a profile, after the pretrainings they start from."""
    found, library = [], recipes.names()
    for name in profile.recipes:
        stem = Path(name).stem
        if Path(name).suffix and (stem in library or not re.fullmatch(r"\w+", stem)):
            raise ReefcoreError(
                "a recipe of one's own needs a name of its own, of letters, digits and _", name, "rename the file"
            )
        if [Path(other).stem for other in profile.recipes].count(stem) > 1:
            raise ReefcoreError(f"two recipes have the name {stem}", name, "rename the file, or name it once")
        recipe = recipes.load(name, profile.kind, profile.recipe_changes)
        if recipe.task == "masked":
            found.append(Run(name, ""))
            continue
        start = recipe.weights.removeprefix("recipe:") if recipe.weights.startswith("recipe:") else ""
        for train_set in (one for one in recipe.schemes if one in profile.train_sets):
            seeds = range(profile.seeds.get(f"{recipe.name}-{train_set}", 1))
            found += [Run(name, train_set, seed, start) for seed in seeds]
    found += [Run(name, "") for name in sorted({run.starts_from for run in found} - {"", *profile.recipes})]
    return tuple(sorted(found, key=lambda run: run.train_set != ""))


def runs(profile: Profile) -> list[str]:
    """List the runs of a profile, one step each: ``<recipe>-<training set>``, or a pretraining's recipe alone."""
    return [run.name for run in _runs(profile)]


def asked(profile: Profile, names: list[str], train_sets: list[str] | None, seed: int = 0) -> tuple[Profile, list[str]]:
    """Find the runs that somebody asks for, of the profile's recipes or of others.

    Parameters
    ----------
    profile : Profile
    names : list of str
        Recipes by name or file; none means all of the profile.
    train_sets : list of str, optional
        By default those of each recipe.
    seed : int

    Returns
    -------
    profile : Profile
        One whose plan has these runs.
    names : list of str
        Of the runs; ``["train"]`` for everything.

    Raises
    ------
    ReefcoreError
        Where a recipe or training set is not known, a recipe is not trained on any of these sets, or a file cannot give
        a run its name.
    """
    if unknown := [name for name in train_sets or () if name not in TRAIN_SETS]:
        raise ReefcoreError(f"there is no training set {unknown[0]!r}", do=f"choose from {', '.join(TRAIN_SETS)}")
    if not (names or profile.recipes or profile.predictions):
        raise ReefcoreError(f"the profile {profile.name} names no recipes", profile.path, "name what to train")
    if not (names or train_sets or seed):
        return profile, ["train"]
    wanted = tuple(dict.fromkeys(names)) or profile.recipes
    sets = tuple(train_sets or (TRAIN_SETS if names else profile.train_sets))
    seeds = {f"{Path(name).stem}-{one}": seed + 1 for name in wanted for one in sets}
    other = dataclasses.replace(profile, recipes=wanted, train_sets=sets, seeds=seeds)
    # A pretraining has one seed and no training set; one that a run starts from is trained with that run.
    pretraining = not (train_sets or seed)
    found = [run for run in _runs(other) if (run.seed == seed if run.train_set else pretraining)]
    for name in wanted if names else ():
        if any(run.recipe == name for run in found):
            continue
        recipe = recipes.load(name, profile.kind)
        if recipe.task == "masked":
            raise ReefcoreError(f"{name} is a pretraining, without training sets and seeds", do="leave them out")
        known = ", ".join(recipe.schemes) or "nothing"
        raise ReefcoreError(f"{name} is trained on {known}, not on {', '.join(sets)}", do="choose from its sets")
    if not found:
        raise ReefcoreError(f"no recipe of the profile {profile.name} is trained on {', '.join(sets)}")
    return other, [run.name for run in found]


def results(profile: Profile, folder: Path) -> pd.DataFrame:
    """List the runs of a profile and what others left in its folder.

    Returns
    -------
    DataFrame
        One row per run and test set: ``run`` (of what the profile does not train, the name of its file, where that is
        one run), ``row`` (of the published tables), ``state`` (up to date, stale, not
        trained, own: of a recipe or seed that the profile does not have), ``test``, ``macro_recall``, ``accuracy``,
        ``n``, ``epochs``, ``seconds`` (of training), ``device``.
    """
    from reefcore import metrics

    known = {run.name: run for run in _runs(profile) if run.train_set}
    there = {path.stem for path in (folder / "predictions").glob("*.parquet")}
    rows = []
    for name in [*known, *sorted(there - set(known))]:
        run = known.get(name)
        row = {"run": name, "row": recipes.load(run.recipe, profile.kind).row if run else "", "state": "not trained"}
        if name not in there:
            rows.append(row)
            continue
        row["state"] = "own" if run is None else "up to date" if is_fresh(profile, folder, name) else "stale"
        if (facts := folder / "runs" / f"{name}.parquet").exists():  # not of a run that was killed while it wrote
            row |= read_parquet(facts, ["epochs", "seconds", "device"]).iloc[0].to_dict()
        table = read_parquet(folder / "predictions" / f"{name}.parquet", ["run_id", "y_true", "y_pred"])
        alone = run is None and table["run_id"].str.rpartition("-")[0].nunique() == 1
        for run_id, answers in table.groupby("run_id"):
            score = metrics.score(answers["y_true"], answers["y_pred"])
            scores = {key: score[key] for key in ("macro_recall", "accuracy")}
            made, _, test = run_id.rpartition("-")
            shown = name if alone or (run is None and made in known) else made
            rows.append(row | {"run": shown, "test": test} | scores | {"n": len(answers)})
    columns = ["run", "row", "state", "test", "macro_recall", "accuracy", "n", "epochs", "seconds", "device"]
    return pd.DataFrame(rows, columns=columns).astype({"n": "Int64", "epochs": "Int64"})


def _made_of(recipe: recipes.Recipe) -> dict[str, str]:
    """Say what a training depends on of its recipe: the values, not the words beside them, and a file of weights."""
    given = {"recipe": keys.text_hash(repr(recipe))}
    if recipe.weights.endswith(".safetensors"):
        given["weights"] = keys.digest(file) if (file := Path(recipe.weights)).is_file() else "missing"
    return given


@functools.cache
def plan(profile: Profile) -> dict[str, Step]:
    """List the steps of a profile, or of a site, each after those it needs."""
    if profile.kind == "site":
        from reefcore.workflow import sites

        return {step.name: step for step in sites.plan(profile)}
    if profile.kind == "sample":
        outputs, measure, photos = (*SURVEY, "truth.parquet", "photos"), _covariates, ("data",)
        first = [Step("data", _sample, outputs, (), ("reefcore.sample",), ("seed", "scale"))]
    else:
        outside, photos = {"settings": ("data",), "external": True, "optional": True}, ("data", "photos")
        measure = _covariates_there
        first = [
            Step("released", _outside, ("released",), inputs=_release, **outside),
            Step(
                "data",
                _tables,
                (*SURVEY, *SAID),
                ("released",),
                ("reefcore.released",),
                ("data", "site"),
                inputs=_brought,
            ),
            Step("photos", _outside, ("photos",), inputs=_photos, **outside),
        ]
    steps = [
        *first,
        Step("covariates", measure, ("covariates.parquet", "unreadable.parquet"), photos, ("reefcore.covariates",)),
        Step("curate", _curate, ("quality.parquet",), ("data",), ("reefcore.review",), ("site", "criteria")),
        Step(
            "candidates",
            _candidates,
            ("candidates.parquet",),
            ("data", "curate"),
            ("reefcore.curation", "reefcore.sample.candidates"),
            ("kind", "seed"),
        ),
        Step(
            "splits", _split, ("splits.parquet",), ("data", "curate"), ("reefcore.splits",), ("seed", "cross_sources")
        ),
        Step(
            "patches",
            _patches,
            ("shards" if profile.shards else "patches.npy", "patches.parquet", "skipped.parquet"),
            (*photos, "splits"),
            ("reefcore.shards",) if profile.shards else ("reefcore.patches",),
            ("crop", "shards"),
        ),
    ]
    trained = []
    for run in _runs(profile):
        kinds = ("predictions", "validation", "history", "runs") if run.train_set else ("history", "runs")
        step = Step(
            run.name,
            functools.partial(_run, run),
            (*(f"{kind}/{run.name}.parquet" for kind in kinds), f"checkpoints/{run.name}.safetensors"),
            ("data", "splits", "patches", *filter(None, [run.starts_from])),
            ("reefcore.training", "reefcore.recipes", "reefcore.shards"),
            ("seed", "recipe_changes", "shards", "kind"),
            _made_of(recipes.load(run.recipe, profile.kind, profile.recipe_changes)),
        )
        trained.append(step)
    for path in profile.predictions:
        if not (file := keys.root() / path).is_file():
            raise ReefcoreError("this file of predictions does not exist", file, f"see predictions in {profile.path}")
        stems = [Path(other).stem for other in profile.predictions]
        if stems.count(file.stem) > 1 or file.stem in runs(profile):
            raise ReefcoreError("a run or another file of the profile has this name", file, "rename the file")
        given = {"file": keys.digest(file)}
        outputs = (f"predictions/{file.stem}.parquet",)
        made = functools.partial(_given, path)
        uses = ("reefcore.predictions", "reefcore.metrics")
        trained.append(Step(f"given-{file.stem}", made, outputs, ("data",), uses, given=given))
    if trained:
        steps += trained
        outputs = tuple(output for step in trained for output in step.outputs)
        names = tuple(step.name for step in trained)
        steps.append(Step("train", _train, outputs, names, before=("patches",)))
        steps.append(
            Step(
                "metrics",
                _measure,
                ("metrics.parquet",),
                ("data", "train"),
                ("reefcore.metrics",),
                ("seed", "resamples"),
            )
        )
    from reefcore.workflow import domains, experiments, pseudo, survey  # which are made of what is here

    more = (plan_of(profile) for plan_of in (experiments.plan, survey.plan, pseudo.plan, domains.plan))
    return {step.name: step for step in (*steps, *(step for found in more for step in found))}


def maker(profile: Profile, output: str) -> str | None:
    """Return the step that makes an output, or None where no step of this profile does."""
    if (step := SEVERAL.get(output.partition("/")[0])) in plan(profile):  # of a site, such a table is one file
        return step
    return next((name for name, step in plan(profile).items() if output in step.outputs), None)


def ingredients(profile: Profile, folder: Path, name: str) -> dict[str, str]:
    """Say what a step is made from, name by name; `keys.key_of` makes the key of it."""
    step = plan(profile)[name]
    function = step.build.func if isinstance(step.build, functools.partial) else step.build
    # A step depends on its own function here, not on the others beside it.
    made_of = {
        "step": f"{name} {keys.text_hash(inspect.getsource(function))}",
        **keys.environment(own=profile.kind == "site"),
        **keys.modules(*step.modules),
    }
    made_of |= {f"profile {setting}": said(profile, setting) for setting in step.settings}
    if step.given:  # a run depends on its own recipe, not on the others beside it
        made_of = {name: hash_ for name, hash_ in made_of.items() if not re.match(r"reefcore/recipes/.*\.yaml", name)}
        made_of |= step.given
    made_of |= {f"step {need}": key(profile, folder, need) for need in step.needs}
    if step.inputs:
        made_of |= step.inputs(profile, folder)
    elif step.external:  # the frames of a survey can be many gigabytes: names and sizes must do
        for path in (folder / output for output in step.outputs):
            made_of[f"input {path.name}"] = (
                "missing"
                if not path.exists()
                else keys.glance(path, times=False)
                if path.is_dir()
                else keys.digest(path)
            )
    return made_of


def said(profile: Profile, setting: str) -> str:
    """Give the value of a setting for a record; that of a site, which can name folders of its owner, as a hash."""
    value = str(profile.settings[setting])
    return keys.text_hash(value)[:16] if profile.kind == "site" else value


@functools.cache
def key(profile: Profile, folder: Path, name: str) -> str:
    """Return the key of a step."""
    return keys.key_of(ingredients(profile, folder, name))


def record_path(folder: Path, name: str) -> Path:
    """Return where the record of a step lies."""
    return folder / ".keys" / f"{name}.json"


def is_fresh(profile: Profile, folder: Path, name: str) -> bool:
    """Tell whether a step is up to date."""
    return keys.fresh(record_path(folder, name), folder, key(profile, folder, name)) is not None


def ensure(profile: Profile, folder: Path, name: str, workers: int = WORKERS) -> dict:
    """Make a step up to date, and the steps it needs; return its record.

    Two processes that want the same step do not do it twice: the second waits and takes what the first made.
    """
    step, wanted, path = plan(profile)[name], key(profile, folder, name), record_path(folder, name)
    if record := keys.fresh(path, folder, wanted):
        return record
    # Training makes its runs itself, several at a time; what they need is made before.
    for need in step.before or step.needs:
        if rank() is not None and need not in runs(profile) and not is_fresh(profile, folder, need):
            raise ReefcoreError(
                f"the {need} that {name} needs are not up to date, and are no work for many processes",
                folder,
                f"make them first, without torchrun: reefcore prepare patches --profile {profiles.given(profile)}",
            )
        ensure(profile, folder, need, workers)
    if rank():  # all processes work, the first keeps the record; what starts from this needs its checkpoint
        step.build(profile, folder, workers)
        while not (record := keys.fresh(path, folder, wanted)):
            time.sleep(0.2)
        return record
    with keys.locked(path.with_suffix(".lock")):
        if record := keys.fresh(path, folder, wanted):
            return record
        logger.info("Making %s (%s).", name, profile.name)
        path.unlink(missing_ok=True)
        places = [folder / output for output in (*step.outputs, f"progress/{name}.safetensors")]
        for place in (*places, path):  # what a killed process left half written
            for left in place.parent.glob(f".{place.stem}.*.tmp*"):
                left.unlink(missing_ok=True)
        began = time.perf_counter()
        step.build(profile, folder, workers)
        absent = [output for output in step.outputs if not (folder / output).exists()]
        if absent and not step.optional:
            raise ReefcoreError(f"the step {name} did not make {', '.join(absent)}", folder)
        record = {
            "name": name,
            "key": wanted,
            "ingredients": ingredients(profile, folder, name),
            "outputs": {} if step.external else keys.describe(folder, step.outputs),
            "seconds": round(time.perf_counter() - began, 2),
        }
        write_json(record, path)
        return record
