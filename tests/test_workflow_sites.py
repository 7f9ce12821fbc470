"""A site in the place of a profile: its steps, its chapters and its report."""

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from conftest import TOP, Checkout
from PIL import Image

from reefcore import cli, workflow
from reefcore import site as own
from reefcore.errors import ReefcoreError
from reefcore.workflow import build, keys, page, report, sites, steps

PLACE = ("-17.123456", "146.654321")  # what a report may not tell where it was asked not to
PERSON, MAIL = "Zanzibar Quillfeather", "zq@reef.example"
LABELS = ["Acropora", "Porites", "Sand", "Turf", "<script>alert(1)</script>", "=cmd()"]
SITE = 'profile: str = "made-up"  # a site.yaml\nseed: int | None = None  # of the draws\nby: str = "genus"  # what\n'
OPEN = "from reefcore import workflow\nproject = workflow.open(profile, seed=seed)\nprint(project.notice)"
COVER = """from reefcore import cover
from reefcore.figures import show_table
table = cover.percent_cover(project.table("annotations"), "label_raw", "image", n=20)
show_table(table, "t", "All of it.", project.notice) if project.has("photos") else project.lacks("photos")"""


def make_site(folder: Path, photos: bool = True, more: str = "") -> Path:
    """Write a small site of two dates, six images and a person who should not be named; return its site.yaml."""
    rng = np.random.default_rng(0)
    (folder / "raw" / "photos").mkdir(parents=True)
    rows = []
    for image in range(6):
        where = {"Name": f"R_T{image % 2}_{image}.jpg", "Date": f"202{3 + image % 2}-05-0{image + 1}"}
        where |= {"Latitude": PLACE[0], "Longitude": PLACE[1], "Photographer": PERSON, "Annotator": MAIL}
        rows += [where | {"Row": 10 + 5 * n, "Column": 9 * n, "Label": LABELS[(n + image) % 6]} for n in range(8)]
        if photos and image:
            exif = Image.Exif()
            exif[315] = PERSON
            noise = rng.integers(0, 255, (80, 120, 3), dtype=np.uint8)
            Image.fromarray(noise).save(folder / "raw" / "photos" / where["Name"], exif=exif)
    pd.DataFrame(rows).to_csv(folder / "raw" / "annotations.csv", index=False)
    path = folder / "site.yaml"
    path.write_text(
        f"name: Tiny\nannotations: raw/annotations.csv\nresamples: 50\n{more}" + "photos: raw/photos\n" * photos
    )
    return path


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """The site.yaml of a small site, outside of any checkout; the test runs beside it."""
    monkeypatch.chdir(tmp_path)
    return make_site(tmp_path / "sites" / "tiny")


def made(project, name: str) -> bool:
    """Make a step, and tell whether there was anything to do."""
    before = steps.is_fresh(project.profile, project.folder, name)
    steps.ensure(project.profile, project.folder, name)
    return not before


def test_a_site_is_opened_by_name_folder_and_file(tiny, monkeypatch):
    project = workflow.open("sites/tiny")
    assert project.folder == tiny.parent / "tables" and project.notice.startswith("Site Tiny:")
    monkeypatch.chdir(tiny.parent)
    assert workflow.open("site.yaml").folder == project.folder
    (tiny.parent / "notebooks").mkdir()
    monkeypatch.chdir(tiny.parent / "notebooks")  # where JupyterLab runs a notebook of the site
    assert workflow.open("site.yaml").folder == project.folder
    assert workflow.open("smoke").profile.kind == "sample"
    with pytest.raises(ReefcoreError, match=r"elsewhere/site.yaml: there is no such site.yaml; make one: reefcore"):
        workflow.open("elsewhere/site.yaml")
    with pytest.raises(ReefcoreError, match="the site Tiny has no splits; it has "):
        workflow.open("site.yaml").table("splits")


def test_only_what_an_edit_reaches_is_made_again(tiny):
    project = workflow.open(tiny)
    assert made(project, "cover") and made(project, "classify")
    labels = tiny.parent / "labels.csv"
    assert labels.exists()
    # That the step wrote labels.csv itself is no edit.
    project = workflow.open(tiny)
    assert not any(made(project, name) for name in steps.plan(project.profile))
    text = labels.read_text(encoding="utf-8-sig").replace("Porites", "Porites ", 1)
    labels.write_text(text + "\n")
    project = workflow.open(tiny)
    assert not made(project, "read") and not made(project, "covariates")
    assert made(project, "labels") and made(project, "classify") and not made(workflow.open(tiny), "labels")
    tiny.write_text(tiny.read_text().replace("resamples: 50", "resamples: 60"))
    project = workflow.open(tiny)
    assert [name for name in steps.plan(project.profile) if made(project, name)] == ["cover"]
    (tiny.parent / "raw" / "photos" / "extra.jpg").write_bytes(b"no photo")
    project = workflow.open(tiny)
    assert made(project, "read") and "extra.jpg" in set(project.table("unreadable")["image"])


