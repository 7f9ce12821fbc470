"""Who surveyed what: the sources, photos, points, labels and verdicts of the sample.

Every choice comes from one seed; streams of random numbers are keyed by what they are for, so that a change in one
place leaves the others as they were. Sources and places are invented; the numbers that shape them (how many sources,
how uneven, which agreement) are the paper's, with the section beside each.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reefcore import taxonomy
from reefcore.files import share
from reefcore.sample import taxa
from reefcore.tables import complete

#: Sources per ecoregion: 26 ecoregions and 76 sources (3.3.1), Hawaii, Samoa and the Marianas with 18, 2 and 6 (A.2.5).
ECOREGIONS = {
    "Hawaii": 18, "Samoa Islands": 2, "Mariana Islands": 6, "East Caroline Islands": 6, "Maldives": 9,
    "Fiji Islands": 1, "Greater Antilles": 2, "Eastern Caribbean": 2, "Southern Caribbean": 3, "Western Caribbean": 3,
    "Southwestern Caribbean": 1, "Floridian": 1, "Bahamian": 2, "Eastern Brazil": 1, "Line Islands": 2,
    "Society Islands": 1, "Tonga Islands": 2, "Lesser Sunda": 2, "Palawan/North Borneo": 1, "Bismarck Sea": 1,
    "South Kuroshio": 4, "Central and Southern Great Barrier Reef": 1, "Tweed-Moreton": 1,
    "Northern and Central Red Sea": 2, "East African Coral Coast": 1, "Western and Northern Madagascar": 1,
}  # fmt: skip
#: Share of all annotations that the paper gives for its three largest ecoregions (A.2.5); the rest share what is left.
HEAVY = {"Hawaii": 0.24, "Samoa Islands": 0.22, "Mariana Islands": 0.116}
SITE = "sample-W Farlagoon (Al-Wajh-like)"
SITE_TAXA = (
    "Acropora Astreopora Echinopora Favites Galaxea Goniastrea Lobophyllia Montipora Pocillopora Porites Seriatopora "
    "Stylophora"
).split()
IMAGES, SITE_IMAGES = 1400, 110  # at scale 1
SITE_POINTS = 10  # 2 rows of 5 columns (A.2.6)
POINTS = {10: 0.05, 15: 0.06, 20: 0.20, 22: 0.15, 25: 0.14, 50: 0.15, 100: 0.17, 180: 0.08}  # median 22 (A.2.4)
LAYOUTS = {"simple random": 51, "stratified random": 23, "uniform grid": 2}  # A.2.4
MEGAPIXELS = (
    0.2,
    0.8,
    2.1,
    3.1,
    5.0,
    8.0,
    10.0,
    12.0,
    12.0,
    12.0,
    12.0,
    12.2,
    12.2,
    14.0,
    16.0,
    18.0,
    20.2,
    24.0,
    27.0,
)  # A.2.5
CORAL_COVER = 0.72  # of a photo, on average; real reefs have less, the miniature needs its points
TAXA_PER_SOURCE, TAXA_PER_IMAGE = 26, 7
FLOOR = 7000  # of the public counts that weigh the taxa: the paper's rarest are rarer than a miniature can hold
TAIL = 0.85  # exponent on the public annotation counts: 1 would leave the rarest taxa nothing in a miniature
COMMONEST = "Porites"
MIN_POINTS = 96  # true points of each taxon at scale 1: more photos are taken until the rarest has them
BAD_SOURCES, BAD_TAXA = 6, 5  # dropped by review step 1: 76 -> 70 sources, 44 -> 39 taxa (3.4)
BAD_PAIRS = 0.34  # of the other source-taxon pairs; about the share of annotations that step 2 drops
PER_PAIR = 10  # verdicts at most per source-taxon pair (A.2.3)
DUPLICATES = 0.004  # points annotated twice
UNIDENTIFIED = 0.015  # coral points that a source labels only as hard coral
REVIEWERS = 10  # A.2.3


def stream(seed: int, *keys) -> np.random.Generator:
    """Make the generator that belongs to a seed and a purpose; other purposes do not disturb it."""
    return np.random.default_rng([seed, *(zlib.crc32(str(key).encode()) for key in keys)])


def n_sources(scale: float) -> int:
    """Give the number of sources: the paper's 76 from scale 0.5 up, fewer below, where each would be nearly empty."""
    return 76 if scale >= 0.5 else max(14, round(76 * 2 * scale))


