"""Invented taxa with words for their looks: what a toy vision-language model learns from, apart from the benchmark.

The taxa are random combinations of the sample's corallites, sizes, growth forms and colours, none of them one of the 44
taxa of the benchmark or too like one (`too_like`). Their photos are taken in waters and by cameras of their own, and
each patch goes with a caption that says in words some of what its taxon looks like. So a model trained on them has
met every word and every corallite, but no photo, source, label or name of the benchmark; whether it can tell the
benchmark's taxa from text is whether words about morphology carry over to unseen taxa. A toy that shows this mechanism:
no result about corals, and none about CLIP.

Some patches show bare ground instead, captioned with words for it (`GROUNDS`), so that the model can also be asked for
substrates (`reefcore.substrate.pseudo`). The ground kinds are those of the sample itself: here only their photos,
waters and cameras are others, and an answer about ground is easier than one about an unseen taxon.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.parallel import pool
from reefcore.patches import crop
from reefcore.sample import morphology, photos, taxa
from reefcore.sample.morphology import generator

REALMS = ("Tropical Atlantic", "Western Indo-Pacific", "Central Indo-Pacific", "Eastern Indo-Pacific")
SIZE = (4.0, 20.0)  # pixels; range of corallite spacings, as that of the benchmark
NEAR = 1.25  # spacings within this factor count as the same
MOST = 5000  # invented taxa
FRAME, TAXA_PER_PHOTO, POINTS_PER_TAXON = (288, 384), 6, 4  # FRAME is height and width in pixels
MEGAPIXELS = (6.0, 24.0)  # of the cameras: below, corallites blur
SIDE = 64  # pixels of a patch, as in the sample
GROUND_POINTS, PURE = 40, 0.55  # tried in a photo of ground; least share of a patch that one thing covers
HIGHEST = 3.5  # m above the seabed, as a vehicle; corals are seen from there too, or haze alone would mean ground
BATCHES = 10  # as so many "taxa" each ground counts: a batch of training has one patch of a taxon, and a few of ground

FORMS = {
    "massive": ("massive domes", "rounded boulders"),
    "lobed": ("lobed mounds", "lumpy mounds"),
    "columnar": ("upright columns", "clustered pillars"),
    "encrusting": ("encrusting sheets", "thin crusts"),
    "foliose": ("leafy plates", "overlapping plates"),
    "tabular": ("flat tables", "table tops"),
    "solitary": ("single discs", "solitary discs"),
    "staghorn": ("long open branches", "staghorn branches"),
    "bushy": ("bushy branches", "dense bushes"),
    "stubby": ("stubby branches", "short thick branches"),
    "needles": ("thin needle branches", "fine twigs"),
    "digitate": ("finger branches", "upright fingers"),
}
CORALLITES = {
    "polygons": ("polygonal corallites with shared walls", "angular corallites wall to wall"),
    "stars": ("round corallites with raised rims", "circular cups with separate rims"),
    "ridges": ("winding valleys between ridges", "meandering valleys like a brain"),
    "rows": ("corallites in concentric rows", "parallel rows of corallites around the centre"),
    "radial": ("lines that radiate from the centre", "radial septa around one mouth"),
    "pores": ("pits like pores", "sunken pores in a smooth surface"),
    "cones": ("bumps shaped like cones", "conical knobs"),
    "flowers": ("polyps like flowers with petals", "star shaped polyps with petals"),
    "bubbles": ("round bubbles", "inflated bubbles like grapes"),
}
SIZES = ((5.3, "minute"), (7.2, "small"), (9.2, "medium"), (12.5, "large"), (math.inf, "giant"))
RELIEFS = ((0.25, "low relief"), (0.36, "moderate relief"), (math.inf, "deep relief"))
#: option of a surface -> words where its value is at least the number; the first that holds.
DETAILS = {
    "septa": ((0.5, "bold septa"), (0.05, "faint septa")),
    "wall": ((0.29, "thick walls"), (0.0, "thin walls")),
    "merge": ((0.1, "some corallites merged"),),
    "dome": ((0.5, "swollen domes"),),
    "oval": ((0.5, "oval outlines"),),
    "fuzz": ((0.25, "a grainy surface"),),
    "groove": ((0.5, "a groove along the ridges"),),
    "order": ((2.0, "straight parallel ridges"),),
    "breaks": ((0.5, "broken ridges"),),
    "pit": ((0.5, "an open hole on top"), (0.05, "a tiny hole on top"), (0.0, "no hole on top")),
    "uneven": ((0.5, "uneven heights"),),
    "ridge": ((0.5, "short ridges"),),
    "rim": ((0.3, "a pale rim"),),
    "petals": ((9.0, "many petals"), (0.0, "few petals")),
    "spike": ((0.5, "pointed tips"),),
    "cup": ((0.5, "deep cups"),),
}
HUES = {
    "brownish": "brown umber tan rust dark", "pale": "cream sand grey ash white", "greenish": "olive green lime moss",
    "purplish": "pink rose mauve purple lilac blue", "yellowish": "mustard orange yellow red",
}  # fmt: skip
#: What a patch of a substrate shows -> ways to say it; ground by its kind.
GROUNDS = {
    "Sediment": ("sand", "bare sand", "a sandy sea floor", "fine pale sediment"),
    "Rubble": ("rubble", "loose broken rubble", "a field of fragments"),
    "Hard substrate": ("rock", "bare rock", "a rocky bottom", "solid bare rock"),
    "Turf algae": ("rock with turf", "rock under short turf algae", "a rocky bottom with turf"),
    "Corallinales": ("encrusted rock", "rock with crusts of algae", "a rocky bottom with pinkish crusts"),
    "Shadow": ("dark water", "deep water", "open water", "a dark hollow of deep water"),
    "coral": ("coral", "hard coral", "a hard coral of the reef", "a living coral colony"),
}
HUE = {colour: hue for hue, colours in HUES.items() for colour in colours.split()}
VAGUE = ("a beautiful hard coral of the reef", "a hard coral with a varied surface", "an important reef builder")


def too_like(kind: taxa.Kind, others=taxa.CORALS) -> list[str]:
    """Name the taxa that a kind is too like: its corallite, a spacing within `NEAR` times, a ridge colour in common."""
    ridges = {ridge for ridge, _ in kind.colours}
    return [
        other.name
        for other in others
        if other.corallite == kind.corallite
        and max(other.size, kind.size) <= NEAR * min(other.size, kind.size)
        and ridges & {ridge for ridge, _ in other.colours}
    ]


def invent(seed: int, count: int) -> list[taxa.Kind]:
    """Draw taxa that do not exist, none of them `too_like` one of the benchmark's.

    Parameters
    ----------
    seed : int
    count : int
        1 to `MOST`.

    Returns
    -------
    list of Kind
        Each with a corallite and options of it, growth forms and colours that the benchmark's taxa have, too, drawn
        independently of each other, and a spacing of `SIZE` pixels.

    Raises
    ------
    ReefcoreError
        Where `count` is out of range.
    """
    if not 1 <= count <= MOST:
        raise ReefcoreError(f"{count} invented taxa cannot be made", do=f"choose 1 to {MOST}")
    rng = generator("invent", seed)
    ridges = sorted({ridge for kind in taxa.CORALS for ridge, _ in kind.colours})
    valleys = sorted({valley for kind in taxa.CORALS for _, valley in kind.colours})
    grown = [form for kind in taxa.CORALS for form in kind.forms]  # the common forms are common here, too
    kinds: list[taxa.Kind] = []
    while len(kinds) < count:
        corallite = str(rng.choice(list(CORALLITES)))
        like = [kind.options for kind in taxa.CORALS if kind.corallite == corallite]
        lent = {name: like[rng.integers(len(like))] for name in dict.fromkeys(name for other in like for name in other)}
        size = float(np.exp(rng.uniform(*np.log(SIZE))))
        forms = list(dict.fromkeys(rng.choice(grown, rng.integers(1, 3))))
        colours = tuple((str(rng.choice(ridges)), str(rng.choice(valleys))) for _ in range(rng.integers(1, 3)))
        kind = taxa.Kind(
            f"invented {seed}-{len(kinds) + 1:03d}",
            "both",
            corallite,
            size,
            size * float(rng.uniform(0.18, 0.46)),
            {name: other[name] for name, other in lent.items() if name in other},
            {str(form): 1.0 for form in forms},
            colours,
        )
        if all(ridge != valley for ridge, valley in colours) and not too_like(kind):
            kinds.append(kind)
    return kinds


def _sentences(kind: taxa.Kind, pick) -> dict[str, str]:
    """Say in words what a kind looks like, aspect by aspect; `pick` chooses between ways to say it."""
    size = next(word for most, word in SIZES if kind.size < most)
    relief = next(word for most, word in RELIEFS if kind.relief < most * kind.size)
    said = (
        next((word for least, word in DETAILS.get(o, ()) if value >= least), "") for o, value in kind.options.items()
    )
    details = " and ".join(filter(None, said))
    ridges = [ridge for ridge, _ in kind.colours]
    return {
        "vague": pick(VAGUE),
        "form": "grows as " + " or ".join(pick(FORMS[form]) for form in kind.forms),
        "surface": f"the surface has {size} {pick(CORALLITES[kind.corallite])}",
        "details": f"with {details}" if details else "",
        "relief": f"in {relief}",
        "colour": "coloured " + " or ".join(f"{ridge} over {valley}" for ridge, valley in kind.colours),
        "hue": "often " + " or ".join(dict.fromkeys(HUE[ridge] for ridge in ridges)),
    }


#: What the sets of descriptions say.
LEVELS = {"general": ("vague", "form", "hue"), "morphology": ("form", "surface", "details", "relief", "colour")}


def describe(kind: taxa.Kind, level: str) -> str:
    """Describe a taxon from its looks alone, in words that captions use, too.

    Parameters
    ----------
    kind : Kind
        Of the benchmark (`taxa.CORALS`) or invented.
    level : {'general', 'morphology'}
        A key of `LEVELS`: growth form and the sort of colour, with a vague phrase; or growth form, corallite with its
        size and details, relief and colours.
    """
    said = _sentences(kind, lambda ways: ways[0])
    return ", ".join(said[aspect] for aspect in LEVELS[level] if said[aspect])


def descriptions() -> pd.DataFrame:
    """Describe the 44 taxa of the benchmark: the table shipped as ``data/descriptions/morphology.csv``.

    Returns
    -------
    DataFrame
        ``taxon``, ``set`` ("general", "morphology"), ``text``, ``words``, ``how``, ``prompt``, ``source``, ``passage``.
    """
    rows = [(kind.name, level, describe(kind, level)) for level in LEVELS for kind in taxa.CORALS]
    table = pd.DataFrame(rows, columns=["taxon", "set", "text"])
    words = table["text"].str.split().str.len()
    return table.assign(
        words=words, how="reefcore.sample.corpus", prompt="", source="reefcore/sample/looks.csv", passage=""
    )


def caption(kind: taxa.Kind, rng: np.random.Generator) -> str:
    """Say at least four of the aspects of a kind, in any order and one of several wordings."""
    said = list(filter(None, _sentences(kind, lambda ways: ways[rng.integers(len(ways))]).values()))
    return ", ".join(said[n] for n in rng.permutation(len(said))[: rng.integers(4, 8)])


def _take_ground(seed: int, group: int, kinds: list[taxa.Kind]) -> tuple[list[np.ndarray], list]:
    """Photograph ground and two taxa from anywhere up to `HIGHEST`; cut what fills a patch, and name it shortly."""
    rng = generator("corpus ground", seed, group)
    megapixels = float(np.exp(rng.uniform(*np.log(MEGAPIXELS))))
    look = photos.make_look(int(rng.integers(2**31)), str(rng.choice(REALMS)), megapixels)
    look = replace(look, altitude=float(rng.uniform(look.altitude, HIGHEST)))
    kinds, ground = [kinds[n] for n in rng.permutation(len(kinds))[:2]], list(GROUNDS)[:-1]
    cover = {kind.name: 0.25 / len(kinds) for kind in kinds}
    cover |= dict(zip(ground, 0.75 * rng.dirichlet(np.ones(len(ground))), strict=True))
    shown = {kind.name: kind for kind in (*kinds, *taxa.OTHER)}
    image, classes = photos.photo(look, cover, 0, FRAME[1], FRAME[0], shown)
    named = ["coral" if name not in taxa.KINDS else name for name in shown]
    patches, rows = [], []
    for row, column in zip(*(rng.integers(SIDE // 2, side - SIDE // 2, GROUND_POINTS) for side in FRAME), strict=True):
        name = named[classes[row, column]]
        filled = (crop(classes[..., None], row, column, SIDE) == classes[row, column]).mean()
        if name in GROUNDS and filled >= PURE:
            patches.append(crop(image, row, column, SIDE))
            rows.append((f"{name} {group % BATCHES}", str(rng.choice(GROUNDS[name]))))
    return patches, rows


def _take(task: tuple) -> tuple[np.ndarray, list, list, list]:
    """Take photos of one group of taxa, each in other water by another camera, and one of ground; cut and caption."""
    seed, group, kinds, count = task
    rng = generator("corpus", seed, group)
    shown = {kind.name: kind for kind in (*kinds, *taxa.OTHER)}
    patches, rows = [], []
    for _ in range(count):
        megapixels = float(np.exp(rng.uniform(*np.log(MEGAPIXELS))))
        look = photos.make_look(int(rng.integers(2**31)), str(rng.choice(REALMS)), megapixels)
        cover = {kind.name: 0.85 / len(kinds) for kind in kinds}
        cover |= dict(zip(photos.GROUND, 0.15 * rng.dirichlet(np.ones(len(photos.GROUND))), strict=True))
        image, classes = photos.photo(look, cover, 0, FRAME[1], FRAME[0], shown)
        for n, kind in enumerate(kinds):
            at = np.flatnonzero(classes == n)
            at = rng.choice(at, min(len(at), POINTS_PER_TAXON), replace=False)
            for row, column in zip(*np.unravel_index(at, FRAME), strict=True):
                patches.append(crop(image, row, column, SIDE))
                rows.append((kind.name, caption(kind, rng)))
    bare, said = _take_ground(seed, group, kinds)
    morphology.tile.cache_clear()  # no later photo shows these taxa
    morphology.stamp.cache_clear()
    return np.stack(patches), rows, bare, said


def make(seed: int = 0, taxa: int = 600, patches: int = 9600, workers: int = 2) -> tuple[np.ndarray, pd.DataFrame]:
    """Make the corpus: patches around points on invented taxa, then patches of ground, each with a caption.

    Parameters
    ----------
    seed : int
        The same seed, taxa and patches give the same bytes on one machine, whatever `workers` is.
    taxa : int
        Invented taxa, at most `MOST`.
    patches : int
        At most so many patches of taxa, the same number of each where they fit its photos.
    workers : int
        Processes.

    Returns
    -------
    patches : ndarray of uint8, shape (n, 64, 64, 3)
    table : DataFrame
        ``taxon`` and ``caption`` of each patch; of ground its kind and a number below `BATCHES` are the taxon.

    Raises
    ------
    ReefcoreError
        Where `taxa` is out of range or there are fewer patches than taxa.
    """
    kinds = invent(seed, taxa)
    if patches < taxa:
        raise ReefcoreError(f"{patches} patches cannot show {taxa} taxa", do="ask for one patch of each, or for more")
    groups = [kinds[n : n + TAXA_PER_PHOTO] for n in range(0, taxa, TAXA_PER_PHOTO)]
    count = math.ceil(patches / (taxa * POINTS_PER_TAXON))
    tasks = [(seed, number, group, count) for number, group in enumerate(groups)]
    with pool(workers) as processes:
        taken = list(processes.map(_take, tasks))
    columns = ["taxon", "caption"]
    table = pd.DataFrame([row for _, rows, *_ in taken for row in rows], columns=columns)
    fair = table.groupby("taxon").cumcount().argsort(kind="stable")[:patches].sort_values().to_numpy()
    ground = pd.DataFrame([row for *_, rows in taken for row in rows], columns=columns)
    found = np.concatenate([found for found, *_ in taken])[fair]
    bare = [patch for _, _, patches, _ in taken for patch in patches]
    return np.stack([*found, *bare]), pd.concat([table.iloc[fair], ground], ignore_index=True)