def test_the_same_site_is_fresh_from_any_folder_and_nothing_is_left_elsewhere(tiny, tmp_path, monkeypatch):
    made(workflow.open(tiny), "read")
    key = workflow.open(tiny)._made("points.parquet")["key"]
    monkeypatch.chdir(TOP)
    keys.environment.cache_clear()
    assert workflow.open(tiny)._made("points.parquet")["key"] == key
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sites"]
    said = "".join(path.read_text() for path in (tiny.parent / "tables" / ".keys").glob("*.json"))
    assert str(tmp_path) not in said
    # The folder goes to a colleague, tables and all.
    shutil.move(tiny.parent, tmp_path / "moved")
    moved = workflow.open(tmp_path / "moved" / "site.yaml")
    assert steps.is_fresh(moved.profile, moved.folder, "read")


def test_what_a_site_has_and_lacks(tiny, tmp_path):
    project = workflow.open(tiny)
    assert {name for name in ("photos", "dates", "transects", "positions", "covers") if project.has(name)} == {
        "photos",
        "dates",
        "positions",
    }
    said = project.lacks("transects")
    assert "Tiny has no transects, so this section is empty. In its site.yaml, " in str(
        said
    ) and "transect_column:" in str(said)
    assert "<code>transect_column:</code>" in said._repr_html_()
    with pytest.raises(ReefcoreError, match="nobody knows whether a site has prices"):
        project.has("prices")
    points = project.table("annotations")
    pixels, kept = project.patches(points, 32)
    assert pixels.shape == (len(kept), 32, 32, 3) and 0 < len(kept) < len(points)
    assert set(points["image"]) - set(kept["image"]) == {"R_T0_0.jpg"}  # the one without a photo
    bare = workflow.open(make_site(tmp_path / "bare", photos=False))
    assert not bare.has("photos") and not bare.has("classifier") and bare.reefnet is None
    assert len(bare.patches(points, 32)[1]) == 0
    with pytest.raises(ReefcoreError, match="Tiny has no photo"):
        _ = bare.photos
    assert workflow.open(tiny, reefnet="smoke").reefnet.profile.name == "smoke"
    assert bare.table("covariates").empty and "no photos" in bare.table("classifier")["why"].iloc[0]


def test_the_raw_files_of_the_made_up_site_are_a_step(checkout, monkeypatch):
    from reefcore.sample import reef

    def generate(folder, seed):
        shutil.rmtree(folder, ignore_errors=True)
        made_here = make_site(checkout.folder / "draft").parent / "raw"
        shutil.move(made_here, folder)
        shutil.rmtree(checkout.folder / "draft")
        (folder / "metadata.csv").write_text("Name,Depth\nR_T0_0.jpg,3\n")

    monkeypatch.setattr(reef, "generate", generate)
    project = workflow.open("made-up")
    assert len(project.table("points")) == 48 and project.folder == checkout.folder / "build" / "made-up" / "tables"
    assert not made(project, "raw")
    (checkout.folder / "build" / "made-up" / "raw" / "annotations.csv").write_text("damaged")
    assert len(workflow.open("made-up").table("points")) == 48
    assert workflow.open("made-up", seed=4).folder.parent.name == "made-up-seed4"


# ------------------------------------------------------------------------------------------------------------ chapters


def test_a_chapter_reads_two_projects(smoke, tiny):
    code = "project = workflow.open(profile, seed=seed)\nmine = workflow.open(site)\n"
    code += "project.table('splits')\nmine.table('predictions')\nmine.lacks('photos')"
    found = build.reads(code, smoke.profile, {"profile": "smoke", "site": str(tiny)})
    site = own.load(tiny)
    assert found == {smoke.profile: ("splits",), site: ("read", "classify")}
    assert build.reads("mine = workflow.open(site)\nmine.photos", smoke.profile, {"site": str(tiny)})[site] == ("read",)
    tiny.write_text(tiny.read_text() + "reefnet: smoke\n")
    site = own.load(tiny)
    for code in (
        "project = workflow.open(profile)\nother = project.reefnet\nother.table('sources')",
        "project = workflow.open(profile)\nproject.reefnet.table('sources')",
        "project = workflow.open(profile)\nx = project.reefnet if y else None\nx.table('sources')",
        "project = workflow.open(profile)\nx = workflow.open(project.profile.reefnet)\nx.table('sources')",
    ):
        assert build.reads(code, site, {"profile": str(tiny)})[smoke.profile] == ("data",), code


