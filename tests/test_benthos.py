"""Labels to taxa, groups and life forms, and the table that a person edits in a spreadsheet."""

from pathlib import Path

import pandas as pd
import pytest

from reefcore import benthos
from reefcore.errors import ReefcoreError

REAL = Path(__file__).parents[2] / "shared" / "real"


def propose(*labels, **columns):
    return benthos.propose(pd.DataFrame({"label_raw": labels, **columns})).set_index("label")


@pytest.mark.parametrize(
    ("label", "group", "life_form", "taxon"),
    [
        ("Acropora (tabulate)", "Hard coral", "Tabular", "Acropora"),
        ("Monti(f)", "Hard coral", "Foliose", "Montipora"),
        ("Por_BR", "Hard coral", "Branching", "Porites"),
        ("HC_EN", "Hard coral", "Encrusting", None),
        ("Bleached massive", "Hard coral", "Massive", None),
        ("G_POR_M", "Hard coral", "Massive", "Porites"),
        ("F_FAV_CEMS", "Hard coral", None, "Faviidae"),
        ("Massive / Encrusting Coral", "Hard coral", None, None),
        ("ORBFAV", "Hard coral", None, "Orbicella"),
        ("Platy", "Hard coral", None, "Platygyra"),
        ("C_LA_QQZ", "Hard coral", "Foliose", None),
        ("ACBX", "Hard coral", "Branching", "Acropora"),
        ("Dead Porites", "Dead coral", None, "Porites"),
        ("DCA", "Dead coral", None, None),
        ("Dead coral with turf algae", "Dead coral", None, None),
        ("Recently killed coral", "Dead coral", None, None),
        ("Xeniidae", "Soft coral", None, None),
        ("F_SC_ALC", "Soft coral", None, None),
        ("Palythoa", "Other invertebrate", None, None),
        ("Sand dollars", "Other invertebrate", None, None),
        ("Encrusting sponge", "Sponge", None, None),
        ("Halimeda", "Algae (fleshy)", None, None),
        ("Other_SC", "Soft coral", None, None),
        ("MA_BROWN", "Algae (fleshy)", None, None),
        ("CRED-Turf growing on hard substrate", "Turf algae", None, None),
        ("TA", "Turf algae", None, None),
        ("CCA growing on rubble", "Crustose coralline algae", None, None),
        ("CA", "Crustose coralline algae", None, None),
        ("Thalassia testudinum", "Seagrass", None, None),
        ("silt_clay", "Sand and sediment", None, None),
        ("C-Rubble", "Rubble", None, None),
        ("RCK", "Rock and bare substrate", None, None),
        ("Tape_TWS", "Not benthos", None, None),
        ("Too dark", "Not benthos", None, None),
        ("Aaptos_encrusting", "Unclear", None, None),
        ("No live coral", "Unclear", None, None),
        ("qqzzx", "Unclear", None, None),
    ],
)
def test_reads_a_label(label, group, life_form, taxon):
    row = propose(label).loc[label]
    assert row["functional_group"] == group
    assert (None if pd.isna(row["life_form"]) else row["life_form"]) == life_form
    if taxon:
        assert row["taxon"] == taxon


@pytest.mark.parametrize(
    "label", ["DC", "S", "ACTO", "CTB", "Turf on rubble", "Millepora", "Unidentified thing", "Por_BR"]
)
def test_what_is_unsure_is_marked_for_a_look(label):
    assert propose(label).loc[label, "check"] == "yes"


def test_the_words_and_codes_name_groups_life_forms_and_taxa_that_there_are():
    from reefcore.taxonomy import taxa

    for table in ("words", "codes", "file_groups"):
        assert set(benthos._table(table)["functional_group"]) <= set(benthos.GROUPS)
    assert set(benthos._table("life_forms")["life_form"]) == set(benthos.LIFE_FORMS)
    assert set(benthos._table("codes")["life_form"]) <= {*benthos.LIFE_FORMS, ""}
    assert set(benthos._table("codes")["taxon"]) <= {*taxa()["taxon"], ""}
    assert benthos._table("codes")["code"].is_unique


