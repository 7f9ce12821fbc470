"""The steps behind the chapter on other reefs: their points, and what a model of the profile or any program answers."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd

from reefcore import annotations, domains, predictions
from reefcore.annotations import masks
from reefcore.errors import ReefcoreError
from reefcore.files import check_keys, read_parquet, write_parquet
from reefcore.profiles import Profile
from reefcore.tables import COLUMNS
from reefcore.taxonomy import HARD_CORAL
from reefcore.workflow import keys, steps
from reefcore.workflow.steps import Step

logger = logging.getLogger(__name__)

KEYS = ("run", "points")  # of `domains` in a profile
ANSWERS = ("predictions.parquet", "predictions.csv")  # of any program, in the folder of a data set
FACTS = ["dataset", "rows", "read", "reason", "records"]
TABLES = (".csv", ".parquet")
AGAIN = "the same point with the same label once more"


def plan(profile: Profile) -> list[Step]:
    """List the steps of a profile's test domains; none where it names no run for them that it trains.

    The sample makes small data sets itself. A full profile takes the folders that lie in ``domains/``, each named as
    its data set or with files of any format that `reefcore.annotations` reads, and starts no training: where neither
    the run's checkpoint nor a file of predictions is there, the table of answers is empty.
    """
    check_keys(profile.domains, KEYS, ("run",) if profile.domains else (), profile.path)
    sample, run = profile.kind == "sample", profile.domains.get("run")
    if run is None or (sample and run not in steps.runs(profile)):  # a profile can be asked for other trainings
        return []
    made = [Step("domain_files", _make, ("domains",), (), ("reefcore.sample.domains",), ("seed",))] if sample else []
    needs = ("domain_files",) if sample else ()
    uses = ("reefcore.domains",)
    outputs = ("domain_points.parquet", "domain_facts.parquet")
    inputs = None if sample else _there
    return [
        *made,
        Step("domain_points", _read, outputs, needs, uses, ("seed", "domains"), inputs=inputs),
        Step(
            "domain_predictions",
            _answer,
            ("domain_predictions.parquet", "domain_skipped.parquet", "domain_own.parquet"),
            ("data", "domain_points", *((run,) if sample else ())),
            ("reefcore.inference", "reefcore.fitting", "reefcore.domains"),
            ("seed", "domains", "resamples"),
            inputs=None if sample else _answered,
        ),
    ]


def _there(profile: Profile, folder: Path) -> dict[str, str]:
    where = folder / "domains"
    return {"input domains": keys.glance(where, times=False) if where.is_dir() else "missing"}


def _answered(profile: Profile, folder: Path) -> dict[str, str]:
    run = profile.domains["run"]
    own = [folder / "checkpoints" / f"{run}.safetensors", folder / "predictions" / f"{run}.parquet"]
    given = [file for one in _folders(folder) for name in ANSWERS if (file := one / name).is_file()]
    there = [file for file in (*given, *own) if file.is_file()]
    return {f"input {file.relative_to(folder)}": keys.known_digest(file, folder) for file in there}


def _folders(folder: Path) -> list[Path]:
    return sorted(one for one in (folder / "domains").glob("*") if one.is_dir() and one.name[0] not in "._")


def _make(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore.sample import domains as made

    made.generate(folder / "domains", profile.seed)


def read(folder: str | Path, points: int = 25, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read one data set as a test domain.

    Parameters
    ----------
    folder : path
        Named as one of `reefcore.domains.datasets`, else recognised by what is in it.
    points : int
        Drawn from each photo that has a mask.
    seed : int

    Returns
    -------
    points : DataFrame
        From `reefcore.domains.labelled`; `source` is the folder's name, `image` the path below it.
    facts : DataFrame
        ``dataset``, ``rows`` (records of the data set), ``read``, and one row per ``reason`` with its ``records`` that
        were left out.

    Raises
    ------
    ReefcoreError
        Where the folder holds no data set that can be read.
    """
    folder = Path(folder)
    name, known = folder.name, set(domains.datasets()["dataset"])
    options = {"source": name, "sample": points, "points": "sample", "seed": seed}
    if name in masks.PAIRS and any(folder.rglob("*.parquet")):
        masks.unpack(folder)
    paths, form = [folder], name if name in known else None
    if name not in masks.PAIRS and name != "eilat":  # tables; the file of answers beside them is none
        tables = [p for p in sorted(folder.iterdir()) if p.suffix.lower() in TABLES and p.name not in ANSWERS]
        fitting = [p for p in tables if len(tables) == 1 or _is(p, form)]
        paths = fitting if len(tables) == 1 or (form and fitting) else paths
    parts = [annotations.read(path, format=form, **options) for path in paths]
    rows, got = (sum(part.attrs[what] for part in parts) for what in ("rows", "read"))
    left = sum((Counter(part.attrs["left_out"]) for part in parts), Counter())
    for part in parts:
        part.attrs = {}
    table = pd.concat(parts, ignore_index=True)
    if again := int((twice := table.duplicated("annotation_id")).sum()):  # it would count twice in every score
        table, left[AGAIN], got = table[~twice].reset_index(drop=True), again, got - again
    if paths != [folder] and len(paths) < len(tables):
        others = ", ".join(p.name for p in tables if p not in paths)
        left[f"other tables of the folder, not read ({others})"] = 0
    facts = pd.DataFrame([(name, rows, got, why, n) for why, n in (left or {"": 0}).items()], columns=FACTS)
    return domains.labelled(table, name), facts


