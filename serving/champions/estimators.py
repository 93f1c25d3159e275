"""Reading a fitted estimator from its file, without unpickling.

LightGBM and skops are imported where one is read: a worker whose models were prepared needs neither
skops nor scikit-learn, which take 1.1 s and 90 MB.
"""

import json
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from data.errors import BadModelError
from serving.champions.contents import check_archive
from serving.forest.lightgbm_text import check_lightgbm_text

LIGHTGBM_FILE = "model.lgb"
FORESTS = ("RandomForestRegressor", "ExtraTreesRegressor")
TREE_TYPE = "sklearn.tree._tree.Tree"
TRUSTED_TYPES = ("numpy.dtype", TREE_TYPE)
"""What our estimators hold beyond skops' own list; pinned here, never read from a file."""

_UNREADABLE = (BadZipFile, AttributeError, KeyError, OSError, TypeError, ValueError)


def read_estimator(path: Path) -> object:
    """Return the scikit-learn estimator or LightGBM booster of a file.

    Raises
    ------
    BadModelError
        If there is none in it, one of a type that is not trusted, or a booster that would read
        outside its trees.
    """
    try:
        return _booster(path) if path.name == LIGHTGBM_FILE else _unpacked(path)
    except _UNREADABLE as error:  # skops refuses a type with a TypeError
        raise BadModelError(f"{path}: found {error!r}, wanted a readable estimator") from error


def is_forest(path: Path) -> bool:
    """Return whether a skops archive says that it holds a forest."""
    try:
        with ZipFile(path) as archive:
            return json.loads(archive.read("schema.json")).get("__class__") in FORESTS
    except (BadZipFile, KeyError, OSError, ValueError, AttributeError):
        return False  # whoever reads it says why


def _booster(path: Path) -> object:
    import lightgbm  # noqa: PLC0415

    text = path.read_text()
    check_lightgbm_text(text)
    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(str(error)) from error


def _unpacked(path: Path) -> object:
    import skops.io  # noqa: PLC0415

    check_archive(path)
    # A forest's trees are checked before they are walked; those of another estimator are not.
    trusted = [kind for kind in TRUSTED_TYPES if kind != TREE_TYPE or is_forest(path)]
    estimator: object = skops.io.load(path, trusted=trusted)
    return estimator
