"""Labels -> taxa, functional groups and life forms, as a table that a person edits: ``labels.csv``.

`propose` reads every label with `reefcore.taxonomy`, then with the words and codes of ``data/benthos``; where the file
gives a group itself, that decides. What is unsure says ``check`` yes. `merge` takes what a person changed over into a
new proposal, and `apply` fills the annotations.
"""

from __future__ import annotations

import csv
import difflib
import re
from functools import cache
from pathlib import Path

import pandas as pd

from reefcore import spreadsheets
from reefcore.annotations import sheet
from reefcore.errors import ReefcoreError, problems_table
from reefcore.files import atomic, share
from reefcore.taxonomy import HARD_CORAL, OCEANS, UNSURE, match_labels, ocean_of, taxa
from reefcore.taxonomy.names import BROAD, PLAIN, Names, fold, names_of

DEAD, UNCLEAR = "Dead coral", "Unclear"
NOT_BENTHOS = "Not benthos"  # tape, frame, shadow, off the transect: no cover counts it, see `reefcore.cover`
_GROUPS = (
    f"{HARD_CORAL}|Soft coral|Other invertebrate|Sponge|Algae (fleshy)|Turf algae|Crustose coralline algae|Seagrass|"
    f"Sand and sediment|Rubble|Rock and bare substrate|{DEAD}|Other|{NOT_BENTHOS}|{UNCLEAR}"
)
GROUPS = tuple(_GROUPS.split("|"))
LIFE_FORMS = tuple("Branching Tabular Massive Submassive Encrusting Foliose Digitate Columnar Free-living".split())
CONDITIONS = ("Healthy", "Bleached", "Pale", "Diseased", "Trematodiasis", "Dead")
COLUMNS = "label points taxon rank aphia_id genus functional_group life_form condition how check note".split()
EDITABLE = ("taxon", "functional_group", "life_form", "condition")
#: The group of each category of `reefcore.taxonomy` that is no hard coral.
OF_CATEGORY = {
    "Turf algae": "Turf algae",
    **dict.fromkeys(("Macroalgae", "Chlorophyta", "Phaeophyceae", "Rhodophyta", "Cyanobacteria"), "Algae (fleshy)"),
    "Corallinales": "Crustose coralline algae",
    "Sediment": "Sand and sediment",
    "Hard substrate": "Rock and bare substrate",
    "Rubble": "Rubble",
    "Shadow": NOT_BENTHOS,
    "Unknown": UNCLEAR,
    "Human objects": "Other",
    "Fish": "Other",
    "Seagrass": "Seagrass",
    "Octocorallia": "Soft coral",
    "Porifera": "Sponge",
}
#: What the released file would call the broad category of a group, where no category of the taxonomy says it.
BROAD_OF_GROUP = {
    HARD_CORAL: HARD_CORAL,
    DEAD: "Abiotic background",
    **{
        OF_CATEGORY[name]: broad
        for name, broad in BROAD.items()
        if OF_CATEGORY.get(name) not in (None, "Other", NOT_BENTHOS, UNCLEAR)
    },
    "Other invertebrate": "Other biota",
}
FIRE_CORAL = "fire coral: some programmes count it as hard coral"
GROUND = ("Rubble", "Sediment", "Hard substrate")  # what grows on it is what a point on it shows
COVERING = ("Turf algae", "Crustose coralline algae", "Algae (fleshy)")
#: Words beside a life form in a label that still names no taxon, as "Bleached massive", "Non-Acropora branching".
AROUND = frozenset(
    "bleached bleaching partially partial pale paled diseased dead recent recently old non acropora".split()
)


@cache
def _table(name: str) -> pd.DataFrame:
    return pd.read_csv(share("data", "benthos", f"{name}.csv"), dtype="str", keep_default_na=False)


@cache
def _codes() -> dict[str, tuple]:
    return {row.code: row for row in _table("codes").itertuples()}


@cache
def _life_form_codes() -> dict[str, str]:
    return {code: row.life_form for row in _table("life_forms").itertuples() for code in row.codes.split(";")}


@cache
def _phrases(table: str) -> dict[tuple[str, ...], str]:
    """Give the words of each group or life form as tuples; those of an earlier row count before a later one's."""
    found = {}
    for value, *words in _table(table).itertuples(index=False):
        for phrase in words[0].split(";"):
            found.setdefault(tuple(fold(phrase).split()), value)
    return found