def _is(path: Path, form: str | None) -> bool:
    try:
        return annotations.recognise(path).name == form
    except ReefcoreError:
        return False


def _read(profile: Profile, folder: Path, workers: int) -> None:
    parts, facts = [], []
    for one in _folders(folder):
        try:
            points, counted = read(one, profile.domains.get("points", 25), profile.seed)
        except ReefcoreError as error:  # one that cannot be read does not stop the others: the chapter says why
            logger.warning("%s is left out: %s", one.name, error)
            facts.append(pd.DataFrame([(one.name, 0, 0, f"{error.what}; {error.do or ''}", 0)], columns=FACTS))
            continue
        parts.append(points)
        facts.append(counted)
    named = {name: kind.dtype for name, kind in COLUMNS["annotations"].items()}
    named |= dict.fromkeys(("dataset", "family", "functional_group"), "str") | {"coral": "boolean"}
    empty = pd.DataFrame(columns=list(named)).astype(named)
    table = pd.concat([part[[n for n in part if n in empty]] for part in parts], ignore_index=True) if parts else empty
    write_parquet(table, folder / "domain_points.parquet")
    blank = pd.DataFrame(columns=FACTS)
    write_parquet(pd.concat(facts, ignore_index=True) if facts else blank, folder / "domain_facts.parquet")


def _answer(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import inference

    points, run = read_parquet(folder / "domain_points.parquet"), profile.domains["run"]
    checkpoint, parts, skipped = folder / "checkpoints" / f"{run}.safetensors", [], []
    given = {one.name: file for one in _folders(folder) for name in ANSWERS if (file := one / name).is_file()}
    for name, file in given.items():
        parts.append(predictions.read(file, points[points["dataset"] == name]))
    mine = points[~points["dataset"].isin(list(given))]
    if checkpoint.is_file() and len(mine):
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            asked, output = Path(temporary) / "points.parquet", Path(temporary) / f"{run}.parquet"
            write_parquet(mine, asked)
            done = inference.run(checkpoint, asked, output, folder / "domains")
            parts.append(read_parquet(output))
            if done["skipped_list"]:
                skipped.append(pd.read_csv(done["skipped_list"], dtype={"source": "str", "image": "str"}))
    empty = pd.DataFrame(columns=predictions.TEXT, dtype="str")
    write_parquet(pd.concat(parts, ignore_index=True) if parts else empty, folder / "domain_predictions.parquet")
    lost = pd.DataFrame(columns=["source", "image", "row", "column", "reason"])
    write_parquet(pd.concat(skipped, ignore_index=True) if skipped else lost, folder / "domain_skipped.parquet")
    write_parquet(_own(profile, folder), folder / "domain_own.parquet")


def _own(profile: Profile, folder: Path) -> pd.DataFrame:
    """Score the run on its own test sets as on the others, where its predictions are there."""
    file, own = folder / "predictions" / f"{profile.domains['run']}.parquet", "own test set"
    parts = []
    for run, answers in read_parquet(file).groupby("run_id") if file.is_file() else ():
        names = ["annotation_id", "source", "image", "label", "rank"]
        known = read_parquet(folder / "annotations.parquet", names).drop_duplicates("annotation_id")
        known = domains.told(known.assign(functional_group=HARD_CORAL), f"{own} {run.rpartition('-')[2]}")
        parts.append(domains.evaluate(answers, known, profile.resamples, profile.seed))
    table = pd.concat(parts, ignore_index=True) if parts else domains.evaluate(*_nothing(folder))
    return table[table["level"] != domains.LEVELS[2]]  # all its points are corals


def _nothing(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    empty = pd.DataFrame(columns=predictions.TEXT, dtype="str")
    return empty, read_parquet(folder / "domain_points.parquet")[:0]
