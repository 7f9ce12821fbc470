"""Photos from CoralNet, from a double of it: what is wanted, what goes wrong, and that the same command finishes."""

import errno
import hashlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path

import bs4
import pandas as pd
import pytest
from coralnet_server import CoralNet, jpeg
from PIL import Image
from test_released import HEADER, rows

from reefcore import cli
from reefcore.errors import ReefcoreError
from reefcore.fetch import coralnet, photos
from reefcore.fetch.manifest import Manifest
from reefcore.workflow import crawling

SOURCES = {7: [(10, "a.jpg"), (11, "b.JPG"), (12, "c d.jpg"), (13, "e.jpg"), (14, "f.jpg")], 8: [(20, "a.jpg")]}
KNOWN = pd.DataFrame({"source": ["Reef / A", "B"], "number": [7, 8], "photos": [5, 1]}).astype({"number": "Int64"})


def asked(*names: str, source: str = "Reef / A", row: int = 5, column: int = 5) -> pd.DataFrame:
    rows = [{"source": source, "image": name, "points": 1, "row": row, "column": column} for name in names]
    return pd.DataFrame(rows)


def bomb() -> bytes:
    Image.new("1", (20000, 20000)).save(buffer := io.BytesIO(), "PNG")
    return buffer.getvalue()


@pytest.fixture
def site():
    with CoralNet({number: list(listed) for number, listed in SOURCES.items()}) as server:
        yield server


