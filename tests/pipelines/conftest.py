import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

SECRET = "s" * 32


@pytest.fixture
def push_receiver():
    """A service on loopback that keeps what was pushed to it: path, headers and body."""

    class Handler(BaseHTTPRequestHandler):
        status, taken = 200, []

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            Handler.taken.append((self.path, dict(self.headers), body))
            self.send_response(self.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    Handler.url = f"http://127.0.0.1:{server.server_port}"
    yield Handler
    server.shutdown()
    server.server_close()


@pytest.fixture
def push_environ(tmp_path, push_receiver):
    """The settings of who pushes to it."""
    (tmp_path / "secret").write_text(SECRET)
    return {
        "COLOCAST_PUSH_SECRET_FILE": str(tmp_path / "secret"),
        "COLOCAST_PUSH_URLS": push_receiver.url,
        "COLOCAST_TOKEN": "token",
    }
