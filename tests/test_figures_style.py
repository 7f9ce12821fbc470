"""Every figure has one look: letters that a phone shows, names that do not overlap, and few bytes."""

import ast
import base64
import io
import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import figures
from reefcore.errors import ReefcoreError
from reefcore.figures import audit, colours, predictions, style, truth
from reefcore.figures.style import canvas, key, show, slim

TOP = Path(__file__).parents[1]
LONG = [f"Pseudodiploria-Acanthastrea {i}" for i in range(45)]
SOURCES = [f"sample-{i} A very long name of a reef of the east ({i})" for i in range(85)]


def overlaps(figure) -> list[str]:
    """Name the pairs of texts of a figure that lie upon each other by more than a pixel."""
    figure.draw_without_rendering()
    boxes = []
    for axes in figure.axes:
        words = [axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            low, high = sorted(axis.get_view_interval())
            words += [t.label1 for t in axis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_visible()]
        boxes += [(t.get_text(), t.get_window_extent().padded(-1)) for t in words if t.get_text() and t.get_visible()]
    return [f"{a} | {b}" for (a, one), (b, two) in combinations(boxes, 2) if one.overlaps(two)]


def smallest(figure) -> float:
    figure.draw_without_rendering()
    texts = [t for axes in figure.axes for t in (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels())]
    return min(t.get_fontsize() for t in texts if t.get_text())


def intervals(names, **more):
    share = np.linspace(0.02, 0.98, len(names))
    return pd.DataFrame({"name": names, "value": share, "ci_low": share - 0.02, "ci_high": share + 0.02, **more})


def many(count: int) -> dict:
    """The charts that draw a row per class or source, of so many."""
    names, n = (LONG * 2)[:count], np.arange(1, count + 1)
    sources, taxa = SOURCES[:count], [f"Dendrophyllia {i}" for i in n]
    photos = pd.DataFrame({"source": sources * 2, "red": 90, "green": 100, "blue": 120, "megapixels": 1.5})
    classes = pd.DataFrame(
        {"label": names, "train": n, "n": n, "errors": 1, "top_share": 1.0, "taken_for": names, "recall": 0.0}
    ).assign(ci_low=0.0, ci_high=0.5)
    square = pd.DataFrame(np.eye(count), names, names)
    cover = pd.DataFrame({"genus": names, "percent": n / 2, "ci_low": 0.0, "ci_high": n, "count": n})
    share = np.linspace(0.1, 0.9, count)
    regions = pd.DataFrame({"ecoregion": names, "sources": n, "images": n * 9, "annotations": n * 999})
    answered = pd.DataFrame({"label": names, "recall": share, "answered": share, "there": share[::-1]})
    return {
        "long_tail": figures.long_tail(pd.Series(n, names)),
        "resolution": colours.resolution_scatter(photos),
        "densities": colours.source_densities(photos, sources[:24]),
        "per_class": predictions.per_class(classes),
        "confusion": predictions.confusion(square, counts=pd.Series(n, names)),
        "cover": figures.cover_bars(cover, "genus"),
        "bars": figures.bars(pd.DataFrame({"label": names, "points": n}), "label", "points"),
        "shares": figures.shares(pd.DataFrame({"what": names, "images": n, "of": 1234}), "what"),
        "regions": figures.ecoregion_bars(regions),
        "answers": figures.answers(answered),
        "tree": figures.taxon_tree(pd.DataFrame({"taxon": taxa, "family": taxa, "annotations": n})),
    }


@pytest.mark.parametrize("count", [1, 45])
def test_names_do_not_overlap_and_can_be_read(count):
    for name, figure in many(count).items():
        found = overlaps(figure)
        assert not found, f"{name}: {found[:3]}"
        assert smallest(figure) >= (style.FINE if name == "confusion" else style.SMALL), name
        wide = {"per_class", "confusion", "regions"}
        assert name in wide or figure.get_figwidth() <= style.NARROW, f"{name} is too wide for a phone"


def test_85_sources_have_a_line_each():
    apart = pd.DataFrame(np.abs(np.subtract.outer(range(85), range(85))), SOURCES, SOURCES).astype(float)
    assert not overlaps(colours.colour_neighbours(apart))


def test_panels_of_models_and_settings_do_not_overlap():
    rows = intervals([f"ViT (MAE pretrained) {i}" for i in range(10)])
    table = pd.concat(rows.assign(setting=f"S{i} / S3&S4", published=0.5) for i in range(6))
    assert not overlaps(figures.forest(table, "setting", "name", "macro recall (%)", differences=False))
    square = pd.DataFrame(-0.111, [f"S{i} / S3&S4" for i in range(6)], [f"S{i} / S3&S4" for i in range(6)])
    figure = figures.matrices({"published": square, "this profile": square}, "tau", "+.2f")
    assert not overlaps(figure) and {t.get_rotation() for t in figure.axes[0].get_xticklabels()} == {0}
    history = pd.concat(pd.DataFrame({"model": m, "epoch": [1, 2], "loss": 1.0}) for m in rows["name"])
    assert not overlaps(figures.learning(history.assign(val_macro_recall=0.5)))
    points = pd.DataFrame({"group": list("ab"), "percent": [3.0, 9], "ci_low": 1.0, "ci_high": 12.0, "truth": 5.0})
    assert not overlaps(truth.against_truth(points, "group"))
    dates = pd.DataFrame(
        {"date": [f"2023-0{m}" for m in range(1, 5)] * 2, "group": ["a"] * 4 + ["b"] * 4, "percent": 5.0}
    )
    assert not overlaps(figures.over_time(dates.assign(ci_low=4.0, ci_high=6.0), "group", "date", ["a", "b"]))
    f1 = pd.DataFrame(
        {"name": "BioCLIP-FT, Train-S3 / Test-S3&S4", "limit": [62.4, 57, 90, 30], "macro_f1": [66.1, 70, 80, 30]}
    )
    assert not overlaps(audit.allowed_f1(f1.assign(above=f1["macro_f1"] > f1["limit"])))


def test_a_key_has_as_many_columns_as_fit():
    figure, (axes,) = canvas()
    lines = [
        axes.plot([0, 1], label="a label that is long enough to fill a third of it " + "x" * i)[0] for i in range(3)
    ]
    key(figure, lines)
    figure.draw_without_rendering()
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width and figure.legends[0]._ncols == 1
    other, (axes,) = canvas()
    key(other, axes.plot([0, 1], label="a") + axes.plot([1, 0], label="b"))
    assert other.legends[0]._ncols == 3


def shown(figure, **more) -> str:
    return show(figure, "n", "A caption.", "Something else.", "Sample profile.", **more)._repr_html_()


def test_a_figure_says_how_wide_it_is_and_where_it_begins_to_scroll():
    narrow, wide = (canvas(width)[0] for width in (style.NARROW, style.WIDE))
    sizes = [
        [int(n) for n in re.search(r"--wide: (\d+)px; --least: (\d+)px", shown(f)).groups()] for f in (narrow, wide)
    ]
    assert sizes[0][1] <= 328 < sizes[1][1]  # a phone of 360 pixels shows the narrow one whole
    assert sizes[0][0] == pytest.approx(96 * style.NARROW, abs=20)


def test_drawings_are_slim_and_look_the_same(tmp_path):
    figure, (axes,) = canvas()
    axes.barh([f"name {i}" for i in range(30)], range(30), hatch="//")
    stream = io.StringIO()
    figure.savefig(stream, format="svg")
    full, less = stream.getvalue(), slim(stream.getvalue())
    assert len(less) < 0.62 * len(full)
    assert less.count("<use") == full.count("<use") and less.count("<path") == full.count("<path")
    used, given = set(re.findall(r'(?:href="|url\()#([\w-]+)', less)), set(re.findall(r' id="([\w-]+)"', less))
    assert used == given  # every letter, marker and frame that is referred to is there, and nothing else
    import xml.etree.ElementTree as ET

    ET.fromstring(less.encode())


def test_photographs_stay_under_their_weight():
    noise = np.random.default_rng(0).integers(0, 255, (60, 96, 96, 3)).astype("uint8")
    page = shown(figures.contact_sheet(noise, ["Pseudodiploria"] * 60))
    content = base64.b64decode(re.search(r"data:image/jpeg;base64,([^\"]+)", page)[1])
    assert Image.open(io.BytesIO(content)).width >= 400
    flat = shown(figures.contact_sheet(np.full((60, 96, 96, 3), 90, "uint8"), ["Porites"] * 60))
    content = base64.b64decode(re.search(r"data:image/jpeg;base64,([^\"]+)", flat)[1])
    assert len(content) <= style.HEAVY and Image.open(io.BytesIO(content)).width >= 1300  # twice the page's pixels


def test_caption_and_alternative_text_differ_and_a_long_one_is_cut():
    with pytest.raises(ReefcoreError, match="are the same"):
        show(canvas()[0], "n", "Same.", "Same.", "p")
    alt = "Bars: " + "; ".join(f"genus {i} has {i} %" for i in range(60)) + "."
    said = re.search(r'alt="([^"]*)"', show(canvas()[0], "n", "c", alt, "p")._repr_html_())[1]
    inner = style._brief("A (b; " + "c" * 280 + "); d (e; f) " + "g" * 60 + ".")
    assert inner.startswith("A (b; ") and inner.count("(") == inner.count(")")  # not cut inside of brackets
    assert len(said) <= style.BRIEF + 30 and said.endswith("; the rest is in the data.")


def figure_calls():
    """Give page, caption, alternative text and data of each figure of the book, as code; names are looked up."""
    for path in sorted((TOP / "notebooks").rglob("*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] != "code" or not re.search(r"(?<![_\w])show\(", source):
                continue
            tree = ast.parse(source)
            set_ = {
                n.targets[0].id: n.value
                for n in ast.walk(tree)
                if isinstance(n, ast.Assign) and hasattr(n.targets[0], "id")
            }
            for call in ast.walk(tree):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "show":
                    caption, alt = (set_.get(getattr(a, "id", ""), a) for a in call.args[2:4])
                    yield f"{path.stem}: {ast.unparse(call.args[1])}", caption, alt, call.args[5:]


def test_every_figure_of_the_book_gives_its_data_and_says_a_computed_value():
    found = list(figure_calls())
    assert len(found) > 90
    for name, caption, alt, data in found:
        computed = [n for n in ast.walk(alt) if isinstance(n, ast.FormattedValue | ast.Call)]
        assert computed, f"{name}: its alternative text holds no computed value"
        assert ast.dump(caption) != ast.dump(alt), name
        assert data, f"{name}: the figure gives no data"


def test_colours_come_from_the_style():
    for path in sorted((TOP / "reefcore" / "figures").glob("*.py")):
        if path.stem not in ("style", "explorer"):
            assert not re.search(r"[\"']#[0-9A-Fa-f]{3,8}[\"']", path.read_text()), path