def _names(count: int, rng: np.random.Generator) -> list[str]:
    first = (
        "Quill Bram Thorn Wisp Gleam Murk Tarn Drift Pebble Lantern Velvet Copper Hollow Saffron Marrow Umber".split()
    )
    second = "moor wick fathom ledge spur cay hollow shelf garth mere holm skerry".split()
    pairs = [a + b for a in first for b in second]
    return [f"sample-{i + 1:02d} {pairs[j]}" for i, j in enumerate(rng.permutation(len(pairs))[:count])]


def sources(seed: int, scale: float = 1.0) -> pd.DataFrame:
    """Plan the sources.

    Returns
    -------
    DataFrame
        ``source``, ``ecoregion``, ``province``, ``realm``, ``latitude``, ``longitude`` (degrees; the first four NA
        for the one source without a location), ``ocean``, ``images``, ``points`` (per image), ``layout``,
        ``megapixels``, ``style`` (how it writes labels), ``look`` (seed of its water and camera), ``bad`` (its
        annotators are often wrong). The last row is the held-out site.
    """
    rng = stream(seed, "sources")
    places = pd.read_csv(share("data", "geo", "meow_reef_points.csv")).set_index("ecoregion")
    realms = pd.read_csv(share("data", "geo", "meow_points.csv")).set_index("ecoregion")[["province", "realm"]]
    total = n_sources(scale)
    regions = [name for name, count in ECOREGIONS.items() for _ in range(count)]
    if total < len(regions):  # keep both oceans in a smaller sample: take every k-th of the list
        regions = [regions[i] for i in np.linspace(0, len(regions) - 1, total).round().astype(int)]
    table = pd.DataFrame({"source": _names(total, rng), "ecoregion": regions})
    light = 1 - sum(HEAVY.values())
    inside = table.groupby("ecoregion")["source"].transform("size")
    share_of = (
        table["ecoregion"].map(HEAVY).fillna(light / max(1, (~table["ecoregion"].isin(HEAVY)).sum()) * inside) / inside
    )
    points = rng.choice(list(POINTS), size=total, p=np.array(list(POINTS.values())) / sum(POINTS.values()))
    weight = share_of * rng.lognormal(0, 0.35, total)
    images = IMAGES * scale * weight / weight.sum()
    table["images"] = np.clip(images.round(), max(3, round(12 * min(1, scale))), 90 * max(scale, 0.3)).astype(int)
    table["points"] = points
    layouts = np.repeat(list(LAYOUTS), list(LAYOUTS.values()))
    table["layout"] = rng.permutation(layouts)[:total] if total == len(layouts) else rng.choice(layouts, total)
    table["megapixels"] = rng.choice(MEGAPIXELS, total)
    table["style"] = rng.choice(["genus", "species", "code", "informal"], total, p=[0.4, 0.25, 0.2, 0.15])
    table["bad"] = False
    table.loc[rng.choice(total, round(BAD_SOURCES * total / 76), replace=False), "bad"] = True
    site = {"source": SITE, "ecoregion": "Northern and Central Red Sea", "images": max(4, round(SITE_IMAGES * scale))}
    site |= {"points": SITE_POINTS, "layout": "stratified random", "megapixels": 20.2, "style": "genus", "bad": False}
    table = pd.concat([table, pd.DataFrame([site])], ignore_index=True)
    table = table.join(realms, on="ecoregion")
    at = places[["nearest_reef_lat", "nearest_reef_lon"]].set_axis(["latitude", "longitude"], axis=1)
    table = table.join(at, on="ecoregion")
    table["latitude"] = (table["latitude"] + rng.normal(0, 0.35, len(table))).round(4)
    table["longitude"] = (table["longitude"] + rng.normal(0, 0.35, len(table))).round(4)
    table["ocean"] = table["realm"].map(taxonomy.ocean_of)
    table["look"] = rng.integers(2**31, size=len(table))
    # One source has no location (Figure 3's caption); it names its corals in full, since no ocean decides for it.
    lost = table.index[(table["ocean"] == "Indo-Pacific") & ~table["bad"] & (table["source"] != SITE)][-1]
    table.loc[lost, "style"] = "genus"
    table["located"] = table.index != lost
    return table