class Run:
    """Crawl into a folder with the patience of a test."""

    def __init__(self, site, folder):
        self.site, self.folder = site, folder

    def __call__(self, wanted, forget=(), known=KNOWN, **options) -> tuple[str, pd.DataFrame]:
        options = {"delay": 0, "timeout": (1, 0.5), "tries": 3, "back_off": 0.01} | options
        client = coralnet.Client(coralnet.agent("a@reef.org"), self.site.url, **options)
        with Manifest(self.folder / "photos.sqlite") as manifest:
            manifest.forget(forget, wanted["source"].unique())
            ended = photos.crawl(self.folder, wanted, photos.numbered(wanted, known), client, manifest)
            return ended, manifest.table().set_index("image")

    def whole(self) -> bool:
        """Every file under its final name is what the site has, and nothing half done is left."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.parts[-1][0] == "."]
        right = {name: self.site.photos[number] for number, name in self.site.sources[7]}
        return not files and all(
            path.read_bytes() == right[path.name] for path in (self.folder / "photos").rglob("*") if path.is_file()
        )


@pytest.fixture
def run(site, tmp_path):
    return Run(site, tmp_path)


def test_photos_are_found_verified_and_recorded_and_a_second_run_asks_nothing(run, site, tmp_path):
    wanted = asked("a.jpg", "b.jpg", "c_d.jpg")
    ended, table = run(wanted)
    assert ended == "" and table["state"].eq("there").all()
    data = (tmp_path / "photos" / "Reef " / " A" / "a.jpg").read_bytes()
    assert data == site.photos[10] and table.at["a.jpg", "sha256"] == hashlib.sha256(data).hexdigest()
    assert tuple(table.loc["a.jpg", ["image_id", "bytes", "width", "height"]]) == (10, len(data), 64, 48)
    assert table.at["b.jpg", "reason"] == "its host calls it 'b.JPG'" and table.at["a.jpg", "reason"] == ""
    assert all(headers["User-Agent"].endswith("+a@reef.org)") for _, _, headers in site.requests)
    before = len(site.requests)
    run(wanted)
    assert len(site.requests) == before


def test_pages_are_read_only_as_far_as_needed_and_not_twice(run, site):
    run(asked("a.jpg"))
    assert len(site.paths(pattern="browse")) == 1
    _, table = run(asked("a.jpg", "f.jpg", "none.jpg"))
    assert len(site.paths(pattern="browse")) == 2 and len(site.paths(pattern="media")) == 2
    assert table.at["none.jpg", "state"] == "missing"
    assert table.at["none.jpg", "reason"] == "not among the 5 photos of the source"


@pytest.mark.parametrize(
    ("where", "kind", "how"),
    [
        ("media/10", "drop", {}),
        ("media/10", "stall", {}),
        ("media/10", "short", {}),
        ("media/10", "wrong", {}),
        ("media/10", "html", {}),
        ("media/10", "loop", {"times": 7}),
        ("media/10", "status", {"code": 403}),
        ("media/10", "status", {"code": 429, "headers": {"Retry-After": "0"}}),
        ("media/10", "status", {"code": 503}),
        ("image/10", "status", {"code": 500}),
        ("image/10", "drop", {}),
        ("browse", "drop", {}),
        ("browse", "stall", {"after": 300}),
        ("browse", "status", {"code": 503}),
        ("robots", "drop", {"after": 0}),
    ],
)
def test_a_fault_of_a_moment_is_got_over(run, site, where, kind, how):
    site.robots = "User-agent: *\nAllow: /"
    site.fault(where, kind, **how)
    ended, table = run(asked("a.jpg", "f.jpg"))
    assert ended == "" and table["state"].eq("there").all(), table["reason"].tolist()
    assert run.whole() and site.faults[0]["times"] == 0


@pytest.mark.parametrize(
    ("where", "kind", "how", "state", "reason"),
    [
        ("media/10", "stall", {}, "failed", "the host is silent, 3 times"),
        ("media/10", "short", {}, "failed", "the connection was lost, 3 times"),
        ("media/10", "loop", {}, "failed", "it is redirected in a circle, 3 times"),
        ("media/10", "html", {}, "quarantined", "it is a page of text, not a photo"),
        ("media/10", "wrong", {}, "quarantined", "this is not an image that can be read"),
        ("media/10", "status", {"code": 404}, "missing", "there is nothing at this address (404)"),
        ("media/10", "status", {"code": 403}, "failed", "the host refuses this (403)"),
        ("image/10", "html", {}, "failed", "this page is not as expected: it does not say the name of its photo"),
        ("browse", "html", {}, "failed", "this page is not as expected: it shows no photos"),
        ("browse", "status", {"code": 404}, "missing", "there is nothing at this address (404)"),
    ],
)
def test_a_fault_that_stays_is_said_and_the_same_command_finishes(run, site, where, kind, how, state, reason, tmp_path):
    site.fault(where, kind, times=None, **how)
    ended, table = run(asked("a.jpg"))
    assert ended == "" and table.at["a.jpg", "state"] == state and reason in table.at["a.jpg", "reason"]
    assert run.whole() and not list((tmp_path / "photos").rglob("*.jpg"))
    assert ("Signature" in table.at["a.jpg", "reason"]) is False
    assert (tmp_path / "quarantine" / "Reef " / " A" / "a.jpg").exists() == (state == "quarantined")
    assert any((tmp_path / "unexpected").glob("*.html")) == ("expected" in reason) if "expected" in reason else True
    site.faults.clear()
    ended, table = run(asked("a.jpg"), forget=[] if state == "failed" or "page of text" in reason else [state])
    assert ended == "" and table.at["a.jpg", "state"] == "there" and run.whole()


def test_a_file_that_breaks_off_goes_on_where_it_ended(run, site):
    site.photos[10] = jpeg(10, 400, 300)
    site.fault("media/10", "drop", after=20000)
    run(asked("a.jpg"))
    ranges = [headers.get("Range") for _, path, headers in site.requests if "media/10" in path]
    assert ranges[0] is None and len(ranges) == 2 and ranges[1] == "bytes=16384-" and run.whole()


def test_an_address_that_expired_is_asked_for_again(run, site):
    site.expired = {"0"}
    _, table = run(asked("a.jpg"))
    assert table.at["a.jpg", "state"] == "there" and len(site.paths(pattern="image/10/view")) == 2


def test_the_site_that_asks_for_fewer_requests_ends_the_run_and_keeps_what_is_there(run, site):
    site.fault("media/11", "status", times=None, code=429, headers={"Retry-After": "7200"})
    ended, table = run(asked("a.jpg", "b.JPG"), at_once=1)
    assert ended.endswith("the host asks for fewer requests (429), and to wait for 2.0 hours.")
    assert table["state"].to_dict() == {"a.jpg": "there", "b.JPG": "wanted"}
    site.faults.clear()
    assert run(asked("a.jpg", "b.JPG"))[1]["state"].eq("there").all()


@pytest.mark.parametrize("said", ["1", lambda: formatdate(time.time() + 2, usegmt=True)])
def test_retry_after_is_read_in_seconds_and_as_a_date(said):
    assert 0.9 <= coralnet._seconds(said if isinstance(said, str) else said()) <= 2


def test_retry_after_is_kept_to(site):
    client = coralnet.Client("x", site.url, delay=0, tries=2, back_off=0)
    site.fault("robots", "status", code=429, headers={"Retry-After": "1"})
    began = time.monotonic()
    client.obey()
    assert time.monotonic() - began >= 0.95


def test_two_at_a_time_and_a_delay_between_starts(run, site):
    site.fault("media", "stall", times=None, seconds=0.1)
    run(asked("a.jpg", "b.JPG", "c d.jpg", "e.jpg"), delay=0.05, tries=1)
    starts = [when for when, _ in site.log]
    assert max(busy for _, busy in site.log) == 2
    assert starts[-1] - starts[0] > 0.04 * (len(starts) - 1)
    for wrong in ({"at_once": 3}, {"at_once": 0}, {"delay": -1}):
        with pytest.raises(ReefcoreError):
            coralnet.Client("x", site.url, **wrong)
    with pytest.raises(ReefcoreError, match=r"delay of 0\.1 s between requests is too short"):
        coralnet.Client("x", delay=0.1)


def test_a_source_that_refuses_is_given_up_and_three_end_the_run(run, site):
    site.fault("media", "status", times=None, code=403)
    names = [name for _, name in SOURCES[7]] + ["g.jpg", "h.jpg"]
    site.sources[7] += [(15, "g.jpg"), (16, "h.jpg")]
    site.photos |= {15: jpeg(15), 16: jpeg(16)}
    ended, table = run(asked(*names), at_once=1)
    assert ended == "" and table["state"].eq("failed").all()
    assert table["reason"].str.contains("given up for now, after").sum() == 2
    site.sources |= dict.fromkeys((1, 2, 3), SOURCES[7])
    known = pd.DataFrame({"source": ["x", "y", "z"], "number": [1, 2, 3], "photos": 5}).astype({"number": "Int64"})
    wanted = pd.concat([asked(*names[:5], source=name) for name in "xyz"])
    ended, _ = run(wanted, known=known, at_once=1)
    assert ended.startswith("3 sources in a row were given up, the last after: ") and "403" in ended


def test_pages_or_photos_that_are_all_wrong_are_not_asked_for_without_end(run, site, monkeypatch):
    names = [name for _, name in SOURCES[7]]
    monkeypatch.setattr(photos, "TROUBLES", {"unexpected": 2, "quarantined": 3})
    site.fault("/view", "html", times=None)
    _, table = run(asked(*names), at_once=1)
    assert len(site.paths(pattern="/view")) == 2 and table["state"].eq("failed").all()
    site.faults.clear()
    site.fault("media", "html", times=None)
    _, table = run(asked(*names), at_once=1)
    assert table["state"].value_counts().to_dict() == {"quarantined": 3, "failed": 2}


def test_a_site_that_is_busy_for_long_is_waited_for(run, site):
    site.fault("media/10", "status", times=5, code=503)
    assert run(asked("a.jpg"), tries=2)[1].at["a.jpg", "state"] == "there"
    site.fault("media/11", "status", times=None, code=503)
    assert "asks for fewer requests (503), 6 times" in run(asked("b.JPG"), tries=2)[0]


def test_private_sources_and_the_form_to_sign_in_are_said(run, site):
    site.private = {8}
    _, table = run(asked("a.jpg", source="B"))
    assert table.at["a.jpg", "state"] == "missing" and "says that it is not public" in table.at["a.jpg", "reason"]
    site.fault("browse", "status", code=302, headers={"Location": "/accounts/login/?next=/x"})
    _, table = run(asked("b.JPG"))
    assert table.at["b.JPG", "state"] == "missing" and "asks to sign in" in table.at["b.JPG", "reason"]


def test_photos_that_are_not_whole_or_not_the_right_ones_are_quarantined(run, site, tmp_path):
    site.photos |= {10: jpeg(10)[:-200], 11: b"", 13: b"<html>sign in</html>"}
    site.sizes = (64, 48)
    site.photos[12] = jpeg(12, 32, 24)
    _, table = run(asked("a.jpg", "b.JPG", "c d.jpg", "e.jpg", "f.jpg"))
    assert table["state"].to_dict() == dict.fromkeys(["a.jpg", "b.JPG", "c d.jpg", "e.jpg"], "quarantined") | {
        "f.jpg": "there"
    }
    assert table["reason"].tolist()[:4] == [
        "it ends early",
        "it has no bytes",
        "it has 32 x 24 pixels, and is said to have 64 x 48",
        "it is a page of text, not a photo",
    ]
    assert (tmp_path / "quarantine" / "Reef " / " A" / "c d.jpg").read_bytes() == site.photos[12]
    before = len(site.requests)
    run(asked("a.jpg"))
    assert len(site.requests) == before  # not again, unless asked
    site.photos[10] = jpeg(10)
    assert run(asked("a.jpg"), forget=["quarantined"])[1].at["a.jpg", "state"] == "there"


def test_without_a_size_the_points_must_lie_in_the_photo_and_turned_photos_stay_as_stored(run, site):
    site.sizes = None
    _, table = run(asked("a.jpg", row=100))
    assert table.at["a.jpg", "reason"] == "it has 64 x 48 pixels, and a point lies at row 100, column 5"
    _, table = run(asked("b.JPG").assign(expected_width=640, expected_height=480))
    assert table.at["b.JPG", "reason"] == "it has 64 x 48 pixels, and is said to have 640 x 480"
    turned = jpeg(3, 64, 48, exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0")
    assert photos.verify(turned, 47, 63) == (64, 48)
    with pytest.raises(ReefcoreError, match="decompression bomb"):
        photos.verify(bomb())
    assert photos.verify(jpeg(4, form="PNG"), 48, 64) == (64, 48)  # an old point counts from 1
    with pytest.raises(ReefcoreError, match="said to have 128 x 96"):
        photos.verify(jpeg(4), 0, 0, (64, 48), (128, 96))  # the site's page and the release disagree


def test_a_page_of_another_photo_and_names_that_are_ambiguous_are_not_guessed(run, site):
    site.sources[7] += [(30, "e.jpg"), (31, "F.JPEG"), (32, "f.png")]
    site.photos |= dict.fromkeys((30, 31, 32), jpeg(30))
    _, table = run(asked("e.jpg", "f.gif", "f.jpg"))
    assert table.at["e.jpg", "reason"] == "ambiguous: 2 photos of the source have this name (13, 30)"
    assert table.at["f.gif", "reason"].startswith("not among") and table.at["f.jpg", "state"] == "there"
    answers = photos.match(["x y.jpg", "X_Y.JPG", "b.tif", "b.TIFF"], [(1, "X y.jpeg"), (2, "b.tif")])
    assert [answers[name][0] for name in answers] == [None, None, 2, None]
    run(asked("a.jpg"))
    with sqlite3.connect(run.folder / "photos.sqlite") as base:
        base.execute("UPDATE listed SET name = 'b.JPG' WHERE image_id = 10")
        base.execute("DELETE FROM listed WHERE image_id = 11")
    _, table = run(asked("b.JPG"))
    assert table.at["b.JPG", "reason"].endswith("it is of 'a.jpg', not of 'b.JPG'.")


LINK = '<a href="/image/5/view/"><img {}/></a>'
NAMED = "<title>a.jpg | CoralNet</title>"


def soup(text: str):
    return bs4.BeautifulSoup(f"<html>{text}</html>", "html.parser")


@pytest.mark.parametrize(
    ("read", "page", "reason"),
    [
        ("listing", "Welcome", "shows no photos and does not say that there are none"),
        ("listing", LINK.format(""), "a photo without a name"),
        ("listing", f"{LINK.format('alt=a.jpg')} Showing 1-2 of 2", "says that it shows 2 photos and shows 1"),
        ("listing", f"{LINK.format('alt=a.jpg')} Page 1 of 2", "not the last page and has no link to the next"),
        ("listing", f"{LINK.format('alt=a.jpg')} <a href='/' title='Next page'>&gt;</a>", "leads elsewhere"),
        ("view", "<div id=original_image_container><img src=/a></div>", "does not say the name"),
        ("view", NAMED + "<div id=scaled_image_container><img src=/a></div>", "does not show where its photo is"),
        ("view", NAMED + "<div id=original_image_container><img src='file:///etc/a'></div>", "of its photo is none"),
    ],
)
def test_a_page_that_is_not_as_expected_is_said_with_its_address(read, page, reason):
    with pytest.raises(coralnet.Failure, match=f"https://x/1: this page is not as expected: .*{reason}") as caught:
        getattr(coralnet, read)(soup(page), "https://x/1")
    assert caught.value.kind == "unexpected" and b"<html>" in caught.value.body


def test_pages_of_other_years_are_read_too():
    old = LINK.format('title="a - b.jpg - Confirmed"') + '<a href="?page=2">&gt;</a>'
    assert coralnet.listing(soup(old), "https://x/1/") == coralnet.Listing(
        [(5, "a - b.jpg")], None, "https://x/1/?page=2"
    )
    page = "<title>CoralNet</title><ul><li>Name: a.jpg</li></ul><p class='original'><img src='//y/b?c=1&amp;d'></p>"
    assert coralnet.view(soup(page), "https://x/1/") == coralnet.View("a.jpg", "https://y/b?c=1&d", None)


def test_pages_that_go_in_a_circle_end(run, site):
    site.PAGE = 1
    site.fault("page=3", "status", times=None, code=302, headers={"Location": "/source/7/browse/images/?page=1"})
    _, table = run(asked("f.jpg"))
    assert "the pages of the source go in a circle" in table.at["f.jpg", "reason"] and len(site.paths()) < 8


def test_names_that_are_all_unknown_are_said_with_one_that_is_known(run):
    _, table = run(asked(*(f"x{n}" for n in range(10))))
    reason = "none of 10 names is among the 5 photos of the source, which has 'a.jpg' for example"
    assert table["state"].eq("missing").all() and table["reason"].eq(reason).all()


def test_photos_put_there_by_hand_are_verified_and_lost_ones_wanted_again(run, site, tmp_path):
    folder = tmp_path / "photos" / "Reef " / " A"
    folder.mkdir(parents=True)
    (folder / "a.jpg").write_bytes(jpeg(99))
    (folder / "b.JPG").write_bytes(jpeg(98)[:300])
    _, table = run(asked("a.jpg", "b.JPG"))
    assert table["state"].to_dict() == {"a.jpg": "there", "b.JPG": "quarantined"} and not site.requests
    (folder / "a.jpg").unlink()
    _, table = run(asked("a.jpg"))
    assert table.at["a.jpg", "state"] == "there" and (folder / "a.jpg").read_bytes() == site.photos[10]


def test_names_that_are_no_file_names_stay_in_the_folder(run, tmp_path):
    for source, image in [("..", "a.jpg"), ("A", "../../a.jpg"), ("A", ""), ("A", "/etc/a.jpg"), ("A", "x" * 230)]:
        with pytest.raises(ReefcoreError, match="cannot be the name of a file"):
            photos.place(tmp_path, source, image)
    _, table = run(asked("../b.jpg"))
    assert table.at["../b.jpg", "state"] == "missing" and "cannot be the name" in table.at["../b.jpg", "reason"]


def test_a_file_system_that_knows_no_case(run, monkeypatch):
    monkeypatch.setattr(photos, "_folds", lambda folder: True)
    _, table = run(asked("a.jpg", "A.jpg"))
    assert table["state"].to_dict() == {"A.jpg": "missing", "a.jpg": "there"}


def test_a_full_disk_ends_the_run_with_one_sentence(run, site, monkeypatch, tmp_path):
    write = Path.write_bytes

    def full(path, data):
        if "b." in path.name:
            write(path, data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    ended, _ = run(asked("a.jpg", "b.JPG"), at_once=1)
    assert ended.endswith("there is no room for more photos (No space left on device); make room.") and run.whole()
    monkeypatch.setattr(Path, "write_bytes", write)
    assert run(asked("a.jpg", "b.JPG"))[1]["state"].eq("there").all()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_any_moment_the_next_run_goes_on(run, site, tmp_path, how):
    program = f"""
