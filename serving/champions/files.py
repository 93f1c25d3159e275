"""How one model version lies on disk: the MLflow model directory, with our facts beside it.

``MLmodel`` and ``model.skops`` or ``model.lgb`` as MLflow writes them, plus ``colocast/``:
``spec.json``, one ``<table>.parquet`` each, and ``digests.json`` with the SHA-256 of every other
file. Reading needs no MLflow and unpickles nothing.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from data.errors import BadModelError, shown
from serving.champions.contents import check_contents
from serving.champions.estimators import LIGHTGBM_FILE, read_estimator
from serving.forest.compiled import compiled, tree_spread
from serving.forest.plain import PlainForest
from serving.inference.bundle import Bundle, Floats, ModelSpec, spec_from_json, spec_json

SIDECAR = "colocast"
SPEC_FILE = f"{SIDECAR}/spec.json"
DIGESTS_FILE = f"{SIDECAR}/digests.json"
SKOPS_FILE = "model.skops"
TOLERANCE = 1e-9  # of a replayed example, absolute and relative


def write_facts(bundle: Bundle, directory: Path) -> str:
    """Write everything but the estimator beside an MLflow model, and seal the directory.

    Parameters
    ----------
    bundle : Bundle
    directory : Path
        Holds the MLflow model already; nothing in it may change afterwards.

    Returns
    -------
    str
        The digest of the whole, as `bundle_digest` gives it.
    """
    (directory / SIDECAR).mkdir(exist_ok=True)
    (directory / SPEC_FILE).write_text(spec_json(bundle.spec))
    for name, table in bundle.tables.items():
        table.to_parquet(directory / SIDECAR / f"{name}.parquet")
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    digests = {path.relative_to(directory).as_posix(): _sha256(path) for path in files}
    digests.pop(DIGESTS_FILE, None)
    with (directory / DIGESTS_FILE).open("w") as file:
        json.dump(digests, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    return bundle_digest(directory)


def bundle_digest(directory: Path) -> str:
    """Return the SHA-256, in hex, that names all content of a bundle's directory.

    It is the digest of the list of digests, so it vouches for each file on that list.

    Raises
    ------
    BadModelError
        If the directory holds no such list.
    """
    try:
        return _sha256(directory / DIGESTS_FILE)
    except OSError as error:
        raise BadModelError(f"{directory}: found no {DIGESTS_FILE}, wanted a bundle") from error


def read_bundle(directory: Path, version: str, prepared: PlainForest | None = None) -> Bundle:
    """Read, check and return one model version.

    Parameters
    ----------
    directory : Path
        As `write_facts` left it.
    version : str
        ``<registered name>/<version>``, as answers will name it.
    prepared : PlainForest, optional
        The model as ``serving.champions.prepared`` left it; its own file is then not read.

    Raises
    ------
    BadModelError
        A file is missing or differs from its digest, the estimator cannot be read or counts
        other features than the spec, its trees are none, or a stored example is answered
        differently. Names the file or the tree.
    """
    check_contents(directory)
    digests = _checked_digests(directory)
    spec = spec_from_json((directory / SPEC_FILE).read_text())
    name = LIGHTGBM_FILE if LIGHTGBM_FILE in digests else SKOPS_FILE
    if name not in digests:
        raise BadModelError(f"{directory}: found no model, wanted {SKOPS_FILE} or {LIGHTGBM_FILE}")
    estimator = prepared or read_estimator(directory / name)
    _check_features(estimator, spec, directory / name)
    predict, tables = compiled(estimator), _tables(directory, digests)
    is_spread = spec.calibration.least_spread is not None
    spread = tree_spread(estimator, predict) if is_spread else None
    bundle = Bundle(spec, version, predict, estimator, tables, spread)
    check_examples(bundle, str(directory / name))
    return bundle


def check_examples(bundle: Bundle, source: str) -> None:
    """Replay the examples stored in a bundle's spec.

    Parameters
    ----------
    bundle : Bundle
    source : str
        What to name in the error.

    Raises
    ------
    BadModelError
        If an answer differs by more than 1e-9, absolute and relative, or an example has other
        features than the spec.
    """
    if not bundle.spec.example_rows:
        return
    stored = np.array(bundle.spec.example_values)
    rows = np.array(bundle.spec.example_rows, dtype=np.float64)  # None becomes NaN
    if rows.shape[1:] != (len(bundle.spec.features),):
        found = f"examples of shape {rows.shape[1:]}"
        raise BadModelError(f"{source}: found {found}, wanted {len(bundle.spec.features)} features")
    answers = bundle.predict(rows).ravel()
    if answers.shape != stored.shape:
        found = f"{answers.size} answers to {len(rows)} examples"
        raise BadModelError(f"{source}: found {found}, wanted {stored.size}")
    wrong = ~np.isclose(answers, stored, rtol=TOLERANCE, atol=TOLERANCE)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        found = f"{answers[at]!r} for stored example {at}"
        raise BadModelError(f"{source}: found {found}, wanted {stored[at]!r}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked_digests(directory: Path) -> Mapping[str, str]:
    """Return the list of digests after comparing every file on it."""
    path = directory / DIGESTS_FILE
    try:
        digests: dict[str, str] = dict(json.loads(path.read_text()))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise BadModelError(f"{path}: found {error!r}, wanted a list of digests") from error
    for name, wanted in digests.items():
        _check_digest(directory, name, wanted)
    if SPEC_FILE not in digests:
        raise BadModelError(f"{path}: found {shown(digests)}, wanted {SPEC_FILE} among them")
    return digests


def _check_digest(directory: Path, name: str, wanted: str) -> None:
    # A list that points out of its own directory was not written by us.
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise BadModelError(f"{directory / DIGESTS_FILE}: found {name!r}, wanted a relative path")
    path = directory / name
    if not path.is_file():
        raise BadModelError(f"{path}: found no such file, wanted SHA-256 {wanted}")
    found = _sha256(path)
    if found != wanted:
        raise BadModelError(f"{path}: found SHA-256 {found}, wanted {wanted}")


def _check_features(estimator: object, spec: ModelSpec, path: Path) -> None:
    count = getattr(estimator, "n_features_in_", None)
    if hasattr(estimator, "num_feature"):  # a LightGBM booster
        count = estimator.num_feature()
    if count != len(spec.features):
        raise BadModelError(f"{path}: found {count} features, wanted {len(spec.features)}")


def _tables(directory: Path, digests: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    names = [name for name in digests if name.startswith(SIDECAR) and name.endswith(".parquet")]
    return {PurePosixPath(name).stem: pd.read_parquet(directory / name) for name in names}


def example_values(predict_output: Floats) -> tuple[float, ...]:
    """Return raw answers as they are stored in a spec: row by row, all targets of a row together.

    Examples
    --------
    >>> example_values(np.array([[1.0, 2.0], [3.0, 4.0]]))
    (1.0, 2.0, 3.0, 4.0)
    """
    return tuple(float(value) for value in predict_output.ravel())