def weights() -> pd.Series:
    """Give each taxon its weight in the long tail: public annotation counts to the power `TAIL` (sum 1)."""
    counts = pd.read_csv(share("data", "taxonomy", "reefnet_genus_counts.csv")).set_index("taxon")[
        "coralnet_public_annotations"
    ]
    weight = counts.reindex(taxa.table()["taxon"]).astype(float).clip(lower=FLOOR) ** TAIL
    return weight / weight.sum()


def communities(table: pd.DataFrame, seed: int) -> dict[str, pd.Series]:
    """Decide which taxa live at each source, and how common each is there; Atlantic and Indo-Pacific stay apart.

    Each taxon lives in at least six sources where its ocean has them, so that the label criteria can be met.
    """
    known = taxa.table().set_index("taxon")
    weight = weights()
    rng = stream(seed, "communities")
    lists: dict[str, list] = {}
    for row in table.itertuples():
        pool = known.index[(known["ocean"] == row.ocean) | (known["ocean"] == "both")]
        if row.source == SITE:
            lists[row.source] = list(SITE_TAXA)
            continue
        p = weight[pool] ** 0.35
        size = min(len(pool), int(rng.integers(TAXA_PER_SOURCE - 4, TAXA_PER_SOURCE + 5)))
        lists[row.source] = sorted({COMMONEST, *rng.choice(pool, size, replace=False, p=p / p.sum())})
    for taxon in known.index:
        ocean = known.at[taxon, "ocean"]
        homes = table.loc[(table["source"] != SITE) & ((table["ocean"] == ocean) | (ocean == "both")), "source"]
        has = [source for source in homes if taxon in lists[source]]
        missing = sorted(set(homes) - set(has))
        for source in rng.permutation(missing)[: max(0, min(6, len(homes)) - len(has))]:
            lists[source] = sorted([*lists[source], taxon])
    total = {}
    for source, names in lists.items():
        local = weight[names] * stream(seed, "local", source).lognormal(0, 0.6, len(names))
        total[source] = local / local.sum()
    return total


@dataclass(frozen=True)
class Photo:
    """One photo to be taken: which covers it should show, and how many points it gets."""

    source: str
    image: str
    covers: dict
    seed: int
    points: int
    layout: str


def _background(rng: np.random.Generator) -> dict:
    shares = rng.dirichlet([4.0, 1.0, 1.6, 1.8, 1.6, 1.0, 0.5, 0.4, 0.2, 0.2, 0.25])
    names = [
        "Turf algae",
        "Macroalgae",
        "Corallinales",
        "Sediment",
        "Hard substrate",
        "Rubble",
        "Octocorallia",
        "Porifera",
    ]
    return dict(zip([*names, "Millepora", "Zoantharia", "Shadow"], shares, strict=True))


