"""Files that are recognised and refused: they hold no points."""

from __future__ import annotations

import re

from reefcore.annotations.points import Format
from reefcore.annotations.sheet import Head

POINTS = "export the annotations of the source instead (a CSV with Name, Row, Column and Label)"
IMAGE_FACTS = ("date", "heightcm", "latitude", "longitude", "depth", "camera", "photographer", "waterquality")


def _is_labelset(head: Head) -> bool:
    return not head.has("row") and (
        head.has("labelid", "shortcode") or (head.has("functionalgroup") and len(head.columns) <= 5)
    )


def _is_metadata(head: Head) -> bool:
    return head.has("name") and not head.has("row") and sum(head.has(fact) for fact in IMAGE_FACTS) >= 3


def _is_code_file(head: Head) -> bool:
    return (
        head.kind == "text"
        and re.match(r'\s*\d+\s*[\r\n]+("[^"\r\n]*",){1,2}"[^"\r\n]*"\s*[\r\n]', head.start) is not None
    )


FORMATS = [
    Format("cpce-codes", "a CPCe code file: codes and names without points", _is_code_file, do="give the .cpc files"),
    Format("coralnet-labelset", "a CoralNet labelset: names and short codes without points", _is_labelset, do=POINTS),
    Format("coralnet-metadata", "CoralNet image metadata: one row per image, no points", _is_metadata, do=POINTS),
]
