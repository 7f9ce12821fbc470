"""A chat server on 127.0.0.1 whose answers a test decides."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def reply(text, finish="stop", tokens=(10, 5)):
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]} if tokens else None
    return {"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": usage}


class Chat:
    """Calls ``decide(question text, how many requests came before)`` for each request.

    It gives the answer's text; or a dict (the JSON), bytes, ("cut",), ("drip",), or (status, body, headers).
    """

    def __init__(self, decide):
        self.decide, self.requests, self.lock, self.url = decide, [], threading.Lock(), ""

    @property
    def texts(self):
        return [self.text(body) for body in self.requests]

    @staticmethod
    def text(body):
        content = body["messages"][0]["content"]
        return content if isinstance(content, str) else content[-1]["text"]


@contextlib.contextmanager
def serve(decide):
    chat = Chat(decide if callable(decide) else lambda text, n: decide)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with chat.lock:
                chat.requests.append(body)
                before = len(chat.requests) - 1
            said = chat.decide(chat.text(body), before)
            status, headers = 200, {}
            if isinstance(said, tuple) and isinstance(said[0], int):
                status, said, headers = said
            if isinstance(said, str):
                said = reply(said)
            if isinstance(said, dict):
                said = json.dumps(said).encode()
            with contextlib.suppress(OSError):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if said == ("drip",):
                    self.end_headers()
                    for _ in range(100):
                        self.wfile.write(b" ")
                        self.wfile.flush()
                        time.sleep(0.02)
                elif said == ("cut",):
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"choices": [')
                else:
                    self.send_header("Content-Length", str(len(said)))
                    self.end_headers()
                    self.wfile.write(said)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
