"""Versions made ready in a process of their own: what the worker then reads needs no scikit-learn.

Reading, checking and comparing a forest takes seconds of computing that a worker's requests would
feel, and libraries that it would keep. ``python -m serving.champions.prepared DIRECTORY VERSION``
does it once for all workers of a machine, and leaves arrays beside the model.
"""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

from data.errors import BadModelError
from serving.champions.estimators import is_forest
from serving.champions.files import SKOPS_FILE, read_bundle
from serving.champions.probing import probed
from serving.forest.check import with_compiled_forest
from serving.forest.plain import PlainForest, read_forest, write_forest
from serving.inference.bundle import Bundle

LOG = logging.getLogger(__name__)
PREPARED = "prepared/forest.npz"
REFUSED, NOT_WRITTEN = 65, 73
CRASHES = {s.value: s.name for s in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)}
"""Whoever reads such a version too, ends too."""
LONGEST_S = 300
NICER = 5  # than the workers, which have requests to answer


def prepared_bundle(directory: Path, version: str) -> Bundle:
    """Return a version that answers from its compiled form.

    Parameters
    ----------
    directory : Path
        As ``serving.champions.files`` describes it.
    version : str
        ``<registered name>/<version>``.

    Raises
    ------
    BadModelError
        As ``read_bundle`` and ``with_compiled_forest``, whichever process found it.
    """
    _import_lightgbm_alone()
    forest = _known(directory)
    if forest is None and is_forest(directory / SKOPS_FILE) and _prepare(directory, version):
        forest = _known(directory)
    return with_compiled_forest(read_bundle(directory, version, forest))


def compiled_bundle(directory: Path, version: str) -> Bundle:
    """Return the same, read and compared in this process."""
    return with_compiled_forest(read_bundle(directory, version))


def _known(directory: Path) -> PlainForest | None:
    path = directory / PREPARED
    if not path.is_file():
        return None
    try:
        return read_forest(path)
    except BadModelError as error:
        LOG.warning("preparing anew: %s", error)
        path.unlink(missing_ok=True)
        return None


def _prepare(directory: Path, version: str) -> bool:
    """Return whether another process has prepared the version; if not, this one has to read it."""
    command = [sys.executable, "-m", __name__, str(directory), version]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)  # noqa: PLW1510
    except (OSError, subprocess.TimeoutExpired) as error:
        LOG.warning("%s is prepared in the worker: %s", version, error)
        return False
    last = done.stderr.strip().rsplit("\n", 1)[-1]
    if done.returncode == REFUSED:
        raise BadModelError(last)
    if -done.returncode in CRASHES:
        raise BadModelError(
            f"{version}: reading it ended the process by {CRASHES[-done.returncode]}"
        )
    if done.returncode:
        LOG.warning("%s is prepared in the worker: status %d: %s", version, done.returncode, last)
    return done.returncode == 0


def _import_lightgbm_alone() -> None:
    """Import LightGBM without scikit-learn, which it would import for wrappers not used here."""
    if "lightgbm" in sys.modules or "sklearn" in sys.modules:
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment] # an import of it fails
    try:
        import lightgbm  # noqa: F401, PLC0415
    finally:
        del sys.modules["sklearn"]


def main(arguments: list[str]) -> int:
    """Prepare one version; the reason of a failure ends stderr."""
    directory, version = Path(arguments[0]), arguments[1]
    os.nice(NICER)
    try:
        bundle = read_bundle(directory, version)
        answers = probed(bundle)
        with_compiled_forest(bundle)
        trees = [member.tree_ for member in bundle.estimator.estimators_]  # type: ignore[attr-defined]
        write_forest(directory / PREPARED, trees, len(bundle.spec.features), answers)
    except BadModelError as error:
        sys.stderr.write(f"\n{' '.join(str(error).split())}\n")
        return REFUSED
    except OSError as error:
        sys.stderr.write(f"\n{error}\n")
        return NOT_WRITTEN
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
