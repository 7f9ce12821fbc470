"""Figures draw what they are given, and what is shown has its caption, its words and its data."""

import base64
import io
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import figures
from reefcore.errors import ReefcoreError
from reefcore.figures import style


def payload(shown, kind):
    return base64.b64decode(re.search(rf"data:{kind};base64,([^\"]+)\"", shown._repr_html_())[1])


def test_show_carries_caption_alt_notice_and_data():
    counts = pd.Series({"Porites": 900, "Pavona": 30, "Favia": 3})
    figure = figures.long_tail(counts, minimum=10)
    data = counts.rename_axis("taxon").reset_index(name="points")
    shown = figures.show(figure, "tail", "A <caption>.", 'Bars from 3 to "900".', "Sample profile.", data)
    page = shown._repr_html_()
    assert "A &lt;caption&gt;." in page and "&quot;900&quot;" in page and "<em>Sample profile.</em>" in page
    svg = payload(shown, re.escape("image/svg+xml")).decode()
    assert svg.startswith("<?xml") and "http-equiv" not in svg
    pd.testing.assert_frame_equal(pd.read_csv(io.BytesIO(payload(shown, "text/csv"))), data, check_dtype=False)
    assert repr(shown) == '[figure tail: Bars from 3 to "900".]'


def test_the_same_figure_gives_the_same_bytes():
    def make():
        return figures.show(figures.long_tail(pd.Series({"a": 2, "b": 5})), "n", "c", "a", "p")._repr_html_()

    assert make() == make()


def test_photographs_become_jpeg():
    sheet = figures.photo_sheet([np.full((20, 30, 3), 90, "uint8")] * 3, ["a", "b", "c"], columns=2)
    shown = figures.show(sheet, "photos", "c", "a", "p")
    assert Image.open(io.BytesIO(payload(shown, "image/jpeg"))).format == "JPEG"
    with pytest.raises(ReefcoreError, match="2 labels for 1 photos"):
        figures.photo_sheet([np.zeros((4, 4, 3), "uint8")], ["a", "b"])


def test_a_figure_without_words_is_refused():
    with pytest.raises(ReefcoreError, match="the figure n has no caption or no alternative text"):
        figures.show(figures.long_tail(pd.Series({"a": 2})), "n", "caption", " ", "p")


def test_table_prints_numbers_for_people():
    table = pd.DataFrame({"name": ["a<b", None], "count": [924626, 5], "share": [0.5, np.nan], "gap": [-1.25, 2.0]})
    page = figures.show_table(table, "t", "Caption.", "Sample profile.", {"share": ".1%", "gap": "+"})._repr_html_()
    for cell in ("a&lt;b", "924,626", "50.0%", "−1.2", "+2", "–"):
        assert re.search(f">{re.escape(cell)}(<span data-room=[^>]*></span>)?</t[dh]>", page)
    assert page.count('scope="col"') == 4 and "Sample profile." in page
    again = pd.read_csv(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", page)[1])))
    pd.testing.assert_frame_equal(again, table, check_dtype=False)


def test_funnel_and_agreement_say_their_numbers():
    funnel = figures.funnel(pd.DataFrame({"step": ["all", "corals"], "annotations": [200, 50]}))
    assert {text.get_text().strip() for text in funnel.axes[0].texts} == {"200 (100%)", "50 (25%)"}
    table = pd.DataFrame({"stage": ["a", "b"], "published": [0.7, 0.9], "reproduced": [0.71, 0.88]})
    lines = figures.agreement_steps(table).axes[0].lines
    assert lines[1].get_ydata().tolist() == pytest.approx([71, 88])


def test_pairs_under_the_threshold_have_another_colour():
    axes = figures.pair_agreement(pd.DataFrame({"agreement": [0.1, 0.65, 0.7, 1.0]}), 0.7).axes[0]
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height(), bar.get_facecolor()) for bar in axes.patches]
    colours = {round(middle): colour for middle, height, colour in bars if height}
    assert colours[15] == colours[65] != colours[75]


