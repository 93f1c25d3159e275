"""A registry over HTTP that says whatever a test lets it say."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Said:
    """What to answer: status, headers and body by the end of the path, and what was asked.

    A body that is a list drips.
    """

    def __init__(self):
        self.answers, self.asked, self.url = {}, [], ""

    def document(self, end, document):
        self.answers[end] = (200, {}, json.dumps(document).encode())

    def find(self, path):
        plain = path.partition("?")[0]
        return next((a for end, a in self.answers.items() if plain.endswith(end)), (404, {}, b"{}"))


@contextmanager
def registry_server():
    said = Said()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            said.asked.append((self.path, self.headers.get("Authorization")))
            status, headers, body = said.find(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # hung up on
                for piece in body if isinstance(body, list) else [body]:
                    self.wfile.write(piece)
                    time.sleep(0.02 if isinstance(body, list) else 0.0)

        def log_message(self, *arguments):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    said.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield said
    finally:
        http.shutdown()
        http.server_close()