class TestGroupInFile:
    def test_decides_before_any_guess_and_says_so(self):
        row = propose("qqzzx", group_in_file=["HC"]).loc["qqzzx"]
        assert (row["functional_group"], row["how"]) == ("Hard coral", "group in the file") and pd.isna(row["check"])

    def test_stays_finer_where_the_file_allows_it(self):
        assert propose("CCA", group_in_file=["Algae"]).loc["CCA", "functional_group"] == "Crustose coralline algae"

    def test_against_the_label_is_taken_and_marked(self):
        row = propose("Porites", group_in_file=["Soft coral"]).loc["Porites"]
        assert (row["functional_group"], row["check"]) == ("Soft coral", "yes") and pd.isna(row["genus"])
        assert "the label reads as Hard coral" in row["note"]

    def test_that_is_unknown_is_said(self):
        assert (
            propose("Sponge", group_in_file=["Other"]).loc["Sponge", "functional_group"] == "Sponge"
        )  # as CoralNet has
        assert propose("TWS", group_in_file=["Other"]).loc["TWS", "functional_group"] == "Not benthos"
        row = propose("Sand", group_in_file=["Lava"]).loc["Sand"]
        assert row["functional_group"] == "Sand and sediment" and "'Lava' is not known" in row["note"]


class TestProposal:
    def test_counts_points_of_each_label_and_counts_of_covers(self):
        table = propose("Sand", "Turf", "Sand")
        assert table["points"].to_dict() == {"Sand": 2, "Turf": 1}
        assert propose("Sand", "Turf", "Sand", count=[4, 1, 5])["points"].to_dict() == {"Sand": 9, "Turf": 1}

    def test_labels_that_differ_in_case_only_stay_apart(self):
        assert sorted(propose("Sand", "SAND").index) == ["SAND", "Sand"]

    def test_the_ocean_is_read_from_the_realm(self):
        label = {"label_raw": ["MON", "Favia"]}
        somewhere = benthos.propose(pd.DataFrame(label)).set_index("label")
        pacific = benthos.propose(pd.DataFrame(label | {"realm": "Central Indo-Pacific"})).set_index("label")
        assert somewhere.loc["MON", ["taxon", "check"]].tolist() == ["Montipora", "yes"]
        assert "depends on the ocean" in somewhere.loc["MON", "note"] and pd.isna(pacific.loc["MON", "note"])
        assert (somewhere.loc["Favia", "taxon"], pacific.loc["Favia", "taxon"]) == ("Favia", "Dipsastraea")

    def test_no_points_give_an_empty_table(self):
        assert list(benthos.propose(pd.DataFrame({"label_raw": pd.Series(dtype="str")}))) == benthos.COLUMNS


LABELS = ["Porites", "Por_BR", "Sand", "SAND", "=cmd()", "'quoted", "-", "a;b", 'say "hi"', "XYZ", "Dead Porites"]


def points(labels=LABELS):
    return pd.DataFrame({"label_raw": labels, "source": "s", "image": "i"})


