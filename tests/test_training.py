"""A recipe learns what can be learnt, answers for every test point, and gives the same bytes twice."""

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from reefcore import predictions, recipes, training
from reefcore.errors import ReefcoreError

torch = pytest.importorskip("torch")
from reefcore import fitting  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def small(name="resnet_tiny", **changes):
    """Make a library recipe small enough for a test: 32 pixels and few epochs."""
    recipe = recipes.load(name)
    args = {**recipe.model_args, **({"img_size": 32} if "img_size" in recipe.model_args else {})}
    options = {"input_size": 32, "model_args": args, "epochs": 4, "batch_size": 16, "train_per_class": 0}
    return dataclasses.replace(recipe, **options | changes)


def stripes(y, size=32, seed=0):
    """Draw patches of stripes whose direction and colour say the class, under noise."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:size, :size]
    directions = np.stack([np.sin(row), np.sin(column), np.sin((row + column) * 0.5), np.sin(row) * np.sin(column)])
    x = 128 + 50 * directions[y][..., None] + rng.normal(0, 25, (len(y), size, size, 3))
    x[..., 0] += 12 * (y[:, None, None] - 1.5)
    return x.clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def survey():
    """Make annotations, splits and patches of four classes, one of them never trained on, one trained on once."""
    rng = np.random.default_rng(0)
    names = np.array(["Acropora", "Montipora", "Pavona", "Porites"])
    parts = np.repeat(["train", "val", "test"], [120, 30, 60])
    y = rng.integers(0, 3, len(parts))
    y[parts == "test"] = rng.integers(0, 4, 60)  # Porites is only in the test part
    y[(parts == "train") & (y == 2)] = 1
    y[0] = 2  # Pavona is trained on once
    annotations = pd.DataFrame({"annotation_id": [f"{i:04d}" for i in range(len(y))], "label": names[y]})
    ids = annotations["annotation_id"]
    splits = pd.concat(
        [pd.DataFrame({"annotation_id": ids, "scheme": scheme, "part": parts}) for scheme in ("S1", "S3")]
        + [pd.DataFrame({"annotation_id": ids[150:180], "scheme": "W", "part": "test"})]
    )
    return annotations, splits, stripes(y), ids


def run(survey, recipe, train_set="S3", **options):
    annotations, splits, patches, ids = survey
    options = {"annotations": annotations, "splits": splits, "patches": patches, "patch_ids": ids} | options
    return training.run(recipe, train_set, **options)


def test_importing_training_leaves_torch_alone():
    code = "import sys, reefcore.training, reefcore.predictions, reefcore.recipes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", ["efficientnet_tiny", "resnet_tiny", "vit_tiny_sample"])
def test_every_family_learns(name):
    y = np.arange(160) % 4
    recipe = small(name, epochs=12, lr=0.003)
    fitted = fitting.fit(recipe, stripes(y), y, stripes(y, seed=1)[:40], y[:40], list("abcd"), seed=0)
    scores = fitting.predict(fitted, stripes(y, seed=2))
    assert scores.shape == (160, 4) and scores.dtype == np.float32 and np.allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert (scores.argmax(axis=1) == y).mean() > 0.8
    history = fitted.history
    assert history["loss"].iat[-1] < history["loss"].iat[0]
    assert fitted.best_epoch == history["val_macro_recall"].idxmax() + 1


def test_run_answers_every_test_point_with_scores(survey):
    annotations, splits, _, _ = survey
    table = run(survey, small())
    assert table["run_id"].unique().tolist() == ["resnet_tiny-S3-S3", "resnet_tiny-S3-W"]
    for scheme in ("S3", "W"):
        wanted = splits[(splits["scheme"] == scheme) & (splits["part"] == "test")]["annotation_id"]
        got = table[table["run_id"] == f"resnet_tiny-S3-{scheme}"]
        assert sorted(got["annotation_id"]) == sorted(wanted)
    truth = annotations.set_index("annotation_id")["label"]
    assert (table["y_true"] == table["annotation_id"].map(truth)).all()
    scores = table.filter(like="score:")
    assert scores.columns.tolist() == ["score:Acropora", "score:Montipora", "score:Pavona"]
    assert "Porites" in set(table["y_true"]) and "Porites" not in set(table["y_pred"])
    assert (table["y_pred"] == scores.columns.str.removeprefix("score:").to_numpy()[scores.to_numpy().argmax(1)]).all()


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(survey, tmp_path):
    recipe = small(epochs=2, train_per_class=20, min_per_class=5)
    files = []
    for seed in (0, 0, 1):
        table = run(survey, recipe, "S1", seed=seed)
        files.append(predictions.write(table, tmp_path / f"{len(files)}.parquet").read_bytes())
    assert files[0] == files[1] != files[2]


def test_the_order_of_rows_does_not_matter(survey):
    annotations, splits, patches, ids = survey
    order = np.random.default_rng(1).permutation(len(ids))
    other = (annotations.iloc[::-1], splits.sample(frac=1, random_state=0), patches[order], ids.to_numpy()[order])
    recipe = small(epochs=1)
    pd.testing.assert_frame_equal(run(survey, recipe, "S1"), run(other, recipe, "S1"))


def test_missing_parts_are_worked_around_and_said(survey, caplog):
    annotations, splits, patches, ids = survey
    recipe = small(epochs=1)
    no_val = splits[splits["part"] != "val"]
    no_w = no_val[no_val["scheme"] != "W"]
    assert run(survey, recipe, splits=no_w)["run_id"].unique().tolist() == ["resnet_tiny-S3-S3"]
    few = run(survey, recipe, "S1", patches=patches[5:], patch_ids=ids[5:])
    assert len(few) == 60 and "5 of 210 points of S1 have no patch" in caplog.text
    with pytest.raises(ReefcoreError, match="none of S1 has test points"):
        run(survey, recipe, "S1", splits=splits[splits["part"] != "test"])
    with pytest.raises(ReefcoreError, match="not enough to train"):
        run(survey, recipe, "S1", splits=splits[splits["part"] != "train"])
    with pytest.raises(ReefcoreError, match="training set 'S9'"):
        run(survey, recipe, "S9")
    with pytest.raises(ReefcoreError, match="210 patches but 209 ids"):
        run(survey, recipe, patch_ids=ids[1:])
    with pytest.raises(ReefcoreError, match="no label"):
        run(survey, recipe, annotations=annotations[:100])


def test_a_loss_that_is_not_finite_stops_with_a_sentence():
    y = np.arange(64) % 4
    with pytest.raises(ReefcoreError, match="not finite"):
        fitting.fit(small(optimiser="sgd", lr=1e9, schedule="constant"), stripes(y), y, stripes(y), y, list("abcd"))


def test_a_model_that_timm_cannot_build_stops_with_a_sentence():
    y = np.arange(8) % 2
    for changes in ({"model": "no_such_net"}, {"model_args": {"no_such_option": 1}}):
        with pytest.raises(ReefcoreError, match="timm cannot build"):
            fitting.fit(small(**changes), stripes(y), y, stripes(y)[:0], y[:0], list("ab"))


def test_torch_is_left_as_it_was():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    y = np.arange(8) % 2
    fitting.fit(small(epochs=1, warmup_epochs=0), stripes(y), y, stripes(y)[:0], y[:0], list("ab"), seed=9)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == 1 and not torch.are_deterministic_algorithms_enabled()


def test_augmentation_gives_all_eight_positions_of_a_square_and_bounded_gains():
    recipe = small(colour_jitter=0.0)
    x = torch.from_numpy(stripes(np.zeros(1, int), seed=5)).permute(0, 3, 1, 2).float().repeat(200, 1, 1, 1)
    out = fitting._augmented(x, recipe, np.random.default_rng(0))
    expected = {np.rot90(a, k, (1, 2)).tobytes() for a in (x[0].numpy(), x[0].numpy()[:, :, ::-1]) for k in range(4)}
    assert {patch.numpy().tobytes() for patch in out} == expected
    tinted = small(colour_jitter=0.2, horizontal_flip=False, vertical_flip=False, rotate_90=False)
    pixels = fitting._normalised(x.byte(), tinted)
    back = fitting._augmented(pixels, tinted, np.random.default_rng(0))
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) * 255 for v in (tinted.mean, tinted.std))
    gain = ((back * std + mean) / x.clamp(min=1)).mean(dim=(2, 3))
    assert gain.min() > 0.8**2 - 0.01 and gain.max() < 1.2**2 + 0.01 and gain.std() > 0.1


def test_rare_classes_are_repeated_and_common_ones_are_capped():
    y = np.repeat([0, 1, 2], [50, 3, 1])
    drawn = fitting._epoch(y, small(min_per_class=10), np.random.default_rng(0))
    assert np.bincount(y[drawn]).tolist() == [50, 10, 10]
    frame = pd.DataFrame({"annotation_id": [f"{i:02d}" for i in range(54)], "label": y})
    kept = training._capped(frame, 5, np.random.default_rng(0))
    assert (
        kept["label"].value_counts().sort_index().tolist() == [5, 3, 1]
        and kept["annotation_id"].is_monotonic_increasing
    )


def test_the_learning_rate_warms_up_and_ends_near_zero():
    recipe = small(epochs=10, warmup_epochs=2)
    factors = [fitting._schedule(recipe, step, 100) for step in range(100)]
    assert factors[0] < 0.1 and factors[20] == 1.0 and factors[99] < 0.01
    assert np.all(np.diff(factors[:20]) > 0) and np.all(np.diff(factors[20:]) < 0)


def test_patches_of_another_size_are_resized():
    x = np.full((3, 48, 48, 3), 77, np.uint8)
    assert fitting._resized(x, 32).shape == (3, 3, 32, 32) and (fitting._resized(x, 32) == 77).all()


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
