"""Figures of predictions draw every number, and tell right, wrong and not measured apart without colour."""

import numpy as np
import pandas as pd
import pytest

from reefcore.figures import answer_sheet, style
from reefcore.figures import predictions as draw


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_three_panels_share_the_classes():
    table = pd.DataFrame(
        {
            "label": ["Porites", "Pavona", "Favia"],
            "train": [900, 30, 0],
            "n": [10, 5, 0],
            "recall": [0.9, 1.0, np.nan],
            "ci_low": [0.6, 0.5, np.nan],
            "ci_high": [0.98, 1.0, np.nan],
            "errors": [1, 0, 0],
            "taken_for": ["Pavona", None, None],
            "top_share": [1.0, np.nan, np.nan],
        }
    )
    train, top, recall = draw.per_class(table).axes
    assert [bar.get_width() for bar in train.patches] == [900, 30, 0] and train.get_xscale() == "log"
    assert [bar.get_width() for bar in top.patches] == [100, 0, 0]
    assert words(top) == ["Pavona", "no error"] and words(recall) == ["not in the test"]
    assert recall.lines[0].get_xdata()[:2].tolist() == [90, 100]
    assert len({axes.get_ylim() for axes in (train, top, recall)}) == 1
    assert [label.get_text() for label in train.get_yticklabels()] == table["label"].tolist()


def shares():
    names = ["Favites", "Goniastrea", "Porites"]
    return pd.DataFrame([[0.95, 0.05, 0], [np.nan] * 3, [0, 0.4, 0.6]], index=names, columns=names)


def test_absent_classes_are_hatched_and_measured_zeros_are_blank():
    figure = draw.confusion(shares())
    axes = figure.axes[0]
    assert axes.collections[0].get_array().tolist() == pytest.approx([95, 5, 40, 60])
    hatched = [patch.get_y() + 0.5 for patch in axes.patches if patch.get_hatch()]
    assert hatched == [1] and words(axes).count("not in the test") == 1
    assert {text for text in words(axes) if text.isdigit()} == {"95", "40", "60"}  # from a tenth on
    assert "image/svg" in style.show(figure, "n", "c", "a", "p")._repr_html_()


def test_families_are_outlined_and_named():
    families = pd.Series({"Favites": "Merulinidae", "Goniastrea": "Merulinidae", "Porites": "Poritidae"})
    axes = draw.confusion(shares(), families).axes[0]
    blocks = [(patch.get_x() + 0.5, patch.get_width()) for patch in axes.patches if not patch.get_fill()]
    assert blocks == [(0, 2), (2, 1)] and {"Merulinidae", "Poritidae"} <= set(words(axes))


def test_rows_have_the_number_of_their_points():
    axes = draw.confusion(shares(), counts=pd.Series({"Favites": 1200, "Porites": 5})).axes[0]
    named = [label.get_text() for label in axes.get_yticklabels()]
    assert named == ["Favites (1,200)", "Goniastrea (0)", "Porites (5)"]


def test_reliability_has_a_panel_per_setting_and_a_marker_per_stage():
    parts = [
        pd.DataFrame({"setting": s, "stage": g, "n": [5, 6], "confidence": [0.2, 0.8], "accuracy": [0.1, 0.7]})
        for s in ("home", "away")
        for g in ("as given", "rescaled")
    ]
    table = pd.concat(parts).assign(ci_low=0.05, ci_high=0.9)
    panels = draw.reliability(table).axes
    assert [axes.get_title() for axes in panels] == [f"{s}\n5 to 6 points per marker" for s in ("home", "away")]
    drawn = panels[1].lines[1:]
    assert [line.get_marker() for line in drawn] == ["o", "s"] and drawn[0].get_ydata().tolist() == [10, 70]
    assert all(axes.get_xlim() == axes.get_ylim() == (0, 90) for axes in panels)  # the next ten above the data


def test_coverage_and_hours_draw_their_numbers():
    table = pd.DataFrame({"setting": "a", "coverage": [0.5, 1], "accuracy": [0.9, 0.6], "ci_low": 0.5, "ci_high": 0.95})
    axes = draw.coverage(table).axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[50, 90], [100, 60]] and axes.get_ylim() == (0, 101)
    axes = draw.coverage(table.assign(ci_high=0.304)).axes[0]
    assert axes.get_ylim() == (0, 40)
    table = pd.DataFrame({"recipe": ["b", "a"], "low": [150, 1.0], "hours": [200, 2.0], "high": [1234, 3.0]})
    axes = draw.hours(table).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"] and words(axes) == ["2", "200"]


def test_right_and_wrong_differ_in_sign_and_frame():
    answers = pd.DataFrame(
        {
            "y_true": ["Porites"] * 2,
            "y_pred": ["Porites", "Montipora"],
            "right": [True, False],
            "confidence": [0.5, 0.93],
        }
    )
    axes = answer_sheet(np.zeros((2, 8, 8, 3), np.uint8), answers).axes[0]
    assert words(axes) == ["Porites\n✓ Porites\n50% sure", "Porites\n✗ Montipora\n93% sure"]
    solid, broken = axes.patches
    assert solid.get_linestyle() == "solid" and broken.get_linestyle() != "solid"
    assert broken.get_linewidth() > solid.get_linewidth()
