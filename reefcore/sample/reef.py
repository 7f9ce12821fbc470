"""A made-up reef: the raw files that an ecologist starts with, untidy as they are, and the truth that she never has.

"Halfmoon Reef" does not exist. Its three sites were surveyed twice, a year apart; between the surveys corals bleached
and died at one of them. The photos are drawn by the sample's renderers, so what each pixel shows is known. Every oddity
of real files that the readers and checks of a site look for is here once or a few times (`generate` lists them).
"""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageFilter

from reefcore.errors import ReefcoreError
from reefcore.files import atomic, share
from reefcore.sample import photos, survey, taxa

__all__ = ["NAME", "generate"]

NAME = "Halfmoon Reef (made up)"
ECOREGION = "Maldives"  # the invented reef lies near a reef of this real ecoregion
WIDTH, HEIGHT, SIDE, TRANSECTS, PHOTOS = 640, 480, 5, 3, 5  # SIDE x SIDE points, a random one in each cell
DATES = {"2023": "14/03/2023", "2024": "19/03/2024"}
#: Site -> its code, zone, depth in m, way from the first in degrees, and hard coral (0..1, living) in both surveys.
SITES = {
    "Lantern Point": ("LP", "crest", 4.0, (0.0, 0.0), {"2023": 0.58, "2024": 0.25}),
    "Copper Garden": ("CG", "lagoon", 7.0, (0.021, 0.034), {"2023": 0.38, "2024": 0.38}),
    "Saffron Wall": ("SW", "slope", 12.0, (-0.032, 0.018), {"2023": 0.32, "2024": 0.28}),
}
BLEACHED = "Lantern Point"  # there bleaching struck, and the branching corals first
FRAIL = ("Acropora", "Pocillopora", "Montipora", "Stylophora")
CORALS = {
    "Acropora": 22, "Porites": 20, "Pocillopora": 15, "Montipora": 12, "Favites": 7, "Goniastrea": 6, "Pavona": 5,
    "Dipsastraea": 4, "Stylophora": 4, "Galaxea": 3, "Lobophyllia": 2, "Fungiidae": 2,
}  # fmt: skip
GROUND = {
    "Turf algae": 36, "Sediment": 18, "Rubble": 14, "Corallinales": 13, "Hard substrate": 9, "Macroalgae": 5,
    "Octocorallia": 3, "Porifera": 1.5, "Shadow": 0.5,
}  # fmt: skip
GROUPS = {
    "Turf algae": "Turf algae", "Sediment": "Sand and sediment", "Rubble": "Rubble",
    "Corallinales": "Crustose coralline algae", "Hard substrate": "Rock and bare substrate",
    "Macroalgae": "Algae (fleshy)", "Octocorallia": "Soft coral", "Porifera": "Sponge", "Shadow": "Not benthos",
}  # fmt: skip
#: Paler or overgrown corals, drawn as what they were in other colours.
STATES = {
    f"{name} ({state})": replace(taxa.KINDS[name], name=f"{name} ({state})", colours=colours)
    for name in FRAIL
    for state, colours in (("bleached", (("white", "cream"),)), ("dead", (("olive", "umber"), ("ash", "moss"))))
}
KINDS = {**taxa.KINDS, **STATES}
#: What is there -> how each of the two observers writes it: codes, misspellings, old names, what R makes of ``*PAV``.
LABELS = {
    "Acropora": ("Acro", "Acro"), "Porites": ("Por", "Porites (massive)"), "Pocillopora": ("Poc", "Pocilopora"),
    "Montipora": ("MONTI", "Monti_enc"), "Favites": ("Favites", "Favites"), "Goniastrea": ("Goniastera", "Goniastera"),
    "Pavona": ("X.PAV", "X.PAV"), "Dipsastraea": ("Favia", "Favia"), "Stylophora": ("Stylo", "Stylo"),
    "Galaxea": ("Galaxea", "Galaxea"), "Lobophyllia": ("Lobo", "Lobo"), "Fungiidae": ("Fungia", "Fungia"),
    "Turf algae": ("Turf", "TURF"), "Sediment": ("Sand", "SAND"), "Rubble": ("RUB", "RUB"),
    "Corallinales": ("CCA", "CCA"), "Hard substrate": ("Rock", "Rock"), "Macroalgae": ("Macro", "Macro"),
    "Octocorallia": ("SoftC", "SoftC"), "Porifera": ("SPO", "SPO"), "Shadow": ("Shadow", "Shadow"),
    "Acropora (bleached)": ("Bleached Acropora",) * 2, "Acropora (dead)": ("DCA", "DCA"),
    "Pocillopora (bleached)": ("Poc_BL", "Poc_BL"), "Pocillopora (dead)": ("DCA", "DCA"),
    "Montipora (bleached)": ("MONTI bleached",) * 2, "Montipora (dead)": ("DCA", "DCA"),
    "Stylophora (bleached)": ("Stylo bleached",) * 2, "Stylophora (dead)": ("DCA", "DCA"),
}  # fmt: skip
HEADER = (
    "Name,Date,Site,Transect,Quadrat,Zone,Survey,Height (cm),Latitude,Longitude,Depth,Camera,Photographer,"
    "Water quality,Strobes,Framing gear used,White balance card,Comments,Row,Column,Label,Annotator,Date annotated,"
    + ",".join(f"Machine suggestion {n},Machine confidence {n}" for n in range(1, 6))
).split(",")


