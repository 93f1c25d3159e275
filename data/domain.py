"""The domain types; the wire format of the service is made of these same dataclasses.

Standard library only, so that the scheduler stays light.
"""

from dataclasses import dataclass, field
from enum import StrEnum

SIGNALS = (
    "gpu_util",
    "sm_active",
    "sm_occupancy",
    "fp32_active",
    "dram_active",
    "pcie_bytes_per_s",
    "gpu_mem_mib",
)
"""What is sampled on a device, each kept as ``<name>_mean`` and ``<name>_std`` (DeepShare's 14).

The first five are ratios in [0, 1]. On a CPU slot, where no GPU was found, ``gpu_util`` is the
share of the slot's time that the job ran, ``sm_active`` its user-mode part,
``pcie_bytes_per_s`` the bytes it read and wrote, ``gpu_mem_mib`` its resident memory; what has
no counterpart stays missing.
"""

RATIO_SIGNALS = SIGNALS[:5]
SIGNAL_COLUMNS = tuple(f"{name}_{moment}" for name in SIGNALS for moment in ("mean", "std"))
PROFILE_COLUMNS = (*SIGNAL_COLUMNS, "gpu_mem_peak_mib")


class Outcome(StrEnum):
    """How a run or a job ended."""

    OK = "ok"
    FAILED = "failed"
    OOM = "oom"
    PREEMPTED = "preempted"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    NODE_FAIL = "node_fail"


class Source(StrEnum):
    """Where an estimate came from; a fallback is always visible here."""

    MODEL = "model"
    USER_MODEL = "user_model"
    CLUSTER_MODEL = "cluster_model"
    COLD_START = "cold_start"
    HEURISTIC = "heuristic"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A prediction with a calibrated interval.

    Attributes
    ----------
    value, lower, upper : float
        ``lower <= value <= upper``, in the unit of what was asked: slowdown (dimensionless),
        runtime (s), memory (MiB) or the signal's own.
    model_version : str
        ``<registered name>/<version>``, or ``none`` where no model answered.
    source : Source
    in_domain : bool
        Whether the input lies inside what the model was trained on.
    """

    value: float
    lower: float
    upper: float
    model_version: str
    source: Source
    in_domain: bool = True


@dataclass(frozen=True, slots=True)
class ModelStructure:
    """What a user can say of a model before it ever ran; the input of memory and demand.

    ``colocast inspect`` reads it from PyTorch code. Counts are numbers of scalars. ``None`` means
    unknown, never zero.

    Attributes
    ----------
    activations : int, optional
        What one sample keeps between the forward and the backward pass.
    largest_activation : int, optional
        What one sample is in the largest single tensor among them.
    depth : int, optional
        Layers with weights, embeddings apart.
    multiply_adds : int, optional
        Of matrix products and convolutions in the forward pass of one sample.
    """

    family: str
    batch_size: int
    gpu_model: str = "unknown"
    framework: str = "unknown"
    optimizer: str = "unknown"
    precision: str = "fp32"
    gpus: int = 1
    embedding_rows: int | None = None
    embedding_width: int | None = None
    embedding_tables: int | None = None
    dense_parameters: int | None = None
    activations: int | None = None
    depth: int | None = None
    largest_activation: int | None = None
    multiply_adds: int | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """One ordered colocation: `job_key` is the one slowed down, by `neighbour_key`."""

    job_key: str
    neighbour_key: str
    gpu_model: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job as it is known at submission, plus how long it has run already.

    Attributes
    ----------
    submit_time : float
        Seconds since 1970, UTC.
    limit_s : float, optional
        Requested run time limit in seconds.
    elapsed_s : float
        Seconds it has been running; 0 before it starts. The answer is of the *whole* runtime,
        given that it has lasted this long.
    """

    job_id: str
    user: str
    queue: str
    job_key: str
    submit_time: float
    gpus: int = 1
    gpu_mem_mib: int | None = None
    cpus: int | None = None
    mem_mib: int | None = None
    limit_s: float | None = None
    elapsed_s: float = 0.0
    structure: ModelStructure | None = None


@dataclass(frozen=True, slots=True)
class Resident:
    """A job that already runs on a card."""

    job_id: str
    job_key: str


@dataclass(frozen=True, slots=True)
class Card:
    """One physical card as a candidate: GPU or, on a machine without, a CPU slot."""

    card_id: str
    gpu_model: str
    free_mem_mib: int
    residents: tuple[Resident, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """The predicted consequence of placing one job on one card.

    Attributes
    ----------
    job_slowdown : Estimate
        Of the placed job beside all residents.
    neighbour_slowdowns : tuple of Estimate
        Of each resident, in the order of ``Card.residents``.
    memory : Estimate
        GPU memory peak of the placed job (MiB).
    fits : bool
        Whether the upper memory estimate is within the card's free MiB.
    cost : float
        Sum of (slowdown - 1) over the placed job and the residents; lower is better.
    """

    card_id: str
    job_slowdown: Estimate
    neighbour_slowdowns: tuple[Estimate, ...]
    memory: Estimate
    fits: bool
    cost: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a job's run during which its neighbours did not change (times in s, UTC)."""

    start_time: float
    finish_time: float
    card_id: str
    gpu_model: str
    neighbour_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job attempt that ended, with everything the learning loop needs.

    Identified by (`job_id`, `attempt`). Moments are seconds since 1970, UTC, and
    ``submit_time <= start_time <= finish_time``. `signals` holds ``PROFILE_COLUMNS`` measured
    over exclusive intervals only; absent ones were not measured. `predicted_slowdown` and
    `prediction_source` are what the decision used.
    """

    job_id: str
    attempt: int
    user: str
    queue: str
    job_key: str
    gpus: int
    submit_time: float
    start_time: float
    finish_time: float
    outcome: Outcome
    segments: tuple[Segment, ...] = ()
    gpu_mem_mib: int | None = None
    cpus: int | None = None
    mem_mib: int | None = None
    limit_s: float | None = None
    structure: ModelStructure | None = None
    signals: dict[str, float] = field(default_factory=dict)
    predicted_slowdown: float | None = None
    predicted_runtime_s: float | None = None
    prediction_source: Source | None = None
    model_version: str | None = None

    @property
    def runtime_s(self) -> float:
        """Start to finish, in seconds."""
        return self.finish_time - self.start_time


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the service says of one registered model on ``/v1/models``."""

    name: str
    version: str | None
    digest: str | None
    loaded_time: float | None
    refused_version: str | None = None
    refused_reason: str | None = None


REGISTERED_MODELS = (
    "colocast-interference",
    "colocast-runtime-cluster",
    "colocast-runtime-user",
    "colocast-memory",
    "colocast-demand",
)