@cache
def _file_groups() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = _table("file_groups").itertuples()
    return {fold(group): (group, ()) for group in GROUPS} | {
        fold(name): (row.functional_group, tuple(filter(None, row.allowed.split(";"))))
        for row in rows
        for name in row.names.split(";")
    }


def _words(label: str) -> list[str]:
    """Split a label into its words in lower case, ``AcroporaBranching`` too."""
    return fold(re.sub(r"(?<=[a-z])(?=[A-Z][a-z])|_", " ", str(label))).split()


def _named(words: list[str], table: str) -> list[str]:
    """Find the values of a table that words name, in the order of the words; the longest phrase at each place."""
    phrases, found, i = _phrases(table), [], 0
    while i < len(words):
        length = next((n for n in (3, 2, 1) if tuple(words[i : i + n]) in phrases), 0)
        if length:
            found.append((length, phrases[tuple(words[i : i + length])]))
        i += max(length, 1)
    return (
        [value for _, value in sorted(found, key=lambda pair: -min(pair[0], 2))]
        if table == "words"
        else [value for _, value in found]
    )


def life_form_of(label: str) -> tuple[str | None, str]:
    """Read the life form of a hard coral from its label.

    Parameters
    ----------
    label : str
        Such as ``Acropora (tabulate)``, ``Por_BR``, ``Monti(f)``, or MERMAID's growth form alone.

    Returns
    -------
    life_form : str or None
        One of `LIFE_FORMS`.
    note : str
        Why there is none, where the label names several.
    """
    words = _words(label)
    found = list(dict.fromkeys(_named(words, "life_forms")))
    if not found:
        codes = _life_form_codes()
        parts = re.split(r"_", str(label).casefold())[1:] + re.findall(r"\(([a-z]{1,3})\)", str(label).casefold())
        found = list(dict.fromkeys(codes[part] for part in parts if part in codes))
    if "Foliose" in found and {"plate", "plates", "plating"} & set(words) and {"acropora", "table"} & set(words):
        found = ["Tabular"]  # a plate of Acropora is a table
    if len(found) > 1:
        return None, f"names several life forms: {', '.join(found)}"
    return (found[0] if found else None), ""


def _aims(label: str, names: Names) -> tuple[bool, str | None]:
    """Read a code as AIMS has them, by how a name begins: ``G_POR_M`` (genus), ``F_FAV`` (family), ``S_POC_DAM``."""
    code = re.match(r"([GFS])_([A-Z]{3})(?:_([A-Z]{3}))?(?:_|$)", label)
    start = code[2].casefold() if code else None
    if not code:
        return False, None
    if code[1] == "F":
        families = [family for name, family in names.families.items() if name.startswith(start)]
        families = sorted({*families} & {*taxa()["family"]}) or families
        return bool(families), families[0] if len(families) == 1 else None
    genera = [name for name in names.genera if name.startswith(start)]
    if code[1] == "G" and code[3] and any(name.startswith(code[3].casefold()) for name in names.genera):
        return bool(genera), None  # two genera in one: "G_GON_ALV"
    taxon = names.codes.get(start) or (names.shortened(genera).taxon if genera else None)
    return bool(genera), taxon if taxon in names.family else None


def _species(label: str, names: Names) -> str | None:
    """Read three letters of a genus and three of a species, ``ORBFAV``; the one taxon that they can stand for."""
    code = re.fullmatch(r"([a-z]{3})[ _.]?([a-z]{3})", label.casefold())
    written = names.species.items() if code else ()
    taxa_of = {taxon for (g, e), taxon in written if g.casefold().startswith(code[1]) and e.startswith(code[2])}
    return taxa_of.pop() if len(taxa_of) == 1 else None


