"""The patch grid, the card's metrics, and the decision of a frame."""

import io
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from reefcore.errors import ReefcoreError
from reefcore.substrate import decide, grid, least, per_class, score
from reefcore.tables import SUBSTRATES


def compute_metrics(predictions, gold):
    """The evaluation card's scoring recipe, word for word."""
    classes = ["Deploy", "No-Deploy", "Coral"]
    f1s = []
    correct = 0
    for c in classes:
        tp = sum(1 for p, g in zip(predictions, gold) if p == c and g == c)  # noqa: B905
        fp = sum(1 for p, g in zip(predictions, gold) if p == c and g != c)  # noqa: B905
        fn = sum(1 for p, g in zip(predictions, gold) if p != c and g == c)  # noqa: B905
        prec = tp / (tp + fp) if (tp + fp) > 0 else 0
        rec = tp / (tp + fn) if (tp + fn) > 0 else 0
        f1 = 2 * prec * rec / (prec + rec) if (prec + rec) > 0 else 0
        f1s.append(f1)
        correct += tp
    macro_f1 = sum(f1s) / len(f1s)
    accuracy = correct / len(gold)
    return {"macro_f1": macro_f1, "accuracy": accuracy}


def drawn(rng, labels, n):
    """Draw labels from a random few of those given, so that classes are often absent."""
    return rng.choice(rng.choice(labels, rng.integers(1, len(labels) + 1), replace=False), n).tolist()


def jpeg(pixels: np.ndarray, quality: int = 95) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
    return stream.getvalue()


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    """A frame of odd size, 475 x 331 pixels, whose colours tell where one is: red from the left, green from the top."""
    rows, columns = np.mgrid[:331, :475]
    blue = np.random.default_rng(0).normal(128, 3, rows.shape)
    return np.stack([columns * 255 / 474, rows * 255 / 330, blue], axis=-1).round().astype(np.uint8)


class TestScore:
    def test_is_the_cards_recipe_to_the_last_digit(self):
        rng = np.random.default_rng(0)
        for _ in range(400):
            n = int(rng.integers(1, 30))
            true, pred = (drawn(rng, [*SUBSTRATES, "Sand"], n) for _ in range(2))
            assert score(true, pred) == compute_metrics(pred, true)

    def test_is_scikit_learns_macro_average_over_the_three(self):
        rng = np.random.default_rng(1)
        for _ in range(50):
            true, pred = (drawn(rng, SUBSTRATES, 40) for _ in range(2))
            macro = f1_score(true, pred, labels=list(SUBSTRATES), average="macro", zero_division=0)
            assert score(true, pred) == pytest.approx({"macro_f1": macro, "accuracy": accuracy_score(true, pred)})

    def test_takes_the_truth_first(self):
        table = per_class(["Coral", "Coral", "Coral"], ["Coral", "Coral", "Deploy"], [0, 0, 1], n=2)
        recall = table[(table["class"] == "Coral") & (table["metric"] == "recall")]
        assert recall["value"].item() == pytest.approx(2 / 3) and recall["support"].item() == 3

    def test_unknown_labels_are_wrong_even_where_both_agree_and_are_named(self, caplog):
        assert score(["Sand", "Coral"], ["Sand", "Coral"]) == {"macro_f1": 1 / 3, "accuracy": 0.5}
        assert "no substrate count as wrong: Sand" in caplog.text

    def test_refuses_what_the_recipe_would_divide_by_zero_or_cut(self):
        with pytest.raises(ReefcoreError, match="nothing to score"):
            score([], [])
        with pytest.raises(ReefcoreError, match="2 true substrates but 1 predicted"):
            score(["Coral", "Coral"], ["Coral"])


