"""What an operator decides: queues in Kueue's shape, and the scheduler's own settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import yaml

from data.errors import SettingError, WireError, shown
from data.wire import from_json
from scheduler_client.kueue_yaml import queues_from
from scheduler_client.policy.eviction_cost import EvictionRules
from scheduler_client.policy.queue_order import Ageing
from scheduler_client.policy.reserving import ReservationRules
from scheduler_client.policy.rules import PolicyRules
from scheduler_client.policy.scoring import Bound, ScoreWeights
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.tolerance import ToleranceRule
from scheduler_client.policy.view import Queue, Whom

DAY_S = 86_400.0
DEFAULT_COHORT = "all"


@dataclass(frozen=True, slots=True)
class PredictionSettings:
    """How the scheduler asks for predictions.

    Attributes
    ----------
    deadline_s : float
        For all predictions of one cycle, retries included.
    fresh_s : float
        For so long an answer is used again without asking.
    last_good_s : float
        For so long an answer is used while the endpoint gives none.
    budget_s : float
        So much of a cycle goes into asking what happens on shared cards; what it did not suffice
        for is asked in the next ones.
    """

    deadline_s: float = 1.0
    fresh_s: float = 5.0
    last_good_s: float = 3600.0
    budget_s: float = 0.4


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The scheduler's own settings, as in a document of kind ``Scheduler``.

    Attributes
    ----------
    cycle_s : float
        Pause between two cycles.
    max_jobs_per_card : int
        In [1, 8]; the models are trained on pairs.
    bound : Bound
        Which end of a predicted slowdown must be tolerated.
    half_life_s : float
        In so long past usage counts half.
    max_attempts : int
        A job whose run is lost with its scheduler is started again at most this often.
    grace_s : float
        From the polite signal to the end of a job that is stopped.
    assignment : str
        ``list`` or ``joint``, see `PolicyRules`.
    order : str
        ``fair``: fair shares; ``attained``: least GPU time had, by `levels`.
    """

    cycle_s: float = 0.2
    max_jobs_per_card: int = 2
    bound: Bound = Bound.UPPER
    half_life_s: float = DAY_S
    max_attempts: int = 3
    grace_s: float = 5.0
    ageing: Ageing = field(default_factory=Ageing)
    tolerance: ToleranceRule = field(default_factory=ToleranceRule)
    weights: ScoreWeights = field(default_factory=ScoreWeights)
    prediction: PredictionSettings = field(default_factory=PredictionSettings)
    reservation: ReservationRules = field(default_factory=ReservationRules)
    eviction: EvictionRules = field(default_factory=EvictionRules)
    assignment: str = "list"
    order: str = "fair"
    levels: LevelRules = field(default_factory=LevelRules)

    @property
    def rules(self) -> PolicyRules:
        """The rules of the policy ``colocate`` under these settings."""
        return PolicyRules(
            max_jobs_per_card=self.max_jobs_per_card,
            bound=self.bound,
            ageing=self.ageing,
            tolerance=self.tolerance,
            weights=self.weights,
            reservation=self.reservation,
            eviction=self.eviction,
            assignment="joint" if self.assignment == "joint" else "list",
            order=self.levels if self.order == "attained" else "fair",
        )


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Everything from the configuration file.

    Attributes
    ----------
    queues : tuple of Queue
        Empty: every user has a queue of the same name, all in one cohort with equal parts of
        the cluster as nominal quota.
    """

    queues: tuple[Queue, ...] = ()
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)


def queues_now(config: SchedulerConfig, names: Sequence[str], gpus: int) -> tuple[Queue, ...]:
    """Return the queues of this moment: the configured ones, else one for each name.

    Examples
    --------
    >>> [queue.nominal_quota_gpus for queue in queues_now(SchedulerConfig(), ["ada", "bob"], 4)]
    [2.0, 2.0]
    """
    if config.queues:
        return config.queues
    each = sorted(set(names))
    return tuple(Queue(name, gpus / len(each), DEFAULT_COHORT) for name in each)


def load_config(path: Path) -> SchedulerConfig:
    """Read a configuration file: ClusterQueue documents, at most one of kind ``Scheduler``.

    Raises
    ------
    SettingError
        If the file cannot be read, is no YAML, or says something that is unknown, not supported
        or out of range. Names the file, the field, and what was wanted.
    """
    try:
        documents = [d for d in yaml.safe_load_all(path.read_text("utf-8")) if d is not None]
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: found no YAML: {' '.join(str(error).split())}") from error
    return config_from(documents, str(path))


def config_from(documents: Sequence[object], source: str) -> SchedulerConfig:
    """Return the configuration that parsed YAML documents describe.

    Raises
    ------
    SettingError
        As `load_config`.
    """
    by_kind: dict[str, list[Mapping[str, object]]] = {"ClusterQueue": [], "Scheduler": []}
    for document in documents:
        kind = document.get("kind") if isinstance(document, Mapping) else None
        if kind not in by_kind or not isinstance(document, Mapping):
            wanted = "ClusterQueue or Scheduler"
            raise SettingError(f"{source}: kind {kind!r} is not supported, wanted {wanted}")
        by_kind[str(kind)].append(document)
    if len(by_kind["Scheduler"]) > 1:
        raise SettingError(f"{source}: found two documents of kind Scheduler, wanted one")
    settings = SchedulerSettings()
    for document in by_kind["Scheduler"]:
        settings = _settings(document, source)
    queues = queues_from(by_kind["ClusterQueue"], source)
    for queue in queues:
        if queue.borrows is not Whom.NEVER and settings.order != "attained":
            found = f"borrowWithinCohort.policy of {queue.name} {str(queue.borrows)!r}"
            wanted = "Never, or Scheduler.spec.order: attained"
            raise SettingError(f"{source}: found {found}, wanted {wanted}")
    return SchedulerConfig(queues, settings)


def _settings(document: Mapping[str, object], source: str) -> SchedulerSettings:
    unknown = set(document) - {"apiVersion", "kind", "spec"}
    if unknown or document.get("apiVersion") != "colocast/v1":
        found = shown(unknown) if unknown else f"apiVersion {document.get('apiVersion')!r}"
        wanted = "apiVersion: colocast/v1, kind and spec"
        raise SettingError(f"{source}: Scheduler: found {found}, wanted {wanted}")
    try:
        settings = from_json(SchedulerSettings, document.get("spec") or {})
    except WireError as error:
        raise SettingError(f"{source}: Scheduler.spec: {error}") from error
    for name, word, known in (
        ("assignment", settings.assignment, ("list", "joint")),
        ("order", settings.order, ("fair", "attained")),
    ):
        if word not in known:
            found = f"Scheduler.spec.{name} must be {' or '.join(known)}, got {word!r}"
            raise SettingError(f"{source}: {found}")
    for name, value, holds, wanted in _rules(settings):
        if not holds:
            found = f"Scheduler.spec.{name} must be {wanted}, got {value}"
            raise SettingError(f"{source}: {found}")
    return settings


def _rules(settings: SchedulerSettings) -> Iterator[tuple[str, float, bool, str]]:
    weights, rule, asked = settings.weights, settings.tolerance, settings.prediction
    yield _within("cycle_s", settings.cycle_s, 0.01, 3600)
    yield _within("max_jobs_per_card", settings.max_jobs_per_card, 1, 8)
    yield _within("half_life_s", settings.half_life_s, 1, 1e9)
    yield _within("max_attempts", settings.max_attempts, 1, 1000)
    yield _within("grace_s", settings.grace_s, 0, 3600)
    yield _within("ageing.step_s", settings.ageing.step_s, 1, 1e9)
    yield _within("ageing.cap", settings.ageing.cap, 0, 1_000_000)
    yield _within("tolerance.least", rule.least, 0, 100)
    yield _within("tolerance.most", rule.most, rule.least, 100)
    for name in ("slowdown", "memory", "fragmentation"):
        yield _within(f"weights.{name}", getattr(weights, name), 0, 1e6)
    yield "weights", 0.0, weights.slowdown + weights.memory > 0, "slowdown or memory above 0"
    yield _within("reservation.after_s", settings.reservation.after_s, 0, 1e9)
    yield from _eviction_rules(settings.eviction)
    yield from _level_rules(settings.levels)
    yield _within("prediction.deadline_s", asked.deadline_s, 0.01, 600)
    yield _within("prediction.fresh_s", asked.fresh_s, 0, 1e6)
    yield _within("prediction.last_good_s", asked.last_good_s, 0, 1e9)
    yield _within("prediction.budget_s", asked.budget_s, 0.001, 600)


def _eviction_rules(rules: EvictionRules) -> Iterator[tuple[str, float, bool, str]]:
    yield _within("eviction.growth", rules.growth, 0, 1e6)
    yield _within("eviction.half_life_s", rules.half_life_s, 1, 1e9)
    yield _within("eviction.most", rules.most, 0, 1_000_000)
    yield _within("eviction.window_s", rules.window_s, 0, 1e9)
    yield _within("eviction.least_run_s", rules.least_run_s, 0, 1e9)
    yield _within("eviction.most_per_cycle", rules.most_per_cycle, 1, 1000)


def _level_rules(rules: LevelRules) -> Iterator[tuple[str, float, bool, str]]:
    before = 0.0
    for level in rules.levels_gpu_s:
        name, _, holds, _ = _within("levels.levels_gpu_s", level, before, 1e12)
        yield name, level, holds and level > before, "numbers above 0, ascending"
        before = level
    yield _within("levels.least_run_s", rules.least_run_s, 0, 1e9)
    yield _within("levels.grace_s", rules.grace_s, 0, 1e9)
    yield _within("levels.reserve_after_s", rules.reserve_after_s, 0, 1e9)
    yield _within("levels.fresh_slowdown", rules.fresh_slowdown, 1, 100)
    yield _within("levels.guaranteed_slowdown", rules.guaranteed_slowdown, 1, 100)


def _within(name: str, value: float, low: float, high: float) -> tuple[str, float, bool, str]:
    holds = isfinite(value) and low <= value <= high
    return name, value, holds, f"a number in [{low:g}, {high:g}]"
