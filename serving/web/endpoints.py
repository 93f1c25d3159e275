"""The routes as a table: what each takes, what it answers, and what it may fail with."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from operator import attrgetter
from typing import Any, Protocol

from data.domain import Estimate, FinishedJob
from data.errors import WireError
from data.finished import checked_job
from data.joblog import Appended
from serving.inference.explain import Explanation
from serving.predictor import Predictor
from serving.web.wire_binary import MEDIA as OCTETS
from serving.web.wire_binary import BinaryEstimates, BinaryPairs
from serving.web.wire_models import (
    DemandsAnswer,
    EstimatesAnswer,
    ExplainRequest,
    FinishedRequest,
    ModelsAnswer,
    PlacementsAnswer,
    PlacementsRequest,
    PushRequest,
    RuntimeRequest,
    SlowdownRequest,
    StructuresRequest,
)
from serving.web.wire_schema import Reader, Writer
from serving.web.wire_texts import EstimatesWriter, PlacementsWriter

JSON = b"application/json"

_VERSION_AND_SOURCE = attrgetter("model_version", "source")

Counts = Mapping[tuple[str, str], int]
"""Estimates by (model version, source)."""


class Backend(Protocol):
    """What the routes answer from."""

    def predictor(self) -> Predictor:
        """Return the predictor that serves now; a request asks once."""
        ...

    def append(self, jobs: tuple[FinishedJob, ...]) -> Appended:
        """Append finished jobs to the job log."""
        ...

    def models(self) -> ModelsAnswer:
        """Return what serves now."""
        ...

    def push(self, name: str) -> None:
        """Ask the registry at once, in every worker."""
        ...


@dataclass(frozen=True, slots=True)
class Answered:
    """A body to send, and what it holds for the metrics."""

    body: bytes
    counts: Counts = field(default_factory=dict)
    media: bytes = JSON


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route.

    Attributes
    ----------
    path, method : str
    scope : str
        What a bearer token must grant.
    summary : str
        One line for the OpenAPI document.
    reader : Reader, optional
        Of the body; None where there is none.
    writer : Writer
    answer : callable
        From the backend and what was read to what is written, with its estimates.
    in_thread : bool
        Whether it runs beside the event loop: where it may wait for a database or takes long.
    is_signed : bool
        Whether the body must be signed: ``serving.web.pushes``.
    failures : tuple of HTTPStatus
        Beyond those that every route may answer.
    media : bytes
        Media type of question and answer.
    binary : Endpoint, optional
        The same question and answer without JSON.
    """

    path: str
    method: str
    scope: str
    summary: str
    writer: Writer[Any]
    answer: Callable[[Backend, Any], tuple[Any, Iterable[Estimate]]]
    reader: Reader[Any] | None = None
    in_thread: bool = False
    is_signed: bool = False
    failures: tuple[HTTPStatus, ...] = ()
    media: bytes = JSON
    binary: "Endpoint | None" = None

    def respond(self, backend: Backend, body: bytes) -> Answered:
        """Return the answer to a request body.

        Raises
        ------
        ColocastError
            What went wrong; ``serving.web.errors`` knows its status.
        """
        asked = self.reader.read(body) if self.reader else None
        value, estimates = self.answer(backend, asked)
        counts = Counter(map(_VERSION_AND_SOURCE, estimates))
        return Answered(self.writer.write(value), counts, self.media)


def _slowdown(
    backend: Backend, asked: SlowdownRequest
) -> tuple[EstimatesAnswer, Iterable[Estimate]]:
    estimates = backend.predictor().slowdowns(asked.pairs)
    return EstimatesAnswer(estimates), estimates


def _runtime(backend: Backend, asked: RuntimeRequest) -> tuple[EstimatesAnswer, Iterable[Estimate]]:
    estimates = backend.predictor().runtimes(asked.jobs, asked.running)
    return EstimatesAnswer(estimates), estimates


def _memory(
    backend: Backend, asked: StructuresRequest
) -> tuple[EstimatesAnswer, Iterable[Estimate]]:
    estimates = backend.predictor().memories(asked.structures)
    return EstimatesAnswer(estimates), estimates


def _demand(backend: Backend, asked: StructuresRequest) -> tuple[DemandsAnswer, Iterable[Estimate]]:
    demands = backend.predictor().demands(asked.structures)
    return DemandsAnswer(demands), (e for demand in demands for e in demand.values())


