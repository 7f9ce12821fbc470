"""A run answers for every test point, looks at none of them before, and gives the same bytes twice."""

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from reefcore import predictions, recipes, training
from reefcore.errors import ReefcoreError
from reefcore.patches import ArrayPatches

torch = pytest.importorskip("torch")

GENERA = np.array(["Acropora", "Montipora", "Pavona", "Porites"])
FAMILIES = dict(zip(GENERA, ["Acroporidae", "Acroporidae", "Agariciidae", "Poritidae"], strict=True))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def small(name="vit", **changes):
    """Change a sample recipe for a test: a shallow ViT, few epochs, every patch taken."""
    recipe = recipes.load(name)
    options = {"epochs": 2, "batch_size": 16, "train_per_class": 0, "min_per_class": 0}
    options["model_args"] = recipe.model_args | {"depth": 1}
    return dataclasses.replace(recipe, **options | changes)


@pytest.fixture(scope="module")
def survey():
    """Make annotations, splits and patches of four genera, one of them never trained on, one trained on once."""
    rng = np.random.default_rng(0)
    parts = np.repeat(["train", "val", "test"], [120, 30, 60])
    y = rng.integers(0, 3, len(parts))
    y[parts == "test"] = rng.integers(0, 4, 60)  # Porites is only in the test part
    y[(parts == "train") & (y == 2)] = 1
    y[0] = 2  # Pavona is trained on once
    pixels = np.clip(60 * y[:, None, None, None] + rng.normal(0, 40, (len(y), 32, 32, 3)), 0, 255).astype(np.uint8)
    annotations = pd.DataFrame({"annotation_id": [f"{i:04d}" for i in range(len(y))], "label": GENERA[y]})
    ids = annotations["annotation_id"]
    splits = pd.concat(
        [pd.DataFrame({"annotation_id": ids, "scheme": scheme, "part": parts}) for scheme in ("S1", "S3")]
        + [pd.DataFrame({"annotation_id": ids[150:180], "scheme": "W", "part": "test"})]
    )
    return annotations, splits, ArrayPatches(pixels, ids)


def run(survey, recipe, train_set="S3", **options):
    annotations, splits, patches = survey
    options = {"annotations": annotations, "splits": splits, "patches": patches} | options
    return training.run(recipe, train_set, **options)


def ids_of(splits, scheme, part):
    return set(splits[(splits["scheme"] == scheme) & (splits["part"] == part)]["annotation_id"])


def test_importing_training_leaves_torch_alone():
    code = "import sys, reefcore.training, reefcore.predictions, reefcore.recipes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_run_is_four_tables_and_a_model(survey):
    annotations, splits, _ = survey
    done = run(survey, small(), about={"notice": "made up"})
    table = done.predictions
    assert table["run_id"].unique().tolist() == ["vit-S3-S3", "vit-S3-W"]
    for scheme in ("S3", "W"):
        answered = table[table["run_id"] == f"vit-S3-{scheme}"]["annotation_id"]
        assert set(answered) == ids_of(splits, scheme, "test") and answered.is_unique
    truth = annotations.set_index("annotation_id")["label"]
    assert (table["y_true"] == table["annotation_id"].map(truth)).all()
    scores = table.filter(like="score:")
    assert scores.columns.tolist() == ["score:Acropora", "score:Montipora", "score:Pavona"]
    assert "Porites" in set(table["y_true"]) and "Porites" not in set(table["y_pred"])
    assert (table["y_pred"] == scores.columns.str.removeprefix("score:").to_numpy()[scores.to_numpy().argmax(1)]).all()
    val = done.validation
    assert set(val["run_id"]) == {"vit-S3-val"} and set(val["annotation_id"]) == ids_of(splits, "S3", "val")
    assert list(val) == list(table) and (val["y_true"] == val["annotation_id"].map(truth)).all()
    assert done.history["run"].tolist() == ["vit-S3"] * 2 and done.history["epoch"].tolist() == [1, 2]
    facts = done.facts.iloc[0]
    assert facts[["run", "recipe", "train_set", "seed", "epochs"]].tolist() == ["vit-S3", "vit", "S3", 0, 2]
    assert facts["train_patches"] == 120 and facts["parameters"] == sum(
        p.numel() for p in done.fitted.learner.parameters()
    )
    assert facts["best_epoch"] in (1, 2) and facts["seconds"] > 0 and facts["memory_mb"] > 50
    assert facts["device"] in ("cpu", "cuda") and done.fitted.about == {"run": "vit-S3", "notice": "made up"}