def test_per_class_is_scikit_learns_and_its_intervals_resample_whole_frames():
    rng = np.random.default_rng(2)
    true = np.repeat(rng.choice(SUBSTRATES, 40), 28)  # a frame is all of one class: patches are no independent draws
    pred = np.where(np.repeat(rng.random(40) < 0.7, 28), true, "Coral")
    frames = np.repeat(np.arange(40), 28)
    table = per_class(true, pred, frames, 300).set_index(["class", "metric"])
    expected = precision_recall_fscore_support(true, pred, labels=list(SUBSTRATES), zero_division=0)
    for values, metric in zip(expected, ("precision", "recall", "f1"), strict=False):
        assert table["value"].xs(metric, level=1)[list(SUBSTRATES)].to_numpy() == pytest.approx(values)
    assert table.at[("all", "weighted_f1"), "value"] == pytest.approx(f1_score(true, pred, average="weighted"))
    overall = table.loc["all"]
    assert overall.loc[["macro_f1", "accuracy"], "value"].to_dict() == pytest.approx(score(true, pred))
    assert ((overall["ci_low"] < overall["value"]) & (overall["value"] < overall["ci_high"])).all()
    patches = per_class(true, pred, np.arange(len(true)), 300).set_index(["class", "metric"]).loc["all"]
    assert (overall["ci_high"] - overall["ci_low"] > 3 * (patches["ci_high"] - patches["ci_low"])).all()
    assert per_class(true[:28], pred[:28], frames[:28], 5)["ci_low"].isna().all()


class TestDecide:
    def test_the_authors_alphas_ask_for_15_17_and_20_of_28(self):
        assert [least(alpha) for alpha in (0, 0.5, 0.6, 0.7, 1)] == [1, 15, 17, 20, 29]

    def test_exactly_alpha_is_not_enough_for_any_grid_and_any_decimal(self):
        for patches in range(1, 61):
            ratios = [Fraction(k, patches) for k in range(patches + 1)]
            for alpha in [Fraction(i, 100) for i in range(101)] + ratios:
                wanted = sum(ratio <= alpha for ratio in ratios)
                assert least(alpha.numerator / alpha.denominator, patches) == wanted
        assert least(np.float32(0.7), 10) == least(0.7, 10) == 8  # 0.7 in single precision lies below 7 / 10

    def test_names_and_codes_one_frame_and_many(self):
        frames = np.array([[2] * k + [0] * (28 - k) for k in (14, 15)])
        assert decide(frames, 0.5).tolist() == [False, True]
        assert decide(np.array(SUBSTRATES)[frames[1]], 0.5) is True
        assert decide([1] * 28, 0) is False  # Coral counts as No-Deploy

    @pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), 60, None, "half"])
    def test_refuses_an_alpha_that_is_no_share(self, alpha):
        with pytest.raises(ReefcoreError, match="is no share of patches"):
            decide(["Deploy"], alpha)

    def test_refuses_no_patches_and_other_classes(self):
        with pytest.raises(ReefcoreError, match="without patches"):
            decide([], 0.5)
        for strange in (["Sand"], [3], [-1], [None]):
            with pytest.raises(ReefcoreError, match="is no substrate"):
                decide(strange, 0.5)


