"""The classifier without downloads: features, the discriminant, and a cross-validation that divides no photo."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reefcore import covariates, machine, metrics, texture
from reefcore.errors import ReefcoreError
from reefcore.images import decode
from reefcore.tables import validate

RSMAS = Path(__file__).resolve().parents[2] / "shared" / "real" / "rsmas"


def stripes(n, wide, seed=0, colour=(180, 140, 90), side=64):
    rng = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * (np.arange(side) + rng.uniform(0, wide, (n, 1))) / wide)[:, None, :, None]
    grain = rng.normal(0, 8, (n, side, side, 3))
    return np.clip(np.asarray(colour) + 40 * wave + grain, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def described():
    """Two textures and two colours: 4 classes of 30 patches, features alone."""
    parts = [
        stripes(30, 5, 1),
        stripes(30, 16, 2),
        stripes(30, 5, 3, (90, 140, 180)),
        stripes(30, 16, 4, (90, 140, 180)),
    ]
    return texture.features(np.concatenate(parts)), np.repeat(["fine", "broad", "fine blue", "broad blue"], 30)


class TestFeatures:
    def test_have_one_shape_for_patches_of_any_side(self):
        for side in (1, 7, 40, 128, 200):
            x = texture.features(np.full((2, side, side, 3), 90, np.uint8))
            assert x.shape == (2, texture.NUMBERS) and x.dtype == np.float32 and np.isfinite(x).all()
        assert texture.features(np.zeros((0, 9, 9, 3), np.uint8)).shape == (0, texture.NUMBERS)

    def test_black_and_white_are_finite(self):
        x = np.stack([np.zeros((64, 64, 3), np.uint8), np.full((64, 64, 3), 255, np.uint8)])
        assert np.isfinite(texture.features(x)).all()

    def test_do_not_depend_on_what_else_is_described(self):
        patches = stripes(70, 9)  # more than are described at once
        assert (texture.features(patches)[66:] == texture.features(patches[66:])).all()

    def test_turning_a_patch_changes_less_than_another_texture(self):
        patches = stripes(5, 6)
        x, turned, other = map(texture.features, (patches, np.rot90(patches, axes=(1, 2)).copy(), stripes(5, 14)))
        assert np.linalg.norm(x - turned) < 0.3 * np.linalg.norm(x - other)

    @pytest.mark.parametrize(
        "bad", [np.zeros((2, 8, 8, 3)), np.zeros((8, 8, 3), np.uint8), np.zeros((2, 8, 8), np.uint8)]
    )
    def test_refuse_what_are_no_patches(self, bad):
        with pytest.raises(ReefcoreError, match="are no patches"):
            texture.features(bad)


class TestClassifier:
    def test_what_is_read_answers_as_what_was_written(self, described, tmp_path):
        x, y = described
        made = texture.Classifier.fit(x, y, (3.0, 0.1), {"patch": 40})
        read = texture.Classifier.load(made.save(tmp_path / "c.npz"))
        assert (read.predict_proba(x) == made.predict_proba(x)).all() and (read.known(x) == made.known(x)).all()
        assert read.about == {"patch": 40} and (read.temperature, read.doubt) == (3.0, 0.1)
        with np.load(tmp_path / "c.npz", allow_pickle=False) as file:  # nothing in it can run
            assert set(file["classes"]) == set(y)
        assert np.allclose(read.predict_proba(x).sum(axis=1), 1, atol=1e-5)

    def test_another_file_is_refused_in_a_sentence(self, described, tmp_path):
        (tmp_path / "a.npz").write_bytes(b"no")
        np.savez(tmp_path / "b.npz", classes=np.array(["a", None], dtype=object))
        for name in ("a.npz", "b.npz", "c.npz"):
            with pytest.raises(ReefcoreError, match="no classifier"):
                texture.Classifier.load(tmp_path / name)
        with pytest.raises(ReefcoreError, match="not those it was trained on"):
            texture.Classifier.fit(*described).logits(np.zeros((1, 3)))

    def test_one_class_or_features_that_are_no_numbers_teach_nothing(self, described):
        x, y = described
        for bad in ((x[:30], y[:30]), (np.full_like(x, np.nan), y), (x[:5], y)):
            with pytest.raises(ReefcoreError, match="cannot learn"):
                texture.Classifier.fit(*bad)

    def test_what_it_never_saw_is_less_known(self, described):
        x, y = described
        made = texture.Classifier.fit(x, y)
        strange = texture.features(stripes(20, 30, 9, (40, 200, 40)))
        assert made.known(strange).max() < np.quantile(made.known(x), 0.05)


class TestCrossValidation:
    def test_tells_textures_and_colours_apart(self, described):
        x, y = described
        found = texture.cross_validate({"t": x}, y, np.arange(len(y)) // 3)
        assert found.scores.set_index("fold").loc["all", "macro_f1"] > 0.95
        validate(found.predictions, "predictions")
        assert list(found.predictions["y_true"]) == list(y) and found.rare.empty
        whole = found.scores.set_index("fold").loc["all"]
        assert whole["macro_f1"] == metrics.score(found.predictions["y_true"], found.predictions["y_pred"])["macro_f1"]
        assert found.scores.loc[found.scores["fold"] != "all", "points"].sum() == len(y)

    def test_no_group_is_divided(self):
        rng = np.random.default_rng(0)  # each photo is its own clue: who divides it is right, who does not guesses
        photo = np.repeat(np.arange(40), 5)
        y = rng.permutation(np.repeat(["a", "b"], 20))[photo]
        x = rng.normal(size=(40, 200))[photo]
        apart = texture.cross_validate({"t": x}, y, photo).scores["accuracy"].iloc[0]
        divided = texture.cross_validate({"t": x}, y, np.arange(200)).scores["accuracy"].iloc[0]
        assert divided > 0.95 and apart < 0.7

    def test_the_better_features_are_chosen_and_of_equals_the_first(self, described):
        x, y = described
        groups, noise = np.arange(len(y)) // 3, np.random.default_rng(0).normal(size=(len(y), 20))
        assert texture.cross_validate({"noise": noise, "t": x}, y, groups).chosen == "t"
        assert texture.cross_validate({"t": x, "same": x}, y, groups).chosen == "t"

    def test_rare_classes_are_counted_and_wrong(self, described):
        x, y = described
        y = y.astype("U20")
        y[:4], y[30:40] = "four points", "one photo"
        groups = np.arange(len(y)) // 3
        groups[30:40] = 99
        found = texture.cross_validate({"t": x}, y, groups)
        assert found.rare.to_dict() == {"four points": 4, "one photo": 10}
        rare = found.predictions[found.predictions["y_true"].isin(found.rare.index)]
        assert len(rare) == 14 and not (rare["y_true"] == rare["y_pred"]).any()
        assert len(found.predictions) == len(y) and "score:one photo" not in found.predictions

    def test_is_as_sure_as_it_is_right(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 900)
        x = rng.normal(size=(900, 40)) + 2.5 * np.eye(3, 40)[y]
        x[:40] *= 30  # patches far from all others must not make the rest unsure
        y[rng.random(900) < 0.1] = 0  # wrong labels
        found = texture.cross_validate({"t": x}, y.astype(str), np.arange(900) // 5).predictions
        assert abs(found["known:msp"].mean() - (found["y_true"] == found["y_pred"]).mean()) < 0.08  # 0.17 untempered

    def test_is_the_same_twice(self, described):
        x, y = described
        one, two = (texture.cross_validate({"t": x}, y, np.arange(len(y)) // 3, seed=4) for _ in range(2))
        pd.testing.assert_frame_equal(one.predictions, two.predictions)

    def test_too_little_is_refused_in_a_sentence(self, described):
        x, y = described
        for labels, groups in ((y, np.zeros(len(y))), (np.full(len(y), "a"), np.arange(len(y)))):
            with pytest.raises(ReefcoreError, match="do not teach a classifier"):
                texture.cross_validate({"t": x}, labels, groups)


@pytest.mark.skipif(not RSMAS.is_dir(), reason="the photos of RSMAS are not here")
def test_real_corals_are_told_apart():
    photos = [(path.parent.name, path.name) for path in sorted(RSMAS.glob("*/*.jpg"))]
    table = pd.DataFrame(photos, columns=["source", "image"])
    x = texture.features(np.stack([decode(RSMAS / source / image)[0] for source, image in photos]))
    pairs = covariates.near_duplicates(covariates.table(table, RSMAS)[0], 8)
    found = texture.cross_validate({texture.NAME: x}, table["source"], machine.together(table, pairs))
    assert found.scores["macro_f1"].iloc[0] > 0.93
