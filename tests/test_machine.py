"""What a machine adds to a site, on photos whose every pixel is known; and what is the matter with photos."""

import socket

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import benthos, covariates, cover, machine, quality, texture
from reefcore.errors import ReefcoreError
from reefcore.tables import SCORE, annotation_ids, complete, validate

COLOURS = {"Coral": (200, 120, 60), "Sand": (220, 210, 180), "Turf": (90, 110, 60)}
GROUPS = {"Coral": "Hard coral", "Sand": "Sand and sediment", "Turf": "Turf algae"}
WIDTH, HEIGHT, POINTS = 320, 240, 12


@pytest.fixture(scope="module")
def reef(tmp_path_factory):
    """14 photos of three upright bands: ten labelled by people, two by a robot, two by nobody; and one that is lost."""
    folder = tmp_path_factory.mktemp("reef")
    rng, rows, images = np.random.default_rng(0), [], []
    for number in range(15):
        bands = rng.permutation(list(COLOURS))
        edges = [0, rng.integers(60, 140), rng.integers(180, 260), WIDTH]
        pixels = np.concatenate(
            [np.tile(COLOURS[band], (HEIGHT, edges[i + 1] - edges[i], 1)) for i, band in enumerate(bands)], axis=1
        )
        name, path = f"{number:02}.png", f"a/{number:02}.png"
        if number != 14:
            (folder / "a").mkdir(exist_ok=True)
            noise = rng.normal(0, 12, pixels.shape)
            Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8)).save(folder / path)
        images.append(("mine", name, path if number != 14 else None, WIDTH, HEIGHT, f"T{number % 3}", 5.0))
        if number not in (12, 13):
            for row, column in zip(rng.integers(0, HEIGHT, POINTS), rng.integers(0, WIDTH, POINTS), strict=True):
                label = bands[np.searchsorted(edges, column, side="right") - 1]
                who = "robot" if number in (10, 11) else "person-1"
                rows.append(("mine", name, row, column, label.upper(), label, GROUPS[label], f"T{number % 3}", who))
    rows.append((*rows[0][:4], "ODD", None, None, *rows[0][7:]))
    rows.append(rows[1])
    rows.append(("mine", "00.png", HEIGHT + 5, 3, *rows[0][4:]))
    columns = ["source", "image", "row", "column", "label_raw", "label", "functional_group", "transect", "annotator"]
    points = complete(pd.DataFrame(rows, columns=columns))
    images = pd.DataFrame(images, columns=["source", "image", "photo", "width", "height", "transect", "depth"])
    measured, _ = covariates.table(images[images["photo"].notna()].assign(source="a")[["source", "image"]], folder)
    return points, images, folder, measured.assign(source="mine")


@pytest.fixture(scope="module")
def classified(reef):
    points, images, folder, measured = reef
    return machine.classify(points, images, folder, covariates=measured, points_per_photo=20)


