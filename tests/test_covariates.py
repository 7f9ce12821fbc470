"""Photos are measured near what a full decode says, nothing unreadable passes in silence, and sources are compared."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageFilter

from reefcore import covariates
from reefcore.errors import ReefcoreError


def picture(width=331, height=250, seed=0):
    """Make a smooth colourful picture, its right and bottom blocks incomplete."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(2))


def measured(folder, *names):
    """Measure photos that lie directly in a folder."""
    return covariates.table(pd.DataFrame({"source": "A", "image": list(names)}), folder)


def colours(**sources):
    """Make the colour columns of a covariates table from each source's red values; green and blue are 10 and 20."""
    rows = [(name, red, 10.0, 20.0, 0.299 * red + 8) for name, reds in sources.items() for red in reds]
    return pd.DataFrame(rows, columns=["source", "red", "green", "blue", "brightness"])


@pytest.mark.parametrize("name, size", [("a.jpg", (331, 250)), ("a.png", (331, 250)), ("a.jpg", (3301, 413))])
def test_mean_rgb_is_near_the_mean_of_all_pixels(tmp_path, name, size):
    picture(*size).save(tmp_path / name, quality=92)
    exact = np.asarray(Image.open(tmp_path / name).convert("RGB")).mean(axis=(0, 1))
    assert np.allclose(covariates.mean_rgb(tmp_path / name), exact, atol=0.1 if name == "a.jpg" else 1e-4)


def test_mean_rgb_decodes_a_jpeg_small(tmp_path, monkeypatch):
    sizes, original = [], covariates.decode
    monkeypatch.setattr(covariates, "decode", lambda *a: sizes.append(original(*a)[0].shape) or original(*a))
    picture(3201, 80).save(tmp_path / "a.jpg")
    covariates.mean_rgb(tmp_path / "a.jpg")
    measured(tmp_path, "a.jpg")
    assert sizes == [(10, 401, 3)] * 2  # the table decodes once, too


def test_mean_rgb_of_a_photo_that_is_missing_or_ends_early(tmp_path, caplog):
    with pytest.raises(ReefcoreError, match="does not exist"):
        covariates.mean_rgb(tmp_path / "b.png")
    picture(900, 700).save(tmp_path / "whole.jpg")
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    assert len(covariates.mean_rgb(tmp_path / "cut.jpg")) == 3 and "ends early" in caplog.text


def test_table_measures_each_photo_once_and_lists_the_others(tmp_path, caplog):
    for source in ("A", "B"):
        (tmp_path / source).mkdir()
        picture(400, 250, seed=ord(source)).save(tmp_path / source / "x.jpg")
    (tmp_path / "A" / "y.jpg").write_text("no photo")
    images = pd.DataFrame(
        [("B", "x.jpg"), ("A", "x.jpg"), ("A", "y.jpg"), ("B", "x.jpg"), ("B", "z.jpg")], columns=["source", "image"]
    )
    table, skipped = covariates.table(images, tmp_path)
    assert table[["source", "image"]].to_numpy().tolist() == [["A", "x.jpg"], ["B", "x.jpg"]]
    assert table["megapixels"].tolist() == [0.1, 0.1] and table["width"].tolist() == [400, 400]
    assert table["aspect"].tolist() == [1.6, 1.6]
    assert tuple(table.loc[1, ["red", "green", "blue"]]) == covariates.mean_rgb(tmp_path / "B" / "x.jpg")
    assert skipped[["source", "image"]].to_numpy().tolist() == [["A", "y.jpg"], ["B", "z.jpg"]]
    assert "not an image" in skipped["reason"][0] and "does not exist" in skipped["reason"][1]
    assert "2 of 4 photos were not measured" in caplog.text
    again, _ = covariates.table(images, tmp_path, workers=1)
    pd.testing.assert_frame_equal(table, again)


def test_table_of_nothing_has_its_columns(tmp_path):
    table, skipped = covariates.table(pd.DataFrame({"source": [], "image": []}), tmp_path)
    assert table.columns.tolist() == covariates.COLUMNS and table.empty and skipped.empty
    assert table["red"].dtype == float and table["phash"].dtype == "str"
    assert covariates.summary(table).empty and covariates.near_duplicates(table).empty


def test_table_agrees_with_a_full_decode(tmp_path):
    picture(800, 600).save(tmp_path / "a.jpg", quality=95)
    row = measured(tmp_path, "a.jpg")[0].iloc[0]
    pixels = np.asarray(Image.open(tmp_path / "a.jpg"), dtype=float)
    assert np.allclose(row[["red_sd", "green_sd", "blue_sd"]].astype(float), pixels.std(axis=(0, 1)), atol=0.5)
    assert row["brightness"] == pytest.approx((pixels @ [0.299, 0.587, 0.114]).mean(), abs=0.1)


