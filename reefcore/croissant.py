"""A Croissant description of a table, so that other programs can load it (Croissant 1.0, mlcommons.org/croissant)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reefcore.files import sha256

CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
#: What the columns of the annotations table mean; other columns are described by their names.
MEANING = {
    "annotation_id": "Stable id: MD5 prefix of source, image, row, column and label_raw",
    "source": "CoralNet source",
    "image": "File name of the photo",
    "row": "Pixels from the top, 0-based",
    "column": "Pixels from the left, 0-based",
    "label_raw": "Label as the source writes it",
    "label": "Accepted taxon (WoRMS) or benthic category",
    "rank": "Rank of the taxon",
    "aphia_id": "AphiaID of the taxon (WoRMS)",
    "latitude": "WGS84 decimal degrees",
    "longitude": "WGS84 decimal degrees",
    "ecoregion": "Marine ecoregion (MEOW)",
}
KEYWORDS = ["coral reef", "hard coral", "CoralNet", "point annotation"]


def describe(path: str | Path, table: pd.DataFrame, name: str, description: str, licence: str, cite: str) -> dict:
    """Describe a Parquet file of annotations.

    Parameters
    ----------
    path : path
        The file, as written; its hash goes into the description, its name is where it will be looked for.
    table : DataFrame
        What it holds.
    name, description : str
    licence : str
        A name or an address.
    cite : str
        How to cite it.

    Returns
    -------
    dict
        JSON-LD; ``json.dumps`` of it beside the file is what mlcroissant reads.
    """
    path = Path(path)

    def data_type(column: str) -> str:
        values = table[column]
        if pd.api.types.is_bool_dtype(values):
            return "sc:Boolean"
        if pd.api.types.is_integer_dtype(values):
            return "sc:Integer"
        return "sc:Float" if pd.api.types.is_float_dtype(values) else "sc:Text"

    fields = [
        {
            "@type": "cr:Field",
            "@id": f"annotations/{column}",
            "name": column,
            "description": MEANING.get(column, column.replace("_", " ")),
            "dataType": data_type(column),
            "source": {"fileObject": {"@id": path.name}, "extract": {"column": column}},
        }
        for column in table
    ]
    file = {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "description": f"{len(table):,} annotations",
        "contentUrl": path.name,
        "encodingFormat": "application/x-parquet",
        "sha256": sha256(path),
    }
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "description": description,
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": licence,
        "citeAs": cite,
        "keywords": KEYWORDS,
        "url": path.name,  # where it stands: only whoever publishes it knows its address
        "version": file["sha256"][:12],
        "distribution": [file],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "annotations",
                "name": "annotations",
                "description": "One labelled point of one image per record",
                "field": fields,
            }
        ],
    }