class TestClassify:
    def test_learns_from_people_and_says_so(self, classified):
        row = classified["classifier"].iloc[0]
        assert row["accuracy"] > 0.85 and row["chosen"] and row["photos"] == 10 and row["classes"] == 3
        assert row["why"].startswith("No checkpoint or weights at hand: colour and texture.")

    def test_every_point_is_accounted_for(self, reef, classified):
        points, (row,) = reef[0], classified["classifier"].to_dict("records")
        assert "12 on photos that are not there; 1 given twice; 1 outside the photo" in row["why"]
        people = (points["annotator"] != "robot").sum()
        assert row["points"] == people - 12 - 1 - 1 == len(classified["predictions"])
        assert "never answered, and count as wrong: ODD (1)" in row["why"] and row["rare"] == 1

    def test_labels_what_no_person_did(self, reef, classified):
        made = classified["machine"]
        validate(made, "annotations")
        assert made.groupby("image").size().to_dict() == {"10.png": 12, "11.png": 12, "12.png": 20, "13.png": 20}
        robot = made["image"].isin(["10.png", "11.png"])
        assert (made.loc[robot, "label_raw"].str.capitalize() == made.loc[robot, "y_pred"]).mean() > 0.85
        assert set(made.loc[robot, "annotation_id"]) <= set(reef[0]["annotation_id"])
        assert (made["label"] == made["y_pred"]).all()
        assert (made["functional_group"] == made["label"].map(GROUPS)).all()
        assert (made.loc[~robot, "transect"] == made.loc[~robot, "image"].map({"12.png": "T0", "13.png": "T1"})).all()
        assert (made["annotation_id"] == annotation_ids(made)).all()
        assert made.filter(like=SCORE).sum(axis=1).round(4).eq(1).all()

    def test_what_is_as_far_off_as_the_furthest_twentieth_is_not_accepted(self, classified):
        made, tried = classified["machine"], classified["predictions"]
        distance = tried.loc[tried["y_true"] != "ODD", "known:distance"]
        low, high = distance.quantile([0.03, 0.07])
        assert made.loc[made["known"] >= high, "accepted"].all() and made["accepted"].mean() > 0.5
        assert not made.loc[made["known"] < low, "accepted"].any()

    def test_no_photo_is_divided_between_folds(self, reef, monkeypatch):
        points, images, folder, measured = reef
        seen = []

        def tried(made, labels, groups, folds, seed, ids):
            seen.append(pd.DataFrame({"annotation_id": ids, "group": groups}))
            raise ReefcoreError("enough")

        monkeypatch.setattr(texture, "cross_validate", tried)
        machine.classify(points, images, folder, covariates=measured)
        photo = seen[0].merge(points.drop_duplicates("annotation_id"), on="annotation_id")
        assert (photo.groupby("image")["group"].nunique() == 1).all() and photo["group"].nunique() > 5

    def test_a_photo_twice_is_not_counted_twice_and_a_cap_takes_whole_photos(self, reef):
        points, images, folder, measured = reef
        twin = measured[measured["image"] == "12.png"].assign(**measured.iloc[0][["phash", "red_sd", "blue_sd"]])
        seen = pd.concat([measured[measured["image"] != "12.png"], twin], ignore_index=True)
        made = machine.classify(points, images, folder, covariates=seen, points_per_photo=20, most=8)
        assert "look like one with points, and get none: 1." in made["classifier"]["why"].iloc[0]
        counts = made["machine"].groupby("image").size()
        assert "12.png" not in counts and len(counts) == 3 - 1 and counts.sum() <= 40
        assert "more than it labels, drawn by chance: 1." in made["classifier"]["why"].iloc[0]

    def test_is_the_same_twice(self, reef, classified):
        points, images, folder, measured = reef
        again = machine.classify(points, images, folder, covariates=measured, points_per_photo=20)
        for name, table in classified.items():
            pd.testing.assert_frame_equal(table, again[name])

    def test_tables_survive_being_written(self, classified, tmp_path):
        for name, table in (classified | {f"no {k}": v for k, v in machine.empty("Why.").items()}).items():
            table.to_parquet(tmp_path / "t.parquet")
            assert list(pd.read_parquet(tmp_path / "t.parquet").columns) == list(table.columns), name

    def test_without_photos_or_labels_the_tables_say_why(self, reef):
        points, images, folder, _ = reef
        gone = machine.classify(points, images.assign(photo=pd.Series(None, index=images.index, dtype="str")), folder)
        one = machine.classify(points[points["label"] == "Sand"], images, folder)
        for made, why in ((gone, "no point that a person labelled has its photo"), (one, "do not teach a classifier")):
            assert why in made["classifier"]["why"].iloc[0] and not made["classifier"]["chosen"].any()
            assert not len(made["machine"]) and not len(made["predictions"])

    def test_weights_that_are_not_at_hand_are_said_and_not_fetched(self, reef, monkeypatch, caplog):
        def refuse(*_):
            raise AssertionError("the network was asked")

        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        points, images, folder, _ = reef
        for given in ({"checkpoint": folder / "none.safetensors"}, {"weights": "resnet10t.c3_in1k"}):
            made = machine.classify(points, images, folder, points_per_photo=0, **given)["classifier"]
            assert "was not used" in made["why"].iloc[0] and list(made["name"]) == [texture.NAME]

    def test_better_features_are_taken(self, reef, monkeypatch):
        points, images, folder, _ = reef
        for make, chosen in ((lambda x: x.mean(axis=(1, 2)), "mean"), (lambda x: np.zeros((len(x), 2)), texture.NAME)):
            monkeypatch.setattr(machine, "frozen", lambda *_, make=make: machine.Frozen("mean", 24, 16, make))
            made = machine.classify(points, images, folder, checkpoint="x", points_per_photo=0)
            best = made["classifier"].set_index("chosen").loc[True, "name"]
            assert best == chosen and set(made["classifier"]["patch"]) == {24}
            assert made["predictions"]["run_id"].unique() == [f"site-{chosen}"]

    def test_a_checkpoint_gives_features(self, reef, tmp_path):
        from reefcore import fitting, learners, recipes

        recipe = recipes.load("vit_scratch", "sample")
        fitted = fitting.Fitted(
            learners.build(recipe, ["a", "b"]), recipe, pd.DataFrame(columns=fitting.REPEATABLE), 0, 32
        )
        model = machine.frozen(fitted.save(tmp_path / "mine.safetensors"))
        x = model.make(np.zeros((2, model.side, model.side, 3), np.uint8))
        assert (model.name, model.crop, len(x)) == ("mine", 32, 2) and np.isfinite(x).all()

    def test_a_model_of_timm_gives_features(self, monkeypatch):
        import timm

        from reefcore import weights

        monkeypatch.setattr(weights, "timm_model", lambda name, n, _: timm.create_model(name, num_classes=n))
        model = machine.frozen(weights="resnet10t")
        patches = np.random.default_rng(0).integers(0, 255, (3, model.side, model.side, 3), dtype=np.uint8)
        x = model.make(patches)
        assert x.shape == (3, 512) and x.dtype == np.float32 and (x[1:2] - model.make(patches[1:2])).max() < 1e-4


