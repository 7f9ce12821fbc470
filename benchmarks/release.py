"""A synthetic release of ReefNet-1.0 in its layout, of the real size: ``python -m benchmarks.release FOLDER``.

Nothing in it is anybody's data. The names of sources are those of the paper's Table 13, so that whoever is cited is
found; what stands beside them is invented. How many rows, photos, labels and hard corals there are, which share of them
the largest ecoregions hold, what the review drops and how often the experts agree are the paper's figures, scaled to
the rows asked for. So the structure of Table 2 follows from the rules, not from a table that was written here.

Not known of the real files, and guessed: the sheets and columns of the workbooks, and whether a file of the verdicts
exists at all (``reviews.csv`` here).
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import duckdb
import numpy as np
import pandas as pd

from reefcore import attribution, curation, published, tables, taxonomy
from reefcore.errors import ReefcoreError
from reefcore.files import share
from reefcore.review import PER_PAIR
from reefcore.sample import survey, taxa
from reefcore.taxonomy.names import BROAD

ROWS = 5_900_000
LABELS = 125  # of all rows
SITE = "Al-Wajh"
LEAST = 30  # points of each taxon at four sources at least: more than the label criteria ask, however small the release
COMMUNITY = 14.2  # taxa of a source; with ten verdicts each, the paper's number of verdicts
POINTS = (10, 15, 20, 25, 30, 40, 50, 100)  # per image
CORAL_IMAGES = 0.54  # of a source's photos; 181,223 of 334,162
TWICE = 0.002  # rows that stand twice in their source
STYLES = ("{}", "{} sp.", "{} (branching)", "{} - massive")  # how sources write a label
TABLES = ("annotations.parquet", "sources.parquet", "images.parquet", "reviews.parquet")


def _whole(shares: np.ndarray, total: int) -> np.ndarray:
    """Turn shares into whole numbers with exactly this sum."""
    edges = np.rint(np.cumsum(shares, dtype=float) / shares.sum() * total).astype(int)
    return np.diff(edges, prepend=0)


def _text(name: str, scale: float = 1.0) -> int:
    return round(published.value(name) * scale)


def _nearest(rng, weights: np.ndarray, choose: int, sizes: np.ndarray, target: float, fits=lambda chosen: True):
    """Draw many times which ones go, and keep the draw whose sizes come nearest to a target."""
    best, found = None, np.inf
    for _ in range(400):
        chosen = rng.choice(len(weights), choose, replace=False, p=weights / weights.sum())
        if (off := abs(sizes[chosen].sum() - target)) < found and fits(chosen):
            best, found = chosen, off
    return best


def plan(rows: int = ROWS, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Plan the sources, and the hard corals of each with what the experts will say of them.

    Returns
    -------
    sources : DataFrame
        85 rows: ``source``, ``ecoregion``, ``province``, ``realm``, ``latitude``, ``longitude`` (of one they are NA),
        ``images``, ``points`` (per image), ``rows``, ``width``, ``height``, ``style``, ``layout``.
    pairs : DataFrame
        ``place`` (of the source), ``label``, ``annotations``, ``verdicts``, ``correct``, ``step1``, ``step2`` (what the
        filters must keep), only of taxa that meet the label criteria.
    """
    rng, scale = np.random.default_rng([seed, 1]), rows / ROWS
    own = curation.candidates().set_index("source").reindex(attribution.contributors()["source"])
    places = pd.read_csv(share("data", "geo", "meow_reef_points.csv")).set_index("ecoregion")
    realms = pd.read_csv(share("data", "geo", "meow_points.csv")).set_index("ecoregion")[["province", "realm"]]
    regions = [name for name, count in survey.ECOREGIONS.items() for _ in range(count)]
    empty = len(own) - len(regions)  # sources whose labels do not meet the criteria
    regions += list(rng.choice(list(survey.ECOREGIONS), empty))
    table = pd.DataFrame({"source": own.index, "ecoregion": regions}).join(realms, on="ecoregion")
    for name, column in (("latitude", "nearest_reef_lat"), ("longitude", "nearest_reef_lon")):
        table[name] = (places[column].reindex(table["ecoregion"]).to_numpy() + rng.normal(0, 0.3, len(table))).round(6)
    atlantic = (table["realm"].map(taxonomy.ocean_of) == "Atlantic").to_numpy()

    # How many hard corals each source has: the largest ecoregions as published, the others share what is left.
    kept = len(regions) - empty
    printed = {name.split("/")[0]: value for name, value in published.texts("places").items() if "annotations" in name}
    total = _text("review/all/annotations", scale)
    share_of = table["ecoregion"].map(printed).fillna(0).to_numpy() / published.value("dataset/coral_annotations")
    inside = table[:kept].groupby("ecoregion")["source"].size().reindex(table["ecoregion"]).to_numpy()
    share_of = np.where(share_of > 0, share_of / inside, 0)[:kept]
    rest = share_of == 0
    share_of = share_of * rng.lognormal(0, 0.5, kept)
    share_of[rest] = rng.lognormal(0, 1.1, rest.sum())
    share_of[rest] *= (1 - sum(printed.values()) / published.value("dataset/coral_annotations")) / share_of[rest].sum()
    known = taxa.table()
    weight = survey.weights().reindex(known["taxon"]).to_numpy() ** 1.6
    lives = known["ocean"].eq("both").to_numpy() | (known["ocean"].eq("Atlantic").to_numpy() == atlantic[:kept, None])
    here = np.zeros_like(lives)
    for i, pool in enumerate(lives):
        p = weight[pool] ** 0.25
        size = min(pool.sum(), max(5, rng.poisson(COMMUNITY)))
        here[i, rng.choice(np.flatnonzero(pool), size, replace=False, p=p / p.sum())] = True
    least = np.zeros(here.shape, dtype=int)
    for j in range(here.shape[1]):  # every taxon at four sources
        homes = np.flatnonzero(lives[:, j])
        first = sorted(homes, key=lambda i, j=j: (not here[i, j], i))[:4]
        here[first, j] = True
        least[first, j] = LEAST
    amount = here * weight * rng.lognormal(0, 0.7, here.shape)
    amount *= (share_of / amount.sum(1))[:, None]
    too_few = ReefcoreError(f"{rows} rows are too few for a release of 85 sources", do="ask for 40,000 or more")
    if least.sum() > total:
        raise too_few
    counts = least + _whole(amount.ravel(), total - least.sum()).reshape(here.shape)

    at, label = np.nonzero(counts)
    pairs = pd.DataFrame({"place": at, "label": known["taxon"].to_numpy()[label], "annotations": counts[at, label]})
    pairs = _agreement(pairs, rng, scale)

    # As many points on each photo of a source as give the rows, and enough of them for its corals.
    corals = np.concatenate([counts.sum(1), np.zeros(empty, dtype=int)])
    images = own["confirmed_images"].fillna(own["confirmed_images"].median()).to_numpy(float) ** 0.7
    images = images / images.sum() + 2 * corals / corals.sum()
    images = np.maximum(_whole(images, _text("dataset/images", scale) - _text("dataset/site_images", scale)), 9)
    points = np.maximum(10, np.ceil(corals / (CORAL_IMAGES * images)).astype(int))
    rows -= round(rows * TWICE)
    for i in rng.permutation(np.repeat(np.arange(len(points)), 40)):
        more = next((p for p in POINTS if p > points[i]), points[i] + 10)
        if (points @ images) + (more - points[i]) * images[i] <= rows:
            points[i] = more
    size = images * points
    largest = int(np.argmax(images))  # makes up the difference, with a last photo that has fewer points
    size[largest] += rows - size.sum()
    images[largest] = -(-size[largest] // points[largest])
    if (size < corals).any() or size.min() < 80:
        raise too_few
    megapixels = rng.choice(survey.MEGAPIXELS, len(table))
    height = np.sqrt(megapixels * 1e6 * 3 / 4).astype(int)
    layouts = rng.permutation(np.resize(np.repeat(list(survey.LAYOUTS), list(survey.LAYOUTS.values())), len(table)))
    table = table.assign(
        images=images, points=points, rows=size, height=height, width=height * 4 // 3, layout=layouts,
        style=rng.integers(0, len(STYLES), len(table)),
    )  # fmt: skip
    table.loc[40, ["latitude", "longitude", "ecoregion", "province", "realm"]] = np.nan  # one has no location
    return table, pairs


def _agreement(pairs: pd.DataFrame, rng, scale: float) -> pd.DataFrame:
    """Decide what the review drops, so that as many annotations stay as the paper says, and what the experts say."""
    sizes = pairs["annotations"].to_numpy()
    total = sizes.sum()
    by_place, by_label = (pairs.groupby(key)["annotations"].sum() for key in ("place", "label"))
    gone = total - _text("review/step1/annotations", scale)
    holds = pairs.groupby("label")["place"].agg(set)
    rare = by_label.drop(survey.SITE_TAXA).nsmallest(18)
    bad_labels = set(rng.choice(rare.index, survey.BAD_TAXA, replace=False))
    after = gone - by_label[list(bad_labels)].sum()

    def leaves(chosen):  # every other taxon has sources left
        return all(len(homes - set(by_place.index[chosen])) > 2 for homes in holds)

    small = 1 / by_place.to_numpy() ** 0.4
    bad_places = by_place.index[_nearest(rng, small, survey.BAD_SOURCES, by_place.to_numpy(), after, leaves)]
    step1 = ~(pairs["place"].isin(bad_places) | pairs["label"].isin(bad_labels)).to_numpy()

    # Two more sources lose every pair, and of the other pairs about a third; each taxon keeps two at least.
    left = by_place.drop(bad_places)[lambda sizes: sizes > 60 * scale + 30].nsmallest(8)
    emptied = rng.choice(left.index, 2, replace=False)
    bad = step1 & pairs["place"].isin(emptied).to_numpy()
    order = np.lexsort((-sizes, pairs["label"]))
    first = pd.Series(order).groupby(pairs["label"].to_numpy()[order]).head(40)
    keep = pd.Series(first).groupby(pairs["label"].to_numpy()[first]).nth([1, 3]).to_numpy()  # not its largest
    free = np.setdiff1d(np.flatnonzero(step1 & ~bad), keep)
    target = sizes[step1].sum() - _text("review/step2/annotations", scale) - sizes[bad].sum()
    chosen = free[_nearest(rng, sizes[free] ** 0.25, round(0.33 * step1.sum()), sizes[free], target)]
    for _ in range(200):  # then one for another, where that comes nearer
        off = sizes[chosen].sum() - target
        a, b = rng.integers(len(chosen)), rng.choice(np.setdiff1d(free, chosen))
        if abs(off - sizes[chosen[a]] + sizes[b]) < abs(off):
            chosen[a] = b
    bad[chosen] = True
    step2 = step1 & ~bad

    verdicts = np.minimum(sizes, PER_PAIR)
    surplus = max(0, verdicts.sum() - _text("review/all/reviewed"))
    many = rng.permutation(np.flatnonzero(verdicts == PER_PAIR))
    verdicts[np.resize(many, surplus) if surplus <= len(many) else many] -= 1
    correct = np.where(step2, verdicts - rng.choice(3, len(pairs), p=[0.45, 0.35, 0.2]), (verdicts + 1) // 2)
    correct = np.where(step1, correct, np.rint(0.36 * verdicts)).astype(int)
    # A source or taxon that stays must reach half; three in five is still under what a pair needs.
    least = -(-verdicts * 7 // 10)
    for key, dropped in (("place", bad_places), ("label", bad_labels), ("place", bad_places)):
        said = pd.DataFrame({"correct": correct, "verdicts": verdicts}).groupby(pairs[key].to_numpy()).transform("sum")
        low = ((said["correct"] < 0.55 * said["verdicts"]) & ~pairs[key].isin(dropped)).to_numpy()
        correct = np.where(low & step2, verdicts, np.where(low & ~step2, verdicts * 6 // 10, correct))
        correct = np.where(step2, np.maximum(correct, least), np.minimum(correct, least - 1))
    return pairs.assign(verdicts=verdicts, correct=correct, step1=step1, step2=step2)


def _other_labels(rng) -> pd.DataFrame:
    """List the labels beside the taxa: benthos, and hard corals that the label criteria do not let pass."""
    known = set(taxa.table()["taxon"])
    corals = sorted(set(taxonomy.taxa().query("rank == 'genus' and status == 'accepted'")["taxon"]) - known)[:14]
    names = pd.read_csv(share("data", "taxonomy", "not_hard_coral.csv"))
    further = [(word.capitalize(), BROAD[label]) for label, words in names.itertuples(index=False) if label in BROAD
               for word in words.split()[:12] if word.capitalize() not in BROAD]  # fmt: skip
    benthos = [*BROAD.items(), ("Water", "Abiotic background"), ("Unsorted", "Other biota")]
    more = LABELS - len(known) - 1 - len(corals) - len(benthos)
    benthos += sorted(further)[:: len(further) // more][:more]
    weight = rng.lognormal(0, 1.5, len(benthos))
    table = pd.DataFrame(benthos, columns=["label", "broad_category"]).assign(weight=weight / weight.sum())
    few = pd.DataFrame({"label": ["Scleractinia", *corals], "broad_category": "Hard coral", "weight": 0.0})
    return pd.concat([table, few], ignore_index=True)


def points(sources: pd.DataFrame, pairs: pd.DataFrame, others: pd.DataFrame, rows: int, seed: int = 0) -> dict:
    """Lay out all points of CoralNet's sources.

    Returns
    -------
    dict of ndarray, shape (rows,)
        ``place``, ``image`` (number within its source), ``row``, ``column``, ``number`` (of the label: taxa
        first, then `others`), ``condition`` (0 none); in the order of sources and photos, repeated rows at the end.
    """
    names = list(taxa.table()["taxon"])
    number, weight = {name: i for i, name in enumerate(names)}, others["weight"].to_numpy()
    few = len(names) + np.flatnonzero(others["broad_category"] == "Hard coral")
    columns = {name: [] for name in ("place", "image", "row", "column", "number", "condition")}
    twice = round(rows * TWICE)
    for i, one in enumerate(sources.itertuples()):
        rng = np.random.default_rng([seed, 2, i])
        size = one.rows
        label = len(names) + rng.choice(len(weight), size, p=weight)
        mine = pairs[pairs["place"] == i]
        corals = np.repeat(mine["label"].map(number).to_numpy(int), mine["annotations"])
        if len(corals):
            room = min(size, max(len(corals), round(CORAL_IMAGES * size)))
            label[rng.permutation(room)[: len(corals)]] = rng.permutation(corals)
            if i % 9 == 0:  # some corals are only "hard coral", which is no genus
                label[size - 1 : size - 1 - max(1, size // 2000) : -1] = few[0]
        if i >= len(sources) - 2:  # of these genera there is too little
            label[: 5 * (len(few) - 1)] = np.repeat(few[1:], 5)
        image = np.arange(size) // one.points
        spot = rng.integers(0, [[one.height], [one.width]], (2, size))
        state = np.where(rng.random(size) < 0.02, rng.integers(1, 4, size), 0)
        found = (np.full(size, i), image, *spot, label, state)
        for name, values in zip(columns, found, strict=True):
            columns[name].append(values.astype("int32"))
    columns = {name: np.concatenate(parts) for name, parts in columns.items()}
    again = np.sort(np.random.default_rng([seed, 3]).choice(rows - twice, twice, replace=False))
    return {name: np.concatenate([values, values[again]]) for name, values in columns.items()}


def _names(sources: pd.DataFrame, others: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Name the labels: one row per label, and how each style writes it."""
    corals = pd.DataFrame({"label": list(taxa.table()["taxon"]), "broad_category": "Hard coral"})
    labels = pd.concat([corals, others[["label", "broad_category"]]], ignore_index=True).rename_axis("number")
    written = [
        (style, i, form.format(label) if i < len(corals) else label)
        for style, form in enumerate(STYLES)
        for i, label in labels["label"].items()
    ]
    return labels.reset_index(), pd.DataFrame(written, columns=["style", "number", "label_raw"])


IMAGE = "'{stem}_' || lpad((image // 400 + 1)::VARCHAR, 3, '0') || '_DSC' || lpad(image::VARCHAR, 6, '0') || '.JPG'"
CONDITIONS = "['Bleached', 'Dead', 'Healthy']"


def _write_annotations(path: Path, columns: dict, sources: pd.DataFrame, labels, written) -> pd.DataFrame:
    """Write the large file; return its hard corals as `reviews` needs them."""
    image = IMAGE.replace("{stem}", "' || 'S' || place || '")
    lists = {
        name: sources[name] for name in ("source", "style", "latitude", "longitude", "ecoregion", "province", "realm")
    }
    lists |= {name: labels[name] for name in ("label", "broad_category")} | {"label_raw": written["label_raw"]}
    with duckdb.connect(config={"memory_limit": "1500MB", "threads": 2}) as database:
        database.execute("SET enable_progress_bar = false")
        for name, values in lists.items():  # looked up by place, which keeps the order; a join need not
            database.execute(f"SET VARIABLE {name}s = $1", [values.astype(object).where(values.notna(), None).tolist()])
        database.register("points", pd.DataFrame(columns, copy=False))

        def of(name: str, place: str) -> str:
            return f"getvariable('{name}s')[{place} + 1] AS {name}"

        looked_up = [
            of(name, "place") for name in ("source", "latitude", "longitude", "ecoregion", "province", "realm")
        ]
        looked_up += [of(name, "number") for name in ("label", "broad_category")]
        raw = of("label_raw", f"getvariable('styles')[place + 1] * {len(labels)} + number")
        database.execute(f"""CREATE TEMP VIEW release AS SELECT "row", "column", {image} AS image, condition, {raw},
            {", ".join(looked_up)} FROM points""")
        database.execute(f"""COPY (SELECT row_number() OVER () AS "X", source AS "CoralNet_source",
            image AS "Image_name", "row" AS "Row", "column" AS "Column", label_raw AS "CoralNet_label",
            upper(left(replace(label_raw, ' ', ''), 10)) AS "CoralNet_label_short_code",
            'https://coralnet.ucsd.edu/image/' || row_number() OVER () || '/annotation/tool/' AS "Image_page",
            label AS "Sorted_ReefNet_label", broad_category AS "Broad_category",
            coalesce({CONDITIONS}[condition], 'NA') AS "Condition_indication", latitude AS "Latitude",
            longitude AS "Longitude", ecoregion AS "Ecoregion", province AS "Province", realm AS "Realm"
            FROM release) TO '{path}' (HEADER, NULLSTR 'NA')""")
        return database.execute("""SELECT source, image, "row", "column", label_raw, label FROM release
            WHERE broad_category = 'Hard coral'""").df()


def reviews(corals: pd.DataFrame, sources: pd.DataFrame, pairs: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Let the experts look at up to ten points of each pair of source and taxon, and say what was planned."""
    rng = np.random.default_rng([seed, 4])
    drawn = corals.drop_duplicates().sort_values(["source", "label", "image", "row", "column"], ignore_index=True)
    drawn = drawn.iloc[rng.permutation(len(drawn))]
    wanted = pairs.assign(source=sources["source"].to_numpy()[pairs["place"]]).set_index(["source", "label"])
    drawn = drawn[pd.MultiIndex.from_frame(drawn[["source", "label"]]).isin(wanted.index)]
    place = drawn.groupby(["source", "label"]).cumcount().to_numpy()
    plan_ = wanted.reindex(pd.MultiIndex.from_frame(drawn[["source", "label"]]))
    drawn, place, plan_ = (part[place < plan_["verdicts"].to_numpy()] for part in (drawn, place, plan_))
    wrong = np.array(["incorrect", "low_quality", "hard_to_decide"])[rng.integers(0, 3, len(drawn))]
    number = pd.factorize(drawn["label"], sort=True)[0]
    table = pd.DataFrame({
        "annotation_id": tables.annotation_ids(drawn).to_numpy(),
        "verdict": np.where(place < plan_["correct"].to_numpy(), "correct", wrong),
        "reviewer": [f"reviewer-{n % survey.REVIEWERS + 1:02d}" for n in number],
        "timestamp": "2024-03-01T08:00:00Z",
    })  # fmt: skip
    return table.sort_values("annotation_id", ignore_index=True)


def _write_site(folder: Path, rows: int, seed: int) -> None:
    """Write the file of Al-Wajh: ten points on each photo, its hard corals of twelve genera."""
    rng, scale = np.random.default_rng([seed, 5]), rows / ROWS
    images = max(12, _text("dataset/site_images", scale))
    size, corals = images * 10, max(120, _text("dataset/site_annotations", scale))
    weight = survey.weights()[survey.SITE_TAXA]
    label = np.full(size, "Sand", dtype=object)
    label[rng.choice(size, corals, replace=False)] = rng.permutation(
        np.repeat(survey.SITE_TAXA, 3 + _whole(weight.to_numpy(), corals - 3 * len(weight)))
    )
    image = np.arange(size) // 10
    table = pd.DataFrame({
        "Name": [f"AlWajh_{n:05d}.jpg" for n in image],
        "Row": (np.arange(size) % 10 // 5 * 1824 + rng.integers(0, 1824, size)),
        "Column": (np.arange(size) % 5 * 1094 + rng.integers(0, 1094, size)),
        "Our_Labels": label,
        "Broad_category": np.where(label == "Sand", "Abiotic background", "Hard coral"),
        "Latitude": (25.6 + rng.normal(0, 0.1, images)).round(5)[image],
        "Longitude": (36.8 + rng.normal(0, 0.1, images)).round(5)[image],
        "Ecoregion": "Northern and Central Red Sea", "Province": "Red Sea and Gulf of Aden",
        "Realm": "Western Indo-Pacific",
    })  # fmt: skip
    table.to_csv(folder / "ReefNet_RSG-TestDataset_annotations.csv", index=False)
    names = pd.DataFrame({"CoralNet_label": sorted(set(label)), "Our_Labels": sorted(set(label))})
    workbook(folder / "ReefNet_RSG-TestDataset_labelmapping.xlsx", {"Sheet1": names})


def workbook(path: Path, sheets: dict[str, pd.DataFrame]) -> None:
    """Write tables as the sheets of a workbook, a third of a million rows in seconds."""
    xml = "http://schemas.openxmlformats.org"
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    main, office = f'xmlns="{xml}/spreadsheetml/2006/main"', f"{xml}/officeDocument/2006/relationships"
    number = range(1, len(sheets) + 1)
    part = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{i}" r:id="rId{i}"/>' for i, name in zip(number, sheets, strict=True)
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:

        def put(name: str, text: str) -> None:
            archive.writestr(zipfile.ZipInfo(name), head + text, zipfile.ZIP_DEFLATED, 1)

        put("[Content_Types].xml", f'<Types xmlns="{xml}/package/2006/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
            f'PartName="/xl/workbook.xml" ContentType="{part}.sheet.main+xml"/>' + "".join(
                f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{part}.worksheet+xml"/>'
                for i in number) + "</Types>")  # fmt: skip
        relation = f'<Relationships xmlns="{xml}/package/2006/relationships">'
        put("_rels/.rels", f'{relation}<Relationship Id="rId1" Type="{office}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>')  # fmt: skip
        put("xl/_rels/workbook.xml.rels", relation + "".join(
            f'<Relationship Id="rId{i}" Type="{office}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i in number)
            + "</Relationships>")  # fmt: skip
        put("xl/workbook.xml", f'<workbook {main} xmlns:r="{office}"><sheets>{listed}</sheets></workbook>')
        for i, table in zip(number, sheets.values(), strict=True):
            lines = pd.Series([""] * (len(table) + 1))
            for name in table:
                is_number = pd.api.types.is_numeric_dtype(table[name])
                text = table[name].astype("str").fillna("")
                text = text if is_number else text.map({value: escape(value) for value in text.unique()})
                cell = ("<c><v>" + text + "</v></c>") if is_number else (
                    '<c t="inlineStr"><is><t>' + text + "</t></is></c>")  # fmt: skip
                cell = cell.where(table[name].notna(), "<c/>")
                title = f'<c t="inlineStr"><is><t>{escape(name)}</t></is></c>'
                lines += pd.concat([pd.Series([title]), cell], ignore_index=True).astype(object)
            data = "</row><row>".join(lines)
            put(
                f"xl/worksheets/sheet{i}.xml", f"<worksheet {main}><sheetData><row>{data}</row></sheetData></worksheet>"
            )


def _write_workbooks(folder: Path, sources: pd.DataFrame, labels: pd.DataFrame, written: pd.DataFrame) -> None:
    about = pd.DataFrame({"README": ["ReefNet metadata", "One row per image", "Made by a program: none of it is true"]})
    place = np.repeat(np.arange(len(sources)), sources["images"])
    image = np.arange(len(place)) - np.repeat(np.cumsum(sources["images"]) - sources["images"], sources["images"])
    name = "S" + pd.Series(place).astype("str") + "_" + (image.reset_index(drop=True) // 400 + 1).astype(
        "str").str.zfill(3) + "_DSC" + image.reset_index(drop=True).astype("str").str.zfill(6) + ".JPG"  # fmt: skip
    wide = sources.iloc[place].reset_index(drop=True)
    images = pd.DataFrame({
        "CoralNet_source": wide["source"], "Image_name": name, "Image_width": wide["width"],
        "Image_height": wide["height"], "Latitude": wide["latitude"], "Longitude": wide["longitude"],
    })  # fmt: skip
    workbook(folder / "Metadata_All_ReefNet_annotations.xlsx", {"README": about, "Images": images})
    by_source = pd.DataFrame({
        "Source name": sources["source"], "Ecoregion": sources["ecoregion"], "Number of images": sources["images"],
        "Points per image": sources["points"], "Point generation method": sources["layout"].str.capitalize(),
        "Megapixels": (sources["width"] * sources["height"] / 1e6).round(1), "Latitude": sources["latitude"],
        "Longitude": sources["longitude"],
    })  # fmt: skip
    workbook(folder / "Metadata_ReefNet_by_CoralNet_sources.xlsx", {"Sources": by_source, "README": about})
    names = written.drop_duplicates("label_raw").merge(labels, on="number")
    ids = taxonomy.taxa().set_index("taxon")["aphia_id"]
    mapping = pd.DataFrame({
        "CoralNet_label": names["label_raw"], "Sorted_ReefNet_label": names["label"],
        "Broad_category": names["broad_category"], "AphiaID": names["label"].map(ids),
    })  # fmt: skip
    workbook(folder / "ReefNet_labelmapping.xlsx", {"Labels": mapping})
    overview = pd.DataFrame({"Source": sources["source"], "Valid": np.where(sources.index % 17 == 3, "yes ", "yes")})
    overview["URL"] = [f"https://coralnet.ucsd.edu/source/{9000 + i}/" for i in overview.index]
    overview["ImagesURL"] = overview["URL"] + "browse/images/"
    overview["ImagesNumber"], overview["FirstImageNumber"] = sources["images"], 1
    overview.to_csv(folder / "Overview_Sources_for_Image_Download.csv", index=False)


def make(folder: str | Path, rows: int = ROWS, seed: int = 0, images: bool = True) -> pd.DataFrame:
    """Write a release into a data folder of the full profile, without photos.

    Parameters
    ----------
    folder : path
        Receives ``released/`` and ``reviews.csv``.
    rows : int
        Of the large file, at least 40,000; everything else follows.
    seed : int
        The same rows and seed give the same bytes.
    images : bool
        Whether the workbooks are written too.

    Returns
    -------
    DataFrame
        The plan of the pairs of source and taxon; see `plan`.
    """
    released = Path(folder) / "released"
    released.mkdir(parents=True, exist_ok=True)
    sources, pairs = plan(rows, seed)
    others = _other_labels(np.random.default_rng([seed, 6]))
    labels, written = _names(sources, others)
    columns = points(sources, pairs, others, rows, seed)
    corals = _write_annotations(released / "All_ReefNet_annotations.csv", columns, sources, labels, written)
    del columns
    reviews(corals, sources, pairs, seed).to_csv(Path(folder) / "reviews.csv", index=False)
    _write_site(released, rows, seed)
    if images:
        _write_workbooks(released, sources, labels, written)
    described = {"@type": "sc:Dataset", "name": "ReefNet-1.0", "license": attribution.LICENCE}
    (released / "croissant_ReefNet_1.0.json").write_text(json.dumps(described, indent=2), encoding="utf-8")
    return pairs.assign(source=sources["source"].to_numpy()[pairs["place"]])


def main() -> None:
    """Write a release and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pairs = make(options.folder, options.rows, options.seed)
    print(pairs.groupby(["step1", "step2"])[["annotations", "verdicts", "correct"]].sum())


if __name__ == "__main__":
    main()
