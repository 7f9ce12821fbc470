"""What a notebook works with: the tables, photos and patches of a profile, made on the spot where they are not."""

from __future__ import annotations

import dataclasses
import html
import os
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import reefcore
from reefcore import predictions, profiles
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet
from reefcore.profiles import Profile
from reefcore.workflow import keys, launch, sites, steps

if TYPE_CHECKING:
    from reefcore.figures.style import Shown

RECORD = "REEFCORE_RECORD"  # tells a notebook the name of the record that will lie beside it


def open(profile: str | Path | Profile = "sample", seed: int | None = None, reefnet: str | None = None) -> Project:
    """Open a profile, as the first cell of every chapter does.

    Parameters
    ----------
    profile : str, path, Profile or Site
        ``sample``, ``smoke``, ``full`` or a YAML file; a relative path is looked for from the current folder, then from
        the root. Of a site: ``made-up``, its site.yaml, the folder that holds it, or a name below ``sites/``.
    seed : int, optional
        By default the profile's own. Another seed has a data folder of its own.
    reefnet : str, optional
        Of a site: the profile that it is compared with, by default the one that site.yaml names.

    Returns
    -------
    Project
        A `SiteProject` of a site.

    Raises
    ------
    ReefcoreError
        Where the profile is not right.
    """
    one = find_profile(profile) if isinstance(profile, str | Path) else profile
    if one.kind != "site":
        return Project(one, seed)
    for known in (steps.plan, steps.key):  # she edits labels.csv, and opens the site again in the same notebook
        known.cache_clear()
    return SiteProject(one if reefnet is None else dataclasses.replace(one, reefnet=reefnet), seed)


def find_profile(name_or_path: str | Path) -> Profile:
    """Load a profile or a site by name, or from a file given relative to the current folder or to the root."""
    if (site := sites.load(name_or_path)) is not None:
        return site
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") and not path.exists():
        path = keys.root() / path
    return profiles.load(path if path.suffix else str(name_or_path))


