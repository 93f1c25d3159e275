"""Swap a bundle's forest for its compiled form, once that has proven equal."""

from dataclasses import replace

import numpy as np

from data.errors import BadModelError
from serving.champions.probing import probe_rows, probed
from serving.forest.few import FewRows
from serving.forest.layout import compiled_forest
from serving.forest.plain import PlainForest
from serving.inference.bundle import Bundle, Floats

FEW_ROWS = 4  # up to here LightGBM's walk is quicker than numpy's (measured)
TOLERANCE = 1e-9


def with_compiled_forest(bundle: Bundle) -> Bundle:
    """Return `bundle` answering from the compiled form of its forest.

    Parameters
    ----------
    bundle : Bundle
        One whose estimator is no forest is returned as it is, once it has answered too.

    Raises
    ------
    BadModelError
        If the model cannot answer the rows of ``serving.champions.probing``, the forest's arrays
        are unsound, or the compiled form answers them differently by more than 1e-9.
    """
    found = probed(bundle)
    estimators = getattr(bundle.estimator, "estimators_", None)
    if estimators is None:
        return bundle
    trees = [estimator.tree_ for estimator in estimators]
    if isinstance(bundle.estimator, PlainForest):  # it answers from the compiled form already
        native, forest = bundle.estimator.answers, bundle.predict
    else:
        native, forest = found, compiled_forest(trees, len(bundle.spec.features)).predict
    few = FewRows(trees, len(bundle.spec.features)) if found.ndim == 1 else None

    def predict(rows: Floats) -> Floats:
        if few is not None and len(rows) <= FEW_ROWS:
            return few.predict(rows)
        return forest(rows)

    probes = probe_rows(bundle.spec)
    for rows, wanted in ((probes, native), (probes[:FEW_ROWS], native[:FEW_ROWS])):
        _check_equal(bundle.version, predict(rows), wanted)
    return replace(bundle, predict=predict)


def _check_equal(version: str, found: Floats, wanted: Floats) -> None:
    if found.shape != wanted.shape:
        shapes = f"found answers of shape {found.shape}, wanted {wanted.shape}"
        raise BadModelError(f"{version}: {shapes}")
    worst = float(np.abs(found - wanted).max())
    if not worst <= TOLERANCE * max(1.0, float(np.abs(wanted).max())):
        raise BadModelError(
            f"{version}: the compiled forest differs from scikit-learn by {worst:g}, "
            f"wanted at most {TOLERANCE:g}"
        )
