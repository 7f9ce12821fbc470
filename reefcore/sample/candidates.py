"""The candidate sources of the sample: invented listings, so that the funnel of the paper (A.2.1) has something to do.

The sources of the sample are among them. How many others fail which rule follows the paper's counts; that the funnel
comes out near the paper is therefore a check of its rules, not a finding.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from reefcore import published
from reefcore.curation import MIN_CONFIRMED
from reefcore.sample.survey import SITE, stream

NAMES = "reef bay lagoon transect seagrass rocky shore mooring survey station kelp pier monitoring".split()
TRIALS = ("test {}", "{} trial", "my first test {}", "{}_Test_2", "trial run {}")
#: What a person wrote beside a source that was decided against.
COMMENTS = ("temperate rocky shore", "seagrass survey", "few corals, none of them reef-building", "settlement plates")


def table(sources: pd.DataFrame, kept: pd.Series, seed: int) -> pd.DataFrame:
    """Invent the listing that the sources of the sample were chosen from.

    Parameters
    ----------
    sources : DataFrame
        The sources of the sample, with ``source``.
    kept : Series of int
        By source: annotations of labels that meet the label criteria.
    seed : int

    Returns
    -------
    DataFrame
        What `reefcore.curation.source_funnel` takes, sorted by name; as many rows, in proportion to the sources of the
        sample, as the paper lists.
    """
    rng = stream(seed, "candidates")
    left = published.texts("funnel")
    own = sources.loc[sources["source"] != SITE, "source"]
    size = len(own) / left["labelled"]
    gone = {step: round(size * (left[before] - left[step])) for before, step in itertools.pairwise(left)}
    rows = [(name, True, None, "yes", "", None, False, int(kept.get(name, 0))) for name in own]
    for step, count in gone.items():
        for i in range(count):
            name = f"listed {step[:3]}{i + 1:04d} {NAMES[int(rng.integers(len(NAMES)))]}"
            if step == "named":
                name = TRIALS[i % len(TRIALS)].format(name)
            trained = step not in ("named", "classified") or (step == "named" and bool(rng.random() < 0.4))
            few = int(rng.integers(1, MIN_CONFIRMED)) if step == "confirmed" else None
            images = few if trained else int(rng.choice([0, 0, 3, 40]))
            decision = "no" if step == "reviewed" else "yes"
            comment = COMMENTS[i % len(COMMENTS)] if step == "reviewed" else ""
            withdrawn = ("duplicate", "private")[i % 2] if step == "unique" else None
            rows.append((name, trained, images, decision, comment, withdrawn, step == "uncalibrated", 0))
    columns = [
        "source", "classifier", "confirmed_images", "decision", "comment", "withdrawn", "calibration", "annotations",
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=columns).sort_values("source", ignore_index=True)
    many = MIN_CONFIRMED + rng.lognormal(6.5, 1.2, len(frame)).astype(int)
    frame["confirmed_images"] = frame["confirmed_images"].fillna(pd.Series(np.asarray(many))).astype(int)
    return frame.astype({"withdrawn": "str", "comment": "str"})
