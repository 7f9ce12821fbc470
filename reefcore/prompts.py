"""What a vision-language model reads of each class that it was never trained on: prompt sets, as data.

A prompt set says what a vision-language model reads of a class. Several texts of one class are an ensemble: their
features are averaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pandas as pd

from reefcore import descriptions as described
from reefcore import taxonomy
from reefcore.errors import ReefcoreError
from reefcore.files import read_settings, share

#: Prompt set -> what it is. Those after taxonomy are sets of a table of descriptions.
SETS = {
    "name": "the name alone",
    "photo": "'a photo of' the name, in several wordings",
    "taxonomy": "the ranks from kingdom to genus",
    "general": "a vague description, as written without sources; by this project",
    "morphology": "growth form, corallite, size and colour; by this project",
    "generated": "written by a language model from the name (Figure 14)",
    "book": "written by a language model from reference texts",
}


@cache
def _templates() -> dict[str, list[str]]:
    return read_settings("zero_shot", share("data", "prompts"), "prompt")[1]["templates"]


def texts(classes: Iterable[str], prompts: str, descriptions: pd.DataFrame | None = None) -> dict[str, list[str]]:
    """Give what a vision-language model reads of each class.

    Parameters
    ----------
    classes : iterable of str
        Taxa.
    prompts : str
        One of `SETS`, or a set of `descriptions`.
    descriptions : DataFrame, optional
        A table of descriptions (`reefcore.descriptions`) beside the shipped ones.

    Returns
    -------
    dict of list of str

    Raises
    ------
    ReefcoreError
        Where a set, or a class of it, has no text.
    """
    classes = list(classes)
    templates = _templates()
    if prompts in ("name", "photo"):
        return {name: [template.format(taxon=name) for template in templates[prompts]] for name in classes}
    if prompts == "taxonomy":
        lineages = taxonomy.strings(classes)
        return {name: [t.format(taxon=name, lineage=lineages[name]) for t in templates[prompts]] for name in classes}
    text = description(classes, prompts, descriptions)
    return {name: [t.format(taxon=name, text=text[name]) for t in templates["described"]] for name in classes}


def description(classes: Iterable[str], name: str, descriptions: pd.DataFrame | None = None) -> dict[str, str]:
    """Give the description of each class in a set, a shipped one or one's own; raises as `texts` does."""
    table = described.shipped()
    if descriptions is not None:  # one's own set counts, not the shipped one of its name
        table = pd.concat([table[~table["set"].isin(descriptions["set"])], descriptions], ignore_index=True)
    if name not in (known := sorted(table["set"].unique())):
        make = {
            "generated": "make them: reefcore describe MODEL",
            "book": "make them from texts of your own: reefcore describe MODEL --texts FOLDER",
        }
        do = f"{make.get(name, 'there are ' + ', '.join(known))}; name the table under descriptions in the profile"
        raise ReefcoreError(f"there are no descriptions of the set {name!r}", do=do)
    classes, found = list(classes), table.loc[table["set"] == name].set_index("taxon")["text"].to_dict()
    if missing := [taxon for taxon in classes if taxon not in found]:
        raise ReefcoreError(
            f"the set {name} describes {len(classes) - len(missing)} of {len(classes)} classes, not "
            f"{', '.join(missing)}",
            do="make descriptions with `reefcore describe`, or add rows to your table",
        )
    return {taxon: found[taxon] for taxon in classes}
