"""A registry for benchmarks: what the service asks of MLflow's REST interface, over folders.

MLflow's own server would take a third of a core's memory and now and then its time, on the cores
that are measured.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from serving.champions.files import bundle_digest

NAME = "colocast-interference"


class FolderRegistry:
    """Versions in folders, and one alias; a context manager.

    Parameters
    ----------
    versions : sequence of Path
        Version 1, 2, …
    """

    def __init__(self, *versions: Path) -> None:
        self._versions = versions
        self._digests = [bundle_digest(path) for path in versions]
        self.champion = 1
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        """Address to use as ``MLFLOW_TRACKING_URI``."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> "FolderRegistry":
        """Start to answer."""
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop to answer."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, target: str) -> object:
        """Return the document that MLflow would send."""
        parts = urlsplit(target)
        if parts.path.endswith("registered-models/search"):
            alias = {"alias": "champion", "version": str(self.champion)}
            return {"registered_models": [{"name": NAME, "aliases": [alias]}]}
        at = int(parse_qs(parts.query)["version"][0]) - 1
        if parts.path.endswith("get-download-uri"):
            return {"artifact_uri": str(self._versions[at])}
        tags = [{"key": "colocast.digest", "value": self._digests[at]}]
        return {"model_version": {"source": f"folder/{at + 1}", "tags": tags}}


def _handler(registry: FolderRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(registry.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            del arguments

    return Handler