def test_classes_can_be_left_out_of_training_and_are_tested_all_the_same(survey):
    done = run(survey, small(), without=["Montipora"])
    assert done.predictions.filter(like="score:").columns.tolist() == ["score:Acropora", "score:Pavona"]
    assert "Montipora" in set(done.predictions["y_true"]) and "Montipora" not in set(done.validation["y_true"])
    assert "Montipora" not in set(done.predictions["y_pred"]) and len(done.validation)
    with pytest.raises(ReefcoreError, match="Galaxea cannot be left out of S3: there are no points of it"):
        run(survey, small(), without=["Galaxea"])


def test_nothing_of_the_test_part_is_seen_while_fitting(survey, tmp_path):
    annotations, splits, patches = survey
    done = run(survey, small())
    test = annotations["annotation_id"].isin(ids_of(splits, "S3", "test") | ids_of(splits, "W", "test")).to_numpy()
    shuffled = annotations.copy()
    shuffled.loc[test, "label"] = np.random.default_rng(1).permutation(annotations["label"][test])
    black = patches.array.copy()
    black[test] = 0
    other = run(survey, small(), annotations=shuffled, patches=ArrayPatches(black, patches.ids))
    files = [d.fitted.save(tmp_path / str(i)).read_bytes() for i, d in enumerate((done, other))]
    assert files[0] == files[1]
    assert not done.predictions.equals(other.predictions)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(survey, tmp_path):
    recipe = small(train_per_class=20, min_per_class=5)
    files = []
    for seed in (0, 0, 1):
        done = run(survey, recipe, "S1", seed=seed)
        path = predictions.write(done.predictions, tmp_path / f"{len(files)}.parquet")
        files.append((path.read_bytes(), done.fitted.save(tmp_path / "c").read_bytes()))
    assert files[0] == files[1] and files[0][0] != files[2][0] and files[0][1] != files[2][1]
    assert set(done.predictions["run_id"]) == {"vit.seed1-S1-S1"} and done.facts["run"].item() == "vit.seed1-S1"


def test_the_order_of_rows_does_not_matter(survey):
    annotations, splits, patches = survey
    order = np.random.default_rng(1).permutation(len(patches.ids))
    moved = ArrayPatches(patches.array[order], np.array(patches.ids)[order])
    other = (annotations.iloc[::-1], splits.sample(frac=1, random_state=0), moved)
    pd.testing.assert_frame_equal(run(survey, small(), "S1").predictions, run(other, small(), "S1").predictions)


def test_families_are_learnt_alone_or_beside_genera(survey):
    alone = run(survey, small("vit_family")).predictions
    assert set(alone["run_id"]) == {"vit_family-S3-S3", "vit_family-S3-W"} and "Poritidae" in set(alone["y_true"])
    assert alone.filter(like="score:").columns.tolist() == ["score:Acroporidae", "score:Agariciidae"]
    both = run(survey, small("vit_two_heads"))
    kinds = {name: part.dropna(axis=1) for name, part in both.predictions.groupby("run_id")}
    assert set(kinds) == {f"vit_two_heads{kind}-S3-{test}" for kind in ("", ".family") for test in ("S3", "W")}
    genus, family = kinds["vit_two_heads-S3-S3"], kinds["vit_two_heads.family-S3-S3"]
    assert genus["y_true"].map(FAMILIES).tolist() == family["y_true"].tolist()
    assert genus.filter(like="score:").shape[1] == 3 and family.filter(like="score:").shape[1] == 2
    assert np.allclose(family.filter(like="score:").sum(axis=1), 1, atol=1e-5)
    assert set(both.validation["run_id"]) == {"vit_two_heads-S3-val"}


def test_missing_parts_are_worked_around_and_said(survey, caplog):
    annotations, splits, patches = survey
    recipe = small(epochs=1, warmup_epochs=0)
    no_val = splits[splits["part"] != "val"]
    done = run(survey, recipe, splits=no_val[no_val["scheme"] != "W"])
    assert done.predictions["run_id"].unique().tolist() == ["vit-S3-S3"]
    assert done.validation.empty and list(done.validation) == list(done.predictions)
    few = run(survey, recipe, "S1", patches=ArrayPatches(patches.array[5:], patches.ids[5:]))
    assert len(few.predictions) == 60 and few.facts["train_patches"].item() == 115
    assert "5 of 210 points of S1 have no patch" in caplog.text
    for options, said in (
        ({"splits": splits[splits["part"] != "test"]}, "none of S1 has test points"),
        ({"splits": splits[splits["part"] != "train"]}, "not enough for vit"),
        ({"train_set": "S9"}, "training set 'S9'"),
        ({"annotations": annotations[:100]}, "110 points of the splits have no label"),
    ):
        with pytest.raises(ReefcoreError, match=said):
            run(survey, recipe, **{"train_set": "S1"} | options)


