"""Tell running services that an alias moved, so that they need not wait for their next poll."""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import urllib3

from data.push_signature import Delivery, secrets_from_file, signed_headers
from data.settings import Settings
from data.urls import without_credentials
from serving.profile_env import push_secret_path

URLS = "COLOCAST_PUSH_URLS"
TOKEN = "COLOCAST_TOKEN"  # noqa: S105 - the name of a variable
ROUTE = "/v1/push"
TIMEOUT_S = 3.0


def push(environ: Mapping[str, str], name: str, say: Callable[[str], object]) -> int:
    """Push to each service that is configured; return how many took it.

    A service that does not take it finds out at its next poll: that is said, and no error.

    Parameters
    ----------
    environ : mapping of str to str
        ``COLOCAST_PUSH_SECRET_FILE`` holds the secret; without it nothing is pushed.
        ``COLOCAST_PUSH_URLS`` names the services, separated by commas (by default the one on
        this machine), and ``COLOCAST_TOKEN`` is a bearer token with the scope ``admin``.
    name : str
        The registered model whose alias moved.
    say : callable
        Takes one line for each service that did not take it.

    Raises
    ------
    SettingError
        If the file of secrets cannot be read.
    """
    path = push_secret_path(environ)
    if path is None:
        return 0
    secret = secrets_from_file(path)[0]
    default = Settings.from_mapping(environ, Path.cwd()).service_url
    urls = [url.strip() for url in environ.get(URLS, default).split(",") if url.strip()]
    reasons = [(url, _refusal(url, name, secret, environ.get(TOKEN))) for url in urls]
    for url, reason in reasons:
        if reason:
            say(f"push to {without_credentials(url)}: {reason}; it polls all the same")
    return sum(not reason for _, reason in reasons)


def _refusal(url: str, name: str, secret: str, token: str | None) -> str:
    """Push to one service; return why it was not taken, or nothing."""
    body = json.dumps({"name": name}).encode()
    headers = signed_headers(secret, Delivery(uuid.uuid4().hex, int(time.time())), body)
    headers["Content-Type"] = "application/json"
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        answer = urllib3.request(
            "POST",
            url.rstrip("/") + ROUTE,
            body=body,
            headers=headers,
            timeout=TIMEOUT_S,
            retries=False,
            redirect=False,
        )
    except urllib3.exceptions.HTTPError as error:
        return type(error).__name__
    return "" if answer.status == 200 else f"status {answer.status}"
