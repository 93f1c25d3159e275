"""The files through which workers share their metrics: whole before use, and none of the dead.

prometheus_client maps them into memory. Where the disk is full, the first write to a page that
has no block ends the process (SIGBUS). So the blocks are taken before the first metric is made,
on another file system if need be.
"""

import logging
import os
from collections.abc import MutableMapping
from pathlib import Path

from prometheus_client import multiprocess

LOG = logging.getLogger(__name__)
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
KINDS = ("counter", "histogram", "gauge_livemostrecent")
FILE_BYTES = 2**20  # some 5,000 series each; ours has a few hundred
# Everybody may write there: the folder below it must be this user's own.
IN_MEMORY = Path("/dev/shm")  # noqa: S108  # nosec B108


def prepare_files(environ: MutableMapping[str, str], in_memory: Path = IN_MEMORY) -> None:
    """Take the disk blocks of this process's metrics; move to memory where the disk has none.

    Parameters
    ----------
    environ : mutable mapping of str to str
        ``PROMETHEUS_MULTIPROC_DIR`` is read, and replaced where it has no room. Without it
        there is nothing to do.
    in_memory : Path
        A file system in memory.
    """
    named = environ.get(VARIABLE)
    if not named:
        return
    try:
        _take_blocks(Path(named))
    except OSError as error:
        # Workers of one supervisor meet in one folder.
        instead = in_memory / f"colocast-{os.getuid()}-{os.getppid()}"
        LOG.warning("metrics go to %s: %s: %s", instead, named, error.strerror or error)
        instead.mkdir(mode=0o700, exist_ok=True)
        if instead.is_symlink() or instead.stat().st_uid != os.getuid():
            raise PermissionError(f"{instead} is another user's; remove it") from error
        _take_blocks(instead)
        environ[VARIABLE] = str(instead)


def forget_dead_workers(directory: Path) -> None:
    """Drop the gauges of workers that have ended: their last words would stand for ever."""
    pids = {path.stem.rsplit("_", 1)[-1] for path in directory.glob("gauge_live*_*.db")}
    for pid in pids:
        if pid.isdecimal() and not Path("/proc", pid).exists() and Path("/proc/self").exists():
            multiprocess.mark_process_dead(int(pid), str(directory))  # type: ignore[no-untyped-call]


def _take_blocks(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        path = directory / f"{kind}_{os.getpid()}.db"
        with path.open("a+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, FILE_BYTES)
            except OSError:
                path.unlink()
                raise