def plan_photo(row, community: pd.Series, seed: int, number: int, wanted: str | None = None) -> Photo:
    """Plan one photo of a source: about five of its taxa (as on CoralNet photos), more of `wanted` where given."""
    rng = stream(seed, "photo", row.source, number)
    count = min(len(community), max(2, rng.poisson(TAXA_PER_IMAGE)))
    # Presence is flatter than abundance: a rare taxon is met now and then, and is then rarely large.
    p = community.to_numpy() ** 0.4
    chosen = sorted(rng.choice(len(community), count, replace=False, p=p / p.sum()))
    cover = community.iloc[chosen] ** 0.8
    cover = cover / cover.sum() * rng.gamma(4.0, 0.25, len(cover))
    cover = cover / cover.sum()
    if wanted is not None:
        cover = cover * 0.6
        cover[wanted] = cover.get(wanted, 0) + 0.4
    coral = float(np.clip(rng.normal(CORAL_COVER, 0.12), 0.25, 0.95))
    covers = {name: float(value * coral) for name, value in cover.items()}
    covers |= {name: float(value * (1 - coral)) for name, value in _background(rng).items()}
    stem = row.source.split()[1].lower()
    return Photo(row.source, f"{stem}_{number:04d}.jpg", covers, int(rng.integers(2**31)), row.points, row.layout)