class TestSpreadsheet:
    @pytest.fixture
    def path(self, tmp_path):
        return benthos.write(benthos.propose(points()), tmp_path / "labels.csv")

    def test_comes_back_to_the_letter_and_nothing_in_it_can_run(self, path):
        assert path.read_bytes().startswith(b"\xef\xbb\xbf")
        assert "\n'=cmd()," in path.read_text("utf-8-sig")
        proposed = benthos.propose(points())
        labels, problems = benthos.merge(proposed, benthos.read(path))
        pd.testing.assert_frame_equal(labels, proposed)
        assert not len(problems)

    def save(self, path, edit, **how):
        table = pd.read_csv(path, dtype="str", keep_default_na=False, encoding="utf-8-sig")
        edit(table).to_csv(path, index=False, **how)
        return benthos.merge(benthos.propose(points()), benthos.read(path))

    def test_survives_semicolons_line_ends_sorting_and_columns_moved_or_dropped(self, path):
        def edit(table):
            table.loc[table["label"] == "XYZ", "functional_group"] = "sponge"
            return table.sort_values("label", ascending=False)[["functional_group", "note", "label", "taxon"]]

        labels, problems = self.save(path, edit, sep=";", lineterminator="\r\n", encoding="utf-8-sig")
        labels = labels.set_index("label")
        assert labels.loc["XYZ", ["functional_group", "how"]].tolist() == ["Sponge", "edited"] and not len(problems)
        assert pd.isna(labels.loc["XYZ", "check"]) and labels.loc["Por_BR", "life_form"] == "Branching"
        assert set(labels.index) == set(LABELS)

    def test_a_changed_taxon_brings_rank_id_genus_and_group(self, path):
        labels, _ = self.save(
            path, lambda table: table.assign(taxon=table["taxon"].mask(table["label"] == "XYZ", "pavona"))
        )
        row = labels.set_index("label").loc["XYZ"]
        assert row[["taxon", "rank", "genus", "functional_group"]].tolist() == [
            "Pavona",
            "genus",
            "Pavona",
            "Hard coral",
        ]
        assert row["aphia_id"] > 0

    def test_a_species_and_a_genus_of_algae_stay_as_typed(self, path):
        def edit(table):
            return table.assign(
                taxon=table["taxon"]
                .mask(table["label"] == "XYZ", "Porites lutea")
                .mask(table["label"] == "'-", "Halimeda")
            )

        labels, problems = self.save(path, edit)
        labels = labels.set_index("label")
        assert labels.loc["XYZ", ["taxon", "rank", "genus"]].tolist() == ["Porites lutea", "species", "Porites"]
        assert labels.loc["-", ["taxon", "functional_group"]].tolist() == ["Halimeda", "Algae (fleshy)"]
        assert not len(problems)

    def test_an_unknown_taxon_is_a_problem_with_near_misses(self, path):
        labels, problems = self.save(
            path, lambda table: table.assign(taxon=table["taxon"].mask(table["label"] == "XYZ", "Pritos"))
        )
        assert "'Pritos' is not a known name; did you mean Porites" in problems["problem"].item()
        assert problems["line"].item() == 1 + list(pd.read_csv(path)["label"]).index("XYZ") + 1
        row = labels.set_index("label").loc["XYZ"]
        assert row["taxon"] == "Pritos" and row["check"] == "yes" and pd.isna(row["rank"])

    def test_an_unknown_group_is_kept_as_her_own_and_said(self, path):
        def edit(table):
            return table.assign(functional_group=table["functional_group"].mask(table["label"] == "XYZ", "Hard coarl"))

        labels, problems = self.save(path, edit)
        assert labels.set_index("label").loc["XYZ", "functional_group"] == "Hard coarl"
        assert "did you mean Hard coral?" in problems["problem"].item()

    def test_new_labels_are_added_for_a_look_and_old_ones_stay_at_the_end(self, path):
        edited = benthos.read(path)
        labels, problems = benthos.merge(benthos.propose(points([*LABELS[2:], "Turf"])), edited)
        assert labels["label"].tolist()[-2:] == [name for name in edited["label"] if name in LABELS[:2]]
        assert labels["points"].tolist()[-2:] == [0, 0]
        assert labels.set_index("label").loc["Turf", ["check", "note"]].tolist() == ["yes", "new"]
        assert len(problems) == 3 and problems["problem"].str.contains("1 new label added|no point has").all()

    def test_what_was_merged_stays_as_it_is_when_it_is_read_again(self, path):
        def edit(table):
            return table.assign(taxon=table["taxon"].mask(table["label"].isin(["XYZ", "SAND"]), "Pavona"))

        labels, _ = self.save(path, edit)
        benthos.write(labels, path)
        again, problems = benthos.merge(benthos.propose(points()), benthos.read(path))
        pd.testing.assert_frame_equal(again, labels)
        assert not len(problems) and again.set_index("label").loc["SAND", "functional_group"] == "Hard coral"

    def test_a_label_twice_and_an_empty_one_are_said(self, path):
        def edit(table):
            again = table[table["label"] == "Sand"].assign(functional_group="Rubble")
            return pd.concat([table, again, table.tail(1).assign(label="")])

        labels, problems = self.save(path, edit)
        assert labels["label"].is_unique and len(problems) == 2
        assert labels.set_index("label").loc["Sand", "functional_group"] == "Sand and sediment"

    def test_a_group_against_a_typed_coral_is_said(self, path):
        def edit(table):
            return table.assign(functional_group=table["functional_group"].mask(table["label"] == "Porites", "Sponge"))

        labels, problems = self.save(path, edit)
        assert "Porites is a hard coral, but the group is Sponge" in problems["problem"].item()
        assert pd.isna(labels.set_index("label").loc["Porites", "genus"])

    def test_a_workbook_reads_the_same(self, path, tmp_path):
        pd.read_csv(path, dtype="str", keep_default_na=False).to_excel(tmp_path / "labels.xlsx", index=False)
        proposed = benthos.propose(points())
        labels, _ = benthos.merge(proposed, benthos.read(tmp_path / "labels.xlsx"))
        pd.testing.assert_frame_equal(labels, proposed)

    def test_a_row_that_excel_ends_early_keeps_its_edit_and_one_too_long_is_said(self, path):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        at = {line.split(",")[0]: number for number, line in enumerate(lines)}
        lines[at["XYZ"]] = "XYZ,1,,,,,Rubble"
        lines[at["Sand"]] += ",one,too,many"
        path.write_text("\n".join(lines), encoding="utf-8")
        labels, problems = benthos.merge(benthos.propose(points()), benthos.read(path))
        assert labels.set_index("label").loc["XYZ", ["functional_group", "how"]].tolist() == ["Rubble", "edited"]
        assert problems.loc[problems["line"].eq(at["Sand"] + 1), "problem"].str.contains("values where").item()

    @pytest.mark.parametrize(("text", "said"), [("name,group\na,b\n", "no column label"), ("", "empty")])
    def test_refuses_what_is_no_table_of_labels(self, tmp_path, text, said):
        (tmp_path / "labels.csv").write_text(text)
        with pytest.raises(ReefcoreError, match=f"{said}.*delete the file to begin anew"):
            benthos.read(tmp_path / "labels.csv")