class TestGrid:
    @pytest.mark.parametrize("size", [(4, 7), (5, 9), (331, 475), (384, 672), (3040, 5312), (700, 300)])
    def test_cells_are_array_splits_and_hold_every_pixel_once(self, size):
        seen = np.zeros(size, int)
        for top, left, bottom, right in grid.cells(*size):
            seen[top:bottom, left:right] += 1
        assert (seen == 1).all()
        first = [part[0] for part in np.array_split(np.arange(size[0]), 4)]
        assert grid.cells(*size)[::7, 0].tolist() == first  # row by row
        assert grid.cells(*size)[:7, 1].tolist() == [part[0] for part in np.array_split(np.arange(size[1]), 7)]

    @pytest.mark.parametrize("size", [(5, 9), (331, 475), (3040, 5312)])
    def test_crops_have_one_size_whatever_the_frame_and_lie_in_the_middle(self, size):
        cells, crops = grid.cells(*size), grid.crops(*size)
        assert np.unique(crops[:, 2:] - crops[:, :2], axis=0).tolist() == [[size[0] // 4, size[1] // 7]]
        before, after = crops[:, :2] - cells[:, :2], cells[:, 2:] - crops[:, 2:]
        assert (before >= 0).all() and (after - before <= 1).all() and (after >= before).all()

    def test_height_and_width_are_not_swapped(self):
        frame = np.zeros((40, 140, 3), np.uint8)
        frame[:10, 120:] = 255  # the last cell of the first row
        assert grid.patches(frame, 8).mean(axis=(1, 2, 3)).nonzero()[0].tolist() == [6]
        assert grid.cells(40, 140)[6].tolist() == [0, 120, 10, 140]

    def test_patches_are_pillows_bicubic_of_the_crops_and_always_the_same(self, photo):
        first = grid.patches(photo, 32)
        assert first.shape == (28, 32, 32, 3) and (first == grid.patches(photo, 32)).all()
        for (top, left, bottom, right), patch in zip(grid.crops(331, 475), first, strict=True):
            crop = Image.fromarray(photo[top:bottom, left:right])
            assert (patch == np.asarray(crop.resize((32, 32), Image.Resampling.BICUBIC))).all()

    def test_other_grids(self, photo):
        assert grid.patches(photo, 16, 1, 1).shape == (1, 16, 16, 3)
        assert len(grid.patches(photo, 16, 3, 5)) == len(grid.read(jpeg(photo), 16, 3, 5)) == 15

    @pytest.mark.parametrize("side", [8, 16, 40, 64, 100])
    def test_a_reduced_decode_shows_the_same_place(self, photo, tmp_path, side):
        (tmp_path / "a.jpg").write_bytes(jpeg(photo))
        read = grid.read(tmp_path / "a.jpg", side)
        assert (read == grid.read((tmp_path / "a.jpg").read_bytes(), side)).all()
        shift = (read.astype(float) - grid.patches(photo, side)).mean(axis=(1, 2))[:, :2]
        assert np.abs(shift).max() < 0.75  # levels: one is about two pixels of the whole frame

    def test_a_decode_leaves_every_crop_its_pixels(self, monkeypatch, photo):
        sizes = []
        decode = grid.decode
        monkeypatch.setattr(grid, "decode", lambda *given: sizes.append(decode(*given)[0].shape) or decode(*given))
        for side in (8, 16, 33, 67, 90):
            grid.read(jpeg(photo), side)
            height, width, _ = sizes[-1]
            assert (height // 4 >= side and width // 7 >= side) or sizes[-1] == photo.shape
        assert sizes[0][0] == -(-331 // 8) and len(set(sizes)) > 3

    def test_refuses_frames_smaller_than_the_grid_and_half_frames(self, photo, tmp_path):
        small = tmp_path / "small.jpg"
        small.write_bytes(jpeg(photo[:3, :100]))
        with pytest.raises(ReefcoreError, match=r"small\.jpg: a frame 100 pixels wide and 3 high is smaller"):
            grid.read(small, 32)
        with pytest.raises(ReefcoreError, match="ends early"):
            grid.read(jpeg(photo)[:9000], 32)
        for bad in (photo[:, :, 0], photo.astype(float)):
            with pytest.raises(ReefcoreError, match="has no patches"):
                grid.patches(bad, 32)
        with pytest.raises(ReefcoreError, match="side of at least 1"):
            grid.patches(photo, 0)

    def test_a_portrait_frame_is_cut_and_said(self, photo):
        turned = photo.transpose(1, 0, 2)
        assert grid.patches(turned, 8).shape == (28, 8, 8, 3)
        assert "475 high, most likely stored turned" in grid.portrait(*turned.shape[:2])
        assert grid.portrait(*photo.shape[:2]) is None and grid.portrait(10, 10) is None
