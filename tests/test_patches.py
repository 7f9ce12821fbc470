"""Photos are opened by one rule, and crops equal pyspacer's pixel for pixel."""

import logging

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageFile

from reefcore import images, patches
from reefcore.errors import ReefcoreError
from reefcore.figures.sheets import contact_sheet
from reefcore.images import image_size, open_image


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def padded_and_sliced(image, row, column, size):
    """Crop as pyspacer states it: pad by the size, then slice from centre - size / 2, rounded down."""
    image = np.pad(image, ((size, size), (size, size), (0, 0)), mode="reflect")
    top, left = int(row + size - size / 2), int(column + size - size / 2)
    return image[top : top + size, left : left + size]


@pytest.mark.parametrize("shape", [(40, 60), (7, 5), (1, 9), (6, 1), (2, 2), (1, 1)])
@pytest.mark.parametrize("size", [1, 2, 5, 8, 17, 32])
def test_crop_equals_padding_and_slicing_everywhere(shape, size):
    image = noise(*shape)
    rows, columns = ({0, n // 3, n // 2, n - 1} for n in shape)
    for row in rows:
        for column in columns:
            got = patches.crop(image, row, column, size)
            assert got.shape == (size, size, 3) and got.dtype == np.uint8
            assert np.array_equal(got, padded_and_sliced(image, row, column, size)), (row, column)


@pytest.mark.parametrize("size", [8, 9])
def test_the_point_is_just_past_the_middle(size):
    image = noise(50, 50)
    assert np.array_equal(patches.crop(image, 20, 30, size)[(size + 1) // 2, (size + 1) // 2], image[20, 30])


def test_a_crop_is_a_copy():
    image = noise(20, 20)
    before = image.copy()
    patches.crop(image, 10, 10, 4)[:] = 0
    assert np.array_equal(image, before)


@pytest.mark.parametrize("row, column, size", [(-1, 0, 4), (0, 10, 4), (10, 0, 4), (5, 5, 0)])
def test_crop_refuses_points_outside_and_empty_patches(row, column, size):
    with pytest.raises(ReefcoreError):
        patches.crop(noise(10, 10), row, column, size)


def test_exif_orientation_is_not_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to see it upright
    Image.fromarray(noise(20, 30)).save(tmp_path / "a.jpg", exif=exif)
    assert open_image(tmp_path / "a.jpg").shape == (20, 30, 3)
    assert image_size(tmp_path / "a.jpg") == (30, 20)


def test_every_mode_becomes_rgb(tmp_path):
    pixels = noise(8, 9)
    colour, gray = Image.fromarray(pixels), Image.fromarray(pixels[:, :, 0])
    rgba = colour.copy()
    rgba.putalpha(gray)
    palette = colour.quantize(16)
    clear = palette.copy()
    clear.info["transparency"] = bytes(range(16))
    deep = pixels[:, :, 0].astype(np.uint16) * 256 + 77
    Image.fromarray(deep).save(tmp_path / "deep.png")
    for name, image in {"gray": gray, "rgba": rgba, "palette": palette, "clear": clear}.items():
        image.save(tmp_path / f"{name}.png")
    gray_rgb = pixels[:, :, [0, 0, 0]]
    assert np.array_equal(open_image(tmp_path / "gray.png"), gray_rgb)
    assert np.array_equal(open_image(tmp_path / "deep.png"), gray_rgb)  # the high byte, where PIL would saturate
    assert np.array_equal(open_image(tmp_path / "rgba.png"), pixels)
    for name in ("palette", "clear"):
        assert np.array_equal(open_image(tmp_path / f"{name}.png"), np.asarray(palette.convert("RGB")))
    Image.new("CMYK", (9, 8), (0, 255, 255, 0)).save(tmp_path / "ink.tif")
    assert open_image(tmp_path / "ink.tif")[0, 0].tolist() == [255, 0, 0]
    Image.fromarray(np.ones((8, 9), np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(ReefcoreError, match="mode F"):
        open_image(tmp_path / "float.tif")


def spy_on_pil(monkeypatch) -> list:
    """List the files that go to PIL."""
    by_pil, original = [], images._rgb
    monkeypatch.setattr(images, "_rgb", lambda data, side: by_pil.append(data) or original(data, side))
    return by_pil


@pytest.mark.parametrize("shape", [(203, 301), (16, 8), (1, 1)])
@pytest.mark.parametrize(
    "options",
    [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"mode": "L"}, {"progressive": True}],
    ids=lambda options: "-".join(f"{key}={value}" for key, value in options.items()),
)
def test_ordinary_jpegs_have_pils_pixels_without_pil(tmp_path, monkeypatch, shape, options):
    mode = {"mode": "RGB"} | options
    picture = Image.fromarray(noise(*shape)).convert(mode.pop("mode"))
    picture.save(tmp_path / "a.jpg", quality=90, **mode)
    expected = np.asarray(Image.open(tmp_path / "a.jpg").convert("RGB"))
    by_pil = spy_on_pil(monkeypatch)
    assert np.array_equal(open_image(tmp_path / "a.jpg"), expected) and not by_pil


def test_other_jpegs_are_left_to_pil(tmp_path, monkeypatch):
    by_pil = spy_on_pil(monkeypatch)
    Image.new("CMYK", (9, 8), (0, 255, 255, 0)).save(tmp_path / "ink.jpg")
    Image.fromarray(noise(16, 16)).save(tmp_path / "direct.jpg", keep_rgb=True)
    Image.fromarray(noise(16, 16)).save(tmp_path / "huge.jpg")
    assert np.abs(open_image(tmp_path / "ink.jpg")[0, 0].astype(int) - [255, 0, 0]).max() < 8
    expected = np.asarray(Image.open(tmp_path / "direct.jpg"))
    assert np.array_equal(open_image(tmp_path / "direct.jpg"), expected)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # a file of few bytes could ask for any amount of memory
    with pytest.raises(ReefcoreError, match="bomb"):
        open_image(tmp_path / "huge.jpg")
    assert len(by_pil) == 3


@pytest.mark.parametrize("shape, reduced", [((203, 803), (26, 101)), ((90, 401), (23, 101)), ((90, 301), (45, 151))])
def test_a_reduced_decode_keeps_the_side_asked_for_and_is_pils(tmp_path, shape, reduced):
    Image.fromarray(noise(*shape)).save(tmp_path / "a.jpg")
    pixels, _ = images.decode(tmp_path / "a.jpg", side=100)
    with Image.open(tmp_path / "a.jpg") as image:
        image.draft("RGB", (reduced[1] - 1, reduced[0] - 1))
        assert pixels.shape[:2] == reduced and np.array_equal(pixels, np.asarray(image))


def test_what_cannot_be_reduced_is_decoded_whole(tmp_path):
    for name, shape in (("low.jpg", (1, 900)), ("small.jpg", (60, 90)), ("other.png", (300, 900))):
        Image.fromarray(noise(*shape)).save(tmp_path / name)
        assert images.decode(tmp_path / name, side=100)[0].shape[:2] == shape


def test_the_camera_is_make_and_model_and_nothing_else(tmp_path):
    def camera(make=None, model=None, name="a.jpg"):
        exif = Image.Exif()
        exif.update({tag: text for tag, text in ((0x010F, make), (0x0110, model)) if text})
        exif[0x013B], exif[0x8825] = "A. Diver", {1: "S", 2: (17.0, 30.0, 0.0)}
        Image.fromarray(noise(8, 8)).save(tmp_path / name, exif=exif)
        return images.camera(tmp_path / name)

    assert camera("Canon", "Canon PowerShot G9 X") == "Canon PowerShot G9 X"
    assert camera("NIKON ", "D\0") == "NIKON D" and camera(make="GoPro") == "GoPro" and camera(model="X1") == "X1"
    assert camera() is None and camera("Canon", "G9", "a.png") is None
    Image.fromarray(noise(8, 8)).save(tmp_path / "bad.jpg", exif=b"Exif\0\0damaged")
    assert images.camera(tmp_path / "bad.jpg") is None
    with pytest.raises(ReefcoreError, match="does not exist"):
        images.camera(tmp_path / "none.jpg")


@pytest.fixture
def truncated(tmp_path):
    Image.fromarray(noise(200, 300)).save(tmp_path / "whole.jpg")
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    return tmp_path / "cut.jpg"


def test_a_truncated_jpeg_is_used_and_reported(truncated, monkeypatch, caplog):
    image = open_image(truncated)
    assert "ends early" in caplog.text
    whole = open_image(truncated.with_name("whole.jpg"))
    assert np.array_equal(image[:64], whole[:64]) and not np.array_equal(image[-64:], whole[-64:])
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # pyspacer's way
    assert np.array_equal(image, np.asarray(Image.open(truncated).convert("RGB")))


def test_what_is_no_photo_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    (tmp_path / "head.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF")
    Image.fromarray(noise(64, 64)).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:6000])
    for name in ("text.jpg", "head.jpg", "cut.png", "missing.jpg"):
        with pytest.raises(ReefcoreError, match=name):
            open_image(tmp_path / name)
    for name in ("text.jpg", "missing.jpg"):
        with pytest.raises(ReefcoreError, match=name):
            image_size(tmp_path / name)


def points_of(rows):
    points = pd.DataFrame(rows, columns=["source", "image", "row", "column"])
    return points.assign(annotation_id=[f"id{i}" for i in range(len(points))])


def test_cut_keeps_the_order_and_lists_what_it_skips(tmp_path, truncated, caplog):
    photos = tmp_path / "photos"
    for source, name, seed in (("A", "x.png", 1), ("A", "y.png", 2), ("B", "x.png", 3)):
        (photos / source).mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(40, 50, seed)).save(photos / source / name)
    truncated.rename(photos / "B" / "cut.jpg")
    points = points_of(
        [("B", "x.png", 5, 6), ("A", "y.png", 39, 49), ("A", "x.png", 40, 0), ("A", "none.png", 1, 1),
         ("A", "x.png", 0, 0), ("B", "x.png", 20, 20), ("B", "cut.jpg", 1, 1)]
    )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        got, skipped = patches.cut(points, photos, 16)
    seeds = {("A", "x.png"): 1, ("A", "y.png"): 2, ("B", "x.png"): 3}
    kept = points[~points["annotation_id"].isin(skipped["annotation_id"])]
    assert len(got) == len(kept) == 5
    for patch, point in zip(got[:-1], kept[:-1].itertuples(), strict=True):
        image = noise(40, 50, seeds[point.source, point.image])
        assert np.array_equal(patch, patches.crop(image, point.row, point.column, 16))
    assert skipped["annotation_id"].tolist() == ["id2", "id3"]
    assert "lies outside its photo of 40 x 50" in skipped["reason"][0] and "does not exist" in skipped["reason"][1]
    assert skipped.attrs["truncated"] == ["B/cut.jpg"]
    assert "2 of 7 points have no patch" in caplog.text
    again, _ = patches.cut(points, photos, 16, workers=1)
    assert np.array_equal(got, again)


def test_patches_of_a_jpeg_are_pils_crops(tmp_path):
    Image.fromarray(noise(301, 402)).save(tmp_path / "x.jpg", quality=92)
    expected = np.asarray(Image.open(tmp_path / "x.jpg"))
    got, _ = patches.cut(points_of([("A", "x.jpg", 150, 200), ("A", "x.jpg", 3, 401)]), tmp_path, 64)
    assert np.array_equal(got[0], expected[118:182, 168:232])
    assert np.array_equal(got[1], padded_and_sliced(expected, 3, 401, 64))


def test_photos_of_one_source_may_lie_directly_in_the_folder(tmp_path):
    Image.fromarray(noise(20, 20)).save(tmp_path / "x.png")
    got, skipped = patches.cut(points_of([("A", "x.png", 5, 6)]), tmp_path, 8)
    assert len(got) == 1 and skipped.empty
    got, skipped = patches.cut(points_of([("A", "x.png", 5, 6), ("B", "x.png", 5, 6)]), tmp_path, 8)
    assert len(got) == 0 and len(skipped) == 2  # whose photo it is cannot be known


def test_cut_of_nothing_is_empty(tmp_path):
    got, skipped = patches.cut(points_of([]), tmp_path, 8)
    assert got.shape == (0, 8, 8, 3) and skipped.empty


@pytest.fixture
def array(tmp_path):
    np.save(tmp_path / "patches.npy", np.stack([noise(16, 16, i) for i in range(5)]))
    return patches.ArrayPatches(np.load(tmp_path / "patches.npy", mmap_mode="r"), list("abcde"))


def test_patches_are_read_by_position_in_any_order_and_again(array):
    assert array.ids == list("abcde") and array.size == 16 and array.in_memory
    got = array.read([3, 0, 3], 16)
    assert np.array_equal(got, np.stack([noise(16, 16, i) for i in (3, 0, 3)]))
    got[:] = 0  # a copy
    assert array.read([3], 16).any() and array.read([], 8).shape == (0, 8, 8, 3)


def test_resizing_averages_and_keeps_the_middle(array):
    checks = np.indices((16, 16)).sum(axis=0)[:, :, None].repeat(3, axis=2) % 2 * 255
    assert np.ptp(patches.resized(checks.astype(np.uint8), 4)[1:-1, 1:-1].astype(int)) <= 2  # no alias of the pattern
    assert array.read([1, 2], 8).shape == (2, 8, 8, 3) and array.read([1], 40).dtype == np.uint8
    assert np.array_equal(array.read([2], 8)[0], array.read([0, 2], 8)[1])
    half = np.zeros((16, 16, 3), np.uint8)
    half[:, 8:] = 200
    small = patches.resized(half, 8)
    assert np.array_equal(small, 200 - small[:, ::-1])


@pytest.mark.parametrize("positions, side", [([5], 8), ([0, -1], 8), ([0], 0)])
def test_positions_without_a_patch_are_refused(array, positions, side):
    with pytest.raises(ReefcoreError, match=r"no patch at position|of 0 pixels"):
        array.read(positions, side)


def test_an_array_of_patches_must_be_one(array):
    for wrong, ids in ((array.array, ["a"]), (array.array[0], ["a"] * 16), (np.zeros((1, 4, 4, 3)), ["a"])):
        with pytest.raises(ReefcoreError, match=r"ids|holds no patches"):
            patches.ArrayPatches(wrong, ids)


def test_statistics_are_those_of_every_pixel(array):
    got = patches.statistics(array, [4, 1, 2])
    pixels = np.asarray(array.array)[[1, 2, 4]] / 255
    assert got["channel"].tolist() == ["red", "green", "blue"] and set(got["n"]) == {3}
    assert np.allclose(got["mean"], pixels.mean(axis=(0, 1, 2))) and np.allclose(got["std"], pixels.std(axis=(0, 1, 2)))
    drawn = patches.statistics(array, range(5), seed=1, most=2)
    assert set(drawn["n"]) == {2} and drawn.equals(patches.statistics(array, range(5), seed=1, most=2))
    means = {patches.statistics(array, range(5), seed=seed, most=2)["mean"][0] for seed in range(8)}
    assert len(means) > 1 and all(np.isclose(mean, 0.5, atol=0.1) for mean in means)
    with pytest.raises(ReefcoreError, match="no patch to take"):
        patches.statistics(array, [])
    with pytest.raises(ReefcoreError, match="position 9"):
        patches.statistics(array, [9])


def test_contact_sheet_shows_every_patch_with_its_label():
    figure = contact_sheet(
        np.stack([noise(16, 16, i) for i in range(5)]), list("abcde"), columns=2, title="T", mark=True
    )
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == list("abcde")
    assert len(axes.images) == 5 and np.array_equal(axes.images[3].get_array(), noise(16, 16, 3))
    long = contact_sheet(np.stack([noise(16, 16)] * 2), ["✗ Stephanocoenia", "Porites"]).axes[0].texts
    sizes = {text.get_fontsize() for text in long}
    assert len(sizes) == 1 and sizes.pop() < axes.texts[0].get_fontsize()  # so that neighbours do not touch
    with pytest.raises(ReefcoreError):
        contact_sheet(np.zeros((0, 8, 8, 3), np.uint8), [])
    with pytest.raises(ReefcoreError):
        contact_sheet(np.zeros((2, 8, 8, 3), np.uint8), ["a"])