def test_a_profile_or_a_site_goes_to_the_chapters_it_fits(tiny, checkout, monkeypatch):
    monkeypatch.chdir(checkout.folder)
    book = 'profile: str = "sample"  # data\nsite: str = "made-up"  # reef\n'
    two = "from reefcore import workflow\nproject = workflow.open(profile)\nmine = workflow.open(site)\n"
    checkout.notebook("24_both", two + "project.table('images'), mine.table('images')", parameters=book)
    checkout.notebook("30_book", OPEN.replace(", seed=seed", ""))
    (checkout.folder / "notebooks" / "site").mkdir()
    path = checkout.notebook("84_own", OPEN, "project.table('images')", parameters=SITE)
    shutil.move(path, checkout.folder / "notebooks" / "site")
    assert list(build.notebooks()) == ["24_both", "30_book", "84_own"] and list(build.notebooks(site=True)) == [
        "84_own"
    ]
    both, book, mine = build.chapters(["all"], {"profile": "smoke"})
    assert both.profile.name == "smoke" and both.beside[0][0].name == "made-up" and mine.profile.name == "made-up"
    assert book.beside == () and mine.needs == ("read",)
    given = {"profile": str(tiny)}
    both, mine = build.chapters(["24_both", "84_own"], given)
    assert both.profile.name == "sample" and both.beside == ((own.load(tiny), ("read",)),)
    assert mine.profile.name == "Tiny" and mine.given == {"profile": str(tiny)}
    with pytest.raises(ReefcoreError, match="30_book is about ReefNet, and Tiny is a site; name a profile"):
        build.chapters(["30_book"], given)
    with pytest.raises(ReefcoreError, match="the profile smoke is no site, and 84_own is of a site"):
        build.jobs(["84_own"], {"profile": "smoke"})
    names = {job.name for job in build.jobs(["all"], {"profile": "smoke"})}
    assert {"step raw made-up", "step read made-up", "step data smoke", "chapter 84_own"} <= names
    assert sum(name.startswith("step read") for name in names) == 1


# ---------------------------------------------------------------------------------------------------------------- page


def picture(kind: str, side: int = 40, **options) -> str:
    stream = io.BytesIO()
    Image.new("RGB", (side, side), "teal").save(stream, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"


def cell(markup: str):
    output = nbformat.v4.new_output("display_data", {"text/html": markup})
    return nbformat.v4.new_code_cell("secret_code()", outputs=[output])


def link(text: str, name: str) -> str:
    return (
        f'<a download="{name}" href="data:text/csv;base64,{base64.b64encode(text.encode()).decode()}">data as CSV</a>'
    )


def converted(*cells) -> page.Section:
    return page.section("84_cover", nbformat.v4.new_notebook(cells=list(cells)), ["84_cover", "85_change"], "Notice.")


def test_a_page_keeps_words_and_figures_and_nothing_that_runs_or_loads():
    exif = Image.Exif()
    exif[315] = PERSON
    marked = picture("jpeg", exif=exif)
    assert PERSON.encode() in base64.b64decode(marked.partition(",")[2])
    text = "# *Cover* of it\n\nSee [change](85_change.md#what), [away](../x/README.md) <b onclick=x>raw</b>.\n\n"
    text += "## Part\n\n"
    made_ = converted(
        nbformat.v4.new_markdown_cell(text + "### Small\n\n## For your own reef\n\nEdit this."),
        cell('<script src="https://x.example/a.js">1</script><p onclick="evil()" id="p">kept &lt;b&gt;</p>'),
        cell(f'<img src="https://x.example/a.png"><img alt="A reef" src="{marked}"><style>p{{}}</style>'),
        cell('<p class="lacks">No photo.</p>'),
        cell('<p class="lacks">No photo.</p>'),
        cell('<p class="provenance"><em>N</em> seed 0 · <a href="84_cover.json">everything else</a></p>'),
        nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("stream", name="stdout", text="Notice.\n")]),
        nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("stream", name="stderr", text="noise")]),
    )
    body = made_.body
    assert made_.title == "Cover of it" and made_.parts == [("84_cover-1-part", "Part"), ("84_cover-2-small", "Small")]
    assert '<h3 id="84_cover-1-part">Part</h3>' in body and '<h4 id="84_cover-2-small">' in body and "<h1" not in body
    for gone in (
        "script",
        "example",
        'onclick="',
        "evil",
        "style",
        "secret_code",
        "noise",
        "Edit this",
        "Notice.",
        "else",
    ):
        assert gone not in body, gone
    assert '<a href="#85_change-what">change</a>' in body and "away" in body and "README" not in body
    assert "&lt;b onclick=x&gt;" in body and '<p id="84_cover-p">kept &lt;b&gt;</p>' in body
    assert body.count("No photo.") == 1
    inside = re.search(r'alt="A reef" src="data:image/jpeg;base64,([^"]+)"', body)[1]
    assert PERSON.encode() not in base64.b64decode(inside)
    whole = page.write("<Tiny>", "Notice.", "", [made_], ["foot"])
    assert "<title>&lt;Tiny&gt;</title>" in whole and "default-src 'none'" in whole
    assert [int(n) for n in re.findall(r"<h([1-6])", whole)] == [1, 2, 3, 4]