def test_patches_follow_the_size_of_the_photos():
    sizes = [(640, 480, 40), (4000, 3000, 224), (200, 150, 32), (3000, 4000, 224), (1500, 1200, 100)]
    for width, height, side in sizes:
        assert machine.patch_side(pd.DataFrame({"width": [width], "height": [height]})) == side
    assert machine.patch_side(pd.DataFrame({"width": [None], "height": [None]}, dtype="Int64")) == 224


def test_photos_that_look_the_same_and_transects_are_kept_together():
    points = pd.DataFrame({"source": "s", "image": list("aabcd"), "transect": ["T", "T", None, "T", None]})
    pairs = pd.DataFrame(
        [("s", "b", "s", "d"), ("s", "b", "s", "z")], columns=["source_a", "image_a", "source_b", "image_b"]
    )
    assert len(set(machine.together(points))) == 4
    by_pair = machine.together(points, pairs)
    assert by_pair[0] == by_pair[1] and by_pair[2] == by_pair[4] and len(set(by_pair)) == 3
    both = machine.together(points, pairs, "transect")
    assert both[0] == both[3] and both[2] == both[4] and len(set(both)) == 2


def test_a_cap_leaves_rare_classes_and_many_photos():
    labels = pd.Series(["common"] * 5000 + ["rare"] * 80)
    photos = pd.Series(np.arange(5080) % 500).astype(str)
    drawn = machine.some(labels, photos, 1000, seed=1)
    counts = labels[drawn].value_counts()
    assert counts["rare"] == 80 and 950 < counts["common"] < 1000 and len(set(drawn)) == len(drawn)
    assert photos[drawn].nunique() == 500
    assert len(machine.some(labels, photos, 9000)) == 5080


def test_the_dead_and_the_overgrown_are_no_answer_of_the_living():
    labels = ["Porites", "Dead Porites", "Turf on rubble", "Rubble", "Odd"]
    points = complete(
        pd.DataFrame({"source": "s", "image": "a", "row": range(5), "column": range(5), "label_raw": labels})
    )
    points = benthos.apply(points, benthos.propose(points))
    assert list(machine.target(points)) == ["Porites", "Porites (Dead coral)", "Rubble (Turf algae)", "Rubble", "Odd"]
    usual = machine.facts_of(points)
    assert usual["functional_group"]["Porites (Dead coral)"] == "Dead coral" and usual["genus"]["Porites"] == "Porites"
    assert list(machine.target(points.drop(columns="functional_group")))[1] == "Porites"


def simulated(seed, shift):
    """A machine that takes a fifth of the corals for turf, on 60 photos of people and 60 others with other covers."""
    rng = np.random.default_rng(seed)
    names, rates = (
        np.array(["Coral", "Sand", "Turf"]),
        np.array([[0.78, 0.02, 0.2], [0.02, 0.9, 0.08], [0.05, 0.1, 0.85]]),
    )
    parts = []
    for shares in ((0.3, 0.3, 0.4), np.array([0.3, 0.3, 0.4]) + np.array([1, 0, -1]) * shift):
        true = np.concatenate([rng.choice(3, 25, p=rng.dirichlet(20 * np.asarray(shares))) for _ in range(60)])
        said = np.array([rng.choice(3, p=rates[t]) for t in true])
        parts.append((names[true], names[said], np.repeat(np.arange(60), 25).astype(str)))
    (true, said, image), (hidden, answered, other) = parts
    points = complete(
        pd.DataFrame({"source": "s", "image": image, "row": np.arange(1500), "column": 0, "label_raw": true})
    )
    points["label"] = points["label_raw"]
    predictions = pd.DataFrame(
        {"run_id": "r", "annotation_id": points["annotation_id"], "y_true": true, "y_pred": said}
    )
    found = pd.DataFrame({"source": "m", "image": other, "label": answered, "y_pred": answered})
    return points, predictions, found, pd.Series(hidden).value_counts(normalize=True).sort_index() * 100


