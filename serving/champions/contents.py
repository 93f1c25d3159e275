"""What may lie in a version's directory: plain files, none of them a pickle, none of them huge."""

from pathlib import Path
from zipfile import BadZipFile, ZipFile

from data.errors import BadModelError

PICKLE_NAMES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle")
PICKLE_STARTS = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
MOST_UNPACKED_BYTES = 8 * 2**30


def check_contents(directory: Path) -> None:
    """Refuse a version that holds what nobody here would read, before any of it is read.

    Nothing on the load path unpickles. But a pickle beside a model is code that waits for a
    reader, and a link may lead anywhere.

    Parameters
    ----------
    directory : Path

    Raises
    ------
    BadModelError
        If a file is a link, a device or a pickle, by its name or by its first bytes. Names it.
    """
    for path in sorted(directory.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BadModelError(f"{path}: found a link or a device, wanted plain files")
        if path.is_file() and _is_pickle(path):
            raise BadModelError(f"{path}: found a pickle, wanted none; it is never read here")


def check_archive(path: Path) -> None:
    """Refuse a skops archive that holds a pickle, or unpacks to more than memory should take.

    Raises
    ------
    BadModelError
        See above; also if it is no archive.
    """
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
            starts = {member.filename: archive.open(member).read(2) for member in members}
    except (BadZipFile, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise BadModelError(f"{path}: found {error!r}, wanted a readable estimator") from error
    if sum(member.file_size for member in members) > MOST_UNPACKED_BYTES:
        raise BadModelError(f"{path}: wanted at most {MOST_UNPACKED_BYTES} bytes unpacked")
    for name, start in starts.items():
        if start in PICKLE_STARTS or name.endswith(PICKLE_NAMES):
            raise BadModelError(f"{path}: found the pickle {name!r:.80}, wanted none")


def _is_pickle(path: Path) -> bool:
    if path.name.lower().endswith(PICKLE_NAMES):
        return True
    with path.open("rb") as file:
        return file.read(2) in PICKLE_STARTS