def test_what_is_missing_is_said_once_in_each_section():
    missing = cell('<p class="lacks">No photo.</p>')
    heads = [nbformat.v4.new_markdown_cell(text) for text in ("# It\n\nWords.", "## One", "## Two\n\nWords.")]
    body = converted(heads[0], heads[1], missing, missing, heads[2], missing).body
    assert [part.count("No photo.") for part in body.split("<h3")] == [0, 1, 1]


def test_long_tables_are_cut_and_large_data_lie_beside_the_page():
    rows = "".join(f"<tr><td>{n}</td></tr>" for n in range(page.ROWS + 7))
    made_ = converted(
        cell(f"<table><caption>{link('a' * 30_000, 'big.csv')}</caption><tbody>{rows}</tbody></table>"),
        cell(link("b", "small.csv")),
    )
    assert f"<td>{page.ROWS - 1}</td>" in made_.body and f"<td>{page.ROWS}</td>" not in made_.body
    assert "and 7 more rows" in made_.body and made_.body.count("</tr>") == page.ROWS + 1
    assert set(made_.files) == {"big.csv", "small.csv"} and made_.files["small.csv"] == "b"
    assert "data: csv/chapters/big.csv" in made_.body and made_.body.count("href=") == 1


def test_tables_for_spreadsheets_run_no_formula_and_keep_numbers(tmp_path):
    table = pd.DataFrame({"label": ["=1+1", "-ve", "-3", 'a,"b"', None], "n": [-1.5, 2, 3, np.nan, 5]})
    table["date"] = pd.to_datetime(["2024-01-02", None, "2024-01-02", None, None])
    path = sites.write_csv(table, tmp_path / "t.csv")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    back = pd.read_csv(path, encoding="utf-8-sig")
    assert back["label"].tolist()[:4] == ["'=1+1", "'-ve", "-3", 'a,"b"'] and back["n"].tolist()[:2] == [-1.5, 2]
    assert back["date"].iloc[0] == "2024-01-02" and back["date"].isna().sum() == 3


# -------------------------------------------------------------------------------------------------------------- report


@pytest.fixture
def chapters(checkout) -> Checkout:
    """A checkout with three chapters of a site, one of which fails."""
    (checkout.folder / "notebooks" / "site").mkdir()
    for name, source in {"81_have": "project.table('points').shape", "84_cover": COVER, "85_bad": "1 / 0"}.items():
        path = checkout.notebook(name, OPEN, source, "project.provenance()", parameters=SITE)
        shutil.move(path, checkout.folder / "notebooks" / "site")
    return checkout


GUARD = """
import os, socket
def refuse(self, address, *rest, before=socket.socket.connect):
    if self.family != socket.AF_UNIX and str(address[0]) not in ("127.0.0.1", "localhost", "::1"):
        open(os.environ["HEARD"], "a").write(str(address) + "\\n")
        raise OSError("no network")
    return before(self, address, *rest)
socket.socket.connect = refuse
def resolve(host, *rest, before=socket.getaddrinfo, **more):
    if host not in (None, "", "127.0.0.1", "localhost", "::1"):
        open(os.environ["HEARD"], "a").write(str(host) + "\\n")
        raise OSError("no network")
    return before(host, *rest, **more)
socket.getaddrinfo = resolve
"""


