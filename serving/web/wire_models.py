"""What each route takes and answers: envelopes around the dataclasses of ``data.domain``."""

from collections.abc import Mapping
from dataclasses import dataclass

from data.domain import (
    Card,
    Estimate,
    FinishedJob,
    JobRequest,
    ModelStructure,
    Pair,
    Placement,
    ServedModel,
)


@dataclass(frozen=True, slots=True)
class SlowdownRequest:
    """Body of ``POST /v1/slowdown``."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class RuntimeRequest:
    """Body of ``POST /v1/runtime``; `running` jobs are not answered, but tell of alike ones."""

    jobs: tuple[JobRequest, ...]
    running: tuple[JobRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class StructuresRequest:
    """Body of ``POST /v1/memory`` and ``POST /v1/demand``."""

    structures: tuple[ModelStructure, ...]


@dataclass(frozen=True, slots=True)
class PlacementsRequest:
    """Body of ``POST /v1/placements``: one job, and every card it might go to."""

    job: JobRequest
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Body of ``POST /v1/explain``."""

    pair: Pair


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """Body of ``POST /v1/finished``."""

    jobs: tuple[FinishedJob, ...]


@dataclass(frozen=True, slots=True)
class PushRequest:
    """Body of ``POST /v1/push``: whose alias moved; what it names now is asked of the registry."""

    name: str


@dataclass(frozen=True, slots=True)
class EstimatesAnswer:
    """One estimate for each row of the request, in its order."""

    estimates: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class DemandsAnswer:
    """One predicted profile for each structure, in order: signal column to estimate."""

    demands: tuple[Mapping[str, Estimate], ...]


@dataclass(frozen=True, slots=True)
class PlacementsAnswer:
    """One placement for each card, cheapest first; ties in the order of the request."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class ModelsAnswer:
    """One entry for each registered model, loaded or not.

    Attributes
    ----------
    models : tuple of ServedModel
    job_log_sequence : int
        Newest entry of the job log that this worker's history holds.
    """

    models: tuple[ServedModel, ...]
    job_log_sequence: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field of a request."""

    field: str
    found: str
    wanted: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Body of every answer with a status of 400 or more.

    Attributes
    ----------
    error : str
        One sentence that says what was found and what was wanted.
    detail : tuple of Fault
        Field by field, where the request is at fault; at most five.
    """

    error: str
    detail: tuple[Fault, ...] = ()
