"""A reef of one's own: site.yaml, photos by name, dates, metadata, rows and columns, checks and the commands."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from PIL.ExifTags import Base

from reefcore import cli, geography, site
from reefcore.errors import ReefcoreError
from reefcore.site import metadata, photos, settings
from reefcore.site import points as site_points


def photo(path, width=40, height=30, exif=None, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    tags = Image.Exif()
    for tag, value in (exif or {}).items():
        tags.get_ifd(0x8769)[tag] = value
        tags[tag] = value
    Image.fromarray(pixels).save(path, **({"exif": tags} if path.suffix.lower() in (".jpg", ".jpeg") else {}))


def csv(path, rows, header="Name,Row,Column,Label"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


def written(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site.yaml").write_text(text, encoding="utf-8")
    return site.load(folder / "site.yaml")


def texts(checks, state=None):
    return " | ".join(checks["text"] if state is None else checks["text"][checks["state"] == state])


# -------------------------------------------------------------------------------------------------------- site.yaml


class TestSettings:
    def test_is_hashable_and_quacks_like_a_profile(self, tmp_path):
        found = written(
            tmp_path / "reef", "annotations: a.csv\nname: 2016\nscale: 1e0\nprivacy: {positions: rounded}\n"
        )
        assert hash(found) == hash(site.load(found.path)) and found == site.load(tmp_path / "reef")
        assert (found.name, found.kind, found.seed, found.scale) == ("2016", "site", 0, 1.0)
        assert found.notice == "Site 2016: its own annotations and photos, computed on this machine."
        assert found.folder("/elsewhere") == tmp_path / "reef" / "tables"
        assert found.with_seed(3).folder() == tmp_path / "reef" / "tables-seed3" and found.with_seed(0) is found
        assert str(tmp_path) not in json.dumps(found.settings, default=str)

    def test_the_made_up_site_travels_with_the_library(self, tmp_path):
        found = site.load("made-up")
        assert found.name == site.MADE_UP and found.is_made_up and "synthetic" in found.notice
        assert found.folder(tmp_path) == tmp_path / "build" / "made-up" / "tables"
        assert found.with_seed(2).home(tmp_path) == tmp_path / "build" / "made-up-seed2"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("annotations: a.csv\nphoto: x\n", r"site.yaml:2: unknown key 'photo'; did you mean photos?"),
            ("annotations: a.csv\ndate_format: %d/%m/%Y\n", r"site.yaml:2: .*put the value in quotes"),
            ("annotations: a.csv\n\tphotos: x\n", r"site.yaml:2: .*replace the tab by spaces"),
            ('annotations: a.csv\nphotos: "C:\\Users"\n', r"site.yaml:2: .*single quotes"),
            ("annotations: a.csv\nname: no\n", r"site.yaml:2: name must be text, not False; put it in quotes"),
            ("annotations: a.csv\nswap: maybe\n", r"site.yaml:2: swap must be true or false"),
            ("annotations: a.csv\nbase: 2\n", r"site.yaml:2: base must be 0 or 1"),
            ("annotations: a.csv\nbase: '1'\n", r"site.yaml:2: base must be a whole number"),
            ("annotations: a.csv\nseed: 1\nseed: 2\n", r"site.yaml:3: the key 'seed' stands twice \(also on line 2\)"),
            ("annotations: a.csv\nprivacy: {position: none}\n", r"site.yaml:2: unknown key 'position' in privacy"),
            ("annotations: a.csv\nprivacy: none\n", r"site.yaml:2: privacy has no keys"),
            ("annotations: [{path: a.csv}]\n", r"site.yaml:1: unknown key 'path' in annotations"),
            ("annotations: a.csv\nfrom_name: '(?P<reef>.)'\n", r"site.yaml:2: from_name needs named groups"),
            ("annotations: a.csv\nfrom_name: '(?P<site>.'\n", r"site.yaml:2: from_name is not a regular expression"),
            ("annotations: a.csv\nsize: large\n", r"site.yaml:2: size must be width and height in pixels"),
            ("photos: x\n", r"the key 'annotations' is missing"),
            ("- a\n", r"list of `key: value` lines"),
            ("", r"list of `key: value` lines"),
        ],
    )
    def test_says_in_one_sentence_and_with_its_line_what_is_wrong(self, tmp_path, text, said):
        with pytest.raises(ReefcoreError, match=said) as error:
            written(tmp_path, text)
        assert "\n" not in str(error.value)

    def test_is_found_by_name_folder_or_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        written(tmp_path / "sites" / "north-reef", "annotations: a.csv\n")
        assert site.find("North Reef") == site.find("north-reef")
        with pytest.raises(ReefcoreError, match=r"no site 'south'; the sites here are made-up, north-reef"):
            site.find("south")


# ------------------------------------------------------------------------------------------------------------ photos


def matched(names, paths, folder=None, **columns):
    wanted = pd.DataFrame({"source": "s", "image": names} | columns)
    return photos.match(wanted, paths, folder)


class TestPhotos:
    @pytest.mark.parametrize(
        ("name", "path", "how"),
        [
            ("IMG_1.JPG", "IMG_1.JPG", "exact"),
            ("IMG_1.JPG", "2016/IMG_1.JPG", "subfolder"),
            ("IMG_1.JPG", "s/IMG_1.JPG", "exact"),
            ("IMG_1.JPG", "deep/er/img_1.jpg", "case"),
            ("IMG_1", "IMG_1.jpg", "ending"),
            ("IMG_1.jpg", "IMG_1.JPEG", "ending"),
            ("IMG_1.NEF", "IMG_1.png", "ending"),
            ("Reef 1.jpg", "Reef_1.jpg", "spaces"),
            ("Reef%201.jpg", "Reef 1.jpg", "spaces"),
            ("https://x.org/a/Reef%201.jpg?token=1", "Reef 1.jpg", "exact"),
            ("IMG_1.jpg", "IMG_1 (1).jpg", "suffix"),
            ("IMG_1.jpg", "IMG_1 - Copy (2).jpg", "suffix"),
            ("IMG_1 copy.jpg", "IMG_1.jpg", "suffix"),
            ("IMG_1.jpg", "IMG_1-1.jpg", "suffix"),
            (r"C:\survey\2016\IMG_1.jpg", "2016/IMG_1.jpg", "exact"),
            ("Re\u0301cif.jpg", "R\u00e9cif.jpg", "exact"),
        ],
    )
    def test_finds_a_photo_whatever_became_of_its_name(self, name, path, how):
        how = "subfolder" if name.startswith("C:") else how  # one folder of the two is there
        found = matched([name], [path])
        assert found[["path", "image", "how", "state"]].values.tolist() == [[path, name, how, "matched"]]

    @pytest.mark.parametrize(
        ("name", "path"), [("a (1).jpg", "a (2).jpg"), ("T1-1.jpg", "T1-2.jpg"), ("a1.jpg", "a11.jpg")]
    )
    def test_does_not_take_another_copy_or_number_for_it(self, name, path):
        assert matched([name], [path])["state"].tolist() == ["unmatched", "unmatched"]

    def test_names_in_several_folders_are_told_by_survey_or_not_at_all(self):
        paths = ["2016/a.jpg", "2017/a.jpg", "2016/b.jpg", "2017/b.jpg"]
        found = matched(["a.jpg", "b.jpg"], paths, survey=["2017", None])
        assert found.loc[0, ["path", "how"]].tolist() == ["2017/a.jpg", "subfolder"]
        assert found.loc[1, "state"] == "ambiguous" and found.loc[1, "near"] == "2016/b.jpg, 2017/b.jpg"
        assert found[found["image"].isna()]["state"].tolist() == ["unmatched", "ambiguous", "ambiguous"]

    def test_one_photo_is_not_taken_for_two_images_of_one_file(self):
        names = ["a.jpg", "a.jpg"]
        same = matched(names, ["a.jpg"], source=["one", "two"], file=["f", "f"])
        assert same["state"].tolist() == ["ambiguous", "ambiguous", "ambiguous"]
        told = matched(names, ["two/a.jpg"], source=["one", "two"], file=["f", "f"])
        assert told["state"].tolist() == ["unmatched", "matched"]
        other = matched(names, ["a.jpg"], source=["one", "two"], file=["f", "g"])
        assert other["state"].tolist() == ["matched", "matched"]

    def test_copies_of_one_file_are_as_good_as_each_other(self, tmp_path):
        for path in ("x/a.jpg", "backup/a.jpg", "x/b.jpg"):
            photo(tmp_path / path)
        photo(tmp_path / "backup/b.jpg", seed=1)
        found = matched(["a.jpg", "b.jpg"], photos.listing(tmp_path), tmp_path)
        assert found["state"].tolist()[:2] == ["matched", "ambiguous"]
        assert "copy" in found["state"].tolist()

    def test_near_misses_are_named_and_neighbours_are_not(self):
        found = matched(["LP_T1_04.jpg", "LP_T2_07.jpg"], ["LP_T1_O4.jpg", "LP_T2_08.jpg"])
        assert found["near"].fillna("").tolist() == ["LP_T1_O4.jpg", "", "LP_T1_04.jpg", ""]

    def test_hidden_files_and_what_is_no_photo_are_left_out(self, tmp_path):
        for name in ("b.jpg", "._b.jpg", "__MACOSX/b.jpg", ".thumbs/c.jpg", "a/notes.txt", "a/C.PNG"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        assert photos.listing(tmp_path) == ["a/C.PNG", "b.jpg"]
        with pytest.raises(ReefcoreError, match="no such folder of photos"):
            photos.listing(tmp_path / "nope")

    def test_reads_what_headers_say_and_goes_on_where_one_is_damaged(self, tmp_path):
        photo(tmp_path / "a.jpg", exif={Base.DateTimeOriginal: "2016:05:25 10:11:12", Base.Orientation: 6})
        (tmp_path / "b.jpg").write_bytes(b"no photo")
        found = photos.facts(tmp_path, ["a.jpg", "b.jpg"])
        assert found.loc[0, ["photo_width", "photo_height", "orientation"]].tolist() == [40, 30, 6]
        assert found["date"].tolist()[0] == pd.Timestamp("2016-05-25 10:11:12") and found["photo_width"].isna()[1]


# --------------------------------------------------------------------------------------------------- dates, numbers


class TestDates:
    @pytest.mark.parametrize(
        ("text", "day"),
        [
            ("2016-05-25", "2016-05-25"),
            ("2016-05-25T23:30:00+10:00", "2016-05-25 23:30"),
            ("2016:05:25 10:11:12", "2016-05-25 10:11:12"),
            ("20160525", "2016-05-25"),
            ("25.5.2016", "2016-05-25"),
            ("5/25/2016", "2016-05-25"),
            ("25/5/16 2:05 PM", "2016-05-25 14:05"),
            ("25 May 2016", "2016-05-25"),
            ("May 25, 2016", "2016-05-25"),
        ],
    )
    def test_reads_what_can_be_read_one_way(self, text, day):
        assert metadata.dates(pd.Series([text]))[0].tolist() == [pd.Timestamp(day)]

    def test_the_column_decides_and_that_is_said(self):
        found, said = metadata.dates(pd.Series(["3/4/2016", "25/4/2016", ""]))
        assert found[0] == pd.Timestamp("2016-04-03") and pd.isna(found[2])
        assert said[0][0] == "note" and "day/month/year, as 25/4/2016 can only be" in said[0][1]
        found, _ = metadata.dates(pd.Series(["3/4/2016", "4/25/2016"]))
        assert found[0] == pd.Timestamp("2016-03-04")

    def test_what_nothing_decides_is_left_empty(self):
        found, said = metadata.dates(pd.Series(["3/4/2016", "5/5/2016"]))
        assert pd.isna(found[0]) and found[1] == pd.Timestamp("2016-05-05")
        assert said[0][0] == "warning" and said[0][2] == 1 and "date_format" in said[0][1]
        found, said = metadata.dates(pd.Series(["3/4/2016", "25/4/2016", "4/25/2016"]))
        assert found.isna().tolist() == [True, False, False] and "both" in said[0][1]
        found, said = metadata.dates(pd.Series(["3/4/2016", "2016-04-09"]), "%d/%m/%Y")
        assert found.tolist() == [pd.Timestamp("2016-04-03"), pd.Timestamp("2016-04-09")] and not said

    def test_what_is_no_date_is_said(self):
        found, said = metadata.dates(pd.Series(["42515", "31/2/2016", "unknown", "2016"]))
        assert found.isna().all() and said[-1][2] == 4 and "numbers of days (2016-05-25)" in said[-1][1]

    def test_numbers_with_units_commas_and_hemispheres(self):
        found, said = metadata.numbers(pd.Series(["5", "5,5 m", "18.5 S", " ", "12°30'10\"S"]), "latitude")
        assert found.tolist()[:3] == [5.0, 5.5, -18.5] and found.isna().tolist()[3:] == [True, True]
        assert len(said) == 1 and said[0][2] == 1 and "decimal degrees" in said[0][1]


# ------------------------------------------------------------------------------------------------------------ tables


SQUARE = [(row, column) for row in range(0, 30, 3) for column in range(0, 40, 4)]  # 100 points of a photo of 40 x 30


def reef(tmp_path, rows, header="Name,Row,Column,Label", text="", size=(40, 30), **made):
    """Make a site of one file, with a photo of a size per image."""
    csv(tmp_path / "a.csv", rows, header)
    for name in dict.fromkeys(row[0] for row in rows):
        photo(tmp_path / "photos" / name, *size, **made)
    return written(tmp_path, f"annotations: a.csv\nphotos: photos\n{text}")


class TestTables:
    def test_every_table_is_there_with_its_columns_and_no_path_of_this_machine(self, tmp_path):
        found = site.make(reef(tmp_path, [("a.jpg", 1, 2, "X"), ("b.jpg", 3, 4, "Y")]))
        assert set(found) == {"points", "images", "photos", "covers", "problems", "left_out", "checks"}
        assert list(found["images"]) == list(site.tables.IMAGES)
        for name, table in found.items():
            assert str(tmp_path) not in table.to_csv(), name
        assert found["points"]["inside"].all() and found["images"]["photo"].tolist() == ["a.jpg", "b.jpg"]
        assert found["points"][["date", "depth"]].isna().all(axis=None)
        again = site.make(site.load(tmp_path))
        assert all(table.equals(again[name]) for name, table in found.items())

    def test_rows_are_read_left_out_or_refused_and_counted(self, tmp_path):
        csv(tmp_path / "bad.csv", [("Pavona", "PAV", "Hard coral")], "Name,Short Code,Functional Group")
        text = "annotations: [a.csv, bad.csv]\nphotos: photos\n"
        reef(tmp_path, [("a.jpg", 1, 2, "X"), ("a.jpg", "?", 2, "X"), ("a.jpg", 1, 2, "")])
        found = site.make(written(tmp_path, text))
        rows = found["left_out"]
        assert rows.loc[rows["file"] == "a.csv", "rows"].sum() + len(found["points"]) == 3
        assert rows.loc[rows["file"] == "bad.csv", "rows"].isna().all() and "bad.csv was refused" in texts(
            found["checks"]
        )
        with pytest.raises(ReefcoreError, match="labelset"):
            site.make(written(tmp_path, "annotations: bad.csv\n"))

    def test_the_sizes_of_photos_are_read_once_for_all_files(self, tmp_path, monkeypatch):
        for name in ("a", "b"):
            csv(tmp_path / f"{name}.csv", [(f"{name}.jpg", 0.5, 0.25, "X")], "Photo,Down,Across,What")
            photo(tmp_path / "photos" / f"{name}.jpg")
        columns = "{image: Photo, row: Down, column: Across, label: What, units: fraction}"
        listed, listing = [], photos.listing
        monkeypatch.setattr(photos, "listing", lambda folder: listed.append(folder) or listing(folder))
        text = f"annotations: [a.csv, b.csv]\nphotos: photos\ncolumns: {columns}\n"
        found = site.make(written(tmp_path, text))["points"]
        assert found[["row", "column"]].values.tolist() == [[15, 10]] * 2
        assert len(listed) == 2  # for the sizes, and for the names

    def test_swapped_rows_and_columns_are_told_and_exchanged_on_request(self, tmp_path):
        rows = [(f"{n}.jpg", c, r, "X") for n in range(2) for r, c in SQUARE]
        found = site.make(reef(tmp_path, rows))
        assert "swap: true in site.yaml" in texts(found["checks"], "wrong") and not found["points"]["inside"].all()
        swapped = site.make(reef(tmp_path, rows, text="swap: true\n"))
        assert swapped["points"]["inside"].all() and "swap" not in texts(swapped["checks"])
        assert (
            swapped["points"]["row"].max() == 27
            and swapped["points"]["annotation_id"].ne(found["points"]["annotation_id"]).any()
        )

    def test_photos_turned_by_their_header_are_told_from_swapped_columns(self, tmp_path):
        rows = [("flat.jpg", r, c, "X") for r, c in SQUARE] + [("turned.jpg", c, r, "X") for r, c in SQUARE]
        given = reef(tmp_path, rows)
        photo(tmp_path / "photos" / "turned.jpg", exif={Base.Orientation: 6})
        checks = site.make(given)["checks"]
        assert "EXIF orientation" in texts(checks, "warning") and "swap: true" not in texts(checks)

    def test_points_that_count_from_1_are_told_by_the_far_border(self, tmp_path):
        rows = [("a.jpg", r, c, "X") for r, c in ((1, 1), (30, 7), (5, 40), (9, 9))]
        assert "base: 1 in site.yaml" in texts(site.make(reef(tmp_path, rows))["checks"], "warning")
        found = site.make(reef(tmp_path, rows, text="base: 1\n"))
        assert found["points"]["inside"].all() and "base" not in texts(found["checks"])

    @pytest.mark.parametrize(("size", "factor"), [((20, 15), 0.5), ((80, 60), 2.0)])
    def test_photos_of_another_size_than_annotated_are_told(self, tmp_path, size, factor):
        rows = [("a.jpg", r, c, "X") for r in range(30) for c in range(40)]
        checks = site.make(reef(tmp_path, rows, size=size))["checks"]
        said = next(text for text in checks["text"] if "scale:" in text)
        assert float(said.split("scale: ")[1].split(" ")[0]) == pytest.approx(factor, abs=0.01)
        found = site.make(reef(tmp_path, rows, size=size, text=f"scale: {factor}\n"))
        assert found["points"]["inside"].all() and "scale" not in texts(found["checks"])

    def test_a_point_outside_is_listed_and_kept(self, tmp_path):
        given = reef(
            tmp_path, [*(("a.jpg", r, c, "X") for r, c in SQUARE), ("a.jpg", 10, 99, "X"), ("gone.jpg", 1, 900, "X")]
        )
        (tmp_path / "photos" / "gone.jpg").unlink()
        found = site.make(given)
        assert len(found["points"]) == 102 and found["points"]["inside"].tolist()[-2:] == [False, pd.NA]
        assert "1 of 101 points lies outside" in texts(found["checks"], "warning")
        found["points"].loc[100, "label_raw"] = "=1+1"
        listed = pd.read_csv(site.write_lists(given, found) / "outside.csv")
        assert listed["label_raw"].tolist() == ["'=1+1"]
        assert listed[["image", "row", "column", "width", "height"]].values.tolist() == [["a.jpg", 10, 99, 40, 30]]

    def test_metadata_joins_by_the_names_of_images(self, tmp_path):
        rows = [("A_1.jpg", 1, 1, "X"), ("A_2.jpg", 1, 1, "X"), ("A_3.jpg", 1, 1, "X")]
        given = reef(tmp_path, rows, text="metadata: m.csv\n")
        header = "Photo Name,Date,Site,Transect,Depth (m),Latitude,Longitude,Photographer"
        more = [
            ("a 1.JPG", "25/5/2016", "N", 1, 5, -18.5, 147.1, "Ann"),
            ("A_2", "1/6/2016", "N", 2, "8 m", 147.1, -18.5, ""),
        ]
        csv(tmp_path / "m.csv", [*more, ("other.jpg", "", "S", "", "", " ", " ", "")], header)
        found = site.make(given)
        images = found["images"].set_index("image")
        assert images["date"].tolist()[:2] == [pd.Timestamp("2016-05-25"), pd.Timestamp("2016-06-01")]
        assert images.loc["A_2.jpg", "depth"] == 8 and images.loc["A_1.jpg", "transect"] == "1"
        assert images.loc["A_1.jpg", "photographer"].startswith("person-")
        assert images.loc["A_1.jpg", "ecoregion"] and np.isnan(images.loc["A_2.jpg", "latitude"])
        assert images.loc["other.jpg", ["points", "site"]].tolist() == [0, "S"]
        assert found["points"]["site"].tolist()[:2] == ["N", "N"]
        said = texts(found["checks"])
        for part in ("1 of 3 annotated images have no row", "swapped", "1 row of the metadata", "day/month/year"):
            assert part in said, part

    def test_several_tables_add_up_and_half_a_position_is_none(self, tmp_path):
        given = reef(
            tmp_path, [("a.jpg", 1, 1, "X", 10)], "Name,Row,Column,Label,Longitude", "metadata: [m.csv, n.csv]\n"
        )
        csv(tmp_path / "m.csv", [("A.jpg", 5, -18.5)], "Name,Depth,Latitude")
        csv(tmp_path / "n.csv", [("a", "2016-05-25")], "Name,Date")
        found = site.make(given)
        assert len(found["images"]) == 1 and found["images"].loc[0, "depth"] == 5
        assert found["images"].loc[0, "date"] == pd.Timestamp("2016-05-25")
        assert found["images"][["latitude", "longitude"]].isna().all(axis=None)
        assert "m.csv: 1 image with only one of latitude and longitude" in texts(found["checks"], "warning")

    def test_metadata_of_sites_joins_by_the_site_in_the_name(self, tmp_path):
        rows = [("NR_T1_1.jpg", 1, 1, "X"), ("SR_T1_1.jpg", 1, 1, "X")]
        given = reef(tmp_path, rows, text="metadata: m.csv\nfrom_name: '(?P<site>[A-Z]+)_(?P<transect>T[0-9])'\n")
        csv(tmp_path / "m.csv", [("nr", 5, "2016-05-25"), ("nr", 5, "2017-05-25")], "Site,Depth,Date")
        found = site.make(given)
        assert found["images"]["depth"].tolist()[0] == 5 and found["images"]["date"].isna().all()
        said = texts(found["checks"], "warning")
        assert "1 of 2 images have a row" in said and "more than one date" in said

    def test_a_column_that_is_nowhere_is_refused_with_the_nearest(self, tmp_path):
        given = reef(
            tmp_path, [("a.jpg", 1, 1, "X", "N")], "Name,Row,Column,Label,Reef zone", "site_column: reef_zon\n"
        )
        with pytest.raises(ReefcoreError, match="no table has a column 'reef_zon'; did you mean"):
            site.make(given)
        given = written(tmp_path, "annotations: a.csv\nsite_column: Reef Zone\n")
        assert site.make(given)["images"]["site"].tolist() == ["N"]

    def test_dates_of_headers_are_the_last_resort(self, tmp_path):
        exif = {Base.DateTimeOriginal: "2016:05:25 10:11:12"}
        rows = [("a.jpg", 1, 1, "X", ""), ("b.jpg", 1, 1, "X", "2015-01-01")]
        found = site.make(reef(tmp_path, rows, "Name,Row,Column,Label,Date", exif=exif))
        assert found["images"]["date"].dt.year.tolist() == [2016, 2015]
        assert "1 from the annotations and 1 from the headers" in texts(found["checks"])
        none = site.make(reef(tmp_path, rows, "Name,Row,Column,Label,Date", "exif: false\n", exif=exif))
        assert none["images"]["date"].isna().tolist() == [True, False]

    def test_positions_are_as_exact_as_asked(self, tmp_path):
        rows = [("a.jpg", 1, 1, "X", -18.2871, 147.6992, -18.2871)]
        header = "Name,Row,Column,Label,Latitude,Longitude,site_lat"
        rounded = site.make(reef(tmp_path, rows, header, "privacy: {positions: rounded}\n"))
        assert rounded["points"][["latitude", "longitude"]].values.tolist() == [[-18.3, 147.7]]
        hidden = site.make(reef(tmp_path, rows, header, "privacy: {positions: none}\n"))
        assert hidden["images"]["latitude"].isna().all() and hidden["points"]["ecoregion"].notna().all()
        for found in (rounded, hidden):
            assert not any("18.28" in table.to_csv() for table in found.values())

    def test_an_ecoregion_far_from_its_point_is_a_warning_that_names_the_polygons(self, tmp_path):
        header = "Name,Row,Column,Label,Latitude,Longitude"
        there = geography.representatives()[["latitude", "longitude"]].iloc[0]  # of an ecoregion, whose place is sure
        rows = [("a.jpg", 1, 1, "X", *there), ("b.jpg", 1, 1, "X", there["latitude"] + 3, there["longitude"])]
        said = site.make(reef(tmp_path, rows, header))["checks"].query("check == 'positions' and state == 'warning'")
        assert len(said) == 1 and "the ecoregion of 1 image is a guess" in said["text"].item()
        assert "meow: in site.yaml" in said["text"].item()

    @pytest.mark.parametrize("positions", ["rounded", "none"])
    def test_no_remark_check_or_problem_tells_a_position_that_is_hidden(self, tmp_path, positions):
        rows = [("a.jpg", 1, 1, "X", -18.3871, 147.6992, "at -18.387 147.699", 18.39, 96.61, "dark")]
        rows += [("b.jpg", 1, 1, "X", -18.3872, 147.6992, "", 18.39, 97.43, "")]
        header = "Name,Row,Column,Label,Latitude,Longitude,Comments,Breite,Machine confidence 1,Notes"
        text = f"metadata: m.csv\nprivacy: {{positions: {positions}}}\n"
        given = reef(tmp_path, rows, header, text)
        csv(tmp_path / "m.csv", [("a.jpg", -18.3855, 147.6992), ("b.jpg", "18°28.28'S", 147.6992)], "Name,Lat,Lon")
        found = site.make(given)
        for name, table in found.items():
            assert not any(part in table.to_csv() for part in ("18.38", "147.69", "18.39", "28.28")), name
        assert {"notes"} < set(found["points"]) and not {"comments", "breite"} & set(found["points"])
        said = texts(found["checks"])
        assert "another in the metadata" in said and "latitude is not a number" in said
        assert "no image has a position" not in said and "positions are " in said

    def test_what_no_image_has_is_one_note(self, tmp_path):
        checks = site.make(reef(tmp_path, [("a.jpg", 1, 1, "X")]))["checks"]
        said = checks["text"][checks["text"].str.startswith("no image has")]
        assert list(said) == [
            "no image has a date, site, transect, depth or position; metadata, or date_column, site_column, "
            "transect_column, depth_column, latitude_column and longitude_column, or from_name in site.yaml, would "
            "give them"
        ]
        checks = site.make(
            reef(
                tmp_path / "b",
                [("a.jpg", 1, 1, "X", 3, 1.5, 2.5, "T1", "2020-01-31")],
                "Name,Row,Column,Label,Depth,Latitude,Longitude,Transect,Date",
            )
        )["checks"]
        assert "no image has a site; metadata, or site_column, or from_name in site.yaml, would give it" in texts(
            checks
        )

    def test_files_that_share_images_and_conflicts_are_said(self, tmp_path):
        given = reef(tmp_path, [("a.jpg", 1, 1, "X", "N")], "Name,Row,Column,Label,Site", "metadata: m.csv\n")
        csv(tmp_path / "b.csv", [("a.jpg", 1, 1, "Y")])
        csv(tmp_path / "m.csv", [("a.jpg", "S")], "Name,Site")
        given = written(
            tmp_path, "annotations: [a.csv, {file: b.csv, source: other}]\nphotos: photos\nmetadata: m.csv\n"
        )
        found = site.make(given)
        assert found["images"]["photo"].tolist() == ["a.jpg", "a.jpg"] and found["images"]["site"].tolist() == [
            "S",
            "S",
        ]
        said = texts(found["checks"], "warning")
        assert "1 image name in more than one file, with 1 point at the same place" in said
        assert "1 image with one site in the annotations and another in the metadata" in said

    def test_fractions_are_scaled_by_the_photos(self, tmp_path):
        header = "label.name,point.media.key,point.x,point.y"
        csv(tmp_path / "a.csv", [("Pavona", "K1", 0.5, 0.5)], header)
        photo(tmp_path / "photos" / "deep" / "k1.JPG")
        found = site.make(written(tmp_path, "annotations: a.csv\nphotos: photos\n"))
        assert found["points"][["row", "column"]].values.tolist() == [[15, 20]] and found["points"]["inside"].all()
        with pytest.raises(ReefcoreError, match="size"):
            site.make(written(tmp_path, "annotations: a.csv\n"))
        found = site.make(written(tmp_path, "annotations: a.csv\nsize: 80x60\n"))
        assert found["points"][["row", "column"]].values.tolist() == [[30, 40]] and found["photos"].empty

    def test_files_of_one_name_in_two_folders_are_two_sources(self, tmp_path):
        for year in ("2016", "2017"):
            csv(tmp_path / year / "a.csv", [("g1.jpg", 1, 1, "X")])
            photo(tmp_path / "photos" / year / "g1.jpg", seed=int(year))
        found = site.make(written(tmp_path, "annotations: [2016/a.csv, 2017/a.csv]\nphotos: photos\n"))
        assert found["images"]["source"].tolist() == ["a", "a (2017)"] and found["points"]["annotation_id"].is_unique
        assert found["images"]["photo"].tolist() == ["2016/g1.jpg", "2017/g1.jpg"]
        assert found["points"]["file"].tolist() == ["2016/a.csv", "2017/a.csv"]

    def test_whatever_is_in_its_files_it_is_read_or_refused(self, tmp_path):
        points = "Name,Row,Column,Label,Date\n" + "".join(f"G{n}.jpg,{n},{n},Pavona,{n}/4/2016\n" for n in range(30))
        about = "Name,Date,Depth,Latitude,Longitude\n" + "".join(
            f"g{n}.JPG,5/{n}/16,{n} m,-18.{n},147\n" for n in range(30)
        )
        photo(tmp_path / "photos" / "g1.png")
        made, dice = [], np.random.default_rng(0)
        for _ in range(12):
            for name, text in (("a.csv", points), ("m.csv", about)):
                data = bytearray(text.encode())
                for place in dice.integers(0, len(data), dice.integers(0, 12)):
                    data[place] = dice.integers(0, 256)
                (tmp_path / name).write_bytes(data[: dice.integers(1, 2 * len(data))])
            try:
                found = site.make(written(tmp_path, "annotations: a.csv\nmetadata: m.csv\nphotos: photos\n"))
            except ReefcoreError as error:
                assert "\n" not in str(error)
                continue
            made.append(found)
            assert not found["images"].duplicated(["source", "image"]).any()
            assert len(found["points"]) == found["images"]["points"].sum()
        assert len(made) > 2

    def test_counts_without_points_are_covers(self, tmp_path):
        csv(
            tmp_path / "c.csv",
            [(1, "a.jpg", "Confirmed", 10, "50.0", "50.0")],
            "Image ID,Image name,Annotation status,Points,Sand,Pavona",
        )
        csv(tmp_path / "m.csv", [("a", "2016-05-25", 7)], "Name,Date,Depth")
        found = site.make(written(tmp_path, "annotations: c.csv\nmetadata: m.csv\n"))
        assert found["covers"][["date", "depth"]].drop_duplicates().values.tolist() == [["2016-05-25", 7]]
        assert set(found["covers"]) == set(site.tables.COVERS)
        assert len(found["covers"]) == 2 and found["points"].empty and len(found["points"].columns) > 16
        assert "1 sample unit with covers" in texts(found["checks"])


# ---------------------------------------------------------------------------------------------------------- commands


class TestCommands:
    def test_new_writes_a_site_that_check_reads_and_labels_stay(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        csv(tmp_path / "export" / "a.csv", [("a.jpg", 1, 1, "Pavona"), ("a.jpg", 2, 2, "Sand")])
        photo(tmp_path / "export" / "photos" / "A.JPG")
        call = ["site", "new", "North Reef: 2", "--annotations", "export/a.csv", "--photos", "export/photos"]
        assert cli.main(call) == 0
        text = (tmp_path / "sites/north-reef-2/site.yaml").read_text()
        assert 'annotations: "../../export/a.csv"' in text and "# found: 1 of 1 annotated image has its photo" in text
        keys = {*yaml.safe_load(text)} | {"columns_of"}  # written site_column and so on
        assert {f.name for f in dataclasses.fields(site.Site)} - keys == {"data", "own_seed", "path"}
        assert site.load("north reef 2").name == "North Reef: 2"
        labels = tmp_path / "sites/north-reef-2/labels.csv"
        labels.write_text(labels.read_text(encoding="utf-8-sig").replace("Sand", "Sand", 1), encoding="utf-8")
        before = pd.read_csv(labels)
        assert cli.main(call) == 2 and "this site is there already" in capsys.readouterr().err
        assert cli.main([*call, "--force"]) == 0 and pd.read_csv(labels).equals(before)
        capsys.readouterr()
        assert cli.main(["site", "check", "north-reef-2", "--json"]) == 0
        assert {"check", "state", "text", "count", "examples"} == set(json.loads(capsys.readouterr().out)["checks"][0])
        (tmp_path / "export" / "photos" / "A.JPG").unlink()
        assert cli.main(["site", "check", "north-reef-2"]) == 1 and "0 of 1 annotated image" in capsys.readouterr().out

    def test_new_takes_a_column_map_in_braces(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "points.csv").write_text("Image,X,Y,Taxon\na.jpg,1,2,Porites\n")
        given = ["--annotations", "points.csv", "--columns", "{image: Image, row: Y, column: X, label: Taxon}"]
        assert cli.main(["site", "new", "braces", *given]) == 0
        assert site.load("braces").columns["row"] == "Y"
        assert cli.main(["site", "check", "braces"]) == 0 and "1 point on 1 image" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["nothing.csv"], "there is no such file"),
            (["a.csv", "--photos", "a.csv"], "not a folder of photos"),
            (["a.csv", "--metadata", "a.csv", "--columns", "map.yaml"], "map.yaml"),
            (["photos"], "photos"),
        ],
    )
    def test_new_refuses_in_one_sentence_and_leaves_nothing(self, tmp_path, monkeypatch, capsys, given, said):
        monkeypatch.chdir(tmp_path)
        csv(tmp_path / "a.csv", [("a.jpg", 1, 1, "X")])
        (tmp_path / "photos").mkdir()
        assert cli.main(["site", "new", "reef", "--annotations", *given]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1 and not (tmp_path / "sites").exists()
        for name in ("made-up", "...", "two\nlines"):
            assert cli.main(["site", "new", name, "--annotations", "a.csv"]) == 2 and not (tmp_path / "sites").exists()

    def test_a_name_with_a_line_break_writes_no_setting(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        csv(tmp_path / "a.csv", [("a.jpg", 1, 1, "X")])
        (tmp_path / "meta.csv").write_text('Name,Site\na.jpg,"Reef\nseed: 99"\n')
        assert cli.main(["site", "new", "reef", "--annotations", "a.csv", "--metadata", "meta.csv"]) == 0
        assert site.load("reef").seed == 0 and "Reef seed: 99" in (tmp_path / "sites/reef/site.yaml").read_text()

    def test_all_files_of_a_folder_are_that_folder(self, tmp_path):
        files = [csv(tmp_path / f"{n}.csv", [(f"{n}.jpg", 1, 1, "X")]) for n in range(5)]
        assert site.new.__module__ and list(__import__("reefcore.site.new", fromlist=["_"])._together(files)) == [
            tmp_path
        ]
        assert settings.slug("Récif N° 2 ") == "récif-n-2"


@pytest.mark.parametrize("way", ["file in the place of a folder", "folder in the place of a file"])
def test_what_cannot_be_written_is_one_sentence(tmp_path, monkeypatch, capsys, way):
    monkeypatch.chdir(tmp_path)
    csv(tmp_path / "a.csv", [("a.jpg", 1, 2, "X")])
    place = tmp_path / "sites"
    if way.startswith("file"):
        place.write_text("")
    else:
        (place / "north" / "csv" / "images.csv").mkdir(parents=True)
    assert cli.main(["site", "new", "north", "--annotations", "a.csv"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("reefcore: ") and "cannot be read or written" in said and "no other program" in said


def test_the_last_pixel_is_inside_and_a_scaled_point_stays_in_the_middle_of_its_pixel():
    frame = pd.DataFrame({"source": "s", "image": "a", "row": [9, 10, 0], "column": [19, 0, 20], "label_raw": "x"})
    assert site_points.inside(frame, [20] * 3, [10] * 3).tolist() == [True, False, False]
    assert site_points.inside(frame, [20, 20, None], [10, 10, None]).tolist()[:2] == [True, False]
    larger = site_points.requested(frame, False, 3)
    assert larger["row"].tolist() == [28, 31, 1] and larger["column"].tolist() == [58, 1, 61]
    assert site_points.requested(frame, True, 1)["row"].tolist() == [19, 0, 20]