def test_the_report_tells_what_it_may_and_asks_no_network(chapters, tmp_path):
    make_site(tmp_path / "away" / "sites" / "tiny", more="privacy: {positions: rounded}\n")
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD)
    heard = tmp_path / "heard"
    env = os.environ | {"HEARD": str(heard), "REEFCORE_ROOT": str(chapters.folder)}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "guard"), str(TOP)])

    def run(*command):
        return subprocess.run(
            [sys.executable, *command], cwd=tmp_path / "away", env=env, capture_output=True, text=True
        )

    run("-c", "import socket; socket.create_connection(('192.0.2.1', 80))")
    assert heard.read_text().count("192.0.2.1") >= 1  # the guard hears
    heard.unlink()
    done = run("-m", "reefcore", "site", "report", "tiny", "--json")
    assert done.returncode == 1, done.stderr  # as a chapter fails
    said = json.loads(done.stdout)
    assert said["chapters"]["85_bad"] == "code cell 3 raised ZeroDivisionError: division by zero"
    assert said["chapters"]["81_have"] is None and sorted(said["ran"]) == ["81_have", "84_cover", "85_bad"]
    assert not heard.exists()
    home = tmp_path / "away" / "sites" / "tiny"
    whole = (home / "report.html").read_text(encoding="utf-8")
    assert "85_bad is missing: code cell 3 raised ZeroDivisionError" in whole and "96" not in said["chapters"]
    assert "&lt;script&gt;alert(1)" in whole and "<script" not in whole and len(whole) < 1_000_000
    produced = [path for path in home.rglob("*") if path.is_file() and "raw" not in path.parts]
    for path in produced:
        content = path.read_bytes()
        for secret in (PERSON, MAIL, *PLACE, str(tmp_path)):
            assert secret.encode() not in content, (path.relative_to(home), secret)
    assert pd.read_csv(home / "csv" / "images.csv", encoding="utf-8-sig")["latitude"].iloc[0] == -17.1
    wide = pd.read_csv(home / "csv" / "cover" / "functional_group-image.csv", encoding="utf-8-sig")
    assert wide.iloc[-1, 0] == "ALL IMAGES" and len(wide) == 7
    assert (home / "csv" / "cover" / "label_raw-change.csv").exists()
    shared = pd.read_csv(home / "exports" / "darwin-core.csv")
    assert len(shared) and set(shared["decimalLatitude"]) == {-17.1} and str(home / "exports") in str(said["files"])

    # Nothing changed: only what failed is tried again. And the notebook can be run where it lies.
    assert json.loads(run("-m", "reefcore", "site", "report", "sites/tiny", "--json").stdout)["ran"] == ["85_bad"]
    again = run("-m", "reefcore", "site", "report", "tiny", "--only", "cover", "-p", "by=label_raw", "--json")
    assert json.loads(again.stdout)["ran"] == ["84_cover"] and again.returncode == 0
    notebook = nbformat.read(home / "notebooks" / "84_cover.ipynb", 4)
    injected = next(c for c in notebook.cells if "injected-parameters" in c.metadata.get("tags", []))
    assert 'profile = "site.yaml"' in injected.source
    command = ["-m", "papermill", "84_cover.ipynb", "again.ipynb", "-p", "by", "genus", "-p", "profile", "site.yaml"]
    done = subprocess.run(
        [sys.executable, *command, "-k", "python3"], cwd=home / "notebooks", env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tiny", "--only", "prices"], "a report has no chapter 'prices'; choose from have, cover, bad"),
        (["tiny", "-p", "colour=1"], "unknown parameter 'colour'"),
        (["tiny", "-p", "profile=smoke"], "profile is not chosen here: the report is of Tiny"),
        (["tiny", "-p", "seed=x"], "the seed 'x' is no whole number"),
        (["nowhere"], "there is no site 'nowhere'"),
    ],
)
def test_a_report_that_cannot_be_made_is_refused_in_one_sentence(chapters, capsys, arguments, sentence):
    make_site(chapters.folder / "sites" / "tiny")
    assert cli.main(["site", "report", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said


def test_a_report_says_which_packages_it_needs(tiny, monkeypatch):
    monkeypatch.setattr(report, "NEEDED", ("papermill", "surely_not"))
    with pytest.raises(
        ReefcoreError, match=r"needs surely-not, which is not installed; pip install 'reefcore\[book\]'"
    ):
        report.make(tiny)
