"""Time and memory of reading a ReefNet-like file of 6,000,000 rows, beside pandas.read_csv.

    python benchmarks/readers.py [--rows N] [--folder FOLDER]

Each step runs in a process of its own; the memory is the peak of that process, Python and its libraries included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from reefcore import taxonomy

GENERA = sorted(taxonomy.taxa().query("rank == 'genus' and status == 'accepted'")["taxon"])[:50]
VERDICTS = 8_962
SOURCES, POINTS = 85, 18  # sources, and points per image: 333,000 images among 6 million rows


def make(path: Path, rows: int) -> None:
    """Write a file with the columns of ReefNet-1.0: invented names, 85 sources, 125 labels, 0.5 % duplicated rows."""
    database = duckdb.connect()
    database.execute("SET enable_progress_bar = false")
    database.execute(f"""COPY (
        WITH point AS (SELECT i - (i % 200 = 199)::INT AS p, i FROM range({rows}) t(i)),
        value AS (SELECT i, p, p // {POINTS} AS image, hash(p) AS h, sqrt(hash(p + 7) % 15625)::INT AS label FROM point)
        SELECT i + 1 AS "X",
            'Invented survey ' || (image % {SOURCES}) || ' of a reef' AS "CoralNet_source",
            'transect_' || (image % 97) || '_photo_' || lpad(image::VARCHAR, 8, '0') || '.JPG' AS "Image_name",
            h % 3000 AS "Row", (h >> 20) % 4000 AS "Column",
            'Invented label ' || label || ' (branching)' AS "CoralNet_label",
            'INV' || label AS "CoralNet_label_short_code",
            CASE WHEN label < {len(GENERA)} THEN {GENERA}[label + 1] ELSE 'Turf algae' END AS "Sorted_ReefNet_label",
            CASE WHEN label < {len(GENERA)} THEN 'Hard coral' ELSE 'Algae' END AS "Broad_category",
            CASE WHEN h % 50 = 0 THEN 'Bleached' ELSE 'NA' END AS "Condition_indication",
            round(-20 + (image % 4000) / 100.0, 6) AS "Latitude", round(40 + (image % 9000) / 100.0, 6) AS "Longitude",
            'Invented ecoregion ' || (image % 26) AS "Ecoregion",
            'Invented province ' || (image % 12) AS "Province", 'Invented realm ' || (image % 5) AS "Realm"
        FROM value ORDER BY i) TO '{path}' (HEADER)""")


def pandas_read(csv: Path) -> str:
    """Read the file as pandas does by default."""
    import pandas as pd

    return f"{len(pd.read_csv(csv)):,} rows"


def convert(csv: Path) -> str:
    """Convert the whole file to the annotations table as Parquet."""
    from reefcore import annotations

    parquet = csv.with_suffix(".parquet")
    found = annotations.convert(csv, parquet)
    return f"{found['kept']:,} rows kept, {parquet.stat().st_size / 1e6:,.0f} MB of Parquet"


def check(csv: Path) -> str:
    """Check the file as `reefcore annotations check` does."""
    from reefcore import annotations

    (entry,) = annotations.check([csv])
    return f"{entry['rows']:,} rows, {entry['images']:,} images, {entry['duplicates']:,} duplicates"


def pandas_condense(csv: Path) -> str:
    """Read, drop duplicates, count labels and sources, filter labels and write Parquet, as pandas does by default."""
    import pandas as pd

    table = pd.read_csv(csv).drop_duplicates(["Image_name", "Row", "Column", "CoralNet_label"])
    corals = table[table["Broad_category"] == "Hard coral"]
    counts = corals.groupby(["Sorted_ReefNet_label", "CoralNet_source"]).size()
    enough = (counts >= 10).groupby("Sorted_ReefNet_label").sum() >= 3
    kept = corals[corals["Sorted_ReefNet_label"].isin(enough.index[enough])]
    kept.to_parquet(csv.with_name("by_pandas.parquet"))
    return f"{len(kept):,} rows"


def condense(csv: Path) -> str:
    """Clean, drop duplicates, filter labels and write Parquet."""
    from reefcore import bulk

    found = bulk.condense(csv, csv.with_name("condensed.parquet"))
    return f"{found['steps']['annotations'].iloc[-1]:,} rows"


def _pandas_corals(csv: Path):
    import pandas as pd

    table = pd.read_csv(csv)
    return table[table["Broad_category"] == "Hard coral"]


def pandas_counts(csv: Path) -> str:
    """Count annotations per source and label from the CSV."""
    pairs = _pandas_corals(csv).groupby(["CoralNet_source", "Sorted_ReefNet_label"]).size()
    return f"{len(pairs):,} pairs of source and label"


def counts(csv: Path) -> str:
    """Count the same from the Parquet that `condense` wrote."""
    from reefcore import curation
    from reefcore.files import read_parquet

    columns = ["source", "label", "rank", "aphia_id"]
    pairs = curation.label_counts(read_parquet(csv.with_name("condensed.parquet"), columns))
    return f"{len(pairs):,} pairs of source and label"


def pandas_review(csv: Path) -> str:
    """Apply the review filters to the CSV, with a verdict beside each reviewed row."""
    corals = _pandas_corals(csv).rename(columns={"CoralNet_source": "source", "Sorted_ReefNet_label": "label"})
    seen = corals.sample(VERDICTS, random_state=0)
    seen["correct"] = seen["Row"] % 4 != 0
    for by, least in ((["source"], 0.5), (["label"], 0.5), (["source", "label"], 0.7)):
        agreement = seen.groupby(by)["correct"].mean().rename("agreement").reset_index()
        corals = corals.merge(agreement[agreement["agreement"] >= least].drop(columns="agreement"), on=by)
    return f"{len(corals):,} rows pass"


def review_filters(csv: Path) -> str:
    """Apply the review filters to the Parquet, the verdicts joined by annotation_id."""
    from reefcore import review
    from reefcore.files import read_parquet

    table = read_parquet(csv.with_name("condensed.parquet"), ["annotation_id", "source", "label", "row"])
    seen = table.sample(VERDICTS, random_state=0)
    verdict = (seen["row"] % 4 != 0).map({True: "correct", False: "incorrect"})
    quality, _ = review.filter_by_review(table, seen[["annotation_id"]].assign(verdict=verdict))
    return f"{quality['step2'].sum():,} rows pass"


def pandas_splits(csv: Path) -> str:
    """Count annotations, classes, sources and images of three parts of the CSV."""
    corals = _pandas_corals(csv)
    parts = corals.assign(part=corals["Row"] % 3).groupby("part")
    named = parts[["CoralNet_source", "Sorted_ReefNet_label"]].nunique()
    images = parts[["CoralNet_source", "Image_name"]]
    return f"{len(named)} parts, {sum(len(rows.drop_duplicates()) for _, rows in images):,} images"


def split_table(csv: Path) -> str:
    """Count the same from the Parquet and a table of splits, joined by annotation_id."""
    import numpy as np

    from reefcore import splits
    from reefcore.files import read_parquet

    table = read_parquet(csv.with_name("condensed.parquet"), ["annotation_id", "source", "image", "label", "row"])
    part = np.array(["train", "val", "test"])[table["row"] % 3]
    summary = splits.summary(table[["annotation_id"]].assign(scheme="S1", part=part), table)
    return f"{len(summary)} parts, {summary['images'].sum():,} images"


#: The plain way, and this library's ways of doing the same or more.
JOBS = {
    "read": (pandas_read, convert, check),
    "clean, drop duplicates, filter labels, write": (pandas_condense, condense),
    "later: counts per source and label": (pandas_counts, counts),
    "later: review filters": (pandas_review, review_filters),
    "later: split table": (pandas_splits, split_table),
}


def _measured(step, csv, answer) -> None:
    start = time.perf_counter()
    said = step(csv)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes on macOS, in KiB elsewhere
    answer.put((said, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6))


def main() -> None:
    """Make the file, run the steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--folder", help="where the temporary files go (about 2 GB)")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        csv = Path(folder) / "reefnet_like.csv"
        # In a process of its own: a child's peak memory begins with what its parent holds.
        maker = context.Process(target=make, args=(csv, arguments.rows))
        maker.start()
        maker.join()
        print(f"{arguments.rows:,} rows, {csv.stat().st_size / 1e9:.2f} GB\n")
        print("| job | by | time (s) | CPU (s) | peak memory (MB) | times faster | of the memory | result |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
        for job, ways in JOBS.items():
            base = None
            for way in ways:
                answer = context.Queue()
                process = context.Process(target=_measured, args=(way, csv, answer))
                process.start()
                process.join()
                if process.exitcode:
                    sys.exit(f"{way.__name__} ended with code {process.exitcode}")
                said, seconds, cpu, memory = answer.get()
                base = base or (seconds, memory)
                print(
                    f"| {job} | {way.__name__} | {seconds:.1f} | {cpu:.1f} | {memory:,.0f} | {base[0] / seconds:.1f} "
                    f"| {memory / base[1]:.2f} | {said} |"
                )


if __name__ == "__main__":
    main()
