"""The look-up in WoRMS, against a small server of our own: homonyms, failures, politeness, and answers kept."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pandas as pd
import pytest

from reefcore import worms
from reefcore.errors import ReefcoreError


def record(aphia_id, name, order, status="accepted", accepted=None):
    accepted_id, accepted_name = accepted or (aphia_id, name)
    return {
        "AphiaID": aphia_id,
        "scientificname": name,
        "status": status,
        "rank": "Genus",
        "valid_AphiaID": accepted_id,
        "valid_name": accepted_name,
        "class": "Hexacorallia",
        "order": order,
        "family": "Acroporidae",
    }


KNOWN = {
    "Acropora": [record(578625, "Acropora", "Cheilostomatida"), record(205469, "Acropora", "Scleractinia")],
    "Turbinaria": [record(206630, "Turbinaria", "Fucales"), record(206641, "Turbinaria", "Scleractinia")],
    "Favia": [record(205122, "Favia", "Scleractinia", "unaccepted"), record(718691, "Favia", "Scleractinia")],
    "Symphyllia": [record(205189, "Symphyllia", "Scleractinia", "unaccepted", (205310, "Lobophyllia"))],
    "Halimeda": [record(144000, "Halimeda", "Bryopsidales")],
}


@pytest.fixture
def server():
    """A service that answers from KNOWN, and badly where a name says so; `asked` has (time, name, user agent)."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = unquote(self.path.split("/")[-1].partition("?")[0])
            asked.append((time.monotonic(), name, self.headers["User-Agent"]))
            times = sum(one == name for _, one, _ in asked)
            code, headers, body = 204, {}, b""
            if name in KNOWN:
                code, body = 200, json.dumps(KNOWN[name]).encode()
            bad = {"Busy": 429, "Long": 429, "Dated": 429, "Broken": 500, "Ill": 500, "Refused": 403}
            if name in bad and (times == 1 or name == "Ill"):
                wait = {"Busy": "0.3", "Long": "9999", "Dated": "Wed, 21 Oct 2015 07:28:00 GMT"}.get(name)
                code, headers = bad[name], {"Retry-After": wait} if wait else {}
            elif name in bad:
                code, body = 200, json.dumps([record(1, name, "Scleractinia")]).encode()
            elif name == "Garbage":
                code, body = 200, b"<html>"
            elif name == "Slow":
                time.sleep(0.6)
            self.send_response(code)
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    service = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{service.server_port}/rest/", asked
    service.shutdown()
    service.server_close()


def ask(server, names, cache, **options):
    return worms.lookup(names, cache, **({"url": server[0], "delay": 0.01, "timeout": 5, "tries": 3} | options))


def test_only_the_hard_coral_of_a_homonym_is_taken(server, tmp_path):
    table = ask(server, [*KNOWN, "Nonesuch", pd.NA, "Favia"], tmp_path / "worms.json").set_index("name")
    assert table["aphia_id"].fillna(0).tolist() == [205469, 206641, 718691, 205189, 0, 0]
    assert table["outcome"].tolist() == ["found"] * 4 + ["no hard coral", "not known"]
    row = table.loc["Symphyllia"]
    assert (row["accepted_name"], row["accepted_aphia_id"], row["status"]) == ("Lobophyllia", 205310, "unaccepted")
    assert (row["class"], row["order"], row["family"]) == ("Hexacorallia", "Scleractinia", "Acroporidae")


def test_answers_are_kept_and_work_without_a_network(server, tmp_path):
    first = ask(server, ["Acropora", "Nonesuch"], tmp_path / "worms.json")
    assert len(server[1]) == 2 and [path.name for path in tmp_path.iterdir()] == ["worms.json"]
    again = worms.lookup(["Acropora", "Nonesuch", "Porites"], tmp_path / "worms.json", "http://127.0.0.1:9", 0.01)
    assert len(server[1]) == 2 and again.attrs["failed"] == 1
    pd.testing.assert_frame_equal(again.head(2), first, check_exact=True)
    assert again["outcome"].iloc[2].startswith("failed: ") and pd.isna(again["looked_up"].iloc[2])


@pytest.mark.parametrize(
    ("name", "outcome", "requests"),
    [
        ("Busy", "found", 2),
        ("Dated", "found", 2),
        ("Broken", "found", 2),
        ("Ill", "failed: HTTP 500", 3),
        ("Refused", "failed: HTTP 403", 1),
        ("Long", "failed: HTTP 429, wait 9999 s", 1),
        ("Garbage", "failed: Expecting value: line 1 column 1 (char 0)", 3),
        ("Slow", "failed: timed out", 2),
    ],
)
def test_a_failure_is_tried_again_then_listed_and_stops_nothing(server, tmp_path, name, outcome, requests):
    tries = {"tries": 2, "timeout": 0.2} if name == "Slow" else {}
    table = ask(server, [name, "Acropora"], tmp_path / "worms.json", **tries)
    assert table["outcome"].tolist() == [outcome, "found"]
    assert [one for _, one, _ in server[1]] == [name] * requests + ["Acropora"]
    assert (name in json.loads((tmp_path / "worms.json").read_text())) == (outcome == "found")
    if name == "Busy":
        assert server[1][1][0] - server[1][0][0] >= 0.3


def test_requests_keep_their_distance_and_say_who_asks(server, tmp_path):
    ask(server, ["Acropora", "Favia", "Turbinaria"], tmp_path / "worms.json", delay=0.15)
    at = [when for when, _, _ in server[1]]
    assert at[1] - at[0] >= 0.14 and at[2] - at[1] >= 0.14
    assert {agent for _, _, agent in server[1]} and all(agent.startswith("reefcore/") for _, _, agent in server[1])
    assert worms.DELAY >= 1


def test_a_service_that_is_down_is_left_alone(server, tmp_path):
    table = ask(server, ["Refused", "Long", "Garbage", "Acropora"], tmp_path / "worms.json", tries=1)
    assert table.attrs["failed"] == 4 and len(server[1]) == 3
    assert table["outcome"].iloc[3] == "not asked: 3 names before it failed"
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_refused(tmp_path):
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(ReefcoreError, match=r"bad\.json: this is not a file of WoRMS answers"):
        worms.lookup(["Acropora"], tmp_path / "bad.json")
    with pytest.raises(ReefcoreError, match="tries=0 is no way to ask"):
        worms.lookup([], tmp_path / "new.json", tries=0)
