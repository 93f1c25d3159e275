"""Reading a fitted estimator from its file, without unpickling.

LightGBM and skops are imported where one is read: a worker whose models were prepared needs neither
skops nor scikit-learn, which take 1.1 s and 90 MB.
"""

from pathlib import Path
from zipfile import BadZipFile

from data.errors import BadModelError
from serving.champions.contents import check_archive

LIGHTGBM_FILE = "model.lgb"
TRUSTED_TYPES = ("numpy.dtype", "sklearn.tree._tree.Tree")
"""What our estimators hold beyond skops' own list; pinned here, never read from a file."""

_UNREADABLE = (BadZipFile, AttributeError, KeyError, OSError, TypeError, ValueError)


def read_estimator(path: Path) -> object:
    """Return the scikit-learn estimator or LightGBM booster of a file.

    Raises
    ------
    BadModelError
        If there is none in it, or one of a type that is not trusted.
    """
    try:
        return _booster(path) if path.name == LIGHTGBM_FILE else _unpacked(path)
    except _UNREADABLE as error:  # skops refuses a type with a TypeError
        raise BadModelError(f"{path}: found {error!r}, wanted a readable estimator") from error


def _booster(path: Path) -> object:
    import lightgbm  # noqa: PLC0415

    try:
        return lightgbm.Booster(model_str=path.read_text())
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(str(error)) from error


def _unpacked(path: Path) -> object:
    import skops.io  # noqa: PLC0415

    check_archive(path)
    estimator: object = skops.io.load(path, trusted=list(TRUSTED_TYPES))
    return estimator
