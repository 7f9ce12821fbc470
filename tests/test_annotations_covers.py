"""Counts and percents without points: MERMAID, CoralNet's percent covers, this project's own tables of cover."""

import pandas as pd
import pytest

from reefcore import annotations
from reefcore.annotations import points
from reefcore.errors import ReefcoreError

EVENT = "Site *,Management *,Sample date: Year *,Sample date: Month *,Sample date: Day *,Depth *,Observer emails *"
SITE = "North,Open,2020,2,1,3,ann@example.org"
PIT = f"{EVENT},Transect length surveyed *,Interval size *,Interval start *,Transect number *,Transect label,"
PIT += "Observation interval *,Benthic attribute *,Growth form\n"
LIT = f"{EVENT},Transect length surveyed *,Transect number *,Benthic attribute *,Growth form,Observation length *\n"
PQT = f"{EVENT},Number of points per quadrat *,Transect number *,Quadrat *,Benthic attribute *,Growth form,"
PQT += "Number of points *\n"


@pytest.fixture
def covers(tmp_path):
    def read(text, **options):
        path = tmp_path / "benthos.csv"
        path.write_text(text)
        frame = annotations.read_covers(path, **options)
        attrs = frame.attrs
        assert attrs["rows"] == attrs["read"] + sum(attrs["left_out"].values())
        if frame["count"].notna().any():
            sums = frame.groupby("unit")[["count", "percent"]].sum()
            assert sums["percent"].tolist() == pytest.approx([100] * len(sums), abs=1)
        return frame

    return read


def said(frame):
    return "\n".join(frame.attrs["problems"]["problem"])


def test_intervals_of_a_transect_are_counted(covers):
    body = [("0.5", "Porites", "massive"), ("1", "Sand", ""), ("1.5", "Sand", ""), ("2", "Porites", "massive")]
    frame = covers(PIT + "".join(f"{SITE},2,0.5,0.5,1,deep,{at},{what},{form}\n" for at, what, form in body))
    assert frame["label_raw"].tolist() == ["Porites (massive)", "Sand"] and frame["count"].tolist() == [2, 2]
    one = frame.iloc[0]
    assert one["unit"] == "North | 2020-02-01 | transect 1 deep" and one["date"] == "2020-02-01"
    assert (one["site"], one["transect"], one["depth"], one["total"]) == ("North", "1 deep", 3.0, 4)
    assert frame["percent"].tolist() == [50, 50] and said(frame) == ""
    assert one["life_form"] == "Massive" and pd.isna(frame["life_form"][1])


def test_observers_are_pseudonyms_unless_asked_otherwise(covers):
    text = PIT + SITE.replace("ann@example.org", '"ann@example.org, bo@example.org"') + ",0.5,0.5,0.5,1,,0.5,Sand,\n"
    hidden = covers(text)["annotator"].tolist()
    assert hidden == [f"{points.pseudonym('ann@example.org')}, {points.pseudonym('bo@example.org')}"]
    assert covers(text, names=True)["annotator"].tolist() == ["ann@example.org, bo@example.org"]


def test_intervals_that_lack_or_stand_twice_are_said(covers):
    frame = covers(PIT + f"{SITE},2,0.5,0.5,1,,0.5,Sand,\n{SITE},2,0.5,0.5,1,,0.5,Rock,\n")
    assert "has 2 of the 4 intervals" in said(frame) and "interval 0.5 of" in said(frame)


def test_transects_that_only_depth_or_management_tells_apart_are_two_units(covers):
    deep = SITE.replace(",3,", ",9,")
    frame = covers(PIT + f"{SITE},0.5,0.5,0.5,1,,0.5,Sand,\n{deep},0.5,0.5,0.5,1,,0.5,Rock,\n")
    assert frame["unit"].tolist() == ["North | 2020-02-01 | transect 1 | 3", "North | 2020-02-01 | transect 1 | 9"]


def test_lengths_give_percents_and_no_counts(covers):
    frame = covers(LIT + f"{SITE},5,1,Porites,plates or tables,100\n{SITE},5,1,Sand,,300\n{SITE},5,1,Rock,,\n")
    assert frame["percent"].tolist() == [25, 75] and frame["count"].isna().all() and frame["total"].isna().all()
    assert frame["length_cm"].tolist() == [100, 300] and frame["life_form"][0] == "Tabular"
    assert "has 400 of the 500 cm" in said(frame)
    assert frame.attrs["left_out"] == {"an observation without a number of points or a length": 1}