def test_sharpness_falls_with_blur_and_compares_resolutions(tmp_path):
    sharp = picture(1600, 1200).filter(ImageFilter.GaussianBlur(1))
    grain = np.random.default_rng(0).integers(0, 60, (300, 400, 1), dtype=np.uint8)
    sharp = Image.fromarray(np.asarray(sharp) // 2 + grain.repeat(4, 0).repeat(4, 1))
    sharp.save(tmp_path / "sharp.png")
    sharp.filter(ImageFilter.GaussianBlur(6)).save(tmp_path / "blurred.png")
    sharp.resize((800, 600), Image.Resampling.BOX).save(tmp_path / "half.png")
    sharp.resize((390, 300)).save(tmp_path / "small.png")
    table = measured(tmp_path, "sharp.png", "blurred.png", "half.png", "small.png")[0].set_index("image")["sharpness"]
    assert table["blurred.png"] < table["sharp.png"] / 5
    assert table["half.png"] == pytest.approx(table["sharp.png"], rel=0.02)
    assert np.isnan(table["small.png"])


def test_odd_files_are_measured_or_said(tmp_path):
    whole = picture(900, 700)
    whole.save(tmp_path / "whole.jpg")
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    Image.new("L", (1, 1), 40).save(tmp_path / "one.png")
    Image.fromarray(np.full((300, 500), 40 * 256 + 99, np.uint16)).save(tmp_path / "deep.png")
    Image.new("CMYK", (500, 300), (0, 255, 255, 0)).save(tmp_path / "ink.jpg")
    whole.quantize(64).save(tmp_path / "palette.png")
    Image.fromarray(np.ones((8, 9), np.float32)).save(tmp_path / "float.tif")
    names = ["cut.jpg", "one.png", "deep.png", "ink.jpg", "palette.png", "float.tif"]
    table, skipped = measured(tmp_path, *names)
    reasons = skipped.set_index("image")["reason"]
    assert sorted(reasons.index) == ["cut.jpg", "float.tif"]
    assert "ends early" in reasons["cut.jpg"] and "mode F" in reasons["float.tif"]
    table = table.set_index("image")
    rgb = table[["red", "green", "blue"]]
    assert rgb.loc["one.png"].tolist() == rgb.loc["deep.png"].tolist() == [40, 40, 40]  # 16 bits: the high byte
    assert table.loc["one.png", ["width", "height"]].tolist() == [1, 1] and np.isnan(table.at["one.png", "sharpness"])
    assert np.allclose(rgb.loc["ink.jpg"], [254, 0, 0], atol=2)
    exact = np.asarray(Image.open(tmp_path / "palette.png").convert("RGB")).mean(axis=(0, 1))
    assert np.allclose(rgb.loc["palette.png"], exact, atol=1e-3)


def test_the_camera_is_in_the_table(tmp_path):
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Canon", "PowerShot G9 X"
    picture().save(tmp_path / "a.jpg", exif=exif)
    picture().save(tmp_path / "b.jpg")
    assert measured(tmp_path, "a.jpg", "b.jpg")[0]["camera"].fillna("none").tolist() == ["Canon PowerShot G9 X", "none"]


def test_near_duplicates_are_copies_and_not_other_photos(tmp_path):
    for seed in range(6):
        picture(1000, 700, seed).save(tmp_path / f"{seed}.jpg", quality=95)
    picture(1000, 700, 0).save(tmp_path / "again.jpg", quality=40)
    picture(1000, 700, 1).resize((640, 448)).save(tmp_path / "smaller.png")
    for name, level in (("black.png", 0), ("grey.png", 99)):
        Image.new("RGB", (500, 400), (level,) * 3).save(tmp_path / name)
    names = [*(f"{seed}.jpg" for seed in range(6)), "again.jpg", "smaller.png", "black.png", "grey.png"]
    pairs = covariates.near_duplicates(measured(tmp_path, *names)[0])
    assert {frozenset(pair) for pair in pairs[["image_a", "image_b"]].to_numpy().tolist()} == {
        frozenset(("0.jpg", "again.jpg")),
        frozenset(("1.jpg", "smaller.png")),
    }
    assert len(pairs) == 2 and (pairs["bits"] <= 4).all()
    assert pairs.attrs["featureless"] == ["A/black.png", "A/grey.png"]


def hashed(hashes):
    """Make what `near_duplicates` reads of photos with given hashes."""
    sd = dict.fromkeys(["red_sd", "green_sd", "blue_sd"], 9.0)
    names = [f"{i:06d}" for i in range(len(hashes))]
    return pd.DataFrame({"source": "A", "image": names, "phash": [f"{int(h):016x}" for h in hashes], **sd})


@pytest.mark.parametrize("distance", range(9))
def test_near_duplicates_are_all_pairs_within_the_distance(distance):
    rng = np.random.default_rng(distance)
    hashes = rng.integers(0, 2**64, 400, dtype=np.uint64)
    for i in range(200, 400):  # neighbours at every distance, and chains of them
        flips = rng.choice(64, rng.integers(0, 10), replace=False)
        hashes[i] = hashes[rng.integers(0, i)] ^ np.bitwise_or.reduce(
            np.uint64(1) << flips.astype(np.uint64), initial=0
        )
    bits = np.bitwise_count(hashes[:, None] ^ hashes)
    expected = np.argwhere(np.triu(bits <= distance, k=1))
    pairs = covariates.near_duplicates(hashed(hashes), distance)
    got = pairs[["image_a", "image_b"]].astype(int).to_numpy()
    assert len(expected) > 10 and {*map(tuple, got.tolist())} == {*map(tuple, expected.tolist())}
    assert len(got) == len(expected) and np.array_equal(pairs["bits"], bits[got[:, 0], got[:, 1]])
    assert pairs["bits"].is_monotonic_increasing


def test_near_duplicates_of_few_photos_and_wrong_distances():
    for count in (0, 1):
        pairs = covariates.near_duplicates(hashed(range(count)))
        assert pairs.empty and list(pairs) == ["source_a", "image_a", "source_b", "image_b", "bits"]
    for distance in (-1, 9):
        with pytest.raises(ReefcoreError, match="chance"):
            covariates.near_duplicates(hashed([1, 2]), distance)


def test_colour_distance_is_the_shift_between_sources():
    table = colours(A=[100, 110], B=[130, 140], C=[105])
    distances = covariates.colour_distance(table)
    assert distances.at["A", "B"] == pytest.approx(10)  # red by 30, green and blue by 0
    assert distances.at["A", "C"] == pytest.approx(5 / 3)  # a source of one photo has a distribution, too
    assert np.array_equal(distances, distances.T) and (np.diag(distances) == 0).all()
    cameras = covariates.colour_distance(table.assign(camera=["x", "x", None, None, None]), by="camera")
    assert cameras.index.tolist() == ["not recorded", "x"]
    assert covariates.colour_distance(colours(A=[1])).shape == (1, 1)
    with pytest.raises(ReefcoreError, match="no photo"):
        covariates.colour_distance(colours())


def test_like_puts_the_nearest_source_first_and_says_how_much_lies_within():
    table = colours(far=range(200, 220), near=range(95, 116), one=[120])
    result = covariates.like(table, colours(mine=[100, 105, 110, 150]))
    assert result["source"].tolist() == ["near", "one", "far"] and result["images"].tolist() == [21, 1, 20]
    assert result["overlap"].tolist() == [0.75, 0, 0]
    assert result.at[1, "distance"] == pytest.approx((20 + 15 + 10 + 30) / 4 / 3)
    for left, right in ((colours(), table), (table, colours())):
        with pytest.raises(ReefcoreError, match="no photo"):
            covariates.like(left, right)


def test_spread_divides_the_variance():
    result = covariates.spread(colours(A=[10, 20], B=[50, 60])).set_index("channel")
    assert result.loc["red", ["between", "within"]].tolist() == pytest.approx([20, 5])
    assert result.at["red", "share"] == pytest.approx(400 / 425)
    assert np.isnan(result.at["green", "share"])  # where nothing varies, no part of it is anywhere


def test_summary_describes_each_source():
    table = colours(A=[100, 104, 108], B=[12]).assign(
        width=[40, 30, 20, 8], height=[30, 40, 10, 8], aspect=[4 / 3, 3 / 4, 2, 1], camera=["x", "y", None, None]
    )
    table["megapixels"] = table["width"] * table["height"]
    result = covariates.summary(table).set_index("source")
    a = result.loc["A"]
    assert a[["images", "megapixels_min", "megapixels", "megapixels_max", "cameras"]].tolist() == [
        3,
        200,
        1200,
        1200,
        2,
    ]
    assert a["same_size"] == pytest.approx(2 / 3)  # upright and across are one size
    assert a[["red", "cast"]].tolist() == [104, 94] and a["apart"]
    assert result.loc["B", ["images", "cast", "cameras"]].tolist() == [1, 10, 0] and result.at["B", "apart"]
    assert not covariates.summary(table.assign(red=[5, 15, 30, 10], blue=12.0)).set_index("source").at["A", "apart"]


def test_the_workflow_measures_every_photo_of_the_survey(smoke):
    images, table, unreadable = (smoke.table(name) for name in ("images", "covariates", "unreadable"))
    assert len(table) + len(unreadable) == len(images) > 0 and list(table) == covariates.COLUMNS
    assert covariates.like(table, table[table["source"] == smoke.profile.site]).at[0, "source"] == smoke.profile.site


def test_photos_of_a_folder_are_listed_by_their_endings(tmp_path):
    from reefcore import images

    for name in ("b.JPG", "a.png", "notes.txt", "c.tiff"):
        (tmp_path / name).touch()
    (tmp_path / "sub.jpg").mkdir()
    listed = images.photos_in(tmp_path)
    assert listed["image"].tolist() == ["a.png", "b.JPG", "c.tiff"] and set(listed["source"]) == {tmp_path.name}
    (tmp_path / "reefs" / "north").mkdir(parents=True)
    (tmp_path / "reefs" / "north" / "x.jpg").touch()
    assert images.photos_in(tmp_path / "reefs").to_numpy().tolist() == [["north", "x.jpg"]]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReefcoreError, match="there is no photo in this folder"):
        images.photos_in(tmp_path / "empty")
    with pytest.raises(ReefcoreError, match="this is not a folder"):
        images.photos_in(tmp_path / "nowhere")