def _covers(site: str, year: str, rng: np.random.Generator) -> dict[str, float]:
    """Draw what one photo should show: shares of corals in each state and of the ground between them."""
    before, now = (SITES[site][4][when] for when in ("2023", year))
    swing = rng.normal(1, 0.12)  # photos of one transect differ; the mean of a site stays
    coral = (pd.Series(CORALS) * rng.gamma(1.5, 1, len(CORALS))).nlargest(6)
    coral *= before * swing / coral.sum()
    frail = coral[coral.index.isin(FRAIL)].sum()
    covers = {}
    for name, part in coral.items():
        gone = min(0.75 * part, (before - now) * swing * part / frail) if name in FRAIL else 0.0
        pale = 0.5 * (part - gone) if name in FRAIL and site == BLEACHED and year != "2023" else 0.0
        covers[name] = part - gone - pale
        if pale:
            covers[f"{name} (bleached)"], covers[f"{name} (dead)"] = pale, 0.5 * gone
    ground = pd.Series(GROUND) * rng.gamma(4, 0.25, len(GROUND))
    return covers | (ground / ground.sum() * (1 - sum(covers.values()))).to_dict()


def _plan() -> pd.DataFrame:
    """List the photos: five of each transect in both surveys, and a fourth transect that nobody has annotated yet."""
    rows = [
        (site, f"T{transect}", year, number)
        for site in SITES
        for year in DATES
        for transect in range(1, TRANSECTS + 1)
        for number in range(1, PHOTOS + 1)
    ]
    rows += [("Copper Garden", f"T{TRANSECTS + 1}", "2024", number) for number in range(1, PHOTOS + 1)]
    plan = pd.DataFrame(rows, columns=["site", "transect", "survey", "number"])
    codes = plan["site"].map({site: code for site, (code, *_) in SITES.items()})
    plan["image"] = [
        f"HMR_{code}_{row.transect}_{row.survey}_{row.number:02d}.jpg"
        for code, row in zip(codes, plan.itertuples(), strict=True)
    ]
    return plan


def _draw(plan: pd.DataFrame, seed: int) -> tuple[dict, pd.DataFrame, pd.DataFrame]:
    """Take the photos.

    Returns
    -------
    files : dict of str to bytes
        JPEG of each image.
    truth : DataFrame
        ``image, site, transect, survey, taxon, condition, functional_group, percent`` (of the photo's pixels).
    points : DataFrame
        ``image, row, column, taxon`` (key of `KINDS`) under the points of each.
    """
    look = photos.make_look(int(survey.stream(seed, "reef look").integers(2**31)), "Western Indo-Pacific", 11)
    look = replace(look, aspect=WIDTH / HEIGHT, cropped=False, frame=False, scale=0.85)
    names, files, truth, points = np.array(list(KINDS)), {}, [], []
    for row in plan.itertuples():
        depth = SITES[row.site][2]
        rng = survey.stream(seed, "reef photo", row.image)
        there = replace(look, depth=(depth - 0.5, depth + 0.5))
        covers = _covers(row.site, row.survey, rng)
        number = int(rng.integers(2**31))
        pixels, classes = photos.photo(there, covers, number, WIDTH, HEIGHT, KINDS)
        exif = Image.Exif()
        exif[271], exif[272] = "Made up", "Reef camera"
        with io.BytesIO() as stream:
            Image.fromarray(pixels).save(stream, "JPEG", quality=look.camera.quality, exif=exif)
            files[row.image] = stream.getvalue()
        seen, pixels = np.unique(classes, return_counts=True)
        for name, count in zip(names[seen], pixels, strict=True):
            taxon, _, state = name.removesuffix(")").partition(" (")
            group = "Dead coral" if state == "dead" else GROUPS.get(taxon, "Hard coral")
            truth.append((row.image, row.site, row.transect, row.survey, taxon, state, group, count / classes.size))
        at = (np.argwhere(np.ones((SIDE, SIDE))) + rng.random((SIDE * SIDE, 2))) / SIDE * classes.shape
        points += [(row.image, y, x, names[classes[y, x]]) for y, x in at.astype(int)]
    columns = ["image", "site", "transect", "survey", "taxon", "condition", "functional_group", "percent"]
    truth = pd.DataFrame(truth, columns=columns)
    truth["percent"] = (100 * truth["percent"]).round(3)
    return files, truth, pd.DataFrame(points, columns=["image", "row", "column", "taxon"])