def _by_parts(label: str, meanings: dict) -> tuple[str, str | None] | None:
    """Read a label that is codes joined by underscores: a group, a life form and a genus, as ``HC_BR``, ``G_POR_M``."""
    parts = [fold(part) for part in re.split(r"[_\s]", label) if fold(part)]
    if len(parts) < 2:
        return None
    group, taxon, forms, unknown = None, None, 0, 0
    for i, part in enumerate(parts):
        code, meaning = _codes().get(part), meanings.get(part)
        form = life_form_of(f"x_{part}")[0]
        if part in ("ot", "oth", "other", "others") or (i == 0 and part in ("g", "f", "s")):
            continue
        if code and group is None and not (form and i):
            group = code.functional_group
        elif meaning is not None and taxon is None and meaning.rank in ("genus", "family"):
            taxon = meaning.taxon
        elif form:
            forms += 1
        elif not (code or part in ("b", "p", "cems", "cecs", "cmce") or part.isdigit()):
            unknown += 1
    if unknown and not (unknown == 1 and forms and group == HARD_CORAL):  # "C_LA_XYZ" is a coral of some kind
        first = _codes().get(parts[0])
        return (first.functional_group, None) if first and len(parts[0]) > 2 else None
    group = group or (HARD_CORAL if taxon else None)
    return (group, taxon) if group else None


def _group(label: str, found, meanings: dict, abroad: dict) -> tuple[str, str, bool, str, str | None]:
    """Guess the group of a label: the group, how, whether to check it, a note, and a taxon that its codes name."""
    words, taxon, coral = _words(label), found.taxon, found.rank in ("genus", "family", "order")
    if coral and found.condition != "Dead":
        return HARD_CORAL, found.how, False, "", None
    if coral:
        return DEAD, found.how, False, "", None
    named = _named(words, "words")
    if isinstance(taxon, str):
        group = OF_CATEGORY.get(taxon, "Other invertebrate")
        if named[:1] == [DEAD]:
            return DEAD, found.how, True, f"dead coral, and {taxon.lower()} on it", None
        first = _codes().get(words[0])
        if group in ("Other", UNCLEAR) and NOT_BENTHOS in (*named[:1], first and first.functional_group):
            return NOT_BENTHOS, found.how, False, "", None
        cover = next((name for name in [*named, first and first.functional_group] if name in COVERING), None)
        if taxon in GROUND and cover:
            return cover, found.how, True, f"{cover} on {group.lower()}: what a point shows is its cover", None
        if taxon in GROUND and named[:1] == ["Other invertebrate"]:  # a sand dollar
            return named[0], "word", True, "", None
        both = [name for name in dict.fromkeys(named) if name in COVERING[:2]]
        note = FIRE_CORAL if taxon == "Millepora" else f"names {' and '.join(both)}" if len(both) > 1 else ""
        return group, found.how, bool(note), note, None
    code = _codes().get(" ".join(words)) or _codes().get(fold(label))
    if code:
        return code.functional_group, "code of a group", code.check == "yes", code.note, code.taxon or None
    parts = _by_parts(str(label), meanings)
    if parts:
        return parts[0], "joined codes", True, "", parts[1]
    candidates = [name for name in str(found.candidates or "").split(", ") if name]
    if found.reason in ("names several taxa", "could stand for several taxa") and candidates:
        groups = {OF_CATEGORY.get(name, "Other invertebrate") if name in BROAD else HARD_CORAL for name in candidates}
        if len(groups) == 1:
            return groups.pop(), "several taxa of one group", True, f"names {', '.join(candidates)}", None
    if what := abroad.get(label):
        group = HARD_CORAL if what.isdisjoint(BROAD) else OF_CATEGORY.get(min(what), "Other invertebrate")
        alone = min(what) if len(what) == 1 and group == HARD_CORAL else None
        return group, "code", True, f"{found.reason}: {' or '.join(sorted(what))}", alone
    dead = "dead" in words or found.condition == "Dead"
    if named:
        named = [name for name in named if name != UNCLEAR] or named  # "unidentified brown alga"
        if words[0] in ("no", "non", "not") and named[0] == HARD_CORAL:
            return UNCLEAR, "not matched", True, "says what it is not", None
        group = DEAD if dead and named[0] == HARD_CORAL else named[0]
        return group, "word", group in (UNCLEAR, NOT_BENTHOS) or len(set(named)) > 1, "", None
    if any(life_form_of(label)) and set(words) <= PLAIN | AROUND | {
        word for words in _phrases("life_forms") for word in words
    }:
        return (DEAD if dead else HARD_CORAL), "life form", True, "names a life form and nothing else", None
    note = (
        f"may mean {found.candidates}"
        if candidates
        else "a number: give the list of labels it is from" * label.isdigit()
    )
    return UNCLEAR, "not matched", True, note or "no known name", None


