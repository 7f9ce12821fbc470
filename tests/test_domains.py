"""Other data sets as test domains: their readers, by what each layout says; levels and scores; and what is left out."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import annotations, domains, predictions, tables
from reefcore.annotations import masks
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet, write_parquet
from reefcore.sample import domains as made
from reefcore.sample import photos
from reefcore.workflow import domains as steps
from reefcore.workflow.project import find_profile

ROOM = 40  # pixels of a side


def png(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels)).save(path)
    return path


def accounted(frame):
    assert frame.attrs["rows"] == frame.attrs["read"] + sum(frame.attrs["left_out"].values())
    return frame.attrs["left_out"]


@pytest.fixture
def blank():
    return np.zeros((ROOM, ROOM, 3), np.uint8)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    folder, taken = tmp_path_factory.mktemp("domains"), {}
    with pytest.MonkeyPatch.context() as patch:
        take = made._photos
        patch.setattr(made, "_photos", lambda name, seed: taken.setdefault(name, take(name, seed)))
        made.generate(folder, seed=1)
    return folder, taken


class TestLayouts:
    @pytest.mark.parametrize("name", list(made.MAKERS))
    def test_each_is_recognised_and_says_what_its_photos_show(self, layouts, name):
        path = layouts[0] / name
        frame = annotations.read(path, sample=30, source=name)
        accounted(frame)
        assert frame.attrs["format"] == name and frame["annotation_id"].is_unique and len(frame) > 100
        shown = [classes for _, classes in layouts[1][name]]
        images = {image: shown[i] for i, image in enumerate(sorted(frame["image"].unique(), key=_number))}
        told = domains.labelled(frame, name)
        corals = {name: i < made.CORALS for i, name in enumerate(photos.CLASSES)}
        seen = [photos.CLASSES[images[row.image][row.row, row.column]] for row in told.itertuples()]
        there = pd.Series([corals[c] or (name in masks.BINARY and c == "Octocorallia") for c in seen], index=told.index)
        known = told["coral"].notna()
        assert known.mean() > 0.75 and (told["coral"][known].astype(bool) == there[known]).all()
        genus = told["label"].where(told["family"].notna())
        if name in masks.BINARY:
            assert told["family"].isna().all() and set(frame["rank"]) == {"other"}
            assert not set(frame["broad_category"].str.lower()) & {"hard coral", "hard corals"}
        else:
            assert (
                genus.dropna() == pd.Series(seen, index=told.index)[genus.notna()]
            ).all() and genus.notna().sum() > 30

    def test_the_same_seed_draws_the_same_points_whatever_else_is_there(self, layouts, tmp_path):
        whole = annotations.read(layouts[0] / "coralvos", seed=3)
        video = tmp_path / "coralvos" / "images" / "video1"
        video.mkdir(parents=True)
        for kind in ("images", "masks"):
            first = sorted((layouts[0] / "coralvos" / kind / "video1").iterdir())[0]
            target = tmp_path / "coralvos" / kind / "video1" / first.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(first.read_bytes())
        alone = annotations.read(tmp_path / "coralvos", seed=3)
        assert alone["annotation_id"].tolist() == whole["annotation_id"][: len(alone)].tolist()
        other = annotations.read(tmp_path / "coralvos", seed=4)["annotation_id"]
        assert set(other) != set(alone["annotation_id"])


def _number(name):
    """Sort photos as they were taken: by the last number that differs."""
    digits = [int(part) for part in re.findall(r"\d+", name.replace("Img8bit", ""))]
    return digits[1:2] if "PAL36" in name else digits[-1:]


class TestMasks:
    def test_nothing_is_drawn_where_nothing_is_labelled_and_unknown_values_are_said(self, tmp_path, blank):
        mask = np.zeros((ROOM, ROOM), np.uint8)
        mask[:10], mask[10:12], mask[30:] = 25, 5, 99
        png(tmp_path / "leftImg8bit/val/s/a_leftImg8bit.png", blank)
        png(tmp_path / "gtFine/val/s/a_gtFine_labelIds.png", mask)
        for name, what in (("b", mask * 0), ("c", mask[:-1]), ("d", blank)):
            png(tmp_path / f"leftImg8bit/val/s/{name}_leftImg8bit.png", blank)
            png(tmp_path / f"gtFine/val/s/{name}_gtFine.png", what)
        png(tmp_path / "gtFine/val/s/e_gtFine.png", mask)
        png(tmp_path / "leftImg8bit/val/s/f_leftImg8bit.png", blank)
        frame = annotations.read(tmp_path, sample=60, points="classes")
        assert accounted(frame) == {
            "a photo without a mask": 1,
            "a mask without a photo": 1,
            "a photo with nothing labelled": 1,
            "a mask or photo that cannot be read, or that do not fit": 2,
        }
        assert frame["label_raw"].value_counts().to_dict() == {"acropora alive": 30, "sand": 30}
        assert frame["row"].max() < 12 and not frame.duplicated(["row", "column"]).any()
        told = " ".join(frame.attrs["problems"]["problem"])
        assert "99 (1 mask)" in told and "a mask of colours" in told and "40 x 39 pixels" in told
        uniform = annotations.read(tmp_path, sample=200)["label_raw"].value_counts(normalize=True)
        assert uniform["acropora alive"] == pytest.approx(10 / 12, abs=0.09)

    def test_the_folders_own_list_counts_and_tiles_without_one_are_refused(self, tmp_path, blank):
        png(tmp_path / "images/test/FR3_0_512_0_512.png", blank)
        png(tmp_path / "labels/test/FR3_0_512_0_512.png", np.full((ROOM, ROOM), 7, np.uint8))
        with pytest.raises(ReefcoreError, match="what the values of these masks mean is not known"):
            annotations.read(tmp_path)
        for said in ([{"id": 7, "name": "Platygyra"}], {"Platygyra": 7}, {"7": "Platygyra"}):
            (tmp_path / "classes.json").write_text(json.dumps(said))
            assert set(annotations.read(tmp_path)["label_raw"]) == {"Platygyra"}
        for said in ("{", '{"Platygyra": 70000}', "[7]"):
            (tmp_path / "classes.json").write_text(said)
            with pytest.raises(ReefcoreError, match="this list of classes cannot be read"):
                annotations.read(tmp_path)

    def test_run_lengths_plain_and_compressed_and_outlines_are_the_same_region(self, tmp_path, blank):
        region = np.zeros((ROOM, ROOM), bool)
        region[5:15, 20:30] = True
        down = region.T.ravel()
        edges = np.flatnonzero(np.diff(down.astype(int), prepend=0))
        counts = np.diff([0, *edges, down.size]).tolist()
        text, numbers = "", [c - (counts[i - 2] if i > 2 else 0) for i, c in enumerate(counts)]
        for number in numbers:
            more = True
            while more:
                bits, number = number & 0x1F, number >> 5
                more = number != (-1 if bits & 0x10 else 0)
                text += chr((bits | 0x20 * more) + 48)
        for given in (counts, text):
            assert (masks.runs(given, ROOM, ROOM) == region).all()
        with pytest.raises(ValueError, match="run lengths of"):
            masks.runs(counts, ROOM, ROOM + 1)
        png(tmp_path / "test/images/a.jpg", blank)
        (tmp_path / "test/jsons").mkdir()
        image = {"file_name": "a.jpg", "height": ROOM, "width": ROOM}
        for segment in ({"size": [ROOM, ROOM], "counts": text}, [[20, 5, 29, 5, 29, 14, 20, 14]]):
            said = {"image": image, "annotations": [{"segmentation": segment}]}
            (tmp_path / "test/jsons/a.json").write_text(json.dumps(said))
            assert (masks.values(tmp_path / "test/jsons/a.json", True) == region).all()
        (tmp_path / "test/jsons/a.json").write_text('{"image": {}}')
        assert accounted(annotations.read(tmp_path)) == {"a mask or photo that cannot be read, or that do not fit": 1}

    def test_what_is_damaged_is_counted_whatever_it_is_and_coral_is_never_taken_for_none(self, tmp_path, blank):
        png(tmp_path / "test/images/a.jpg", blank)
        (tmp_path / "test/jsons").mkdir()
        image, size = {"height": ROOM, "width": ROOM}, [ROOM, ROOM]
        segments = [{"size": size, "counts": text} for text in ("b'xx'", "o" * 400 + "0", [10**30])]
        for segment in (*segments, None, [[float("nan")] * 6]):
            said = {"image": image, "annotations": [{"segmentation": segment}]}
            (tmp_path / "test/jsons/a.json").write_text(json.dumps(said))
            assert len(annotations.read(tmp_path)) == 0 and len(accounted(annotations.read(tmp_path))) == 1
        for text in ("[" * 100_000, '{"image": {"height": Infinity, "width": 1}}'):
            (tmp_path / "test/jsons/a.json").write_text(text)
            assert len(accounted(annotations.read(tmp_path))) == 1
        png(tmp_path / "vos/images/v/a.png", blank)
        mask = tmp_path / "vos/masks/v/a.PNG"
        png(mask, np.dstack([blank[..., 0], blank[..., 0] + 255]))  # gray, and how opaque it is
        assert set(annotations.read(tmp_path / "vos")["label_raw"]) == {"not coral"}
        png(tmp_path / "scapes/leftImg8bit/a_leftImg8bit.png", blank)
        png(tmp_path / "scapes/gtFine/a_gtFine.png", blank[..., 0] == 0)  # of one bit: 1 is a class there
        assert set(annotations.read(tmp_path / "scapes")["label_raw"]) == {"seagrass"}
        Image.new("1", (20_000, 10_000)).save(mask)
        assert len(accounted(annotations.read(tmp_path / "vos"))) == 1

    def test_a_class_without_a_name_is_never_drawn(self, tmp_path, blank):
        png(tmp_path / "leftImg8bit/val/a_leftImg8bit.png", blank)
        png(tmp_path / "gtFine/val/a_gtFine.png", blank[..., 0] + np.uint8(7))
        for name in ("", " ", None, "Void", "unlabeled "):
            (tmp_path / "classes.json").write_text(json.dumps({"7": name}))
            assert accounted(annotations.read(tmp_path)) == {"a photo with nothing labelled": 1}

    def test_the_hubs_parquet_is_unpacked_once_and_read(self, tmp_path, blank):
        mask = png(tmp_path / "mask.png", np.full((ROOM, ROOM), 31, np.uint8)).read_bytes()
        photo = png(tmp_path / "photo.png", blank).read_bytes()
        folder = tmp_path / "coralscapes"
        rows = [{"image": {"bytes": photo, "path": "x.png"}, "label": {"bytes": mask, "path": "x.png"}}] * 2
        write_parquet(pd.DataFrame(rows), folder / "data" / "test-00000-of-00001.parquet")
        with pytest.raises(ReefcoreError, match=r"1 Parquet file of photos and masks; unpack them"):
            annotations.read(folder, format="coralscapes")
        points, facts = steps.read(folder, 5)
        assert facts["read"].tolist() == [2] and set(points["label"]) == {"Pocillopora"} and len(points) == 10
        assert points["image"].str.startswith("test/image/test-00000-of-00001-0000").all()
        write_parquet(pd.DataFrame({"image": [1], "label": [2]}), folder / "data" / "train.parquet")
        with pytest.raises(ReefcoreError, match="has no photos and masks to unpack"):
            masks.unpack(folder)


class TestPoints:
    def test_benthicnet_labels_of_whole_photos_and_numbers_are_no_points(self, put):
        head = "url,source,dataset,site,image,longitude,latitude,row,column,catami_biota,catami_substrate\n"
        rows = ["u,S,D,s,i,150,-20,3,4,Cnidaria > Corals > Stony corals > Branching,", "u,S,D,s,i,150,-20,,,Sponges,"]
        rows += ['u,S,D,s,i,150,-20,3,5,"[4, 17]",', "u,S,D,s,i,999,-20,3,6,,Substrate > Consolidated (hard)"]
        frame = annotations.read(put(head + "\n".join(rows) + "\n"))
        assert accounted(frame) == {
            "a label of the whole photo, no point": 1,
            "a number of a class, whose name is not in the file": 1,
        }
        assert frame["label_raw"].tolist() == ["Branching", "Consolidated (hard)"]
        assert set(frame["image"]) == {"D/s/i.jpg"} and frame["longitude"].isna().tolist() == [False, True]
        told = domains.labelled(frame, "benthicnet")
        assert told["functional_group"].tolist() == ["Hard coral", "Rock and bare substrate"]
        assert told["coral"].tolist() == [True, False] and told["family"].isna().all()

    def test_mermaids_parquet_and_csv_are_the_same_points(self, tmp_path):
        table = pd.DataFrame(
            {"image_id": ["p", "p"], "row": [5, 6], "col": [7, 8], "growth_form_name": ["Massive", None]}
        )
        table = table.assign(id=["a", "b"], benthic_attribute_name=["Porites", None], region_name="Tropical Atlantic")
        table.to_parquet(tmp_path / "m.parquet")
        table.to_csv(tmp_path / "m.csv", index=False)
        both = [annotations.read(tmp_path / f"m.{ending}") for ending in ("parquet", "csv")]
        assert both[0].equals(both[1]) and accounted(both[0]) == {"no label": 1}
        row = both[0].iloc[0]
        assert (row["image"], row["label_raw"], row["realm"]) == ("p.png", "Porites (Massive)", "Tropical Atlantic")
        pd.DataFrame({"row": [1]}).to_parquet(tmp_path / "other.parquet")
        with pytest.raises(ReefcoreError, match="this is a Parquet table, not a table of points"):
            annotations.read(tmp_path / "other.parquet")

    def test_parts_of_parquet_are_read_together_and_a_point_counts_once(self, tmp_path):
        table = pd.DataFrame({"row": [5, 6], "col": [7, 8], "benthic_attribute_name": [b"Porites", b"Sand"]})
        table = table.set_axis(pd.Index(["p", "q"], name="image_id"))
        folder = tmp_path / "mermaid-open"
        folder.mkdir()
        with pytest.raises(ReefcoreError, match="this folder holds no table of annotations"):
            steps.read(folder)
        for part in (table, table.assign(row=9), table[:1]):
            part.to_parquet(folder / f"{len(list(folder.iterdir()))}.parquet")
        (folder / "about.csv").write_text("hello,world\n1,2\n")
        points, facts = steps.read(folder)
        assert facts.set_index("reason")["records"].to_dict() == {
            steps.AGAIN: 1, "other tables of the folder, not read (about.csv)": 0
        }  # fmt: skip
        assert (facts["rows"].iat[0], facts["read"].iat[0], len(points)) == (5, 4, 4)
        assert set(points["label_raw"]) == {"Porites", "Sand"} and points["annotation_id"].is_unique
        (folder / "0.parquet").write_bytes((folder / "0.parquet").read_bytes()[:-9])
        with pytest.raises(ReefcoreError, match="this Parquet table is damaged"):
            annotations.read(folder / "0.parquet")
        table.reset_index().drop(columns="row").to_parquet(folder / "1.parquet")
        with pytest.raises(ReefcoreError, match="lacks the column row"):
            annotations.read(folder / "1.parquet", format="mermaid-open")

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
    def test_eilats_text_can_have_any_encoding(self, tmp_path, blank, encoding):
        png(tmp_path / "a.png", blank)
        with pytest.raises(ReefcoreError, match="has a text file of points beside it"):
            annotations.read(tmp_path, format="eilat")
        (tmp_path / "a.png.txt").write_text("3;4;Porites\n5\t6\tr\u00e9cif\n", encoding=encoding)
        assert annotations.read(tmp_path)["label_raw"].tolist() == ["Porites", "r\u00e9cif"]

    def test_eilats_text_files_are_counted_line_by_line(self, tmp_path, blank):
        png(tmp_path / "a.png", blank)
        png(tmp_path / "b.png", blank)
        (tmp_path / "a.png.txt").write_text("# row; col; label\n3; 4; Porites\n5, 6, Sand\n\nno point\n7;8;\n")
        frame = annotations.read(tmp_path)
        assert frame.attrs["format"] == "eilat" and accounted(frame) == {"no usable row": 1, "no label": 1}
        assert frame[["row", "column", "label_raw"]].to_numpy().tolist() == [[3, 4, "Porites"], [5, 6, "Sand"]]
        assert "1 photo without a file of points" in " ".join(frame.attrs["problems"]["problem"])


@pytest.fixture
def points():
    rows = [("a", "Porites"), ("a", "Sand"), ("b", "Porites rus"), ("b", "Galaxea"), ("b", "Soft coral")]
    rows += [("c", "Dead coral"), ("c", "Fungia"), ("c", "Stony coral")]
    frame = pd.DataFrame(rows, columns=["image", "label_raw"]).assign(source="x", row=range(8), column=0)
    return domains.labelled(tables.complete(frame), "eilat")


def answers(points, said, **scores):
    table = pd.DataFrame({"run_id": "m", "annotation_id": points["annotation_id"], "y_true": "?", "y_pred": said})
    return table.assign(**{f"score:{name}": np.float32(values) for name, values in scores.items()})


class TestLevels:
    def test_points_test_as_much_as_their_labels_say(self, points):
        can = domains.testable(points, ["Porites", "Fungiidae"]).squeeze()
        wanted = {"points": 8, "photos": 3, "genera": 2, "genus": 3, "other genus": 1, "family": 4}
        wanted |= {"coral": 5, "not coral": 2, "not said": 1, "genus, share": 3 / 8}
        assert {name: can[name] for name in wanted} == wanted
        assert domains.testable(points[:0], []).empty

    def test_scores_are_those_of_each_level(self, points):
        said = ["Porites", "Porites", "Pavona", "Euphylliidae", "Porites", "Porites", "Fungiidae", "Pavona"]
        sure = np.array([0.9, 0.2, 0.8, 0.7, 0.1, 0.5, 0.9, 0.6])
        table = domains.evaluate(answers(points, said, Porites=sure, Pavona=1 - sure, Fungiidae=sure * 0), points, 50)
        value = table.set_index(["level", "metric"])["value"]
        assert value["genus", "macro_recall"] == pytest.approx((0.5 + 1) / 2)  # Porites, Fungiidae
        assert value["family", "accuracy"] == pytest.approx(3 / 4)  # Galaxea's family is that of the answer
        assert value["coral or not", "macro_recall"] == 0.5  # always a coral
        assert value["coral or not", "accuracy"] == pytest.approx(5 / 7)
        auroc = table[table["metric"] == "auroc"].squeeze()
        assert auroc["score"] == "msp" and auroc["value"] == pytest.approx(0.35)
        row = domains.wide(table).set_index("level").loc["coral or not"]
        assert row["main"] == auroc["value"] and (row["points"], row["photos"], row["classes"]) == (7, 3, 2)

    def test_an_answer_that_is_no_coral_counts_as_one(self, points):
        said = ["Porites", "Sand", "Porites", "Galaxea", "Octocorallia", "Sand", "Fungiidae", "Scleractinia"]
        table = domains.evaluate(answers(points, said), points, 20)
        assert table[table["level"] == "coral or not"]["value"].eq(1).all() and "auroc" not in set(table["metric"])

    def test_a_file_may_name_its_photos_and_a_run_knows_what_it_answers_in_any_data_set(self, points):
        other = points[:1].assign(dataset="other", annotation_id="o", label="Galaxea")
        both = pd.concat([points, other])
        said = ["Porites"] * len(points) + ["Galaxea"]
        mine = answers(both, said).assign(**dict.fromkeys(("source", "image", "label", "dataset"), "theirs"))
        table = domains.evaluate(mine, both, 5)
        genus = table[table["level"] == "genus"].drop_duplicates("dataset").set_index("dataset")["points"]
        assert genus.to_dict() == {
            "eilat": 3,
            "other": 1,
        }  # two of Porites, and one of Galaxea, which is never answered

    def test_confusions_name_the_wrong_answers_and_others_points_are_refused(self, points):
        said = ["Porites", "Porites", "Pavona", "Pavona", "Porites", "Porites", "Pavona", "Pavona"]
        table = domains.confusions(answers(points, said), points)
        assert table[["truth", "points", "share"]].to_numpy().tolist() == [
            ["Fungiidae", 1, 1.0], ["Galaxea", 1, 1.0], ["Porites", 1, 0.5]
        ]  # fmt: skip
        with pytest.raises(ReefcoreError, match="none of these predictions is of a point of the test domains"):
            domains.joined(answers(points, said).assign(annotation_id="z"), points)


class TestSteps:
    def test_a_full_profile_takes_what_lies_there_and_starts_no_training(self, layouts, tmp_path):
        profile = find_profile("full")
        plan = {step.name: step for step in steps.plan(profile)}
        assert "domain_files" not in plan and plan["domain_predictions"].needs == ("data", "domain_points")
        steps._read(profile, tmp_path, 1)
        steps._answer(profile, tmp_path, 1)
        for name in ("points", "facts", "predictions", "skipped", "own"):
            assert read_parquet(tmp_path / f"domain_{name}.parquet").empty
        assert plan["domain_points"].inputs(profile, tmp_path) == {"input domains": "missing"}
        for name in ("eilat", "mermaid-open"):
            (tmp_path / "domains").mkdir(exist_ok=True)
            (tmp_path / "domains" / name).symlink_to(layouts[0] / name)
        (tmp_path / "domains" / "coralvos").mkdir()  # an empty folder is said, and stops nothing
        steps._read(profile, tmp_path, 1)
        facts = read_parquet(tmp_path / "domain_facts.parquet").set_index("dataset")
        assert facts.at["coralvos", "reason"].startswith("this folder holds no photo with a mask")
        there = read_parquet(tmp_path / "domain_points.parquet")
        assert set(there["dataset"]) == {"eilat", "mermaid-open"}

    def test_a_file_of_any_programs_answers_is_taken_from_its_folder(self, layouts, tmp_path):
        (tmp_path / "domains" / "eilat").mkdir(parents=True)
        for file in (layouts[0] / "eilat").iterdir():
            (tmp_path / "domains" / "eilat" / file.name).write_bytes(file.read_bytes())
        profile = find_profile("full")
        steps._read(profile, tmp_path, 1)
        there = read_parquet(tmp_path / "domain_points.parquet")
        mine = there[["annotation_id"]].assign(y_pred="Porites")
        mine.to_csv(tmp_path / "domains" / "eilat" / "predictions.csv", index=False)
        before = steps._answered(profile, tmp_path)
        steps._answer(profile, tmp_path, 1)
        table = predictions.validate(read_parquet(tmp_path / "domain_predictions.parquet"), "predictions")
        assert set(table["run_id"]) == {"predictions"} and len(table) == there["label"].notna().sum()
        assert list(before) == ["input domains/eilat/predictions.csv"]
