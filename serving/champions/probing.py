"""Ask a model that was just loaded what a request might ask, before any request does."""

import numpy as np

from data.errors import BadModelError
from serving.inference.bundle import Bundle, Floats, ModelSpec

PROBES = 256
MISSING_SHARE = 0.1


def probe_rows(spec: ModelSpec) -> Floats:
    """Return the stored examples, rows drawn from the training range with gaps, and one all gaps.

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
    drawn[-1] = np.nan
    stored = np.array(spec.example_rows, dtype=np.float64).reshape(-1, len(low))
    return np.concatenate([stored, drawn])


def probed(bundle: Bundle) -> Floats:
    """Return a model's answers to `probe_rows`.

    Raises
    ------
    BadModelError
        If it fails on one, or answers what is no number: a request would get no answer.
    """
    rows = probe_rows(bundle.spec)
    try:
        answers = bundle.predict(rows)
    except ValueError as error:
        text = str(error).splitlines()[0]
        raise BadModelError(f"{bundle.version}: cannot answer a row with gaps: {text}") from error
    if len(answers) != len(rows) or not np.isfinite(answers).all():
        raise BadModelError(
            f"{bundle.version}: found an answer that is no number, wanted one a row"
        )
    return answers
