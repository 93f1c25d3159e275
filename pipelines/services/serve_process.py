"""The command and the environment of a prediction service, checked before it starts."""

import errno
import ipaddress
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from data.errors import ServiceStartError, SettingError
from data.settings import Settings
from serving.profile_env import TOKEN_FILE, serving_environment

SERVICE = "serving.service:predictor"


def serve_environment(
    environ: Mapping[str, str],
    settings: Settings,
    workers: int,
    port: int,
    token_file: str | None,
) -> dict[str, str]:
    """Return the environment of the service, and make sure that it can write.

    Raises
    ------
    ServiceStartError
        If the home folder cannot be written or has no space left.
    """
    result = serving_environment(environ, settings, workers, port)
    if token_file is not None:
        result[TOKEN_FILE] = str(Path(token_file).absolute())
    make_writable(Path(result["BENTOML_HOME"]))
    return result


def serve_command(host: str, port: int, environ: Mapping[str, str]) -> list[str]:
    """Return the command that becomes the service; it may be run from any directory.

    Raises
    ------
    SettingError
        If `host` is no address, or is reachable from outside while no token is wanted.
    ServiceStartError
        If the port cannot be had.
    """
    check_exposure(host, environ)
    check_port(host, port)
    # BentoML imports from its working directory first: the one that holds these packages.
    packages = Path(__file__).resolve().parents[2]
    return [
        *(sys.executable, "-m", "bentoml", "serve", SERVICE),
        *("--working-dir", str(packages), "--host", host, "--port", str(port)),
    ]


def check_exposure(host: str, environ: Mapping[str, str]) -> None:
    """Refuse to serve other machines without tokens.

    Raises
    ------
    SettingError
        See above.
    """
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise SettingError(f"host must be an IP address, got {host!r}") from error
    if not is_loopback and not environ.get(TOKEN_FILE):
        raise SettingError(
            f"host {host} is reachable from outside: name the bearer tokens with --token-file "
            f"or {TOKEN_FILE}, or listen on 127.0.0.1"
        )


def check_port(host: str, port: int) -> None:
    """Raise unless `port` can be listened on now.

    Raises
    ------
    ServiceStartError
        Says what is in the way and what to do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            steps = {
                errno.EADDRINUSE: "stop what listens there, or choose another with --port",
                errno.EACCES: "choose a port above 1023 with --port",
                errno.EADDRNOTAVAIL: "choose an address of this machine with --host",
            }
            step = steps.get(error.errno or 0, "choose another with --port")
            raise ServiceStartError(f"port {port} on {host}: {error.strerror}; {step}") from error


def make_writable(path: Path) -> None:
    """Make a folder and prove that files can be written there.

    Raises
    ------
    ServiceStartError
        If they cannot.
    """
    probe = path / ".probe"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"\0" * 2**16)
        probe.unlink()
    except OSError as error:
        raise ServiceStartError(
            f"{path}: {error.strerror or error}; free some disk space, or set COLOCAST_HOME to a "
            "folder of yours"
        ) from error
