"""Swap a bundle's forest for its compiled form, once that has proven equal."""

from dataclasses import replace

import numpy as np

from data.errors import BadModelError
from serving.bundle import Bundle, Floats, ModelSpec
from serving.forest_few import FewRows
from serving.forest_layout import compiled_forest

FEW_ROWS = 4  # up to here LightGBM's walk is quicker than numpy's (measured)
TOLERANCE = 1e-9
PROBES = 256
MISSING_SHARE = 0.1


def with_compiled_forest(bundle: Bundle) -> Bundle:
    """Return `bundle` answering from the compiled form of its forest.

    Parameters
    ----------
    bundle : Bundle
        One whose estimator is no forest is returned as it is.

    Raises
    ------
    BadModelError
        If the forest's arrays are unsound, or the compiled form differs from the estimator by
        more than 1e-9 on the stored examples or on rows drawn from the training range.
    """
    estimators = getattr(bundle.estimator, "estimators_", None)
    if estimators is None:
        return bundle
    trees = [estimator.tree_ for estimator in estimators]
    forest = compiled_forest(trees, len(bundle.spec.features))
    few = FewRows(trees, len(bundle.spec.features)) if forest.values.shape[1] == 1 else None

    def predict(rows: Floats) -> Floats:
        if few is not None and len(rows) <= FEW_ROWS:
            return few.predict(rows)
        return forest.predict(rows)

    probes = probe_rows(bundle.spec)
    native = bundle.predict(probes)
    for rows, wanted in ((probes, native), (probes[:FEW_ROWS], native[:FEW_ROWS])):
        _check_equal(bundle.version, predict(rows), wanted)
    return replace(bundle, predict=predict)


def probe_rows(spec: ModelSpec) -> Floats:
    """Return the stored examples and rows drawn from the training range, some values missing.

    Returns
    -------
    array of shape (n, n_features), float64
        The same for the same spec.
    """
    random = np.random.default_rng(0)
    low = np.array([spec.low.get(name, 0.0) for name in spec.features])
    high = np.array([spec.high.get(name, 0.0) for name in spec.features])
    share = random.random((PROBES, len(low)))
    drawn = low * (1 - share) + high * share
    drawn[random.random(drawn.shape) < MISSING_SHARE] = np.nan
    stored = np.array(spec.example_rows, dtype=np.float64).reshape(-1, len(low))
    return np.concatenate([stored, drawn])


def _check_equal(version: str, found: Floats, wanted: Floats) -> None:
    worst = float(np.abs(found - wanted).max())
    if not worst <= TOLERANCE * max(1.0, float(np.abs(wanted).max())):
        raise BadModelError(
            f"{version}: the compiled forest differs from scikit-learn by {worst:g}, "
            f"wanted at most {TOLERANCE:g}"
        )