def _agree(given: str, guess: tuple) -> tuple[str, str, bool, str]:
    """Let the group that the file gives decide; a finer guess that it allows stays."""
    group, how, check, note = guess
    known = _file_groups().get(fold(given))
    if known is None:
        return group, how, True, "; ".join(filter(None, [note, f"the file's group {given!r} is not known"]))
    wanted, allowed = known
    if group == wanted or (group in allowed and how != "not matched"):
        return group, how if how != "not matched" else "group in the file", check and group in (UNCLEAR, "Other"), note
    if how == "not matched":
        return wanted, "group in the file", wanted in (UNCLEAR, "Other"), note
    said = f"the file says {given!r}, the label reads as {group}"
    return wanted, "group in the file", True, "; ".join(filter(None, [note, said]))


def _ocean(frame: pd.DataFrame) -> str | None:
    oceans = {ocean_of(realm) for realm in frame["realm"].unique()} - {None} if "realm" in frame else set()
    return oceans.pop() if len(oceans) == 1 else None


def propose(annotations: pd.DataFrame, ocean: str | None = None) -> pd.DataFrame:
    """Propose what every label means.

    Parameters
    ----------
    annotations : DataFrame
        Points, or the covers of `reefcore.annotations.read_covers`; ``label_raw`` is used, and where they are there
        ``group_in_file`` (the most frequent of a label), ``realm`` and ``count`` (or ``percent``, where there is none).
    ocean : {'Atlantic', 'Indo-Pacific'}, optional
        Decides names and codes that mean different corals in the two; by default from ``realm``, where all points
        lie in one of them.

    Returns
    -------
    DataFrame
        One row per label, the most frequent first: ``label``, ``points``, ``taxon``, ``rank``, ``aphia_id``, ``genus``
        (of living hard corals), ``functional_group`` (one of `GROUPS`), ``life_form`` (of hard corals), ``condition``,
        ``how`` it was read, ``check`` (yes where a person should look, else empty) and ``note`` (why).

    Raises
    ------
    ReefcoreError
        Where `ocean` is not one of the two.
    """
    ocean = _ocean(annotations) if ocean is None else ocean
    label = annotations["label_raw"].astype("str")
    weight = pd.Series(1, index=label.index)
    if "count" in annotations:
        weight = annotations["count"].fillna(annotations.get("percent", 0))
    points = weight.groupby(label).sum().round().astype("int64")
    found = match_labels(points.index, ocean)
    parts = {fold(part) for name in points.index for part in re.split(r"[_\s]", name)} - {""}
    meanings = {row.label: row for row in match_labels(sorted(parts), ocean).itertuples()}
    meanings = {part: row for part, row in meanings.items() if row.how in ("code", "name")}
    abroad = {}  # what a code means in the oceans that these points are perhaps not of
    depends = found.loc[found["reason"].fillna("").str.contains("depends on the ocean"), "label"]
    for name in OCEANS if len(depends) else ():
        for row in match_labels(depends, name).dropna(subset="taxon").itertuples():
            abroad.setdefault(row.label, set()).add(row.taxon)
    given = {}
    if "group_in_file" in annotations:
        pairs = annotations.assign(label_raw=label).groupby(["label_raw", "group_in_file"], sort=True).size()
        for name, group in pairs.sort_values(ascending=False, kind="stable").index:
            given.setdefault(name, group)
    rows = []
    for what in found.itertuples():
        aims, coded = _aims(what.label, names_of(ocean))
        guess = HARD_CORAL, "code of AIMS", True, "the start of a name"
        if not aims:
            *guess, coded = _group(what.label, what, meanings, abroad)
            if guess[1] == "not matched" and (coded := _species(what.label, names_of(ocean))):
                group = OF_CATEGORY.get(coded, "Other invertebrate") if coded in BROAD else HARD_CORAL
                guess = group, "code of a species", True, "the starts of a genus and a species"
        if fold(given.get(what.label, "")):
            guess = _agree(given[what.label], guess)
        group, how, check, note = guess
        coral = aims or what.rank in ("genus", "family", "order")
        taxon, rank, aphia, genus = what.taxon, what.rank, what.aphia_id, what.genus
        if aims or (coded and group == HARD_CORAL):
            exact = next(match_labels([coded] if coded else ["Scleractinia"], ocean).itertuples())
            taxon, rank, aphia, genus = exact.taxon, exact.rank, exact.aphia_id, exact.genus
        if coral and group not in (HARD_CORAL, DEAD):  # the file's group says that it is none
            taxon, rank, aphia = None, None, None
        several = ""
        form = None
        if group == HARD_CORAL:
            code = _codes().get(" ".join(_words(what.label)))
            form, several = life_form_of(what.label)
            form = form or (code.life_form if code and not coral else None) or None
        note = "; ".join(filter(None, [note, several]))
        short = how == "code" and what.how == "code" and len(fold(what.label)) < 4
        known = _codes().get(
            fold(what.label)
        )  # a short code that these tables read as the taxonomy does is none to ask
        look = check or what.how in UNSURE or (short and not (known and known.functional_group == group))
        row = (what.label, points[what.label], taxon, rank, aphia, genus if group == HARD_CORAL else None, group, form)
        rows.append((*row, what.condition, how, "yes" if look else None, note or None))
    table = _typed(pd.DataFrame(rows, columns=COLUMNS))
    return table.sort_values(["points", "label"], ascending=[False, True], ignore_index=True)


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    kinds = dict.fromkeys(set(COLUMNS) - {"points", "aphia_id"}, "str") | {"points": "Int64", "aphia_id": "Int64"}
    table = table.astype(kinds)
    texts = [name for name in COLUMNS if kinds[name] == "str"]
    return table.assign(**{name: table[name].where(table[name].ne("")) for name in texts})


