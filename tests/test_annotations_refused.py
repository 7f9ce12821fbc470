"""Files that are no points: each is named in one sentence that says what to do."""

import io
import os
import zipfile

import pytest
from PIL import Image

from reefcore import annotations
from reefcore.errors import ReefcoreError

COLUMNS = "Name, Row, Column and Label."
POINTS = f"; a file of points has at least the columns {COLUMNS.rstrip('.')}, or say which of its columns is which "
POINTS += "(columns in site.yaml, or --columns): {image: Photo, row: Y, column: X, label: Code}."
EXPORT = "; export the annotations of the source instead (a CSV with Name, Row, Column and Label)."
LABELSET = f"a CoralNet labelset: names and short codes without points{EXPORT}"
METADATA = f"CoralNet image metadata: one row per image, no points{EXPORT}"
CASES = [
    ("coralnet-labelset", LABELSET, "Label ID,Short Code\n171,POR\n"),
    ("coralnet-labelset", LABELSET, "Name,Short Code,Functional Group\nPorites,POR,Hard coral\n"),
    ("coralnet-labelset", LABELSET, "Name,Functional Group,Default\nAnémone,Other,ANE\n".encode("mac_roman")),
    ("coralnet-labelset", LABELSET, "full_name,functional_group,Label\nPorites,hard_coral,POR\n"),
    ("coralnet-metadata", METADATA, "Name,Date,Site,Height (cm),Latitude,Longitude\na.jpg,5/25/2016,1,30, ,\n"),
]


@pytest.mark.parametrize(("name", "sentence", "content"), CASES)
def test_what_holds_no_points_is_named(tmp_path, name, sentence, content):
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (entry,) = annotations.check([path])
    assert entry["format"] == name
    assert entry["refused"] == f"{path}: this is {sentence}"


def test_a_biigle_zip_is_named_by_the_table_in_it(tmp_path):
    with zipfile.ZipFile(tmp_path / "report.zip", "w") as archive:
        archive.writestr("b.csv", '"annotation_label_id","label_id","filename"\n')
    assert annotations.recognise(tmp_path / "report.zip").name == "biigle"


def _image(kind):
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, kind)
    return buffer.getvalue()


def _zip(name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "x" * 1000)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "this file is empty; export it, or copy it, again."),
        (b" \r\n\n", "this file is empty; export it, or copy it, again."),
        (_image("PNG"), "this is a PNG image, not a table of points; give the file of annotations: a CSV, an xlsx."),
        (_image("JPEG"), "this is a JPEG image, not a table of points; give the file of annotations: a CSV, an xlsx."),
        (_image("TIFF"), "this is a TIFF image, not a table of points; give the file of annotations: a CSV, an xlsx."),
        (b"\x1f\x8b\x08", "this is a compressed file (gzip), not a table of points; unpack it first."),
        (
            b"\xd0\xcf\x11\xe0",
            "this is an old Excel workbook (.xls), not a table of points; save it as .xlsx or as CSV.",
        ),
        (b"PAR1", "this Parquet table is damaged, or cut off; download it again."),
        (b"Na\0me", "this is a binary file, not a table of points; give the file of annotations: a CSV, an xlsx."),
        (
            b"\n<!DOCTYPE html><html>Sign in</html>",
            "this is a web page, not a table: the download met a login or an error page; sign in and download again.",
        ),
        (b"Dear all,\nhere are", f"no format that reefcore knows has the columns 'Dear all', ''{POINTS}"),
        (b"Some notes\nof the dive", f"this is not a table of points; it begins with 'Some notes'{POINTS}"),
        (
            b"a,b,c,d,e,f,g,h,i,j\n",
            f"no format that reefcore knows has the columns 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more{POINTS}",
        ),
        (
            b'{"annotations": []}',
            "this is a JSON file of no format that reefcore knows; "
            "export the annotations as CSV instead; of JSON only TagLab's projects are read.",
        ),
        (_zip("notes.txt"), "this is a zip file of no format that reefcore knows; unpack it first."),
        (_zip("xl/workbook.xml"), None),
        (_zip("a.csv")[:-30], None),
        (b"PK\3\4", None),
    ],
)
def test_what_is_no_table_is_named(tmp_path, content, sentence):
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(ReefcoreError) as error:
        annotations.read(path)
    text = str(error.value)
    assert text == f"{path}: {sentence}" if sentence else "damaged" in text or "cannot be read" in text


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(ReefcoreError, match=r"this folder holds no file of annotations \(it has 0 files"):
        annotations.read(tmp_path)
    (tmp_path / "labels.csv").write_text("Label ID,Short Code\n171,POR\n")
    with pytest.raises(ReefcoreError, match=r"no file of annotations \(labels.csv was passed over: this is a CoralN"):
        annotations.read(tmp_path)
    with pytest.raises(ReefcoreError, match="this file does not exist; check the path"):
        annotations.read(tmp_path / "none.csv")


def test_a_file_that_cannot_be_opened(tmp_path):
    os.symlink("loop.csv", tmp_path / "loop.csv")
    with pytest.raises(ReefcoreError, match="this file cannot be opened"):
        annotations.read(tmp_path / "loop.csv")