def test_common_classes_are_capped_in_training_and_validation(survey, monkeypatch):
    from reefcore import fitting

    annotations, given, fit = survey[0], [], fitting.fit
    monkeypatch.setattr(fitting, "fit", lambda *values, **options: given.append(values) or fit(*values, **options))
    run(survey, small(train_per_class=20, val_per_class=2))
    _, _, (train, y), (val, val_y), classes = given[0]
    assert np.bincount(y).tolist() == [20, 20, 1] and np.bincount(val_y).tolist() == [2, 2, 2]
    assert train.max() < 120 <= val.min() and val.max() < 150  # the test part begins at 150
    labels = annotations["label"].to_numpy()
    assert (labels[train] == np.array(classes)[y]).all() and (labels[val] == np.array(classes)[val_y]).all()
    frame = annotations.assign(patch=0)
    kept = training.capped(frame, 5, np.random.default_rng(0))
    assert set(kept["label"].value_counts()) == {5} and kept["annotation_id"].is_monotonic_increasing
    assert len(training.capped(frame, 0, np.random.default_rng(0))) == len(frame)


def test_what_a_killed_run_goes_on_from_stays_for_the_caller_to_remove(survey, tmp_path, monkeypatch):
    from reefcore import fitting

    resume = tmp_path / "resume"
    expected = run(survey, small(), resume=resume).predictions
    assert resume.exists()
    resume.unlink()
    predict = fitting.predict
    monkeypatch.setattr(fitting, "predict", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(survey, small(), resume=resume)
    monkeypatch.setattr(fitting, "predict", predict)
    monkeypatch.setattr(fitting.learners.Classifier, "forward", lambda *given: 1 / 0)  # nothing is learnt any more
    pd.testing.assert_frame_equal(run(survey, small(), resume=resume).predictions, expected)


def test_pretraining_leaves_test_patches_out(survey):
    _, splits, patches = survey
    recipe = dataclasses.replace(small("mae_pretraining", epochs=1, warmup_epochs=0), train_per_class=2)
    done = training.pretrain(recipe, patches, splits)
    assert done.facts["train_patches"].item() == 80 and done.facts["run"].item() == "mae_pretraining"
    every = training.pretrain(dataclasses.replace(recipe, train_per_class=0), patches, splits)
    assert every.facts["train_patches"].item() == 150
    assert "patch_embed.proj.weight" in done.fitted.learner.encoder_state()


class TestPredictions:
    """Predictions of any program are read and checked."""

    @pytest.fixture
    def table(self):
        scores = np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]])
        return predictions.from_scores(
            "m-S1-S1", ["1234", "b", "c"], ["NA", "Porites", "Pavona"], scores, ["NA", "Porites"]
        )

    def test_the_best_class_is_predicted_the_first_of_equals(self, table):
        assert table["y_pred"].tolist() == ["NA", "NA", "Porites"]
        with pytest.raises(ReefcoreError, match="shape"):
            predictions.from_scores("m", ["a"], ["b"], np.ones((1, 3)), ["b"])

    def test_parquet_and_csv_give_back_the_same(self, table, tmp_path):
        table.to_csv(tmp_path / "p.csv", index=False)
        for path in (predictions.write(table, tmp_path / "p.parquet"), tmp_path / "p.csv"):
            pd.testing.assert_frame_equal(predictions.read(path), table)

    def test_truth_and_run_may_come_from_elsewhere(self, table, tmp_path):
        table[["annotation_id", "y_pred"]].to_csv(tmp_path / "other.csv", index=False)
        annotations = pd.DataFrame({"annotation_id": ["1234", "b", "z"], "label": ["Porites", "Pavona", "Favia"]})
        got = predictions.read(tmp_path / "other.csv", annotations)
        assert got["y_true"].tolist() == ["Porites", "Pavona"] and set(got["run_id"]) == {"other"}
        assert got.attrs["problems"][["line", "column"]].to_numpy().tolist() == [[4, "y_true"]]
        with pytest.raises(ReefcoreError, match="y_true"):
            predictions.read(tmp_path / "other.csv")

    def test_bad_files_are_refused(self, table, tmp_path):
        (tmp_path / "latin.csv").write_bytes(b"run_id\n\xe9\xff\n")
        (tmp_path / "not.parquet").write_text("x")
        table.assign(**{"score:NA": 7.0}).to_csv(tmp_path / "percent.csv", index=False)
        for name in ("latin.csv", "not.parquet", "missing.csv", "missing.parquet", "percent.csv"):
            with pytest.raises(ReefcoreError, match=name):
                predictions.read(tmp_path / name)
