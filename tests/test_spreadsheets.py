"""What people open in a spreadsheet runs nothing, and what programs read again is what it was."""

import io

import numpy as np
import pandas as pd
import pytest

from reefcore import spreadsheets

RUNS = ["=cmd()", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1", "-ve", "-", "-1\n=2"]
STAYS = ["-3", "+2.5", "-.5e-3", "−3", "12%", "-4.5%", "Porites", "'tis", "", "–", "a=1", "<script>", None]


@pytest.mark.parametrize("kind", ["str", "object", "category"])
def test_what_runs_gets_an_apostrophe_and_nothing_else_does(kind):
    table = pd.DataFrame({"=head": pd.Series(RUNS + STAYS, dtype=kind)})
    safe = spreadsheets.inert(table)
    assert list(safe) == ["'=head"] and list(table) == ["=head"]
    assert safe["'=head"].tolist()[: len(RUNS)] == [f"'{text}" for text in RUNS]
    rest = safe["'=head"].iloc[len(RUNS) :]
    assert rest.dropna().tolist() == STAYS[:-1] and rest.isna().sum() == 1


def test_numbers_keep_every_digit_and_their_sign():
    table = pd.DataFrame({"a": [-1 / 3, np.nan], "b": [-5, 7], "mixed": [-0.1, "=x"], "yes": [True, False]})
    assert spreadsheets.csv(table).splitlines()[1] == "-0.3333333333333333,-5,-0.1,True"
    back = pd.read_csv(io.StringIO(spreadsheets.csv(table)))
    assert back["a"].equals(table["a"]) and back["mixed"].tolist() == ["-0.1", "'=x"]


def test_what_is_read_again_comes_back_as_it_was():
    table = pd.DataFrame({"label": [*RUNS, "'tis", "''", "Porites"]})
    safe = spreadsheets.inert(table, returns=True)
    assert safe["label"].str.removeprefix("'").tolist() == table["label"].tolist()


def test_what_goes_back_to_a_program_is_guarded_only_where_it_calls_something():
    cells = ["=cmd()", "@SUM(1)", "+1+cmd|' /C calc'!A0", "-", "-2+3", "+ve", "Porites"]
    safe = spreadsheets.inert(pd.DataFrame({"Label": cells}), runs=spreadsheets.CALLS)["Label"].tolist()
    assert safe == [*(f"'{cell}" for cell in cells[:3]), *cells[3:]]