class Project:
    """The data of one profile.

    Attributes
    ----------
    profile : Profile
    seed : int
    notice : str
        The sentence that every figure, table and page of this profile carries.
    folder : Path
        The data folder.
    """

    def __init__(self, profile: Profile, seed: int | None = None):
        self.profile = profile.with_seed(seed)
        self.folder = self.profile.folder(keys.root())
        self.seed, self.notice = self.profile.seed, self.profile.notice
        self._opened = time.perf_counter()
        self._used: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Project {self.profile.name}, seed {self.seed}>"

    def table(self, name: str, columns: list[str] | None = None, **rows) -> pd.DataFrame:
        """Read a table.

        Parameters
        ----------
        name : str
            annotations, sources, images, reviews, truth, quality, candidates (sources that were chosen from),
            covariates, unreadable (photos without them, and why), splits, patches, skipped (points without a patch, and
            why), metrics, or, of all runs, predictions (a run has no score for a class that it does not know),
            validation, history (of training, by epoch) and runs (one row each); zero_shot (predictions of models that
            were not trained here; empty where the profile asks none), few_shot and open_set (predictions of models
            that some classes were kept from).
            Of a substrate survey: frames, patch_labels, observations, substrate_splits, frame_patches_skipped (frames
            that are left out, and why), and of all its runs patch_predictions, frame_predictions (of models that see
            the frame as a whole), substrate_history and substrate_runs; pseudo_labels (of models that no
            expert taught) and pseudo_worth (what a classifier learns from them, and from expert labels).
            Of other reefs as test domains: domain_points, domain_facts (what was left out), domain_predictions,
            domain_skipped (points without a patch) and domain_own (the run's scores on its own test sets).
        columns : list of str, optional
            Only these.
        **rows
            Of annotations, which can be millions: ``corals=True`` reads only hard corals, ``source="..."`` only one
            source, ``categories=True`` texts as categories, in a tenth of the memory.

        Raises
        ------
        ReefcoreError
            Where this profile has no such table, or the step that makes it fails.
        """
        if name in steps.SEVERAL and self.profile.kind != "site":
            outputs = [output for output in self._made(name)["outputs"] if output.startswith(f"{name}/")]
            if not outputs and name == "zero_shot":  # a chapter says what could be run
                return pd.DataFrame(columns=columns or predictions.TEXT, dtype="str")
            if not outputs:
                do = "it shows predictions of other programs; name recipes in it for more"
                raise ReefcoreError(f"the profile {self.profile.name} trains nothing, and so has no {name}", do=do)
            return pd.concat((read_parquet(self.folder / output, columns) for output in outputs), ignore_index=True)
        self._made(f"{name}.parquet")
        if rows and name == "annotations":
            return steps.read_annotations(self.folder, columns, **rows)
        return read_parquet(self.folder / f"{name}.parquet", columns)

    @property
    def photos(self) -> Path:
        """The folder with the photos, as ``<source>/<image>``; of a full profile, some may be missing."""
        self._made("photos")
        if not (self.folder / "photos").is_dir():
            do = f"get them by `reefcore fetch images --profile {profiles.given(self.profile)}`"
            raise ReefcoreError(f"the profile {self.profile.name} has no photos", self.folder, do)
        return self.folder / "photos"

    @property
    def frames(self) -> Path:
        """The folder with the frames of the substrate survey, as ``<sequence>/<frame>``."""
        self._made("frames")
        return self.folder / "frames"

    @property
    def patches(self):
        """The crops around the points of ``table("patches")``, read from disk as needed; see `reefcore.patches`.

        What `steps.store` opens; ``.read(positions, side)`` gives uint8, (n, side, side, 3).
        """
        self._made("patches.parquet")
        return steps.store(self.profile, self.folder)

    def has(self, name: str) -> bool:
        """Tell whether there is anything of a table, of the photos, patches or frames; one row or photo is enough.

        A chapter asks before a section that would need them, and says in a sentence what it leaves out. What many runs
        make (predictions, history, ...) is there where every run is, or may be trained here.
        """
        output = {"photos": "photos", "frames": "frames", "patches": "patches.parquet"}.get(name, f"{name}.parquet")
        if name in steps.SEVERAL:
            made = steps.plan(self.profile).get(steps.SEVERAL[name])
            if made is None or not any(one.startswith(f"{name}/") for one in made.outputs):
                return False
            fresh = (steps.is_fresh(self.profile, self.folder, one) for one in made.needs)
            return launch.may_train(self.profile) or all(fresh)
        if steps.maker(self.profile, output) is None or (name == "patches" and not self.has("photos")):
            return False
        self._made(output)
        if (path := self.folder / output).is_dir() or not path.exists():
            return path.is_dir() and any(path.iterdir())
        return len(read_parquet(path, [])) > 0

    def _made(self, output: str) -> dict:
        """Make an output up to date and note that it was used; return the record of its step."""
        step = steps.maker(self.profile, output)
        if step is None:
            known = sorted(o for made in steps.plan(self.profile).values() for o in made.outputs)
            what = "site" if self.profile.kind == "site" else "profile"
            raise ReefcoreError(
                f"the {what} {self.profile.name} has no {output.removesuffix('.parquet')}",
                do=f"it has {', '.join(known)}",
            )
        record = steps.ensure(self.profile, self.folder, step)
        self._used[output.partition(".")[0]] = fingerprint(record, output)
        return record

    def provenance(self) -> Provenance:
        """Say where the page comes from; the last cell of every chapter shows it."""
        from reefcore.workflow import full

        code, some = code_version(), []
        if self.profile.kind == "full":
            some = ["photos {:,} of {:,}".format(*full.Stand(self.profile).photos)]
        return Provenance(
            self.notice,
            [
                f"profile {self.profile.name}",
                f"seed {self.seed}",
                *some,
                f"reefcore {code['version']}, code {code['label']}",
                "inputs " + (", ".join(f"{name} {hash_[:8]}" for name, hash_ in sorted(self._used.items())) or "none"),
                f"run time {time.perf_counter() - self._opened:.1f} s",
            ],
            os.environ.get(RECORD),
        )


#: What a site may lack -> what is not there, and what in its site.yaml adds it.
LACKS = {
    "photos": ("no photo of its annotations", "`photos:` names the folder they lie in"),
    "dates": ("no dates", "`metadata:` can name a file with a column of dates, or `date_column:` the column"),
    "transects": ("no transects", "`transect_column:` names the column that has them, or `from_name:` how names do"),
    "sites": (
        "no sites within the reef",
        "`site_column:` names the column that has them, or `from_name:` how names do",
    ),
    "positions": ("no positions", "`metadata:` can name a file with latitude and longitude"),
    "depth": ("no depths", "`metadata:` can name a file with a column of depths in metres"),
    "covers": ("no percent covers of its own", "`annotations:` can name a file of them, as MERMAID exports it"),
    "points": ("no annotated points", "`annotations:` can name an export with a row for each point"),
    "classifier": ("too few labelled points on photos for a classifier", "`photos:` names the folder of photos"),
    "reefnet": ("no ReefNet to be compared with", "`reefnet:` can name a profile, such as `sample` or `full`"),
}
#: Of what a site has where a table has rows: the table, and one of its columns.
ROWS = {"points": ("points", ["image"]), "covers": ("covers", ["unit"]), "classifier": ("predictions", ["y_true"])}