class TestCover:
    @pytest.mark.parametrize("shift", [0, 0.1])
    def test_correction_takes_most_of_the_bias_away(self, shift):
        raw, corrected, covered = [], [], []
        for seed in range(12):
            points, predictions, found, truth = simulated(seed, shift)
            table = machine.corrected_cover(predictions, found, points, n=200).set_index("label")
            raw.append(table["percent"] - truth)
            corrected.append(table["corrected"] - truth)
            covered.append((table["ci_low"] <= truth) & (truth <= table["ci_high"]))
        before, after = (np.abs(np.mean(errors, axis=0)).max() for errors in (raw, corrected))
        assert after < 0.4 * before  # once alone leaves 0.8 of it where the machine's reef is another
        assert np.mean(covered) > 0.85

    def test_correction_adds_up_and_says_how_many(self):
        points, predictions, found, _ = simulated(0, 0)
        table = machine.corrected_cover(predictions, found, points, n=50)
        assert np.isclose(table["corrected"].sum(), 100) and np.isclose(table["percent"].sum(), 100)
        assert table["count"].sum() == table["total"].iloc[0] == 1500 and (table["images"] == 60).all()
        assert machine.corrected_cover(predictions, found.head(0), points).empty
        with pytest.raises(ReefcoreError, match="labels that no person gave, such as Odd"):
            machine.corrected_cover(predictions, found.assign(y_pred="Odd"), points)

    def test_answers_that_nobody_was_given_stay_as_they_are(self):
        confusion = np.array([[[8.0, 2, 0], [0, 10, 0], [0, 0, 0]]])  # nothing is known of the third
        found = machine._unfolded(confusion, np.array([[0.4, 0.4, 0.2]]))[0]
        assert found[2] == 0.2 and np.isclose(found.sum(), 1) and 0.4 < found[0] < 0.51

    def test_what_is_no_benthos_is_not_in_a_corrected_cover(self):
        points, predictions, found, _ = simulated(0, 0)
        whole = machine.corrected_cover(predictions, found, points, n=50).set_index("label")
        points["functional_group"] = points["label"].map({"Sand": "Not benthos"}).fillna("Other")
        rest = machine.corrected_cover(predictions, found, points, n=50).set_index("label")
        assert list(rest.index) == ["Coral", "Turf"] and np.isclose(rest["corrected"].sum(), 100)
        assert np.isclose(
            rest.loc["Coral", "corrected"], 100 * whole["corrected"]["Coral"] / whole["corrected"][rest.index].sum()
        )
        assert rest["total"].iloc[0] == whole["count"][rest.index].sum()

    def test_people_stand_beside_people_and_machine(self, reef, classified):
        points, found = reef[0], classified["machine"]
        table = machine.beside(points, found, "functional_group", n=100).set_index("functional_group")
        people = points[points["annotator"] != "robot"]
        alone = cover.percent_cover(people, "functional_group", "all", n=100).set_index("functional_group")
        assert np.allclose(table.loc[alone.index, "human"], alone["percent"])
        assert np.isclose(table["human and machine"].sum(), 100)
        assert np.allclose(table["difference"], table["machine"] - table["human"])
        assert (table["images human"] == 11).all() and (table["images machine"] == 4).all()
        nothing = machine.beside(points, found.head(0), "functional_group", n=100)
        assert nothing["machine"].isna().all() and (nothing["human"] == nothing["human and machine"]).all()