def _placements(
    backend: Backend, asked: PlacementsRequest
) -> tuple[PlacementsAnswer, Iterable[Estimate]]:
    placements = backend.predictor().placements(asked.job, asked.cards)
    return PlacementsAnswer(placements), (placement.job_slowdown for placement in placements)


def _explain(backend: Backend, asked: ExplainRequest) -> tuple[Explanation, Iterable[Estimate]]:
    explanation = backend.predictor().explain(asked.pair)
    return explanation, (explanation.estimate,)


def _finished(backend: Backend, asked: FinishedRequest) -> tuple[Appended, Iterable[Estimate]]:
    for number, job in enumerate(asked.jobs):
        try:
            checked_job(job)
        except WireError as error:
            where = f"jobs[{number}].{error.field}".rstrip(".")
            raise WireError(where, error.found, error.wanted) from error
    return backend.append(asked.jobs), ()


def _models(backend: Backend, asked: None) -> tuple[ModelsAnswer, Iterable[Estimate]]:
    del asked
    return backend.models(), ()


def _push(backend: Backend, asked: PushRequest) -> tuple[ModelsAnswer, Iterable[Estimate]]:
    backend.push(asked.name)
    return backend.models(), ()


_UNAVAILABLE = (HTTPStatus.SERVICE_UNAVAILABLE,)
_ESTIMATES = EstimatesWriter()
_STRUCTURES = Reader(StructuresRequest)

_BINARY_SLOWDOWN = Endpoint(
    "/v1/slowdown",
    "POST",
    "predict",
    "The same without JSON.",
    BinaryEstimates(),
    _slowdown,
    BinaryPairs(),
    media=OCTETS,
)

ENDPOINTS = (
    Endpoint(
        "/v1/slowdown",
        "POST",
        "predict",
        "How much each job slows down beside its neighbour.",
        _ESTIMATES,
        _slowdown,
        Reader(SlowdownRequest),
        failures=(HTTPStatus.NOT_FOUND, *_UNAVAILABLE),
        binary=_BINARY_SLOWDOWN,
    ),
    Endpoint(
        "/v1/placements",
        "POST",
        "predict",
        "What happens if one job joins each of the cards, cheapest first.",
        PlacementsWriter(),
        _placements,
        Reader(PlacementsRequest),
        failures=_UNAVAILABLE,
    ),
    Endpoint(
        "/v1/runtime",
        "POST",
        "predict",
        "How long each job will run.",
        _ESTIMATES,
        _runtime,
        Reader(RuntimeRequest),
        in_thread=True,
        failures=_UNAVAILABLE,
    ),
    Endpoint(
        "/v1/memory",
        "POST",
        "predict",
        "How much GPU memory each model will need at its peak (MiB).",
        _ESTIMATES,
        _memory,
        _STRUCTURES,
        in_thread=True,
        failures=_UNAVAILABLE,
    ),
    Endpoint(
        "/v1/demand",
        "POST",
        "predict",
        "The exclusive profile that each model would show.",
        Writer(DemandsAnswer),
        _demand,
        _STRUCTURES,
        in_thread=True,
        failures=_UNAVAILABLE,
    ),
    Endpoint(
        "/v1/explain",
        "POST",
        "predict",
        "Where one slowdown estimate comes from.",
        Writer(Explanation),
        _explain,
        Reader(ExplainRequest),
        in_thread=True,
        failures=(HTTPStatus.NOT_FOUND, *_UNAVAILABLE),
    ),
    Endpoint(
        "/v1/finished",
        "POST",
        "report",
        "Append finished jobs to the job log; each counts once, however often it is sent.",
        Writer(Appended),
        _finished,
        Reader(FinishedRequest),
        in_thread=True,
        failures=(HTTPStatus.CONFLICT, *_UNAVAILABLE),
    ),
    Endpoint(
        "/v1/models",
        "GET",
        "predict",
        "Which version of each registered model serves, and which was refused.",
        Writer(ModelsAnswer),
        _models,
    ),
    Endpoint(
        "/v1/push",
        "POST",
        "admin",
        "Ask the registry now which versions are champions; signed (Standard Webhooks).",
        Writer(ModelsAnswer),
        _push,
        Reader(PushRequest),
        in_thread=True,
        is_signed=True,
        failures=_UNAVAILABLE,
    ),
)