import signal
import pandas as pd
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored where it runs the tests behind
from reefcore.fetch import coralnet, photos
from reefcore.fetch.manifest import Manifest
from test_fetch_photos import KNOWN, SOURCES, asked
client = coralnet.Client("x", {site.url!r}, delay=0, at_once=1, timeout=(1, 0.5))
with Manifest({str(tmp_path / "photos.sqlite")!r}) as manifest:
    wanted = asked(*[name for _, name in SOURCES[7]])
    photos.crawl({str(tmp_path)!r}, wanted, photos.numbered(wanted, KNOWN), client, manifest)
"""
    site.fault("media/13", "stall", seconds=20)
    process = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parent, stderr=subprocess.PIPE)
    while not site.paths(pattern="media/13"):
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(how)
    process.communicate()
    (left := tmp_path / "photos" / "Reef " / " A" / ".a.1.tmp.jpg").write_bytes(b"half")  # of a kill while it wrote
    assert len(list((tmp_path / "photos").rglob("*.*"))) == 3 + left.exists()
    ended, table = run(asked(*[name for _, name in SOURCES[7]]))
    assert ended == "" and table["state"].eq("there").all() and run.whole()
    assert len(site.paths(pattern="media/10")) == 1 and len(site.paths(pattern="browse")) == 2


def test_robots_are_obeyed(run, site):
    site.robots = "User-agent: *\nDisallow: /image/\n"
    ended, table = run(asked("a.jpg"))
    assert "asks programs to keep away from /image/1/view/" in ended and table.at["a.jpg", "state"] == "wanted"
    site.robots = "User-agent: *\nCrawl-delay: 9\n"
    client = coralnet.Client("x", site.url, delay=0)
    client.obey()
    assert client.delay == 9


def test_who_asks_must_be_said():
    assert coralnet.agent("https://reef.org/me").endswith("+https://reef.org/me)")
    for wrong in ("", "me", "a b@reef.org", "a@reef.org\r\nX: y"):
        with pytest.raises(ReefcoreError, match="REEFCORE_CONTACT"):
            coralnet.agent(wrong)


def test_the_released_list_of_sources(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text(
        "\ufeffSource,Valid,URL,ImagesURL,ImagesNumber,FirstImageNumber\n"
        "SAMOA/PRIA v2,yes ,https://x/source/12/,https://x/source/12/browse/images/,640,5\n"
        "other,no,https://x/source/13/,,6,1\n, yes,https://x/source/14/,,,\n"
    )
    known = photos.source_list(path)
    assert known[["source", "number", "photos"]].values.tolist()[0] == ["SAMOA/PRIA v2", 12, 640] and len(known) == 2
    found = photos.numbered(asked("a", source="samoa_pria V2"), known)
    assert found["number"].tolist() == [12]
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ReefcoreError, match="no column Source"):
        photos.source_list(path)
    assert len(photos.source_list()) == 100  # on record with a number


POINTS = pd.DataFrame(
    [
        ("p1", "A", "i1", 3, 4, "Porites", "Fiji"),
        ("p2", "A", "i1", 9, 2, "Acropora", "Fiji"),
        ("p3", "A", "i2", 1, 1, "Porites", "Fiji"),
        ("p4", "B", "i1", 1, 1, "Porites", "Kenya"),
        ("p5", "B", "i9", 1, 1, None, "Kenya"),
        ("p6", "W", "i1", 1, 1, "Porites", "Red Sea"),
    ],
    columns=["annotation_id", "source", "image", "row", "column", "label", "ecoregion"],
)
SPLITS = pd.DataFrame(
    [("p1", "S1", "train"), ("p2", "S1", "test"), ("p3", "S1", "test"), ("p4", "S3", "test"), ("p6", "W", "test")],
    columns=["annotation_id", "scheme", "part"],
)


def test_only_photos_with_needed_points_are_wanted():
    def names(**options):
        table = photos.wanted(POINTS, SPLITS, without=["W"], **options)
        return [f"{source}/{image}" for source, image in table[["source", "image"]].itertuples(index=False)]

    table = photos.wanted(POINTS, SPLITS, without=["W"])
    assert table.iloc[0].tolist() == ["A", "i1", 2, 9, 4] and names() == ["A/i1", "A/i2", "B/i1"]
    assert names(scheme="S3") == names(sources=["b"]) == names(ecoregions=["kenya"]) == ["B/i1"]
    assert names(genera=["acropora"]) == ["A/i1"] and names(limit=2) == names(limit_per_source=1) == ["A/i1", "B/i1"]
    with pytest.raises(ReefcoreError, match="no annotation is of the genus 'Poritos'; did you mean 'Porites'"):
        names(genera=["Poritos"])
    with pytest.raises(ReefcoreError, match="no photo carries such points"):
        names(scheme="S3", sources=["A"])


def test_the_estimate_counts_pages_and_two_requests_a_photo(tmp_path):
    wanted = pd.concat([asked(*(f"{n}.jpg" for n in range(45))), asked("a", source="nowhere")])
    states = wanted.assign(state="wanted", bytes=pd.NA)
    states.loc[states["image"].isin([f"{n}.jpg" for n in range(20)]), ["state", "bytes"]] = ["there", 1000]
    found = photos.estimate(wanted, photos.numbered(wanted, KNOWN), states, tmp_path / "new", 1.5)
    assert found["to_fetch"] == 25 and found["there"] == 20 and found["no_number"] == 1 and found["measured"]
    assert found["bytes"] == 25000 and found["requests"] == 2 + 50 and found["seconds"] == 78
    assert photos.estimate(wanted, KNOWN, states[:0], tmp_path, 1)["photo_bytes"] == photos.ASSUMED


def test_the_report_says_what_missing_photos_do_to_each_split(tmp_path):
    (tmp_path / "W").mkdir()
    (tmp_path / "W" / "i1").touch()
    manifest = pd.DataFrame(
        [("A", "i1", "there", ""), ("A", "i2", "missing", "gone"), ("B", "i1", "failed", "silent")],
        columns=["source", "image", "state", "reason"],
    )
    sources, parts = photos.report(manifest, POINTS, SPLITS, tmp_path, least=1)
    assert sources.set_index("source").loc["A", ["photos", "there", "missing", "main_reason"]].tolist() == [
        2,
        1,
        1,
        "gone",
    ]
    parts = parts.set_index(["scheme", "part"])
    assert parts.loc[("S1", "test"), ["points", "points_missing", "share_missing", "vanished"]].tolist() == [
        *(2, 1, 0.5, "Porites")
    ]
    assert parts.loc[("S3", "test"), "share_missing"] == 1 and parts.loc[("W", "test"), "share_missing"] == 0
    points = pd.concat([POINTS[:1].assign(annotation_id=str(n), image="i1" if n else "i2") for n in range(5)])
    splits = pd.DataFrame({"annotation_id": points["annotation_id"], "scheme": "S1", "part": "train"})
    assert photos.report(manifest, points, splits, least=5)[1]["below"].tolist() == ["Porites"]


def test_a_manifest_that_is_none_or_of_the_future_is_refused(tmp_path):
    (tmp_path / "a.sqlite").write_bytes(b"no base" * 500)
    with pytest.raises(ReefcoreError, match="photos stay"):
        Manifest(tmp_path / "a.sqlite")
    with sqlite3.connect(tmp_path / "b.sqlite") as base:
        base.execute("PRAGMA user_version=99")
    with pytest.raises(ReefcoreError, match="later reefcore"):
        Manifest(tmp_path / "b.sqlite")


@pytest.fixture
def command(tmp_path, monkeypatch):
    """``reefcore fetch images`` on a small release with four sources, three of which the list names."""
    folder = tmp_path / "data" / "released"
    folder.mkdir(parents=True)
    (folder / "All_ReefNet_annotations.csv").write_text("\n".join([HEADER, *rows()]) + "\n")
    listed = [f"Reef {name},yes,https://x/source/{n}/,,6,1" for n, name in enumerate("ABC", start=1)]
    path = folder / "Overview_Sources_for_Image_Download.csv"
    path.write_text("\n".join(["Source,Valid,URL,ImagesURL,ImagesNumber,FirstImageNumber", *listed]))
    (tmp_path / "small.yaml").write_text(
        f"kind: full\nnotice: small\ndata: {tmp_path / 'data'}\nseed: 0\ncrop: 32\nrecipes: []\ntrain_sets: [S1]\n"
        "resamples: 10\ncriteria: {min_annotations: 8, min_sources: 1, min_per_source: 1}\n"
        "cross_sources: {n_test: 1, n_val: 1}\nsite: Al-Wajh\n"
    )
    monkeypatch.delenv("REEFCORE_CONTACT", raising=False)
    sources = {n: [(100 * n + k, f"{name}{k}.jpg") for k in range(6)] for n, name in enumerate("ABC", start=1)}
    with CoralNet(sources) as server:
        line = ["fetch", "images", "--profile", str(tmp_path / "small.yaml"), "--host", server.url, "--delay", "0"]
        yield server, tmp_path / "data", lambda *more: cli.main([*line, *more])


def test_the_command_says_what_it_takes_asks_for_terms_and_contact_fetches_and_reports(command, capsys):
    server, folder, fetch = command
    assert fetch("--dry-run", "--delay", "1") == 0 and not (folder / "photos.sqlite").exists()
    said = capsys.readouterr().out
    assert "24 photos of 4 sources carry such points: 0 are here, 18 are to be fetched, 6 are of sources" in said
    assert "61.2 MB (3.4 MB a photo, an assumption" in said and "At least 39 s: up to 39 requests, 1 s apart" in said
    assert fetch() == 2 and "REEFCORE_CONTACT" in capsys.readouterr().err
    assert fetch("--contact", "a@reef.org") == 2
    said = capsys.readouterr()
    assert "privacy policy" in said.out and "terms of the site are not accepted yet" in said.err and not server.requests
    assert fetch("--contact", "a@reef.org", "--accept-terms", "--sources", "reef a", "--limit", "2") == 0
    assert sorted(path.name for path in (folder / "photos" / "Reef A").iterdir()) == ["A0.jpg", "A1.jpg"]
    capsys.readouterr()
    server.fault("media/305", "status", times=None, code=404)
    assert fetch("--contact", "a@reef.org", "--json") == 1  # terms once
    told = json.loads(capsys.readouterr().out)["items"]["images"]
    assert told["photos"] == {"there": 17, "failed": 6, "missing": 1} and told["estimate"]["there"] == 2
    assert {row["source"]: row["missing"] for row in told["sources"]} == {
        "Reef A": 0,
        "Reef B": 0,
        "Reef C": 1,
        "Reef D": 0,
    }
    parts = pd.read_csv(folder / "photos_splits.csv").set_index(["scheme", "part"])
    assert 0 < parts.loc["S1", "points_missing"].sum() == 7 * 4 and len(pd.read_csv(folder / "photos_sources.csv")) == 4
    server.faults.clear()
    assert fetch("--contact", "a@reef.org", "--sources", "Reef C", "--retry-quarantined") == 0
    said = capsys.readouterr().out
    assert "Of the photos asked for: 6 there." in said and "have no photo here" in said


def test_the_command_refuses_what_is_impolite_or_unknown_in_one_sentence(command, capsys):
    _, _, fetch = command
    for wrong in (["--at-once", "3"], ["--delay", "-1"], ["--sources", "Reef X"], ["--genus", "x"], ["--at-once", "0"]):
        assert fetch(*wrong, "--dry-run") == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    for wrong in ("0", "ten"):
        with pytest.raises(SystemExit):
            fetch("--limit", wrong)
        assert "is no number of photos; give 1 or more" in capsys.readouterr().err
    assert crawling._short("a, b, c, d") == "a, b, c, d" and crawling._short("a, b, c, d, e") == "a, b, c and 2 more"
