"""Every chapter of a site runs on poor sites: nothing but points, one point, or covers without points."""

import ast
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from reefcore.workflow import notebook

CHAPTERS = sorted((Path(__file__).resolve().parents[1] / "notebooks" / "site").glob("*.ipynb"))


@pytest.fixture(scope="module", params=["points", "point", "unmapped", "covers"])
def site(request, tmp_path_factory):
    """Make a site.yaml with next to nothing behind it."""
    folder, draw = tmp_path_factory.mktemp(request.param), np.random.default_rng(0)
    if request.param == "covers":
        head = "Image ID,Image name,Annotation status,Points,Porites,Sand"
        text = f"{head}\n1,a.jpg,Confirmed,10,40.0,60.0\n2,b.jpg,Confirmed,10,0.0,100.0\nALL IMAGES,,,,20.0,80.0\n"
    else:
        labels = ["xq1", "zz9"] if request.param == "unmapped" else ["Porites", "Turf", "Sand"]
        number = 1 if request.param == "point" else 40
        table = pd.DataFrame({"Name": [f"q{i % 4}.jpg" for i in range(number)], "Row": draw.integers(480, size=number)})
        table["Column"], table["Label"] = draw.integers(640, size=number), draw.choice(labels, number)
        text = table.to_csv(index=False)
    (folder / "given.csv").write_text(text)
    (folder / "site.yaml").write_text("annotations: given.csv\nresamples: 50\n")
    return folder / "site.yaml"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_poor_site_gets_sentences_and_no_traceback(path, site):
    declared = notebook.parameters(notebook.read(path))
    known = {name: one.default for name, one in declared.items()} | {"profile": str(site)}
    known |= {"draws": 50} if "draws" in known else {}
    shown = []
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code" and "parameters" not in cell.metadata.tags:
            body = ast.parse(cell.source).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), path.stem, "exec"), known)
            if last:
                shown.append(eval(compile(ast.Expression(last.value), path.stem, "eval"), known))
    assert all(one is None or one._repr_html_() for one in shown) and len(shown) > 3