def test_quadrats_are_units_and_their_points_are_held_against_what_is_declared(covers):
    rows = f"{SITE},10,1,1,Porites,,4\n{SITE},10,1,1,Sand,,6\n{SITE},10,1,2,Sand,,7\n{SITE},10,1,2,,,3\n"
    frame = covers(PQT + rows)
    assert frame["total"].tolist() == [10, 10, 7] and frame["transect"].unique().tolist() == ["1"]
    assert frame["unit"][2].endswith("| transect 1 | quadrat 2") and "has 7 of the 10 points" in said(frame)
    assert frame.attrs["left_out"] == {"an observation without an attribute": 1}


def test_percent_covers_become_counts_where_the_points_are_known(covers):
    text = "Image ID,Image name,Annotation status,Points,Porites,Sand\n1,a.jpg,Confirmed,20,25.000,75.000\n"
    text += "2,b.jpg,Confirmed,30,33.333,66.667\n3,c.jpg,Confirmed,20,0.000,0.000\n4,d.jpg,Confirmed,7,50.000,49.000\n"
    frame = covers(text + "ALL IMAGES,,,,29.167,70.833\n")
    assert frame["count"].tolist() == [5, 15, 10, 20, pd.NA, pd.NA] and frame["unit"].nunique() == 3
    reasons = {"the row ALL IMAGES, the mean of the others": 1, "an image without cover of any label": 1}
    assert frame.attrs["left_out"] == reasons
    assert "add up to 99 %" in said(frame) and "50 % of 7 points is no whole number" in said(frame)


def test_percent_covers_without_points_stay_percents(covers):
    frame = covers("Name,Annotation status,Annotation area,POR,Total\na.jpg,Confirmed,X: 0 - 100%,25.0,75.0\n")
    assert frame["percent"].tolist() == [25, 75] and frame["count"].isna().all()
    assert frame["label_raw"].tolist() == ["POR", "Total"]


def test_a_percent_that_is_no_number_is_said(covers):
    frame = covers("Name,Annotation status,Annotation area,POR,SAND\na.jpg,Confirmed,,n/a,100\n")
    assert "'n/a' is not a percent" in said(frame) and frame["percent"].tolist() == [100]


def test_our_own_tables_come_back(covers):
    text = "date,label,images,count,total,percent,ci_low,ci_high\n"
    text += "2020,Porites,3,5,20,25,1,50\n2020,Sand,3,15,20,75,50,99\n"
    frame = covers(text + "ALL IMAGES,Porites,3,5,20,25,1,50\n")
    assert frame["date"].tolist() == ["2020", "2020"] and frame["count"].tolist() == [5, 15]
    assert sum(frame.attrs["left_out"].values()) == 1
    frame = covers("date,images,points,Porites,Sand\n2020,3,20,25,75\nALL IMAGES,3,20,25,75\n")
    assert frame["unit"].tolist() == ["2020", "2020"] and frame["count"].tolist() == [5, 15]


@pytest.mark.parametrize("text", [PIT, LIT, PQT, "Name,Annotation status,Annotation area,POR\n"])
def test_a_header_alone_is_an_empty_table(covers, text):
    frame = covers(text)
    assert frame.empty and said(frame) == "the file has a header and no rows"


def test_covers_are_not_read_as_points_nor_points_as_covers(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(PIT + f"{SITE},0.5,0.5,0.5,1,,0.5,Sand,\n")
    with pytest.raises(ReefcoreError, match=r"not points of images; read it with reefcore.annotations.read_covers"):
        annotations.read(path)
    path.write_text(PQT.replace(",Number of points *", ""))
    with pytest.raises(ReefcoreError, match="lacks the column Number of points"):
        annotations.read_covers(path)
    path.write_text("Name,Row,Column,Label\na.jpg,1,2,POR\n")
    with pytest.raises(ReefcoreError, match="it holds points"):
        annotations.read_covers(path)