def _export(plan: pd.DataFrame, points: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Write the points as CoralNet's full export has them, with its columns in its order; a few rows are broken."""
    rng = survey.stream(seed, "reef annotators")
    frame = points.merge(plan[plan["transect"] != f"T{TRANSECTS + 1}"], on="image")
    robot = ((frame["survey"] == "2024") & (frame["number"] == PHOTOS)).to_numpy()
    second = (frame["transect"] == "T2").to_numpy()
    which, spelt = pd.Series(range(len(LABELS)), list(LABELS)), np.array(list(LABELS.values()))
    coral = frame["taxon"].str.partition(" (")[0].isin(CORALS)  # who errs takes a coral for a coral
    alike = np.where(coral, rng.choice(list(CORALS), len(frame)), rng.choice(list(GROUND), len(frame)))
    said = np.where(rng.random(len(frame)) < np.where(robot, 0.25, 0.03), alike, frame["taxon"])
    written = spelt[which[said], np.where(second & ~robot, 1, 0)]
    site = frame["site"].map(SITES)
    out = pd.DataFrame("", index=frame.index, columns=HEADER)
    out["Name"], out["Site"], out["Transect"] = frame["image"], frame["site"], frame["transect"]
    out["Quadrat"], out["Survey"] = frame["number"].astype(str), frame["survey"]
    out["Zone"], out["Depth"] = site.str[1], site.str[2].map("{:g}".format)
    out["Photographer"] = np.where(second, "Diver Two", "Diver One")
    out.loc[frame["image"] == plan["image"][0], "Comments"] = "strong surge; questions to diver.one@example.org"
    out["Row"], out["Column"], out["Label"] = frame["row"].astype(str), frame["column"].astype(str), written
    out["Annotator"] = np.where(robot, "robot", np.where(second, "Observer Two", "Observer One"))
    out["Date annotated"] = (frame["survey"].astype(int) % 100).map("20{:02d}-05-02 09:30:00+00:00".format)
    first = spelt[which[np.where(robot, said, frame["taxon"])], 0]
    sure = rng.integers(45, 97, len(frame))
    out["Machine suggestion 1"], out["Machine confidence 1"] = first, sure.astype(str)
    other = spelt[which[alike], 0]
    out["Machine suggestion 2"], out["Machine confidence 2"] = other, ((100 - sure) // 2).astype(str)
    out.loc[41, "Label"] = ""  # a point that nobody got round to
    out.loc[77, "Row"] = str(HEIGHT + 35)  # a point below its photo
    return pd.concat([out, out.iloc[[120]]], ignore_index=True)  # a point exported twice


def _metadata(plan: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Write the table she keeps: dates as day/month/year, positions and depths; one latitude is a single space."""
    rng = survey.stream(seed, "reef positions")
    places = pd.read_csv(share("data", "geo", "meow_reef_points.csv")).set_index("ecoregion")
    home = places.loc[ECOREGION, ["nearest_reef_lat", "nearest_reef_lon"]].to_numpy(float)
    along = 4.5e-5 * plan["number"] + 4e-4 * plan["transect"].str[1:].astype(int)  # photos 5 m apart, transects 45 m
    away = np.array(plan["site"].map(SITES).str[3].tolist()) + np.column_stack([along, 0.3 * along])
    at = (home + away + rng.normal(0, 5e-6, away.shape)).round(6)
    table = pd.DataFrame(
        {
            "Name": plan["image"],
            "Date": plan["survey"].map(DATES),
            "Site": plan["site"],
            "Transect": plan["transect"],
            "Latitude": pd.Series(at[:, 0]).map("{:.6f}".format),
            "Longitude": pd.Series(at[:, 1]).map("{:.6f}".format),
            "Depth": plan["site"].map(SITES).str[2].map("{:g}".format),
            "Photographer": np.where(plan["transect"] == "T2", "Diver Two", "Diver One"),
        }
    )
    table.loc[7, "Latitude"] = " "
    return table


def _untidy(files: dict[str, bytes]) -> dict[str, bytes]:
    """Keep the photos as she does: a folder a year, some renamed, one lost, some spoilt, some saved twice."""
    kept = {f"{name.split('_')[3]}/{name}": data for name, data in files.items()}

    def move(old: str, new: str, data: bytes | None = None) -> None:
        year = old.split("_")[3]
        before = kept.pop(f"{year}/{old}")
        kept[f"{year}/{new}"] = before if data is None else data

    for number in range(1, PHOTOS + 1):
        for code, change in (("LP_T1_2023", ".JPG"), ("SW_T3_2023", ".jpeg")):  # other endings
            name = f"HMR_{code}_{number:02d}.jpg"
            move(name, name.replace(".jpg", change))
        name = f"HMR_SW_T1_2024_{number:02d}.jpg"
        move(name, name.lower())
        name = f"HMR_CG_T1_2024_{number:02d}.jpg"
        move(name, name.replace("_", " "))
    for code in ("LP_T3_2024_01", "LP_T3_2024_02"):  # downloaded twice
        move(f"HMR_{code}.jpg", f"HMR_{code} (1).jpg")
    move("HMR_CG_T2_2023_04.jpg", "HMR_CG_T2_2023_O4.jpg")  # the letter O for a nought
    del kept["2023/HMR_SW_T2_2023_02.jpg"]  # lost
    cut = files["HMR_LP_T2_2023_03.jpg"]
    kept["2023/HMR_LP_T2_2023_03.jpg"] = cut[: 3 * len(cut) // 5]  # its copy ended early
    kept["2024/HMR_CG_T4_2024_05.jpg"] = files["HMR_CG_T4_2024_05.jpg"][:120]  # and this one at once
    dull = Image.open(io.BytesIO(files["HMR_CG_T3_2024_02.jpg"]))
    shaken = Image.open(io.BytesIO(files["HMR_SW_T2_2024_03.jpg"])).filter(ImageFilter.GaussianBlur(5))
    edited = Image.open(io.BytesIO(files["HMR_CG_T2_2023_01.jpg"])).point([min(255, 12 + v) for v in range(256)] * 3)
    spoilt = {
        "2024/HMR_CG_T3_2024_02.jpg": dull.point([v // 6 for v in range(256)] * 3),  # no strobe
        "2024/HMR_SW_T2_2024_03.jpg": shaken,
        "2023/IMG_0032.jpg": edited,  # nearly the same as another
    }
    for name, picture in spoilt.items():
        with io.BytesIO() as stream:
            picture.save(stream, "JPEG", quality=80)
            kept[name] = stream.getvalue()
    kept["2023/IMG_0031.jpg"] = files["HMR_CG_T1_2023_02.jpg"]  # exactly the same as another
    return kept


def generate(folder: str | Path, seed: int = 0) -> None:
    """Make the raw files of the made-up reef.

    Parameters
    ----------
    folder : path
        Receives ``annotations.csv`` (a CoralNet full export of 25 points on each of 90 photos), ``metadata.csv``,
        ``photos/<year>/`` and ``truth.csv`` (percent of each photo's pixels by taxon and condition, which no survey
        knows). What is there under these names is replaced.

        In the export: labels as codes, misspelt, outdated, in two cases, one that R mangled (``X.PAV``), one that could
        stand for several taxa (``Lobo``) and some that nobody else uses (``SoftC``, ``DCA``, ``Poc_BL``); nine photos
        that only the robot has annotated; an e-mail address in a comment, and a comma in another, which breaks its row;
        a row without a label, one twice, and a point below its photo. In the metadata: dates as day/month/year, one
        blank latitude.
        Of the photos: other cases and endings, spaces, ``(1)``; one missing, one with a letter for a digit; one cut
        short, one unreadable; one saved twice, one edited; one dark, one blurred; a transect without annotations.
    seed : int
        0 or more. The same seed gives the same bytes on one machine.

    Raises
    ------
    ReefcoreError
        Where `seed` is negative.
    """
    if seed < 0:
        raise ReefcoreError(f"the seed {seed} is negative", do="choose 0 or more")
    folder, plan = Path(folder), _plan()
    files, truth, points = _draw(plan, seed)
    export = _export(plan, points, seed).to_csv(index=False, lineterminator="\n").splitlines(keepends=True)
    export[300] = export[300].replace(",Diver One,,,,,,", ",Diver One,,,,,strong current, silt,", 1)  # unquoted
    shutil.rmtree(folder / "photos", ignore_errors=True)
    for name, data in sorted(_untidy(files).items()):
        (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "photos" / name).write_bytes(data)
    tables = {"truth.csv": truth.to_csv(index=False, lineterminator="\n")}
    tables["metadata.csv"] = _metadata(plan, seed).to_csv(index=False, lineterminator="\n")
    tables["annotations.csv"] = "".join(export)
    for name, text in tables.items():  # the annotations last: a folder with them is complete
        with atomic(folder / name) as temporary:
            Path(temporary).write_text(text, encoding="utf-8")
