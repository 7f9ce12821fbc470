"""A double of a web host on 127.0.0.1, for tests: it speaks HTTP/1.1 with ranges and redirects, and has faults."""

import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Request:
    """What was asked: `path` is decoded and without its query, `query` name -> values, `match` of the route."""

    method: str
    path: str
    query: dict
    headers: object
    body: bytes
    match: object = None


@dataclass
class Reply:
    """What a route answers; `ranges` False ignores what part of `body` was asked for."""

    body: bytes | str = b""
    status: int = 200
    headers: dict = field(default_factory=dict)
    ranges: bool = True


def redirect(to: str, status: int = 302, **headers) -> Reply:
    return Reply(b"", status, {"Location": to} | headers)


class Server:
    """A host: ``with Server() as host: host.route(r"/a/(\\d+)", lambda request: b"...")``; routes may be added later.

    Attributes
    ----------
    url : str
    requests : list of (method, path with its query, headers)
        In the order they came. `log` has (seconds since the start, open requests of that moment) for each.
    """

    FAULTS = ("drop", "stall", "short", "wrong", "status", "loop", "html")

    def __init__(self):
        self.routes, self.faults, self.requests, self.log = [], [], [], []
        self.lock, self.closed, self.open = threading.Lock(), threading.Event(), 0

    def route(self, pattern: str, function) -> None:
        """Answer paths that match `pattern` as a whole; `function` gets a Request, gives a Reply, bytes or text."""
        self.routes.append((re.compile(pattern), function))

    def fault(self, pattern: str, kind: str, times: int | None = 1, method: str | None = "GET", **how) -> None:
        """Do wrong on the next `times` requests (None: on all) whose path has `pattern` and that are of `method`.

        ``drop`` closes after `after` bytes of the body, ``stall`` is silent after them, ``short`` says a length that
        is `by` bytes too long, ``wrong`` sends as many other bytes, ``status`` answers `code` with `headers` (and
        `body`), ``loop`` redirects to the same address, ``html`` sends a page with status 200.
        """
        assert kind in self.FAULTS, kind
        self.faults.append({"pattern": re.compile(pattern), "kind": kind, "times": times, "method": method} | how)

    def paths(self, method: str = "GET", pattern: str = "") -> list[str]:
        return [path for how, path, _ in self.requests if how == method and re.search(pattern, path)]

    def _fault(self, method: str, path: str) -> dict | None:
        with self.lock:
            for fault in self.faults:
                fits = fault["method"] in (None, method) and fault["pattern"].search(path)
                if fits and fault["times"] != 0:
                    fault["times"] = fault["times"] and fault["times"] - 1
                    return fault
        return None

    def _reply(self, request: Request) -> Reply:
        for pattern, function in self.routes:
            if match := pattern.fullmatch(request.path):
                request.match = match
                found = function(request)
                return found if isinstance(found, Reply) else Reply(found)
        return Reply("<html><body>404 Not Found</body></html>", 404, {"Content-Type": "text/html"})

    def __enter__(self):
        outer, began = self, time.monotonic()

        class Handler(BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def log_message(self, *_):
                pass

            def answer(self):
                with outer.lock:
                    outer.open += 1
                    outer.requests.append((self.command, self.path, self.headers))
                    outer.log.append((time.monotonic() - began, outer.open))
                try:
                    self.send(outer._fault(self.command, self.path) or {"kind": None})
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    with outer.lock:
                        outer.open -= 1

            do_GET = do_HEAD = do_POST = do_PUT = answer

            def send(self, fault):
                at, kind = urlsplit(self.path), fault["kind"]
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Request(self.command, unquote(at.path), parse_qs(at.query), self.headers, body)
                if kind == "status":
                    reply = Reply(fault.get("body", b"no"), fault["code"], fault.get("headers", {}))
                elif kind == "loop":
                    reply = redirect(self.path)
                elif kind == "html":
                    page = "<!DOCTYPE html><html><body>Please try again later.</body></html>"
                    reply = Reply(page, 200, {"Content-Type": "text/html; charset=utf-8"})
                else:
                    reply = outer._reply(asked)
                data = reply.body.encode() if isinstance(reply.body, str) else reply.body
                headers, status = dict(reply.headers), reply.status
                part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
                if part and reply.ranges and status == 200:
                    first, last = int(part[1]), min(int(part[2] or len(data)), len(data) - 1)
                    status = 206 if first < len(data) else 416
                    place = f"{first}-{last}" if status == 206 else "*"
                    headers["Content-Range"] = f"bytes {place}/{len(data)}"
                    data = data[first : last + 1] if status == 206 else b""
                if kind == "wrong":
                    data = bytes(byte ^ 0x5A for byte in data)
                self.send_response(status)
                if reply.ranges:
                    headers.setdefault("Accept-Ranges", "bytes")
                headers.setdefault("Content-Length", str(len(data) + (fault.get("by", 100) if kind == "short" else 0)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                sent = data[: fault.get("after", len(data) // 2)] if kind in ("drop", "stall") else data
                self.wfile.write(sent)
                self.wfile.flush()
                if kind == "stall":
                    outer.closed.wait(fault.get("seconds", 30))
                if kind in ("drop", "stall", "short"):
                    self.close_connection = True

        class Host(ThreadingHTTPServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 50

            def handle_error(self, *_):
                pass  # a client that went away

        self.server = Host(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.closed.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
