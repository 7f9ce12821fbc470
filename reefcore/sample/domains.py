"""Small synthetic data sets in the layouts of seven real ones, so that their readers and the chapter can be run.

The photos are of the sample's own renderer, under water and cameras of their own; what a pixel shows is known. Nothing
of the real data sets is in them but their layout and the names of their classes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from PIL import Image

from reefcore.annotations.masks import classes as classes_of
from reefcore.files import write_parquet
from reefcore.sample import photos, survey

WIDTH, HEIGHT, PHOTOS, POINTS = 432, 288, 6, 40
REALM = "Central Indo-Pacific"
TAXA = (
    "Acropora Pocillopora Stylophora Porites Montipora Pavona Favites Goniastrea Dipsastraea Platygyra Galaxea "
    "Seriatopora Leptastrea Lobophyllia Fungiidae Hydnophora Cyphastrea Echinopora"
).split()
CORALS = len(photos.CLASSES) - 12  # of the classes of a photo, the first are hard corals
#: What a photo shows -> the class of Coralscapes; other hard corals are massive or meandering ones.
SCAPES = {
    "Acropora": "acropora alive", "Pocillopora": "pocillopora alive", "Stylophora": "stylophora alive",
    "Seriatopora": "branching alive", "Montipora": "other coral alive", "Turf algae": "algae covered substrate",
    "Macroalgae": "algae covered substrate", "Corallinales": "algae covered substrate", "Sediment": "sand",
    "Hard substrate": "unknown hard substrate", "Rubble": "rubble", "Octocorallia": "other coral alive",
    "Porifera": "sponge", "Millepora": "millepora", "Zoantharia": "anemone", "Shadow": "dark",
}  # fmt: skip
MOSAIC = {
    "Dipsastraea": "Favia matthai",
    "Fungiidae": "Fungia",
    "Octocorallia": "Soft coral",
    "Zoantharia": "Zooanthid",
}
ATTRIBUTES = {
    "Sediment": "Sand",
    "Hard substrate": "Bare substrate",
    "Octocorallia": "Soft coral",
    "Porifera": "Sponge",
}
FORMS = {"Acropora": "Branching", "Porites": "Massive", "Montipora": "Foliose"}
PATHS = {
    "Octocorallia": "Cnidaria > Corals > Black & Octocorals", "Porifera": "Sponges", "Macroalgae": "Macroalgae",
    "Turf algae": "Macroalgae > Turf algae", "Sediment": "Substrate > Unconsolidated (soft) > Sand",
    "Rubble": "Substrate > Unconsolidated (soft) > Rubble", "Hard substrate": "Substrate > Consolidated (hard) > Rock",
}  # fmt: skip


def _photos(name: str, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Take the photos of one data set; all share a water, a camera and a community of their own."""
    rng = survey.stream(seed, "domain", name)
    look = photos.make_look(int(rng.integers(2**31)), REALM, 12)
    lives = survey.weights()[sorted({*TAXA[:3], *rng.choice(TAXA[3:], 9, replace=False)})]
    row, found = SimpleNamespace(source=f"domain {name}", points=POINTS, layout="simple random"), []
    for number in range(1, PHOTOS + 1):
        plan = survey.plan_photo(row, lives / lives.sum(), seed, number)
        found.append(photos.photo(look, plan.covers, plan.seed, WIDTH, HEIGHT))
    return found


def _save(pixels: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **({"quality": 92} if path.suffix == ".jpg" else {"compress_level": 1}))


def _values(dataset: str, names: dict[str, str], rest: str | None) -> np.ndarray:
    """Say which value of a mask each class of a photo is; 0, not labelled, where there is none."""
    known = dict(zip(*(classes_of(dataset)[name] for name in ("label", "value")), strict=True))
    wanted = [names.get(c, c if c in known else rest if i < CORALS else None) for i, c in enumerate(photos.CLASSES)]
    return np.array([known.get(name, 0) for name in wanted], np.uint8)


def _points(name: str, seed: int, number: int, shown: np.ndarray) -> pd.DataFrame:
    """Lay points on a photo and read off what each shows."""
    rng = survey.stream(seed, "domain points", name, number)
    at = survey.place_points(POINTS, "simple random", HEIGHT, WIDTH, rng)
    return pd.DataFrame(
        {"row": at[:, 0], "column": at[:, 1], "taxon": np.array(photos.CLASSES)[shown[at[:, 0], at[:, 1]]]}
    )