def merge(
    proposed: pd.DataFrame, edited: pd.DataFrame | None, ocean: str | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take what a person changed in ``labels.csv`` over into a new proposal.

    What the file says of taxon, functional group, life form and condition counts, also where it is empty; a column
    that it lacks is proposed anew. A changed taxon brings its rank, AphiaID and genus, and the group, where that is
    empty or as proposed. A group or life form that is not known is kept as one of her own, and said.

    Parameters
    ----------
    proposed : DataFrame
        From `propose`, for the annotations as they are now.
    edited : DataFrame or None
        From `read`; None where there is no file yet.
    ocean : {'Atlantic', 'Indo-Pacific'}, optional
        As for `propose`; for names that were changed.

    Returns
    -------
    labels : DataFrame
        As `propose` has it, in the file's order; new labels follow with check yes, then those of the file that the
        annotations no longer have (points 0).
    problems : DataFrame
        ``line``, ``column``, ``problem``.
    """
    if edited is None or not len(edited):
        return proposed, problems_table()
    lines = edited["line"] if "line" in edited else pd.Series(range(2, len(edited) + 2))
    have = [name for name in (*EDITABLE, "check", "note") if name in edited]
    old, rows, done = proposed.set_index("label"), [], {}
    problems = [one for one in edited.attrs.get("problems", []) if one[0] is not None]  # rows that could not be read
    written = set(edited.get("taxon", pd.Series(dtype="str")).dropna())
    found = {row.label: row for row in match_labels(sorted(written), ocean).itertuples()}
    for line, (_, row) in zip(lines, edited.iterrows(), strict=True):
        label = row["label"]
        if pd.isna(label):
            problems.append((line, "label", "is empty; the row was left out"))
            continue
        if label in done:
            problems.append((line, "label", f"{label!r} stands on line {done[label]} too; that one counts"))
            continue
        done[label] = line
        if label in old.index:
            before = old.loc[label].to_dict()
        else:
            before = dict.fromkeys(COLUMNS[1:]) | {"points": 0, "functional_group": UNCLEAR, "how": "not in the points"}
            problems.append((line, "label", f"no point has the label {label!r}; its row was kept, at the end"))
        rows.append({"label": label} | _edited(before, {name: row[name] for name in have}, found, line, problems))
    new = proposed[~proposed["label"].isin(list(done))]
    new = new.assign(check="yes", note=("new; " + new["note"].fillna("")).str.rstrip("; "))
    if len(new):
        problems.append(
            (None, "label", f"{len(new)} new label{'s' * (len(new) > 1)} added: {', '.join(new['label'][:5])}")
        )
    table = _typed(pd.concat([pd.DataFrame(rows, columns=COLUMNS), new[COLUMNS]]).reset_index(drop=True))
    gone = ~table["label"].isin(proposed["label"])
    return pd.concat([table[~gone], table[gone]], ignore_index=True), problems_table(problems)


def _edited(before: dict, after: dict, found: dict, line: int, problems: list) -> dict:
    """Decide one row: what was proposed, and what the file says instead."""
    row = before | after
    same = {name: _text(before[name]) == _text(row[name]) for name in EDITABLE}
    group_of_file = row["functional_group"]
    if not same["taxon"]:
        row |= {"rank": None, "aphia_id": None, "genus": None}
        if _text(row["taxon"]):
            row |= _taxon_of(row["taxon"], found, line, problems)
        if same["functional_group"] or not _text(group_of_file):
            row["functional_group"] = row.pop("group", None) or (group_of_file if _text(group_of_file) else None)
        row.pop("group", None)
    if not _text(row["functional_group"]):
        row["functional_group"] = before["functional_group"]
    row["functional_group"] = _own(row["functional_group"], GROUPS, "functional_group", line, problems)
    row["life_form"] = _own(row["life_form"], LIFE_FORMS, "life_form", line, problems)
    row["condition"] = _own(row["condition"], CONDITIONS, "condition", line, problems)
    if row["functional_group"] != HARD_CORAL:
        if (
            row["rank"] == "genus"
            and row["functional_group"] != DEAD
            and not (same["taxon"] and same["functional_group"])
        ):
            text = f"{row['taxon']} is a hard coral, but the group is {row['functional_group']}"
            problems.append((line, "functional_group", text))
        row["genus"] = None
    elif _text(row["taxon"]) and same["taxon"] and not _text(row["genus"]) and row["rank"] == "genus":
        row["genus"] = row["taxon"]  # the group was made hard coral by hand
    if not all(same[name] or name not in after for name in EDITABLE):
        row["how"] = "edited"
        unknown = row["functional_group"] == UNCLEAR or (_text(row["taxon"]) and not _text(row["rank"]))
        if _text(row["check"]) == _text(before["check"]) == "yes" and not unknown:
            row |= {"check": None, "note": None if row["note"] == before["note"] else row["note"]}  # she looked
    return row


def _text(value) -> str:
    return "" if value is None or pd.isna(value) else str(value).strip()


def _own(value, known: tuple[str, ...], column: str, line: int, problems: list):
    """Take a value as one of the known ones, whatever its case, or as her own."""
    text = _text(value)
    named = {fold(name): name for name in known}
    if column == "functional_group":
        named = {name: group for name, (group, _) in _file_groups().items()} | named
    elif column == "life_form":
        named = {" ".join(words): form for words, form in _phrases("life_forms").items()} | named
    if not text or fold(text) in named:
        return named.get(fold(text)) if text else None
    near = difflib.get_close_matches(fold(text), [fold(name) for name in known], 1, 0.8)
    do = f"did you mean {named[near[0]]}?" if near else f"the known ones are {', '.join(known)}"
    problems.append((line, column, f"{text!r} is not known and was kept as your own; {do}"))
    return text


def _taxon_of(name: str, found: dict, line: int, problems: list) -> dict:
    """Look up a taxon that was typed; the rank, AphiaID, genus and group of it."""
    what = found[name]
    if not isinstance(what.taxon, str) or what.how in UNSURE:
        near = what.taxon if isinstance(what.taxon, str) else str(what.candidates or "")
        near = near or ", ".join(difflib.get_close_matches(name.capitalize(), _known_taxa(), 3, 0.6))
        do = f"did you mean {near}?" if near else "use the name of a genus, a family or a category"
        problems.append((line, "taxon", f"{name!r} is not a known name; {do}"))
        return {"taxon": name, "check": "yes"}
    if what.rank not in ("genus", "family", "order"):
        return {"taxon": name, "rank": "other", "group": OF_CATEGORY.get(what.taxon, "Other invertebrate")}
    species = len(name.split()) == 2 and what.rank == "genus" and name.split()[0] == what.taxon
    rank, aphia = ("species", None) if species else (what.rank, what.aphia_id)
    if not species and fold(name) != fold(what.taxon):
        problems.append((line, "taxon", f"{name} is {what.taxon} today, and was taken for it"))
    taxon = name if species else what.taxon
    return {"taxon": taxon, "rank": rank, "aphia_id": aphia, "genus": what.genus, "group": HARD_CORAL}


@cache
def _known_taxa() -> list[str]:
    return sorted({*taxa()["taxon"], *BROAD})


def apply(annotations: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Fill annotations (or covers) from the table of labels.

    Parameters
    ----------
    annotations : DataFrame
        With ``label_raw``. A life form of its own, as MERMAID's growth form, stands where the label has none.
    labels : DataFrame
        From `merge` or `propose`.

    Returns
    -------
    DataFrame
        The same rows with ``label`` (the taxon), ``rank``, ``aphia_id``, ``broad_category``, ``condition``, ``genus``,
        ``functional_group`` and ``life_form``. A label that the table lacks is Unclear.
    """
    table = labels.drop_duplicates("label").set_index("label")
    found = table.reindex(annotations["label_raw"].astype("str"))
    group = found["functional_group"].fillna(UNCLEAR)
    form = pd.Series(found["life_form"].array, index=annotations.index, dtype="str")
    if "life_form" in annotations:
        own = {text: life_form_of(text)[0] for text in annotations["life_form"].dropna().unique()}
        own = annotations["life_form"].map(own).where(group.eq(HARD_CORAL).to_numpy())
        form = form.fillna(own.astype("str"))
    broad = found["taxon"].map(BROAD).fillna(group.map(BROAD_OF_GROUP)).mask(group.eq(HARD_CORAL), HARD_CORAL)
    return annotations.assign(
        label=found["taxon"].array,
        rank=found["rank"].array,
        aphia_id=found["aphia_id"].array,
        broad_category=broad.astype("str").array,
        condition=found["condition"].array,
        genus=found["genus"].array,
        functional_group=group.astype("str").array,
        life_form=form.array,
    )


def coverage(labels: pd.DataFrame) -> pd.DataFrame:
    """Count how far labels are identified.

    Parameters
    ----------
    labels : DataFrame
        From `merge` or `propose`.

    Returns
    -------
    DataFrame
        ``identified`` (to a genus of hard coral; a family or order of hard coral; a functional group only; not at
        all), ``labels``, ``points``, ``percent`` (of the points), ``check`` (labels to look at).
    """
    steps = ["to genus", "to family or order", "to functional group", "not identified"]
    coral = labels["functional_group"].eq(HARD_CORAL)
    step = pd.Series(steps[2], index=labels.index)
    step = step.mask(coral & labels["rank"].isin(["family", "order"]), steps[1]).mask(labels["genus"].notna(), steps[0])
    step = step.mask(labels["functional_group"].eq(UNCLEAR) | labels["functional_group"].isna(), steps[3])
    table = labels.assign(identified=step, check=labels["check"].eq("yes")).groupby("identified")
    table = table.agg(labels=("label", "size"), points=("points", "sum"), check=("check", "sum")).reindex(steps)
    table = table.fillna(0).astype("int64").reset_index()
    return table.assign(percent=100 * table["points"] / max(table["points"].sum(), 1))[
        ["identified", "labels", "points", "percent", "check"]
    ]


def read(path: str | Path) -> pd.DataFrame:
    """Read ``labels.csv`` as a person saved it: any delimiter, encoding and line ends, columns in any order, or xlsx.

    Returns
    -------
    DataFrame
        ``line`` (of the file) and those of the columns of `propose` that the file has, as text.

    Raises
    ------
    ReefcoreError
        Where it is no table, or has no column ``label``.
    """
    do = "restore it, or delete the file to begin anew"
    try:
        head = sheet.look(path)
    except ReefcoreError as error:
        raise ReefcoreError(error.what, path, do) from None
    if head.kind not in ("text", "workbook") or "label" not in head.columns:
        raise ReefcoreError("this table of labels has no column label", path, do)
    loaded = sheet.load(head, short=True)
    names = {head.columns[sheet.key(name)]: name for name in COLUMNS if sheet.key(name) in head.columns}
    table = loaded.frame[list(names)].rename(columns=names).astype("str")
    table = table.apply(lambda values: values.str.removeprefix("'")) if len(table) else table
    table = table.apply(lambda values: values.where(values.ne("")))
    table.insert(0, "line", loaded.lines)
    table.attrs["problems"] = list(loaded.problems)
    return table


def write(labels: pd.DataFrame, path: str | Path) -> Path:
    """Write ``labels.csv`` for a spreadsheet: UTF-8 with a mark, whole or not at all.

    What a spreadsheet would run as a formula gets an apostrophe before it, which `read` takes off again.
    """
    texts = labels[COLUMNS].astype("object").where(labels[COLUMNS].notna(), "").map(str)
    texts = spreadsheets.inert(texts, returns=True)
    with atomic(path) as temporary:
        texts.to_csv(temporary, index=False, encoding="utf-8-sig", quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    return Path(path)
