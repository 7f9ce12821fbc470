"""Frames are divided by sequence, cut in order, and a classifier of them answers for each patch once."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import figures, losses, profiles, recipes, substrate
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet, write_parquet
from reefcore.substrate import compared, grid, training
from reefcore.tables import SCORE, SUBSTRATES
from reefcore.workflow import build, steps, survey

COLOURS = np.array([[40, 60, 120], [200, 120, 90], [120, 170, 110]])  # of No-Deploy, Coral, Deploy
TINY = {"epochs": 4, "batch_size": 48, "input_size": 32, "lr": 0.01, "warmup_epochs": 0}


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Try fewer ways to divide sequences than a survey does: those of the tests are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "DRAWS", 300)
        yield


def labelled(sequences, each, seed=0):
    """Make tables of frames and patch labels; a frame is Deploy where more than half of its patches are."""
    rng, frames, labels = np.random.default_rng(seed), [], []
    for s in range(sequences):
        for i in range(each):
            name, deploy = f"s{s}/f{i:02d}.png", (s + i) % 2 == 0
            kinds = rng.choice(3, 28, p=(0.2, 0.1, 0.7) if deploy else (0.7, 0.1, 0.2))
            frames.append((name, f"s{s}", "Deploy" if (kinds == 2).sum() > 14 else "No-Deploy"))
            labels += [(name, k // 7, k % 7, SUBSTRATES[kind]) for k, kind in enumerate(kinds)]
    return (
        pd.DataFrame(frames, columns=["frame", "sequence", "label"]),
        pd.DataFrame(labels, columns=["frame", "row", "column", "label"]),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Draw frames whose patches have the colour of their substrate, under noise."""
    folder, rng = tmp_path_factory.mktemp("survey"), np.random.default_rng(1)
    frames, labels = labelled(6, 4)
    for name, rows in labels.groupby("frame"):
        kinds = rows["label"].map(SUBSTRATES.index).to_numpy().reshape(4, 7)
        pixels = COLOURS[kinds].repeat(20, 0).repeat(20, 1) + rng.normal(0, 25, (80, 140, 3))
        (folder / "frames" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / "frames" / name)
    return folder, frames, labels


@pytest.fixture(scope="module")
def trained(made):
    folder, frames, labels = made
    pixels, places, _ = training.cut(folder / "frames", sorted(frames["frame"]), 32)
    splits = training.split(frames, labels)
    recipe = training.recipe("resnet18", changes=TINY)
    shuffled = labels.sample(frac=1, random_state=0)
    done = training.run(recipe, pixels, places, shuffled, splits, frames=frames, seed=3, about={"notice": "a test"})
    return done, pixels, places, splits


@pytest.mark.parametrize("sequences, each", [(3, 2), (12, 30), (7, 5)])
def test_no_sequence_is_in_two_parts(sequences, each):
    frames, labels = labelled(sequences, each)
    found = training.split(frames.sample(frac=1, random_state=1), labels)
    assert found["frame"].tolist() == sorted(frames["frame"]) and set(found["part"]) == {"train", "val", "test"}
    assert (frames.merge(found).groupby("sequence")["part"].nunique() == 1).all()
    pd.testing.assert_frame_equal(found, training.split(frames, labels.sample(frac=1, random_state=2)))


def test_parts_have_their_shares_of_frames_and_classes_as_far_as_sequences_allow():
    frames, labels = labelled(12, 30)
    coral = labels["frame"].str.startswith(("s0/", "s1/", "s2/")) & (labels["label"] == "Deploy")
    labels = labels.assign(label=labels["label"].mask(coral, "Coral"))  # most coral is in three of the sequences
    part = labels["frame"].map(training.split(frames, labels).set_index("frame")["part"])
    shares = part.value_counts(normalize=True)
    assert shares["train"] == pytest.approx(0.6, abs=0.1) and shares[["val", "test"]].min() > 0.15
    by_class = pd.crosstab(part, labels["label"], normalize="index")["Coral"]
    assert by_class.max() < 2 * by_class.min()  # at random, a part often has none of the three
    with pytest.raises(ReefcoreError, match=r"2 sequences cannot be divided .*; bring three or more"):
        training.split(*labelled(2, 3))


def test_a_sequence_whose_frames_have_no_label_is_divided_and_a_frame_of_no_sequence_refused():
    frames, labels = labelled(6, 4)
    frames = frames.assign(label=np.where(np.arange(len(frames)) % 3, "Deploy", "No-Deploy"))
    frames["label"] = frames["label"].mask(frames["sequence"] == frames["sequence"].iloc[0])  # one may be empty
    assert set(training.split(frames, labels)["part"]) == {"train", "val", "test"}
    frames["sequence"] = frames["sequence"].mask(frames.index == 5)
    with pytest.raises(ReefcoreError, match=f"frame {frames['frame'][5]} is of no sequence"):
        training.split(frames, labels)