def test_sources_are_ordered_by_cast():
    colours = pd.DataFrame({"source": ["a", "a", "b"], "red": [50, 52, 200], "green": 90, "blue": [200, 200, 60]})
    axes = figures.source_colours(colours).axes[0]
    assert axes.lines[0].get_ydata().tolist() == [200, 51]  # b, the redder, first


def test_palette_is_told_apart_in_grey():
    luminance = [
        sum(w * int(c[i : i + 2], 16) for w, i in zip((0.3, 0.59, 0.11), (1, 3, 5), strict=True))
        for c in (style.BLUE, style.ORANGE, style.GREEN, style.RED)
    ]
    assert min(abs(a - b) for i, a in enumerate(luminance) for b in luminance[:i]) > 5


def text_of(figure) -> str:
    figure.draw_without_rendering()
    return " ".join(text.get_text() for axes in figure.axes for text in (*axes.texts, axes.xaxis.label))


def test_the_funnel_draws_rules_that_were_applied_with_what_they_took():
    steps = pd.DataFrame(
        {
            "reason": ["all", "a trial", "not judged"],
            "published": [1366, 1310, 775],
            "here": pd.array([200, 190, None], "Int64"),
            "dropped": pd.array([0, 10, None], "Int64"),
        }
    )
    figure = figures.source_funnel(steps)
    assert len(figure.axes[0].get_yticks()) == 2
    assert "190  (−10)" in text_of(figure) and "200" in text_of(figure)


def test_what_is_under_the_threshold_is_named():
    table = pd.DataFrame(
        {"source": ["good", "bad"], "agreement": [0.9, 0.3], "ci_low": [0.6, 0.1], "ci_high": [1, 0.6]}
    )
    assert "dropped: bad" in text_of(figures.agreement_intervals(table, "source", 0.5))
    assert "dropped" not in text_of(figures.agreement_intervals(table, "source", 0.1))


def test_chances_are_written_at_the_curve():
    table = pd.DataFrame({"right": [0.0, 0.5, 0.7, 0.9, 1.0], "passes": [0.0, 0.2, 0.6, 0.95, 1.0]})
    drawn = text_of(figures.chance_of_passing(table, 0.7, 10))
    assert "20 %" in drawn and "60 %" in drawn and "95 %" in drawn


def test_every_pair_is_in_the_histogram_of_redrawn_reviews():
    pairs = pd.DataFrame({"kept": [True, True, False], "kept_again": [1.0, 0.72, 0.1]})
    bars = figures.kept_again(pairs).axes[0].patches
    assert sum(bar.get_height() for bar in bars) == 3


def test_negative_numbers_in_words_have_a_minus_sign():
    figure, _ = style.canvas()
    shown = [
        style.show(figure, "n", "by -1.5 of S3-S3", "vit-3: -2", "p"),
        style.show_table(pd.DataFrame(), "t", "-4", "p"),
    ]
    assert "by −1.5 of S3-S3" in shown[0].markup and "vit-3: −2" in shown[0].markup and "<caption>−4" in shown[1].markup


def test_a_tall_table_scrolls_inside_itself():
    short, tall = (style.show_table(pd.DataFrame({"n": range(rows)}), "t", "c", "notice").markup for rows in (39, 40))
    assert 'class="reef-table"' in short and 'class="reef-table tall"' in tall


def test_a_table_links_to_all_of_its_data_and_long_texts_wrap():
    whole = pd.DataFrame({"n": 1, "a": ["many words " * 5, "vit_large_patch16_224", "y"]})
    page = figures.show_table(whole.head(2), "t", "c", "p", data=whole)._repr_html_()
    assert len(pd.read_csv(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", page)[1])))) == 3
    assert "<td class=long>many" in page and "<td class=name>vit_large" in page  # a name has no blanks to wrap at
    link = figures.download("cff-version: 1.2.0", "CITATION.cff", "cite <this>")._repr_html_()
    assert 'download="CITATION.cff"' in link and "cite &lt;this&gt;" in link
