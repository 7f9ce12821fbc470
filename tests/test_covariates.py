"""The mean colour of a photo is near that of a full decode, and nothing unreadable passes in silence."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageFilter

from reefcore import covariates
from reefcore.errors import ReefcoreError


def photo(path, width=331, height=250, seed=0):
    """Write a smooth colourful picture, its right and bottom blocks incomplete."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    image = small.resize((width, height), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(2))
    image.save(path, quality=92)
    return path


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_mean_rgb_is_near_the_mean_of_all_pixels(tmp_path, name):
    path = photo(tmp_path / name)
    exact = np.asarray(Image.open(path).convert("RGB")).mean(axis=(0, 1))
    assert np.allclose(covariates.mean_rgb(path), exact, atol=0.5 if name.endswith("jpg") else 1e-9)


def test_mean_rgb_decodes_a_jpeg_small(tmp_path, monkeypatch):
    sizes = []
    original = covariates.decode
    monkeypatch.setattr(
        covariates, "decode", lambda *a, **k: sizes.append(original(*a, **k)[0].size) or original(*a, **k)
    )
    covariates.mean_rgb(photo(tmp_path / "a.jpg", 800, 400))
    assert sizes == [(100, 50)]


def test_mean_rgb_of_a_gray_photo_of_one_pixel(tmp_path):
    Image.new("L", (1, 1), 40).save(tmp_path / "a.png")
    assert covariates.mean_rgb(tmp_path / "a.png") == (40, 40, 40)
    with pytest.raises(ReefcoreError, match="does not exist"):
        covariates.mean_rgb(tmp_path / "b.png")


def test_table_measures_each_photo_once_and_lists_the_others(tmp_path):
    for source in ("A", "B"):
        (tmp_path / source).mkdir()
        photo(tmp_path / source / "x.jpg", 400, 250, seed=ord(source))
    (tmp_path / "A" / "y.jpg").write_text("no photo")
    images = pd.DataFrame([("B", "x.jpg"), ("A", "x.jpg"), ("A", "y.jpg"), ("B", "x.jpg")], columns=["source", "image"])
    table, skipped = covariates.table(images, tmp_path)
    assert table[["source", "image"]].to_numpy().tolist() == [["A", "x.jpg"], ["B", "x.jpg"]]
    assert table["megapixels"].tolist() == [0.1, 0.1] and table["width"].tolist() == [400, 400]
    assert tuple(table.loc[1, ["red", "green", "blue"]]) == covariates.mean_rgb(tmp_path / "B" / "x.jpg")
    assert skipped[["source", "image"]].to_numpy().tolist() == [["A", "y.jpg"]]
    assert "not an image" in skipped["reason"][0]


def test_table_of_nothing_has_its_columns(tmp_path):
    table, skipped = covariates.table(pd.DataFrame({"source": [], "image": []}), tmp_path)
    assert table.columns.tolist() == covariates.COLUMNS and table.empty and skipped.empty