def test_the_random_split_has_as_many_patches_in_each_part_but_splits_frames():
    frames, labels = labelled(6, 4)
    splits = training.split(frames, labels)
    by_patch = training.random_split(labels, splits, seed=1)
    expected = labels["frame"].map(splits.set_index("frame")["part"]).value_counts().to_dict()
    assert by_patch["part"].value_counts().to_dict() == expected and not by_patch.duplicated(training.PLACE).any()
    assert (by_patch.groupby("frame")["part"].nunique() == 3).mean() > 0.9
    assert not by_patch.equals(training.random_split(labels, splits, seed=2))


def test_patches_are_cut_in_order_and_frames_that_cannot_be_used_are_listed(made, tmp_path, caplog):
    folder, frames, _ = made
    good = frames["frame"].iloc[0]
    for name in ("a.png", "d.png"):
        (tmp_path / name).write_bytes((folder / "frames" / good).read_bytes())
    (tmp_path / "b.png").write_bytes((folder / "frames" / good).read_bytes()[:300])
    Image.new("RGB", (6, 6)).save(tmp_path / "c.png")
    Image.new("RGB", (40, 80)).save(tmp_path / "e.png")
    names = ["a.png", "b.png", "c.png", "d.png", "e.png", "f.png"]
    out = np.zeros((6 * 28, 16, 16, 3), np.uint8)
    pixels, places, skipped = training.cut(tmp_path, names, 16, workers=2, out=out)
    assert pixels is out and places["frame"].unique().tolist() == ["a.png", "d.png", "e.png"]
    assert skipped["frame"].tolist() == ["b.png", "c.png", "f.png"] and "smaller than the grid" in skipped["reason"][1]
    expected = grid.read(tmp_path / "d.png", 16)
    of_d = places[places["frame"] == "d.png"]
    assert np.array_equal(pixels[of_d["patch"]], expected) and of_d["patch"].tolist() == list(range(84, 112))
    assert of_d[["row", "column"]].to_numpy().tolist() == [[k // 7, k % 7] for k in range(28)]
    assert "3 of 6 frames are left out; the first: b.png (" in caplog.text and "1 of 6 frames are higher" in caplog.text
    whole, places, _ = training.cut(tmp_path, ["a.png"], 16, 1, 1)
    assert np.array_equal(whole[0], grid.read(tmp_path / "a.png", 16, 1, 1)[0]) and len(places) == 1
    for none in ([], ["f.png"]):
        with pytest.raises(ReefcoreError, match=rf"none of {len(none)} frames can be used.*; check the folder of fr"):
            training.cut(tmp_path, none, 16)


def test_every_patch_of_validation_and_test_is_predicted_once_and_in_order(made, trained):
    from reefcore import fitting

    (done, pixels, places, splits), labels = trained, made[2]
    told = done.predictions
    held = places.merge(splits).query("part != 'train'")
    assert len(told) % TINY["batch_size"] and len(told) == len(held)  # a loader that drops the last batch would show
    for part, rows in told.groupby("part"):
        here = held[held["part"] == part]
        assert rows[training.PLACE].to_numpy().tolist() == here[training.PLACE].to_numpy().tolist()
        scores = rows[[SCORE + name for name in SUBSTRATES]].to_numpy()
        alone = fitting.predict(done.fitted, np.ascontiguousarray(pixels[here["patch"].to_numpy()][::-1]))[::-1]
        assert np.allclose(scores, alone, atol=1e-5) and np.allclose(scores.sum(axis=1), 1, atol=1e-5)
        assert rows["y_pred"].tolist() == [SUBSTRATES[k] for k in scores.argmax(axis=1)]
    truth = told.merge(labels, on=training.PLACE)
    assert (truth["y_true"] == truth["label"]).all() and set(told["split"]) == {"sequence"}
    assert (told["y_true"] == told["y_pred"]).mean() > 0.9  # colours are easily learnt
    assert done.facts["train_patches"].item() == len(places) - len(held) and len(done.history) == TINY["epochs"]


def test_a_checkpoint_knows_its_grid_its_alpha_and_its_notice(made, trained, tmp_path):
    from reefcore import fitting

    done, pixels, places, splits = trained
    again = fitting.load(done.fitted.save(tmp_path / "one.safetensors"))
    assert again.classes == list(SUBSTRATES) and np.array_equal(
        fitting.predict(again, pixels[:30]), fitting.predict(done.fitted, pixels[:30])
    )
    about = again.about
    assert (about["run"], about["rows"], about["columns"], about["notice"]) == ("resnet18", 4, 7, "a test")
    right = training.decision.shares(done.predictions.query("part == 'val'"), made[1])
    assert 0 < about["alpha"] < 1 and ((right["deploy"] > about["alpha"]) == right["truth"]).mean() > 0.9
    options = {"frames": made[1], "seed": 3, "about": {"notice": "a test"}}
    twice = training.run(done.fitted.recipe, pixels, places, made[2], splits, **options)
    assert twice.fitted.save(tmp_path / "two.safetensors").read_bytes() == (tmp_path / "one.safetensors").read_bytes()
    pd.testing.assert_frame_equal(twice.predictions, done.predictions)


def test_what_cannot_be_trained_on_is_said(made, trained):
    (done, pixels, places, splits), labels = trained, made[2]
    for change, said in (
        ({"Coral": "coral"}, "'coral' is no class of a patch of s"),
        ({"Coral": "Deploy"}, "is Coral;"),
    ):
        with pytest.raises(ReefcoreError, match=said):
            training.run(done.fitted.recipe, pixels, places, labels.replace({"label": change}), splits)
    with pytest.raises(ReefcoreError, match="there is no recipe 'resnet19'"):
        training.recipe("resnet19")


PROFILE = """
kind: full
notice: "A survey of a test."
data: {folder}
seed: 0
crop: 32
recipes: []
train_sets: []
resamples: 10
recipe_changes: {{weights: scratch, model: test_resnet, epochs: 1, warmup_epochs: 0, input_size: 32}}
substrate: {{recipes: [resnet18], patch_recipes: [resnet18], frame_recipes: [resnet18], side: 32}}
"""


def test_a_survey_of_ones_own_goes_through_the_steps(made, tmp_path, monkeypatch):
    folder, frames, labels = made
    (tmp_path / "frames").symlink_to(folder / "frames")
    file = tmp_path / "mine.yaml"
    file.write_text(PROFILE.format(folder=tmp_path))
    profile = profiles.load(file)
    with pytest.raises(
        ReefcoreError, match=r"needs frames\.parquet, patch_labels\.parquet, observations\.parquet of a"
    ):
        steps.ensure(profile, tmp_path, "substrate_splits")
    write_parquet(frames, tmp_path / "frames.parquet")
    write_parquet(labels, tmp_path / "patch_labels.parquet")
    write_parquet(pd.DataFrame({"observer": ["A"], "order": ["blind"]}), tmp_path / "observations.parquet")
    steps.key.cache_clear()
    with pytest.raises(ReefcoreError, match=r"observations\.parquet: the column position is missing"):
        steps.ensure(profile, tmp_path, "substrate_splits")
    seen = frames[["frame", "label"]].assign(observer="A", order="blind", position=np.arange(len(frames)) + 1)
    write_parquet(seen, tmp_path / "observations.parquet")
    steps.key.cache_clear()
    record = steps.ensure(profile, tmp_path, "substrate", 1)
    told = {name: read_parquet(tmp_path / name) for name in record["outputs"] if "predictions/" in name}
    assert list(told) == [
        f"{of}_predictions/resnet18{end}.parquet"
        for of, end in (("patch", ""), ("patch", ".patch"), ("frame", ".frame"))
    ]
    by_sequence, by_patch, of_frames = told.values()
    assert set(by_patch["split"]) == {"patch"} and len(by_patch) == len(by_sequence)
    assert list(of_frames) == ["run_id", "part", "frame", "y_true", "y_pred", "score:No-Deploy", "score:Deploy"]
    splits = read_parquet(tmp_path / "substrate_splits.parquet")
    assert sorted(of_frames["frame"]) == sorted(splits.loc[splits["part"] != "train", "frame"])
    assert (
        not list((tmp_path / "progress").glob("*"))
        and "frame_patches.npy" in steps.plan(profile)["frame_patches"].outputs
    )
    assert steps.is_fresh(profile, tmp_path, "substrate-resnet18.frame")


def test_chapters_find_the_steps_of_a_survey_and_wrong_settings_are_refused(tmp_path):
    smoke = profiles.load("smoke")
    code = 'p = workflow.open("smoke")\np.frames\np.table("substrate_runs")\np.table("observations")'
    assert build.needs(code, smoke) == ("survey", "substrate")
    assert steps.plan(smoke)["survey"].outputs[-2:] == ("frames", "tracks")
    text = PROFILE.format(folder=tmp_path)
    for wrong, said in (
        (("side:", "sides:"), "unknown key 'sides' under substrate"),
        (("[resnet18], p", "[vit], p"), "the task of vit is genus"),
    ):
        file = tmp_path / f"{said[-6:].strip()}.yaml"
        file.write_text(text.replace(*wrong))
        with pytest.raises(ReefcoreError, match=said):
            survey.plan(profiles.load(file))
    file.write_text(text.partition("substrate:")[0])
    assert survey.plan(profiles.load(file)) == [] and set(recipes.names("substrate")) >= {"substrate/resnet18"}


def test_a_random_split_is_measured_by_how_much_it_flatters():
    rng, (_, labels) = np.random.default_rng(0), labelled(4, 10)
    told = {}
    for right in (0.6, 0.9):
        y = labels["label"].to_numpy(object)
        said = np.where(rng.random(len(y)) < right, y, rng.permutation(y))
        told[right] = labels.assign(y_true=y, y_pred=said, part=np.where(rng.random(len(y)) < 0.5, "val", "test"))
    table = compared.flattery(told[0.6], told[0.9], 200, seed=1)
    assert (table["ci_low"] < table["difference"]).all() and (table["difference"] < table["ci_high"]).all()
    assert table["ci_low"].min() > 0.1 and table["patches"].tolist() == ["own test"] * 2 + ["the same"] * 2
    for row in table.itertuples():
        parts = [one if row.patches == "the same" else one[one["part"] == "test"] for one in told.values()]
        value = [substrate.score(part["y_true"], part["y_pred"])[row.metric] for part in parts]
        assert (row.by_sequence, row.by_patch) == pytest.approx(value)
    same = compared.flattery(told[0.9], told[0.9], 200, seed=1).set_index("patches")
    assert (same["difference"] == 0).all() and (same.loc["own test", "ci_low"] < 0).all()
    assert (same.loc["the same", ["ci_low", "ci_high"]] == 0).all(axis=None)  # drawn together


def test_balancing_twice_turns_the_tail_round():
    table = compared.doubled(pd.Series({"Deploy": 60, "Coral": 10, "No-Deploy": 30})).set_index("class")
    assert table["as they are"].tolist() == pytest.approx([0.6, 0.1, 0.3])
    assert table[["drawn", "weighted"]].to_numpy() == pytest.approx(np.full((3, 2), 1 / 3))
    weights = losses.class_weights([60, 10, 30], None)  # the loss of patches that are drawn equally often
    assert table["both"].tolist() == pytest.approx(weights / weights.sum()) and table["both"].idxmax() == "Coral"


def test_a_frame_is_drawn_with_its_grid_and_what_is_wrong_stands_out():
    truth = np.array(["Deploy", "Coral", "No-Deploy", "Deploy"] * 7, object)
    said = truth.copy()
    said[[3, 8]] = "Coral"
    figure = figures.frame_grid(np.zeros((81, 143, 3), np.uint8), {"expert": truth, "model": said}, truth)
    left, right = figure.axes
    assert [text.get_text() for text in left.texts[:4]] == ["D", "C", "N", "D"] and len(right.texts) == 28
    broken = [patch.get_linestyle() not in ("-", "solid") for patch in right.patches]
    assert np.flatnonzero(broken).tolist() == [3, 8] and {p.get_linestyle() for p in left.patches} <= {"-", "solid"}
    first, last = right.patches[0], right.patches[-1]
    assert first.get_x() < 4 and last.get_x() + last.get_width() > 136 and last.get_y() + last.get_height() > 74


def test_training_has_a_sequence_of_each_site_where_it_can():
    frames, labels = labelled(12, 5)
    frames["site"] = frames["sequence"].map({f"s{i}": f"site {i // 2}" for i in range(12)})
    for seed in range(4):
        found = frames.merge(training.split(frames, labels, seed))
        assert (
            found.query("part == 'train'")["site"].nunique() == 6
            and found.groupby("sequence")["part"].nunique().max() == 1
        )
    alone = frames.assign(site=frames["sequence"])  # it cannot
    assert set(training.split(alone, labels)["part"]) == {"train", "val", "test"}


def test_an_interval_over_few_sequences_holds_the_truth_less_often_than_it_says():
    few = {k: compared.holds(k) for k in (2, 3, 6, 40)}
    assert few[2] == pytest.approx(1 / 2, abs=0.04)  # it reaches from one to the other: each may lie on either side
    assert few[3] == pytest.approx(3 / 4, abs=0.04)  # of three all on one side, it misses
    assert few[3] < few[6] < few[40] and 0.9 < few[40] < 0.96
    assert np.isnan(compared.holds(1)) and compared.holds(2) == few[2]
