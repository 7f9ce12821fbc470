"""Who made the data: the contributors of each source, for every table derived from it (paper A.8, Table 13)."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import pandas as pd
import yaml

from reefcore import curation, published

#: Of the released annotations; the photos stay with their owners on CoralNet (facts of the release, paper A.9).
LICENCE = "CC BY-NC-SA 4.0"
CITATION = re.compile(r"(NOAA\s+Pacific\s+Islands|Ehrenberg\s+et\s+al).*")
COLUMNS = ["source", "contributors", "affiliations", "cite", "licence"]


def fold(name: str) -> str:
    """Fold a source's name: the paper and CoralNet write accents, quotation marks and NOAA's programme differently."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    # Quotation marks and the okina go; NOAA's surveys are called CREP or ESD by the year of the crawl.
    words = re.sub(r"[^a-z0-9]+", " ", re.sub("['’‘ʻ`]", "", plain)).strip()
    return re.sub(r"^(crep|esd) rea", "rea", words)


@cache
def _table() -> pd.DataFrame:
    printed = published.wide(13)
    listed = {fold(name): name for name in curation.candidates()["source"]}
    rows = []
    for name, people, places in printed.itertuples(index=False):
        found = CITATION.search(name)  # the printed name may run on into a citation
        known = listed.get(fold(name[: found.start()] if found else name), name)
        rows.append((known, people.strip(" ,"), places, found[0] if found else pd.NA, LICENCE))
    return pd.DataFrame(rows, columns=COLUMNS).astype("str")


def contributors() -> pd.DataFrame:
    """Return the contributors of the 85 sources of Table 13, under the sources' names on CoralNet.

    Returns
    -------
    DataFrame
        ``source``, ``contributors``, ``affiliations`` (as printed, separated by commas), ``cite`` (a citation that the
        table prints with the name, else NA), ``licence`` (of the annotations).
    """
    return _table().copy()


def attribution(sources: pd.DataFrame | list[str]) -> pd.DataFrame:
    """Say who made the given sources, for the table that goes with data derived from them.

    Parameters
    ----------
    sources : DataFrame or list of str
        Names; or a table of sources whose columns ``contributors``, ``affiliations``, ``cite`` and ``licence``, where
        it has them, come before Table 13.

    Returns
    -------
    DataFrame
        ``source``, ``contributors``, ``affiliations``, ``cite``, ``licence``, and ``note``, which says where nothing is
        known of a source; sorted by source, each once.
    """
    given = sources if isinstance(sources, pd.DataFrame) else pd.DataFrame({"source": list(sources)}, dtype="str")
    own = given.reindex(columns=COLUMNS).drop_duplicates("source").sort_values("source", ignore_index=True)
    known = _table().assign(key=_table()["source"].map(fold)).set_index("key")
    found = known.reindex(own["source"].map(fold)).reset_index(drop=True)
    table = own.astype("object").fillna(found.astype("object")).assign(source=own["source"])
    unknown = table["contributors"].isna()
    note = "not in Table 13: ask the owner of the source"
    return table.assign(note=pd.Series(note, index=table.index).where(unknown)).astype("str")


def citation(attributed: pd.DataFrame, title: str) -> str:
    """Write a citation file (CITATION.cff, version 1.2.0) for data of these sources.

    Parameters
    ----------
    attributed : DataFrame
        From `attribution`.
    title : str
        Of the data.

    Returns
    -------
    str
        YAML: ReefNet first among the references, then one data set per source with its contributors as printed.
    """
    sources = []
    for row in attributed.itertuples():
        people = [name.strip() for name in str(row.contributors).split(",") if name.strip()]
        authors = [{"name": name} for name in people] if pd.notna(row.contributors) else []
        entry = {"type": "data", "title": f"Source {row.source}"}
        entry["authors"] = authors or [{"name": f"The owners of the source {row.source}"}]
        said = [str(value) for value in (row.affiliations, row.cite, row.licence, row.note) if pd.notna(value)]
        sources.append(entry | ({"notes": "; ".join(said)} if said else {}))
    paper = {
        "type": "article",
        "title": "ReefNet: A Large-scale, Taxonomically Enriched Dataset and Benchmark for Hard Coral Classification",
        "authors": [{"name": "The ReefNet authors"}],
        "year": 2025,
    }
    file = {
        "cff-version": "1.2.0",
        "title": title,
        "message": "If you use these data, please cite ReefNet and the contributors of every source.",
        "type": "dataset",
        "authors": [{"name": "The contributors of the sources, see references"}],
        "references": [paper, *sources],
    }
    return yaml.safe_dump(file, sort_keys=False, allow_unicode=True, width=1000)