class SiteProject(Project):
    """The data of a site: an ecologist's own reef.

    Its tables are points, images, photos (files beside the images they match), problems, left_out, covers and checks
    of `reefcore.site.make`; labels, annotations (the points with what their labels mean) and label_checks; covariates
    and unreadable; classifier, predictions and machine of `reefcore.machine`.
    """

    @property
    def photos(self) -> Path:
        """The folder of the photos; ``table("images")`` has each one's path below it."""
        self._made("images.parquet")
        folder = sites.photo_folder(self.profile)
        if folder is None:
            raise ReefcoreError(self._sentence("photos"), self.profile.path)
        return folder

    @property
    def reefnet(self) -> Project | None:
        """The ReefNet that site.yaml asks to be compared with, or None."""
        return open(self.profile.reefnet) if self.has("reefnet") else None

    def has(self, name: str) -> bool:
        """Tell whether the site has photos, dates, transects, sites, positions, depth, covers, points, a classifier,
        or a reefnet; one photo, date, ... is enough.
        """
        if name not in LACKS:
            raise ReefcoreError(f"nobody knows whether a site has {name}", do=f"ask for {', '.join(LACKS)}")
        if name == "reefnet":
            return bool(self.profile.reefnet)
        if name in ROWS:
            return len(self.table(*ROWS[name])) > 0
        column = {"positions": "latitude"}.get(name, name.rstrip("s"))
        of = "covers" if name in ("dates", "sites", "transects", "depth") and not self.has("points") else "images"
        return bool(self.table(of, [column])[column].notna().any())

    def lacks(self, name: str) -> Shown:
        """Say for the page what the site lacks, and what in its site.yaml adds it."""
        from reefcore.figures.style import Shown

        text = self._sentence(name)
        code = re.sub(r"`(.+?)`", r"<code>\1</code>", html.escape(text))
        return Shown(f'<p class="lacks">{code}</p>', text, words=True)

    def _sentence(self, name: str) -> str:
        missing, key = LACKS[name]
        return f"{self.profile.name} has {missing}, so this section is empty. In its site.yaml, {key}."

    def located(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Keep the rows whose photo is there, as functions that read photos below ``photos`` take them; see
        `reefcore.workflow.sites.located`.
        """
        return sites.located(frame, self.table("images", ["source", "image", "photo"]))

    def patches(self, points: pd.DataFrame, size: int) -> tuple[np.ndarray, pd.DataFrame]:
        """Cut the patches of points of this site; see `reefcore.patches.cut`.

        Returns
        -------
        patches : ndarray of uint8, shape (n, size, size, 3)
        kept : DataFrame
            The rows of `points` that they are of, in this order: a photo can be missing, a point outside of it.
        """
        from reefcore import patches

        there = self.located(points)
        if there.empty:
            return np.zeros((0, size, size, 3), dtype=np.uint8), points[:0]
        # What cannot be cut, and photos that end early, are in the table of checks and on the page of photo quality.
        patches.logger.disabled, was = True, patches.logger.disabled
        try:
            pixels, skipped = patches.cut(there, self.photos, size)
        finally:
            patches.logger.disabled = was
        return pixels, points.loc[there.index[~there["annotation_id"].isin(skipped["annotation_id"])]]


class Provenance:
    """The last line of a page; `record` is the file beside it that says more, where the workflow runs the notebook."""

    def __init__(self, notice: str, parts: list[str], record: str | None = None):
        self.notice, self.parts, self.record = notice, parts, record

    def __repr__(self) -> str:
        return f"{self.notice} {' · '.join(self.parts)}"

    def _repr_html_(self) -> str:
        more = f' · <a href="{html.escape(self.record)}">everything else</a>' if self.record else ""
        line = html.escape(" · ".join(self.parts))
        return f'<p class="provenance"><em>{html.escape(self.notice)}</em> {line}{more}</p>'


def fingerprint(record: dict, output: str) -> str:
    """Return the hash of an output from the record of its step; several files together have the key of the step."""
    return record["outputs"].get(output, {}).get("sha256", record["key"])


def code_version() -> dict:
    """Say which code this is.

    Returns
    -------
    dict
        ``version``; ``commit`` and ``dirty`` (changes not committed) from git, or None without it; ``sources``, a hash
        of the package; ``label``, short and for people.
    """
    sources = sorted(p for p in keys.PACKAGE.rglob("*") if p.suffix in (".py", ".yaml") and "_share" not in p.parts)
    hashed = keys.text_hash("\n".join(keys.text_hash(p.read_text(encoding="utf-8")) for p in sources))
    version = {
        "version": reefcore.__version__,
        "commit": None,
        "dirty": None,
        "sources": hashed,
        "label": f"src-{hashed[:8]}",
    }
    checkout = keys.PACKAGE.parent

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(checkout), *command], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        # Installed below somebody else's repository, git would answer for that one.
        if Path(git("rev-parse", "--show-toplevel")).resolve() != checkout:
            return version
        version["commit"] = git("rev-parse", "--short=10", "HEAD")
        version["dirty"] = bool(git("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return version
    version["label"] = version["commit"] + ("-dirty" if version["dirty"] else "")
    return version
