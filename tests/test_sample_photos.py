"""The photo generator of the sample: taxa, looks, photos and their class maps."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from reefcore.errors import ReefcoreError
from reefcore.sample import morphology, photos, taxa, water

REALM = "Central Indo-Pacific"
GROUND = {"Turf algae": 0.25, "Sediment": 0.1, "Rubble": 0.05, "Shadow": 0.02}
CORALS = {"Porites": 0.25, "Acropora": 0.2, "Platygyra": 0.1, "Fungiidae": 0.03}


@pytest.fixture(scope="module")
def look():
    return photos.make_look(3, REALM, 12.0)


def test_the_44_taxa_are_of_20_families_and_include_every_genus_the_paper_names():
    table = taxa.table()
    assert len(table) == 44 and table["family"].nunique() == 20
    assert (table["rank"] == "family").sum() == 1
    assert set(taxa.NAMED) | set(taxa.LOADER) <= set(table["taxon"])
    assert set(table["grade"]) == {"named", "loader", "guess"}
    assert table["aphia_id"].is_unique and (table["aphia_id"] > 0).all()
    ocean = table.set_index("taxon")["ocean"]
    assert ocean["Diploria"] == "Atlantic" and ocean["Pocillopora"] == "Indo-Pacific" and ocean["Porites"] == "both"


def test_every_look_refers_to_known_surfaces_forms_and_colours():
    for kind in taxa.KINDS.values():
        assert kind.corallite in morphology.SURFACES
        assert set(kind.forms) <= {*morphology.FORMS, "ground"}
        assert {name for pair in kind.colours for name in pair} <= set(taxa.COLOURS)


@pytest.mark.parametrize("kind", taxa.KINDS.values(), ids=lambda kind: kind.name)
def test_tiles_are_finite_and_repeat_without_a_seam(kind):
    tile = morphology.tile(kind, 1)
    assert np.isfinite(tile).all() and tile[..., 1].std() > 0.01
    for axis in (0, 1):
        steps = np.abs(np.diff(tile[..., 0], axis=axis)).mean()
        seam = np.abs(tile[..., 0].take(0, axis) - tile[..., 0].take(-1, axis)).mean()
        assert seam < 3 * steps


@pytest.mark.parametrize("form", morphology.FORMS)
def test_forms_are_bodies_of_reasonable_extent(form):
    height, tip = np.moveaxis(morphology.stamp("Porites", form, 0), -1, 0)
    assert 0.1 < (height > 0).mean() < 0.85
    assert height.min() >= -0.2 and height.max() < 2 and np.abs(tip).max() <= 1.5


def test_the_same_seed_gives_the_same_bytes_in_another_process(look, tmp_path):
    image, _ = photos.photo(look, CORALS | GROUND, 7, 240, 160)
    here = hashlib.sha256(photos.save(image, tmp_path / "a.jpg", look, 7).read_bytes()).hexdigest()
    code = (
        "import hashlib, sys; from reefcore.sample import photos;"
        f"look = photos.make_look(3, {REALM!r}, 12.0);"
        f"image, _ = photos.photo(look, {CORALS | GROUND!r}, 7, 240, 160);"
        "print(hashlib.sha256(photos.save(image, sys.argv[1], look, 7).read_bytes()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "b.jpg")], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == here
    other, _ = photos.photo(look, CORALS | GROUND, 8, 240, 160)
    assert (other != image).mean() > 0.5


def test_the_order_in_which_classes_are_asked_for_does_not_matter(look):
    cover = CORALS | GROUND
    first = photos.photo(look, cover, 1, 120, 90)
    again = photos.photo(look, dict(reversed(cover.items())), 1, 120, 90)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_a_photo_shows_what_was_asked_for_and_nothing_else(look):
    cover = CORALS | GROUND
    shares = np.zeros(len(photos.CLASSES))
    for seed in range(4):
        image, classes = photos.photo(look, cover, seed, 660, 495)
        assert image.shape == (495, 660, 3) and image.dtype == np.uint8
        assert classes.shape == (495, 660) and classes.dtype == np.uint8
        assert {photos.CLASSES[number] for number in np.unique(classes)} == set(cover)
        shares += np.bincount(classes.ravel(), minlength=len(shares)) / classes.size / 4
    got = {name: shares[photos.CLASSES.index(name)] for name in cover}
    assert got["Porites"] > got["Platygyra"] > got["Fungiidae"] > 0.005
    assert 0.35 < sum(got[name] for name in CORALS) < 0.8


def test_labels_are_visible_a_class_differs_from_its_surroundings(look):
    cover = {"Tubastraea": 0.3, "Turf algae": 0.7}
    image, classes = photos.photo(look, cover, 2, 400, 300)
    body = classes == photos.CLASSES.index("Tubastraea")
    mean = [image[where].mean(0) for where in (body, ~body)]
    red = [rgb[0] / rgb.sum() for rgb in mean]
    assert red[0] > red[1] + 0.03


def test_without_ground_a_photo_has_turf(look):
    _, classes = photos.photo(look, {"Porites": 1.0}, 0, 200, 150)
    assert {photos.CLASSES[number] for number in np.unique(classes)} <= {"Porites", "Turf algae"}


def test_a_frame_is_labelled_as_what_it_is():
    looks = (photos.make_look(seed, REALM, 12.0) for seed in range(200))
    framed = next(look for look in looks if look.frame)
    seen = set()
    for seed in range(4):
        _, classes = photos.photo(framed, CORALS | GROUND, seed, 200, 150)
        seen |= {photos.CLASSES[number] for number in np.unique(classes)}
    assert "Human objects" in seen


def test_resolutions_follow_megapixels_and_vary_only_where_photos_are_cropped():
    for seed in range(40):
        look = photos.make_look(seed, REALM, 12.0)
        sizes = {photos.shape(look, photo) for photo in range(5)}
        assert (len(sizes) > 1) == look.cropped
        if not look.cropped:
            width, height = sizes.pop()
            assert width * height == pytest.approx(12e6 * photos.AREA_SCALE, rel=0.01)
            assert width / height == pytest.approx(look.aspect, rel=0.01)


@pytest.mark.parametrize("megapixels", [0.2, 27.0])
def test_the_smallest_and_the_largest_photo_can_be_taken(megapixels):
    look = photos.make_look(1, "Tropical Atlantic", megapixels)
    width, height = photos.shape(look, 0)
    image, _ = photos.photo(look, CORALS | GROUND, 0, width, height)
    assert image.shape == (height, width, 3) and image.std() > 5


def test_sources_differ_in_colour_more_than_photos_of_one_source():
    means = np.array(
        [
            [photos.photo(look, CORALS | GROUND, seed, 160, 120)[0].mean((0, 1)) for seed in range(3)]
            for look in (photos.make_look(seed, REALM, 12.0) for seed in range(12))
        ]
    )
    cast = means / means.sum(-1, keepdims=True)
    assert cast.mean(1).std(0).mean() > 2 * cast.std(1).mean()


def test_deeper_water_takes_the_red():
    reef, relief = np.full((3, 40, 40), 0.3, np.float32), np.zeros((40, 40), np.float32)
    clear = water.Water("I", water.JERLOV["I"], 0.05, 0.0)
    camera = water.Camera(0.0, 0.0, (1.0, 1.0, 1.0), 0.2, 1.0, 1.0, 0.0, 0.4, 1.0, 80)
    red = []
    for depth in (1.0, 15.0):
        light = water.immerse(reef.copy(), relief, clear, camera, depth, 1.0, np.random.default_rng(0))
        red.append(light[0].mean() / light.sum(0).mean())
    assert red[1] < 0.5 * red[0]


def test_a_photo_is_saved_as_a_jpeg_of_its_size(look, tmp_path):
    image, _ = photos.photo(look, CORALS | GROUND, 0, 120, 90)
    with Image.open(photos.save(image, tmp_path / "x.jpg", look, 0)) as saved:
        assert saved.format == "JPEG" and saved.size == (120, 90)
        assert np.abs(np.asarray(saved).astype(int) - image).mean() < 12


@pytest.mark.parametrize("cover", [{}, {"Acropora": 0.5, "Unicornia": 0.5}, {"Acropora": 0.0}])
def test_a_photo_of_nothing_or_of_an_unknown_class_is_refused(look, cover):
    with pytest.raises(ReefcoreError, match="no photo can show"):
        photos.photo(look, cover, 0, 100, 80)


def test_a_look_needs_a_resolution():
    with pytest.raises(ReefcoreError, match="megapixels"):
        photos.make_look(0, REALM, 0)
