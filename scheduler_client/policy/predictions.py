"""What is predicted before a cycle decides: one immutable value, so that policies stay pure.

A slowdown depends on the job, the card's model and who runs there, not on which card it is. So
predictions are kept by *class*: ten thousand cards have few classes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from data.domain import Card, Estimate, JobRequest, ModelStructure, Resident
from scheduler_client.policy.decisions import ALONE, Level


@dataclass(frozen=True, slots=True)
class JobClass:
    """Jobs that the placement models cannot tell apart."""

    job_key: str
    gpus: int = 1
    gpu_mem_mib: int | None = None
    structure: ModelStructure | None = None

    @classmethod
    def of(cls, job: JobRequest) -> "JobClass":
        """Return the class of `job`."""
        return cls(job.job_key, job.gpus, job.gpu_mem_mib, job.structure)


@dataclass(frozen=True, slots=True)
class CardClass:
    """Cards of one model with the same kinds of residents (job keys, sorted)."""

    gpu_model: str
    resident_keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, gpu_model: str, residents: Iterable[Resident]) -> "CardClass":
        """Return the class of a card of `gpu_model` with `residents`."""
        return cls(gpu_model, tuple(sorted(resident.job_key for resident in residents)))

    def example(self, card_id: str, free_mem_mib: int) -> Card:
        """Return a card of this class to ask the service with; residents in the class's order."""
        residents = tuple(
            Resident(f"{card_id}.{index}", key) for index, key in enumerate(self.resident_keys)
        )
        return Card(card_id, self.gpu_model, free_mem_mib, residents)


@dataclass(frozen=True, slots=True)
class Colocation:
    """What happens when a job joins a card of some class.

    Attributes
    ----------
    job_slowdown : Estimate, optional
        None where nothing was predicted, because the policy does not ask.
    neighbour_slowdowns : tuple of Estimate
        In the order of ``CardClass.resident_keys``.
    gpu_util_cost : float, optional
        The utilisation part of DeepShare's node cost, where there was no model to ask.
    """

    job_slowdown: Estimate | None
    neighbour_slowdowns: tuple[Estimate, ...] = ()
    gpu_util_cost: float | None = None

    @property
    def slowdowns(self) -> tuple[Estimate, ...]:
        """The job's slowdown and its neighbours', as far as they were predicted."""
        mine = () if self.job_slowdown is None else (self.job_slowdown,)
        return (*mine, *self.neighbour_slowdowns)


UNSHARED = Colocation(ALONE)
"""A job alone on its card: no model is needed to know this."""

UNPREDICTED = Colocation(None)
"""A card that a policy takes without asking what would happen there."""


@dataclass(frozen=True, slots=True)
class JobForecast:
    """What is predicted for one pending job.

    Attributes
    ----------
    runtime : Estimate, optional
        Of the whole run in seconds; None where nothing is known.
    memory : mapping of str to Estimate
        GPU memory peak in MiB, by GPU model.
    colocations : mapping of CardClass to Colocation
        A class that is absent was not predicted, and is never taken for harmless.
    level : Level
        What `colocations` came from.
    answer_age_s : float, optional
        Age of the oldest answer of the service in it (s); None where the service said nothing.
    """

    runtime: Estimate | None = None
    memory: Mapping[str, Estimate] = field(default_factory=dict)
    colocations: Mapping[CardClass, Colocation] = field(default_factory=dict)
    level: Level = Level.EXCLUSIVE
    answer_age_s: float | None = None

    def colocation(self, card_class: CardClass) -> Colocation | None:
        """Return the prediction for a card of `card_class`, or None."""
        unknown = None if card_class.resident_keys else UNSHARED
        return self.colocations.get(card_class, unknown)


Predictions = Mapping[str, JobForecast]
"""Job id to forecast; a job without one is placed as if nothing were known."""

NO_FORECAST = JobForecast()
