"""Put one question of each kind to a version before it serves, through the whole inference core.

A version from another release of colocast may be whole and yet not be understood here: a table
has other columns, a feature is no longer built. That shows here, not in a request.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from data.domain import REGISTERED_MODELS, JobRequest, ModelStructure
from data.errors import BadModelError, ColocastError
from features.effect_tables import ROWS_TABLE
from features.history import RuntimeHistory
from features.requests import requests_frame
from serving.inference.bundle import Bundle
from serving.inference.demand import demand_estimates
from serving.inference.estimates import estimates_from
from serving.inference.interference import slowdown_estimates
from serving.inference.memory import memory_estimates
from serving.inference.runtime import runtime_estimates
from serving.live.adaptation import adapted_bundle

KEYS = 4  # of the profiles; all their pairs are asked
ROWS = 64
STRUCTURES = (
    ModelStructure("a family that no one has", 64),
    ModelStructure(
        "dlrm", 2048, "A100", "pytorch", "adam", "fp32", 2, 10**6, 64, 26, 10**6, 10**7, 4
    ),
)
REQUESTS = (
    JobRequest("1", "a user", "a queue", "a job key", 0.0),
    JobRequest("2", "a user", "a queue", "a job key", 9.0, 1, 1024, 4, 4096, 3600.0, 60.0),
)
_NOT_UNDERSTOOD = (
    ColocastError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    np.linalg.LinAlgError,
)


def rehearse(bundle: Bundle) -> None:
    """Raise unless a version answers one question of each kind that will be asked of it.

    Parameters
    ----------
    bundle : Bundle
        Of one of the registered models.

    Raises
    ------
    BadModelError
        Says what went wrong.
    """
    try:
        _QUESTIONS[bundle.spec.name](bundle)
    except _NOT_UNDERSTOOD as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BadModelError(
            f"{bundle.version}: this colocast does not understand it ({text}); train it anew, or "
            "serve it with the colocast that trained it"
        ) from error


def _interference(bundle: Bundle) -> None:
    known = bundle.tables["profiles"][["job_key", "gpu_model"]].head(KEYS)
    pairs = known.merge(known.rename(columns={"job_key": "neighbour_key"}), on="gpu_model")
    strange = pd.DataFrame(
        [("a job", "another", "a GPU")], columns=["job_key", "neighbour_key", "gpu_model"]
    )
    asked = pd.concat([pairs[strange.columns], strange], ignore_index=True)
    estimates_from(slowdown_estimates(bundle, asked), bundle.version)
    measured = pairs.assign(slowdown=1.5)
    adapted = adapted_bundle(_with_few_rows(bundle), measured)
    estimates_from(slowdown_estimates(adapted, asked), bundle.version)


def _with_few_rows(bundle: Bundle) -> Bundle:
    """Return the bundle with a few of its measured pairs: adapting takes time by their cube."""
    if ROWS_TABLE not in bundle.tables:
        return bundle
    return replace(
        bundle, tables={**bundle.tables, ROWS_TABLE: bundle.tables[ROWS_TABLE].head(ROWS)}
    )


def _memory(bundle: Bundle) -> None:
    estimates_from(memory_estimates(bundle, STRUCTURES), bundle.version)


def _demand(bundle: Bundle) -> None:
    for frame in demand_estimates(bundle, STRUCTURES).values():
        estimates_from(frame, bundle.version)


def _runtime_cluster(bundle: Bundle) -> None:
    _runtime(bundle, None)


def _runtime_user(bundle: Bundle) -> None:
    _runtime(bundle, bundle)  # its cluster model may come later; both read the same columns


def _runtime(cluster: Bundle, user: Bundle | None) -> None:
    rows = RuntimeHistory().transform(requests_frame(REQUESTS))
    elapsed_s = np.array([request.elapsed_s for request in REQUESTS])
    estimates_from(runtime_estimates(cluster, user, rows, elapsed_s), cluster.version)


_QUESTIONS: Mapping[str, Callable[[Bundle], None]] = dict(
    zip(
        REGISTERED_MODELS,
        (_interference, _runtime_cluster, _runtime_user, _memory, _demand),
        strict=True,
    )
)
