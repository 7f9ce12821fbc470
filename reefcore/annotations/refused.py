"""Files that are recognised and refused: they hold no points, or a later version will read them."""

from __future__ import annotations

import re

from reefcore.annotations.points import Format
from reefcore.annotations.sheet import Head

POINTS = "export the annotations of the source instead (a CSV with Name, Row, Column and Label)"
LATER = "until then save the points as a CSV with the columns Name, Row, Column and Label"
NOT_YET = "which this version does not read yet"
CPCE = re.compile(r'\s*"[^"\r\n]*","[^"\r\n]*",\d+,\d+,\d+,\d+')
IMAGE_FACTS = ("date", "heightcm", "latitude", "longitude", "depth", "camera", "photographer", "waterquality")


def _is_cover(head: Head) -> bool:
    return head.has("annotationstatus") and head.first("imagename", "name", "imageid") is not None


def _is_labelset(head: Head) -> bool:
    return not head.has("row") and (
        head.has("labelid", "shortcode") or (head.has("functionalgroup") and len(head.columns) <= 5)
    )


def _is_metadata(head: Head) -> bool:
    return head.has("name") and not head.has("row") and sum(head.has(fact) for fact in IMAGE_FACTS) >= 3


def _is_squidle(head: Head) -> bool:
    return head.has("pointx", "pointy") and head.first("labelname", "labellineagenames") is not None


def _is_taglab(head: Head) -> bool:
    return head.kind == "json" and ('"working_area"' in head.start or '"dictionary_name"' in head.start)


FORMATS = [
    Format("cpce", f"a CPCe file (.cpc), {NOT_YET}", lambda head: bool(CPCE.match(head.start)), do=LATER),
    Format("coralnet-percent-covers", "a CoralNet table of percent covers: it holds no points", _is_cover, do=POINTS),
    Format("coralnet-labelset", "a CoralNet labelset: names and short codes without points", _is_labelset, do=POINTS),
    Format("coralnet-metadata", "CoralNet image metadata: one row per image, no points", _is_metadata, do=POINTS),
    Format(
        "reefcloud",
        f"a ReefCloud export of points, {NOT_YET}",
        lambda h: h.has("imagename", "pointcoordinate"),
        do=LATER,
    ),
    Format("squidle", f"a Squidle+ export of annotations, {NOT_YET}", _is_squidle, do=LATER),
    Format(
        "biigle", f"a BIIGLE annotation report, {NOT_YET}", lambda h: h.has("annotationlabelid", "filename"), do=LATER
    ),
    Format("taglab", f"a TagLab project of outlined regions, {NOT_YET}", _is_taglab, do=LATER),
    Format(
        "mermaid",
        f"a MERMAID table of benthic observations, {NOT_YET}",
        lambda head: head.has("benthicattribute"),
        do="it holds counts along transects or in quadrats, not points of images",
    ),
]