class TestWorth:
    @pytest.fixture
    def made(self):
        """Photo a is strange, b in doubt, b2 looks as b, c clear, d may be rare."""
        scores = {"a": (0.9, 0.1, 0), "b": (0.5, 0.5, 0), "b2": (0.5, 0.49, 0.01), "c": (1, 0, 0), "d": (0.3, 0, 0.7)}
        rows = [("s", name, name != "a", *p) for name, p in scores.items() for _ in range(4)]
        names = [f"{SCORE}{name}" for name in ("Coral", "Sand", "Rare")]
        predictions = pd.DataFrame({"y_true": ["Coral"] * 50 + ["Sand"] * 50 + ["Rare"] * 6})
        return pd.DataFrame(rows, columns=["source", "image", "accepted", *names]), predictions

    def test_strange_unsure_and_rare_come_first_with_the_reason(self, made):
        table = machine.worth(*made, images=5)
        assert list(table["image"][:3]) == ["d", "a", "b"] and list(table["rank"]) == [1, 2, 3, 4, 5]
        why = table.set_index("image")["why"]
        assert "4 of 4 points look like nothing that was labelled" in why["a"]
        assert "4 of 4 points are in doubt, most often between Coral and Sand" in why["b"]
        assert "4 may be Rare, with only 6 labelled points" in why["d"]

    def test_photos_that_look_the_same_are_listed_once(self, made):
        hashes = {"a": "0" * 16, "b": "f" * 16, "b2": "f" * 15 + "e", "c": "0f" * 8, "d": "f0" * 8}
        measured = pd.DataFrame({"source": "s", "image": list(hashes), "phash": list(hashes.values())})
        measured[["red_sd", "green_sd", "blue_sd"]] = 20.0
        listed = list(machine.worth(*made, images=9, covariates=measured)["image"])
        assert "b" in listed and "b2" not in listed and len(listed) == 4
        labelled = measured.tail(1).assign(image="x")  # by people: not in the machine's table
        listed = machine.worth(*made, images=9, covariates=pd.concat([measured, labelled], ignore_index=True))["image"]
        assert "d" not in set(listed) and len(listed) == 3

    def test_flags_count_what_is_like_nothing(self, made):
        table = machine.flags(made[0])
        assert table.iloc[0].to_dict() == {"source": "s", "image": "a", "points": 4, "flagged": 4, "share": 1.0}
        assert table["flagged"].sum() == 4

    def test_an_hour_holds_some_photos(self):
        assert machine.per_hour(25, 8) == 18 and machine.per_hour(1000, 60) == 1
        with pytest.raises(ReefcoreError):
            machine.per_hour(0)

    def test_nothing_is_listed_of_nothing(self, made):
        assert machine.worth(machine.empty()["machine"], made[1]).empty


class TestQuality:
    @pytest.fixture
    def measured(self):
        rng = np.random.default_rng(0)
        n = 12
        table = pd.DataFrame({"source": "s", "image": [f"{i:02}.jpg" for i in range(n)], "width": 2000, "height": 1500})
        table["megapixels"], table["brightness"], table["sharpness"] = 3.0, 120.0, np.exp(rng.normal(6, 0.2, n))
        table[["red", "green", "blue"]] = rng.uniform(60, 140, (n, 3))
        table[["red_sd", "green_sd", "blue_sd"]] = 30.0
        table["phash"] = [f"{int(value):016x}" for value in rng.integers(0, 2**63, n)]
        return table

    def test_ordinary_photos_have_no_flag(self, measured):
        assert quality.photos(measured).empty and quality.photos(measured.head(0)).empty

    def test_a_site_of_small_photos_has_no_flag_on_each(self, measured):
        measured["megapixels"] *= 0.05 / measured["megapixels"].median()
        assert not quality.photos(measured)["flag"].eq("small").any()
        measured.loc[2, "megapixels"] = 0.01
        assert quality.photos(measured).query("flag == 'small'")["image"].tolist() == ["02.jpg"]

    def test_each_flag_says_value_and_threshold(self, measured):
        measured.loc[0, "brightness"], measured.loc[1, "brightness"], measured.loc[2, "megapixels"] = 20.0, 240.0, 0.4
        measured.loc[3, "sharpness"] = 60.0  # sharp enough for another site
        lost = pd.DataFrame([("s", "99.jpg", "this photo ends early")], columns=["source", "image", "reason"])
        table = quality.photos(measured, lost).set_index("image")
        flags = {
            "00.jpg": "dark",
            "01.jpg": "overexposed",
            "02.jpg": "small",
            "03.jpg": "blurred",
            "99.jpg": "unreadable",
        }
        assert table["flag"].to_dict() == flags
        assert table.loc["00.jpg", ["value", "of"]].tolist() == [20, 40] and "20 of 255" in table.loc["00.jpg", "text"]
        assert table.loc["99.jpg", "text"] == "this photo ends early"

    def test_twins_are_named_and_warned_of_where_both_are_labelled(self, measured):
        for name in ("phash", "red", "green", "blue"):
            measured.loc[1, name] = measured.loc[0, name]
        measured.loc[3, "phash"] = f"{int(measured.loc[2, 'phash'], 16) ^ 0b111:016x}"
        points = pd.DataFrame({"source": "s", "image": ["02.jpg", "03.jpg", "00.jpg"]})
        table = quality.photos(measured, points=points)
        assert list(table["flag"]) == ["duplicate"] * 2 + ["near-duplicate"] * 2
        assert table["text"][0] == "the same photo as 01.jpg"
        assert (
            table["text"][2]
            == "looks like 03.jpg (3 of 64 bits differ); both have points, and are not independent samples"
        )