class TestApply:
    def test_fills_points_row_for_row_and_keeps_them_all(self):
        frame = points([*LABELS, "not in the table"])
        done = benthos.apply(frame, benthos.propose(points()))
        assert done["label_raw"].tolist() == frame["label_raw"].tolist()
        row = done.iloc[1]
        assert row[["label", "genus", "functional_group", "life_form", "broad_category"]].tolist() == [
            "Porites",
            "Porites",
            "Hard coral",
            "Branching",
            "Hard coral",
        ]
        assert done["functional_group"].iloc[-1] == "Unclear" and pd.isna(done["label"].iloc[-1])

    def test_dead_coral_is_no_genus(self):
        done = benthos.apply(points(["Dead Porites"]), propose("Dead Porites").reset_index()).iloc[0]
        assert pd.isna(done["genus"]) and done["functional_group"] == "Dead coral" and done["condition"] == "Dead"

    def test_a_growth_form_of_the_file_stands_where_the_label_has_none(self):
        frame = points(["Porites", "Por_BR", "Sand"]).assign(life_form=["plates or tables", "massive", "massive"])
        done = benthos.apply(frame, benthos.propose(frame))
        assert done["life_form"].fillna("").tolist() == ["Tabular", "Branching", ""]


def test_coverage_counts_every_point_once():
    labels = benthos.propose(points(["Porites"] * 5 + ["Acroporidae", "HC", "Sand", "Sand", "qqzzx"]))
    table = benthos.coverage(labels).set_index("identified")
    assert table["points"].to_dict() == {
        "to genus": 5,
        "to family or order": 2,
        "to functional group": 2,
        "not identified": 1,
    }
    assert table["percent"].sum() == pytest.approx(100) and table.loc["not identified", "check"] == 1


@pytest.mark.skipif(not REAL.exists(), reason="the real files are not beside this checkout")
def test_groups_of_real_labels_agree_with_what_coralnet_says():
    names = pd.read_csv(REAL / "annotations" / "coralnet_global_labelset_mac_roman.csv", encoding="mac_roman").dropna()
    mine = propose(*names["Name"].drop_duplicates())["functional_group"]
    theirs = names.drop_duplicates("Name").set_index("Name")["Functional Group"]
    of = {
        "Hard coral": ["Hard coral", "Dead coral"],
        "Algae": ["Algae (fleshy)", "Turf algae", "Crustose coralline algae"],
    }
    of |= {"Other Invertebrates": ["Other invertebrate", "Soft coral", "Sponge"], "Seagrass": ["Seagrass"]}
    for group, ours in of.items():
        said = mine[theirs.index[theirs == group]]
        said = said[said != "Unclear"]
        assert said.isin(ours).mean() > 0.94, group