def place_points(count: int, layout: str, height: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Lay out the points of a photo as CoralNet does (A.2.4).

    Parameters
    ----------
    count : int
        Points wanted; a grid or strata of rows x columns near the photo's shape give exactly that many, or (grid)
        close to it.
    layout : {'simple random', 'stratified random', 'uniform grid'}
    height, width : int
        Pixels.

    Returns
    -------
    ndarray of int, shape (n, 2)
        Row and column, 0-based, inside the photo.
    """
    if layout == "simple random":
        return np.column_stack([rng.integers(0, height, count), rng.integers(0, width, count)])
    rows = max(1, round(np.sqrt(count * height / width)))
    rows = 2 if count == SITE_POINTS else rows
    columns = max(1, round(count / rows))
    r, c = (axis.ravel() for axis in np.mgrid[0:rows, 0:columns])
    jitter = rng.random((2, len(r))) if layout == "stratified random" else np.full((2, len(r)), 0.5)
    at = np.column_stack([(r + jitter[0]) / rows * height, (c + jitter[1]) / columns * width])
    return np.minimum(at.astype(int), [height - 1, width - 1])


def agreement_targets(table: pd.DataFrame, homes: dict[str, pd.Series], seed: int) -> tuple[dict, list[str]]:
    """Draw how often an expert would agree with each source's use of each label, and the taxa confused everywhere.

    Returns
    -------
    targets : dict
        (source, taxon) -> expected agreement in [0, 1].
    bad_taxa : list of str
    """
    rng = stream(seed, "agreement")
    weight = weights()
    rare = sorted(set(weight.nsmallest(26).index) - set(SITE_TAXA))
    bad_taxa = sorted(rng.choice(rare, BAD_TAXA, replace=False))
    targets = {}
    for row in table.itertuples():
        for taxon in homes[row.source].index:
            if row.source == SITE:
                value = 1.0
            elif row.bad:
                value = rng.uniform(0.25, 0.45)
            elif taxon in bad_taxa:
                value = rng.uniform(0.20, 0.46)
            elif rng.random() < BAD_PAIRS:
                value = rng.uniform(0.40, 0.66)
            else:
                value = rng.beta(30, 1.9)
            targets[row.source, taxon] = float(value)
    return targets, bad_taxa


def relabel(truth: np.ndarray, targets: dict[str, float], protected: set, rng: np.random.Generator) -> np.ndarray:
    """Give the points of one source the labels its annotators wrote: some points of look-alike taxa get each label.

    Parameters
    ----------
    truth : ndarray of str, shape (points,)
        What is there, for hard-coral points.
    targets : dict
        Expected agreement by label; 0.6 of the disagreement is wrong labels, the rest photos too poor to tell.
    protected : set of str
        Taxa too rare to lose points.

    Returns
    -------
    ndarray of str, shape (points,)
    """
    labels = truth.astype(object)
    for taxon in rng.permutation(sorted(targets)):
        own = int(((truth == taxon) & (labels == taxon)).sum())
        wrong = 0.6 * (1 - targets[taxon])
        wanted = round(own * wrong / (1 - wrong))
        donors = np.flatnonzero((truth != taxon) & (labels == truth) & ~np.isin(truth, sorted(protected)))
        wanted = min(wanted, len(donors) // 3)
        if wanted:
            alike = np.array(
                [5.0 if taxa.KINDS[t].corallite == taxa.KINDS[taxon].corallite else 1.0 for t in truth[donors]]
            )
            labels[rng.choice(donors, wanted, replace=False, p=alike / alike.sum())] = taxon
    return labels.astype(str)


def verdicts(points: pd.DataFrame, targets: dict, seed: int) -> pd.DataFrame:
    """Review up to ten points per source-label pair.

    Parameters
    ----------
    points : DataFrame
        Hard-coral points: ``annotation_id``, ``source``, ``label``, ``taxon`` (what is there).
    targets : dict
        (source, label) -> expected agreement.

    Returns
    -------
    DataFrame
        The reviews table. One reviewer looks at one label (facts of the review protocol).
    """
    rows = []
    labels = sorted(points["label"].unique())
    start = pd.Timestamp("2024-03-01T08:00:00", tz="UTC")
    for (source, label), group in points.groupby(["source", "label"], sort=True):
        rng = stream(seed, "review", source, label)
        right = (group["taxon"] == label).to_numpy()
        target = targets.get((source, label), 0.5)
        # Photos too poor to tell bring the agreement from the share of right labels down to the target.
        clear = min(0.995, target / max(right.mean(), 1e-9))
        for i in np.sort(rng.permutation(len(group))[:PER_PAIR]):
            poor = "low_quality" if rng.random() < 0.6 else "hard_to_decide"
            if right[i]:
                verdict = "correct" if rng.random() < clear else poor
            else:
                verdict = "incorrect" if rng.random() < 0.85 else poor
            minutes = int(rng.integers(0, 60 * 24 * 60))
            reviewer = f"reviewer-{labels.index(label) % REVIEWERS + 1:02d}"
            rows.append((group["annotation_id"].iloc[i], verdict, reviewer, start + pd.Timedelta(minutes=minutes)))
    return pd.DataFrame(rows, columns=["annotation_id", "verdict", "reviewer", "timestamp"])


def spellings(table: pd.DataFrame, homes: dict[str, pd.Series], seed: int) -> dict[tuple[str, str], str]:
    """Decide how each source writes each label: genus, species, code, vernacular, old name or misspelling.

    Only spellings that `reefcore.taxonomy.match_labels` brings back to the taxon in that ocean are used, as the
    released label mapping does for the real sources.
    """
    aliases = pd.read_csv(share("data", "taxonomy", "label_aliases.csv"))
    species = pd.read_csv(share("data", "taxonomy", "species.csv"))
    every = [*(kind.name for kind in taxa.CORALS + taxa.OTHER), "Scleractinia"]
    back = {}
    for ocean in taxonomy.OCEANS:
        names = [*every, *aliases["alias"], *species["species"]]
        back[ocean] = taxonomy.match_labels(names, ocean).set_index("label")["taxon"]
    chosen = {}
    for row in table.itertuples():
        rng = stream(seed, "spelling", row.source)
        for label in [*homes[row.source].index, *(kind.name for kind in taxa.OTHER), "Scleractinia"]:
            fits = aliases[(aliases["label"] == label) & (aliases["ocean"].isna() | (aliases["ocean"] == row.ocean))]
            codes = fits.loc[fits["kind"] == "code", "alias"].tolist()
            informal = fits.loc[fits["kind"].isin(["vernacular", "old name", "misspelling"]), "alias"].tolist()
            binomials = species.loc[(species["label"] == label) & (species["ocean"] == row.ocean), "species"].tolist()
            options = {"genus": [label], "species": binomials, "code": codes, "informal": informal}[row.style]
            options = options or [label]
            if not row.located:
                options = [label]
            spelling = options[int(rng.integers(len(options)))]
            chosen[row.source, label] = spelling if back[row.ocean].get(spelling) == label else label
    return chosen


def annotations(
    points: pd.DataFrame, table: pd.DataFrame, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Turn the points with what is under them into what a real data set has: raw labels, mapped labels and verdicts.

    Parameters
    ----------
    points : DataFrame
        ``source``, ``image``, ``row``, ``column``, ``taxon`` (what is there).
    table : DataFrame
        The sources.

    Returns
    -------
    annotations, reviews, truth : DataFrame
        The two tables, and ``annotation_id`` -> ``taxon``.
    """
    homes = communities(table, seed)
    targets, _ = agreement_targets(table, homes, seed)
    coral = points["taxon"].isin([kind.name for kind in taxa.CORALS]).to_numpy()
    counts = points.loc[coral, "taxon"].value_counts()
    protected = set(counts.index[counts < 2 * counts.min() + 60])
    written = points["taxon"].to_numpy(dtype=object).copy()
    for source, rows in points[coral].groupby("source", sort=True):
        wanted = {taxon: targets[source, taxon] for taxon in homes[source].index}
        if source != SITE:
            at = points.index.get_indexer(rows.index)
            written[at] = relabel(rows["taxon"].to_numpy(str), wanted, protected, stream(seed, "labels", source))
    rng = stream(seed, "unidentified")
    vague = coral & ~points["taxon"].isin(protected).to_numpy() & (rng.random(len(points)) < UNIDENTIFIED)
    written[vague & (points["source"] != SITE).to_numpy()] = "Scleractinia"
    names = spellings(table, homes, seed)
    pairs = zip(points["source"], written, strict=True)
    frame = points.assign(label_raw=[names.get(pair, pair[1]) for pair in pairs])
    place = table.set_index("source").where(table.set_index("source")["located"])
    for name in ("latitude", "longitude", "ecoregion", "province", "realm"):
        frame[name] = frame["source"].map(place[name])
    # The photos of the site have positions of their own: around a lagoon, and a few farther south (Figure 8).
    site = frame["source"] == SITE
    number, photos = pd.factorize(frame.loc[site, "image"], sort=True)
    spots = stream(seed, "site positions").normal(0, 0.1, (len(photos), 2))
    spots[::12] += (-1.5, 0.6)
    frame.loc[site, ["latitude", "longitude"]] += spots[number].round(4)
    mapped, _ = taxonomy.map_labels(complete(frame.drop(columns="taxon")))
    truth = pd.DataFrame({"annotation_id": mapped["annotation_id"].array, "taxon": points["taxon"].array})
    reviewed = mapped[coral & mapped["rank"].isin(["genus", "family"])]
    reviewed = reviewed[["annotation_id", "source", "label"]].merge(
        truth.drop_duplicates("annotation_id"), on="annotation_id"
    )
    reviews = verdicts(reviewed[reviewed["source"] != SITE], targets, seed)
    site = reviewed[reviewed["source"] == SITE]
    when = pd.Timestamp("2024-03-01T08:00:00", tz="UTC")
    sure = pd.DataFrame(
        {
            "annotation_id": site["annotation_id"].array,
            "verdict": "correct",
            "reviewer": "reviewer-01",
            "timestamp": when,
        }
    )
    twice = stream(seed, "twice").random(len(mapped)) < DUPLICATES
    mapped = pd.concat([mapped, mapped[twice]], ignore_index=True)
    order = ["source", "image", "row", "column", "label_raw"]
    return (
        mapped.sort_values(order, kind="stable", ignore_index=True),
        pd.concat([reviews, sure], ignore_index=True).sort_values("annotation_id", ignore_index=True),
        truth.drop_duplicates("annotation_id").sort_values("annotation_id", ignore_index=True),
    )