def _coralscapes(folder: Path, taken: list, seed: int) -> None:
    values = _values("coralscapes", SCAPES, "massive/meandering alive")
    for number, (pixels, shown) in enumerate(taken, 1):
        stem = f"test/site{1 + number % 2}/site{1 + number % 2}_{number:06d}"
        mask = values[shown]
        mask[: HEIGHT // 6] = 0  # nobody labelled the top
        _save(pixels, folder / "leftImg8bit" / f"{stem}_leftImg8bit.png")
        _save(mask, folder / "gtFine" / f"{stem}_gtFine.png")


def _mosaics(folder: Path, taken: list, seed: int) -> None:
    values = _values("mosaics-ucsd", MOSAIC | {c: f"{c} (massive)" for c in ("Porites",)}, None)
    for name, label in (
        ("Montipora", "Montipora (encrusting)"),
        ("Acropora", "Acropora (branching)"),
        ("Pavona", "Pavona varians"),
        ("Favites", "Favites (encrusting)"),
    ):
        values[photos.CLASSES.index(name)] = classes_of("mosaics-ucsd").set_index("label").at[label, "value"]
    for number, (pixels, shown) in enumerate(taken):
        name = f"PAL36_{512 * number}_{512 * number + 512}_0_512.png"
        _save(pixels, folder / "images" / "test" / name)
        _save(values[shown], folder / "labels" / "test" / name)
    named = classes_of("mosaics-ucsd").rename(columns={"value": "id", "label": "name"})[["id", "name"]]
    (folder / "classes.json").write_text(json.dumps(named.to_dict("records")), encoding="utf-8")


def _is_coral(shown: np.ndarray) -> np.ndarray:
    return (shown < CORALS) | (shown == photos.CLASSES.index("Octocorallia"))


def _coralscop(folder: Path, taken: list, seed: int) -> None:
    for number, (pixels, shown) in enumerate(taken, 1):
        _save(pixels, folder / "test" / "images" / f"{number:04d}.jpg")
        down = _is_coral(shown).T.ravel()
        edges = np.flatnonzero(np.diff(down.astype(np.int8), prepend=0))
        counts = np.diff([0, *edges, len(down)]).tolist()
        image = {"file_name": f"{number:04d}.jpg", "height": HEIGHT, "width": WIDTH, "id": number}
        one = {"id": 1, "image_id": number, "segmentation": {"size": [HEIGHT, WIDTH], "counts": counts}}
        path = folder / "test" / "jsons" / f"{number:04d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"image": image, "annotations": [one]}), encoding="utf-8")


def _coralvos(folder: Path, taken: list, seed: int) -> None:
    for number, (pixels, shown) in enumerate(taken):
        _save(pixels, folder / "images" / "video1" / f"{5 * number:05d}.jpg")
        _save(_is_coral(shown).astype(np.uint8), folder / "masks" / "video1" / f"{5 * number:05d}.png")


def _eilat(folder: Path, taken: list, seed: int) -> None:
    for number, (pixels, shown) in enumerate(taken, 1):
        _save(pixels, folder / f"eilat_{number:03d}.jpg")
        lines = [f"{row.row}; {row.column}; {row.taxon}" for row in _points("eilat", seed, number, shown).itertuples()]
        (folder / f"eilat_{number:03d}.jpg.txt").write_text(
            "\n".join(["# row; col; label", *lines, ""]), encoding="utf-8"
        )


def _benthicnet(folder: Path, taken: list, seed: int) -> None:
    rows = []
    for number, (pixels, shown) in enumerate(taken, 1):
        site, image = f"site{1 + number % 2}", f"{number:04d}"
        _save(pixels, folder / "SAMPLE_2021" / site / f"{image}.jpg")
        table = _points("benthicnet", seed, number, shown)
        for at, row in enumerate(table.itertuples()):
            coral = photos.CLASSES.index(row.taxon) < CORALS
            path = PATHS.get(row.taxon, f"Cnidaria > Corals > Stony corals > {row.taxon}" if coral else row.taxon)
            ground = path.startswith("Substrate")
            place = (row.row, row.column) if at % 8 else ("", "")  # some labels are of the whole photo
            rows.append(
                (
                    f"https://example.org/{image}",
                    "SAMPLE",
                    "SAMPLE_2021",
                    site,
                    image,
                    150.1,
                    -20.5,
                    "2021-03-04",
                    -6.0,
                    *place,
                    "" if ground else path,
                    path if ground else "",
                )
            )
    names = "url source dataset site image longitude latitude datetime gebco_bathymetry row column".split()
    pd.DataFrame(rows, columns=[*names, "catami_biota", "catami_substrate"]).to_csv(
        folder / "benthicnet_labelled.csv", index=False, lineterminator="\n"
    )


def _mermaid(folder: Path, taken: list, seed: int) -> None:
    parts = []
    for number, (pixels, shown) in enumerate(taken, 1):
        image = f"00000000-0000-4000-8000-{number:012d}"
        _save(pixels, folder / f"{image}.png")
        parts.append(_points("mermaid-open", seed, number, shown).assign(image_id=image))
    table = pd.concat(parts, ignore_index=True).rename(columns={"column": "col"})
    table["benthic_attribute_name"] = table["taxon"].replace(ATTRIBUTES)
    table["growth_form_name"] = table.pop("taxon").map(FORMS).astype("str")
    table["id"] = [f"00000000-0000-4000-9000-{number:012d}" for number in range(len(table))]
    write_parquet(
        table.assign(region_name=REALM, updated_on="2025-08-06T00:00:00Z"),
        folder / "mermaid_confirmed_annotations.parquet",
    )


MAKERS = {
    "benthicnet": _benthicnet,
    "coralscapes": _coralscapes,
    "coralscop": _coralscop,
    "coralvos": _coralvos,
    "eilat": _eilat,
    "mermaid-open": _mermaid,
    "mosaics-ucsd": _mosaics,
}


def generate(folder: str | Path, seed: int = 0, only: tuple[str, ...] = tuple(MAKERS)) -> None:
    """Make the data sets, each in a folder of its name; what is there is replaced.

    Parameters
    ----------
    folder : path
    seed : int
        The same seed gives the same bytes on one machine.
    only : tuple of str
        Which of the seven.
    """
    for name in only:
        shutil.rmtree(Path(folder) / name, ignore_errors=True)
        (Path(folder) / name).mkdir(parents=True)
        MAKERS[name](Path(folder) / name, _photos(name, seed), seed)
