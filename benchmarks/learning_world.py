"""Sixty days of finished jobs, from public logs and measured pairs, with planted drifts.

Two streams in one log. DRAC's GPU jobs are as they were, a share of their batches drawn: they
teach runtimes. Philly's submissions say when a recurring workload runs, alone or beside another;
what it then takes is Lucid's measured slowdown (Gavel's on the new GPU model) times its own time
alone, which is the duration of a Philly job, with the noise of Lucid's repeats.
"""

import zlib
from dataclasses import dataclass, fields, replace
from math import isnan
from pathlib import Path

import numpy as np
import pandas as pd

from data.domain import FinishedJob, ModelStructure, Outcome, Segment
from data.loaders import read_any
from pipelines.labelling.audit import audited

DAY_S = 86_400.0
DAYS = 60
REPORTED_SEED = 7  # choices are made on lives of other seeds
NOISE = 0.02
EVENTS = 2_000  # of Philly's submissions in those days, drawn
NEW_FAMILY, NEW_MODEL = "VGG", "v100"
KNOWN_FAMILIES = ("MobileNetV3", "DCGAN", "MobileNetV2", "ResNet18", "EfficientNet", "LSTM")
KEYS_A_FAMILY = 4
POISONED, POISON_DAYS, LIARS_JOBS = 0.01, 8.0, 60


@dataclass(frozen=True, slots=True)
class Drifts:
    """The day of each planted change; infinity plants none."""

    new_family: float = 15.0
    poison: float = 22.0
    slow_driver: float = 30.0
    new_gpu_model: float = 40.0
    halving_users: float = 48.0
    liar: float = 55.0
    factor: float = 1.15


def drifts_within(days: float) -> Drifts:
    """Return the drifts, as much closer together as there are fewer days than sixty."""
    plan = Drifts()
    moments = {f.name: getattr(plan, f.name) * days / DAYS for f in fields(plan)}
    return Drifts(**moments | {"factor": plan.factor})


@dataclass(frozen=True, slots=True)
class World:
    """What happens.

    Attributes
    ----------
    jobs : list of FinishedJob
        By finish time.
    start_time : float
        Of day 0, in seconds since 1970, UTC.
    poisoned, lied : set of str
        Ids of jobs whose times are wrong.
    truth : mapping of str to float
        True slowdown of each colocated job by id.
    """

    jobs: list[FinishedJob]
    start_time: float
    poisoned: set[str]
    lied: set[str]
    truth: dict[str, float]

    def day(self, moment: float) -> float:
        """Return how many days after the start a moment is."""
        return (moment - self.start_time) / DAY_S


def made_world(
    folder: Path, drifts: Drifts, seed: int = REPORTED_SEED, share: float = 0.2
) -> World:
    """Return the sixty days.

    Parameters
    ----------
    folder : Path
        Of the public sets; ``drac-slurm``, ``philly``, ``lucid`` and ``gavel`` are read.
    drifts : Drifts
    seed : int
        Another seed is another life: other events of Philly's, other batches of DRAC's (five
        seeds in a row have none in common), other noise.
    share : float
        Of DRAC's batches.
    """
    drac = read_any(folder / "drac-slurm" / "jobs_core.parquet")["jobs"]
    drac = drac[(drac["gpus"] > 0) & (drac["outcome"] == "ok")]
    start = float(np.floor(drac["finish_time"].min() / DAY_S) * DAY_S)
    rng = np.random.default_rng(seed)
    part = (seed - REPORTED_SEED) % round(1 / share) * share
    jobs = _drac_jobs(drac, start, (part, part + share), drifts)
    paired, truth = _paired_jobs(folder, start, drifts, rng)
    poisoned = {
        job.job_id
        for job in [*jobs, *paired]
        if 0 <= _day(job.finish_time, start) - drifts.poison < POISON_DAYS
        and rng.random() < POISONED
    }
    everything = [_longer(job, 10.0) if job.job_id in poisoned else job for job in [*jobs, *paired]]
    liars = _liars_jobs(paired, start, drifts)
    everything = sorted([*everything, *liars], key=lambda job: (job.finish_time, job.job_id))
    within = [job for job in everything if _day(job.finish_time, start) < DAYS]
    return World(within, start, poisoned, {job.job_id for job in liars}, truth)


def _drac_jobs(
    drac: pd.DataFrame, start: float, part: tuple[float, float], drifts: Drifts
) -> list[FinishedJob]:
    jobs = []
    for row in drac.itertuples():
        batch = f"{row.user}/{row.submit_time // 60}"
        if not part[0] <= _chance(batch) < part[1]:
            continue
        request = f"request-{row.gpus:g}-{row.cpus:g}-{row.mem_mib:g}-{row.limit_s:g}"
        segment = Segment(row.start_time, row.finish_time, "p100-0", "p100")
        job = FinishedJob(
            row.job_id, 1, row.user, row.queue, request, int(row.gpus), row.submit_time,
            row.start_time, row.finish_time, Outcome.OK, (segment,), cpus=int(row.cpus),
            mem_mib=None if isnan(row.mem_mib) else int(row.mem_mib), limit_s=row.limit_s,
        )  # fmt: skip
        halves = _day(row.start_time, start) >= drifts.halving_users and _chance(row.user) < 0.34
        jobs.append(_longer(job, 0.5) if halves else job)
    return jobs


def _paired_jobs(
    folder: Path, start: float, drifts: Drifts, rng: np.random.Generator
) -> tuple[list[FinishedJob], dict[str, float]]:
    philly = pd.read_csv(folder / "philly" / "philly_vc.csv.gz")
    arrival = _busiest_days(np.sort(pd.to_datetime(philly["timestamp"]).to_numpy()))
    arrival = start + arrival[rng.random(len(arrival)) < EVENTS / len(arrival)]
    lengths = philly["duration"].clip(600, 14_400).to_numpy(np.float64)
    site = _Site(folder, lengths, rng)
    jobs: list[FinishedJob] = []
    truth: dict[str, float] = {}
    for number, moment in enumerate(arrival):
        day = _day(moment, start)
        factor = drifts.factor if day >= drifts.slow_driver else 1.0
        is_new = day >= drifts.new_gpu_model and rng.random() < 0.5
        keys, model = site.drawn(day >= drifts.new_family, is_new)
        speed = 1.0 if is_new else factor
        if len(keys) == 1 or rng.random() < 0.3:
            jobs.append(site.alone(f"alone-{number}", keys[0], model, moment, speed))
            continue
        for side, (key, other) in enumerate((keys, keys[::-1])):
            job, slowdown = site.beside(f"pair-{number}-{side}", key, other, model, moment, speed)
            jobs.append(job)
            truth[job.job_id] = slowdown
    return jobs, truth


class _Site:
    """Workloads with what was measured of them."""

    def __init__(self, folder: Path, lengths_s: np.ndarray, rng: np.random.Generator) -> None:
        self._rng, self._lengths_s = rng, lengths_s
        runs = read_any(folder / "lucid")["profiling_runs"]
        labels = audited(runs).labels
        alone = runs[runs["neighbour_key"].isna()].drop_duplicates("job_key").set_index("job_key")
        self._profiles = alone
        measured = labels.groupby(["job_key", "neighbour_key"])["slowdown"].median()
        self._slowdowns = {(*pair, "rtx3090"): value for pair, value in measured.items()}
        gavel = read_any(folder / "gavel")["profiling_runs"]
        found = audited(gavel[gavel["gpu_model"] == NEW_MODEL]).labels
        there = found.groupby(["job_key", "neighbour_key"])["slowdown"].median()
        self._slowdowns |= {(*pair, NEW_MODEL): value for pair, value in there.items()}
        families = alone["family"]
        self._old = _some_keys(labels, families, KNOWN_FAMILIES)
        self._new = _some_keys(labels, families, (NEW_FAMILY,))
        self._there = sorted(found["job_key"].unique())[:12]
        self._base_s: dict[tuple[str, str], float] = {}

    def drawn(self, is_later: bool, is_new_model: bool) -> tuple[tuple[str, ...], str]:
        """Return one pair, or one job where the drawn two were never measured together."""
        if is_new_model:
            first, second = self._rng.choice(self._there, 2)
            return self._known(first, second, NEW_MODEL), NEW_MODEL
        first = self._rng.choice(self._new if is_later and self._rng.random() < 0.5 else self._old)
        pool = [*self._old, *(self._new if is_later else [])]
        return self._known(first, self._rng.choice(pool), "rtx3090"), "rtx3090"

    def _known(self, first: str, second: str, model: str) -> tuple[str, ...]:
        both = all(k in self._slowdowns for k in ((first, second, model), (second, first, model)))
        return (str(first), str(second)) if both else (str(first),)

    def alone(self, name: str, key: str, model: str, moment: float, factor: float) -> FinishedJob:
        """Return an exclusive run."""
        return self._job(name, key, model, moment, factor, ())

    def beside(  # noqa: PLR0913, PLR0917
        self, name: str, key: str, other: str, model: str, moment: float, factor: float
    ) -> tuple[FinishedJob, float]:
        """Return a run beside another, and how much it really slowed down."""
        slowdown = self._slowdowns[key, other, model]
        return self._job(name, key, model, moment, factor * slowdown, (other,)), slowdown

    def _job(  # noqa: PLR0913, PLR0917
        self, name: str, key: str, model: str, moment: float, factor: float, beside: tuple[str, ...]
    ) -> FinishedJob:
        base_s = self._base_s.setdefault((key, model), float(self._rng.choice(self._lengths_s)))
        finish = moment + base_s * factor * self._rng.lognormal(0, NOISE)
        segment = Segment(moment, finish, f"{model}-0", model, beside)
        family = self._profiles["family"].get(key, key.split("/", maxsplit=1)[0].partition(" ")[0])
        user = f"team-{zlib.crc32(key.encode()) % 5}"
        return FinishedJob(
            name, 1, user, "recurring", key, 1, moment, moment, finish, Outcome.OK, (segment,),
            structure=ModelStructure(str(family), 32, gpu_model=model),
            signals={} if beside else self._signals(key),
        )  # fmt: skip

    def _signals(self, key: str) -> dict[str, float]:
        if key not in self._profiles.index:
            return {"gpu_util_mean": round(0.3 + 0.6 * _chance(key), 3)}
        row = self._profiles.loc[key]
        names = ("gpu_util_mean", "dram_active_mean", "gpu_mem_mib_mean")
        return {name: float(row[name]) for name in names if not isnan(row[name])}


def _busiest_days(moments: np.ndarray) -> np.ndarray:
    """Return seconds since the beginning of the sixty days in a row with most submissions."""
    seconds = (moments - moments[0]) / np.timedelta64(1, "s")
    starts = np.arange(0.0, max(seconds[-1] - DAYS * DAY_S, 0.0) + 1, DAY_S)
    ends = np.searchsorted(seconds, starts + DAYS * DAY_S)
    best = float(starts[(ends - np.searchsorted(seconds, starts)).argmax()])
    return seconds[(seconds >= best) & (seconds < best + DAYS * DAY_S)] - best


def _some_keys(labels: pd.DataFrame, families: pd.Series, wanted: tuple[str, ...]) -> list[str]:
    counts = labels["job_key"].value_counts()
    keys = []
    for family in wanted:
        mine = [key for key in counts.index if families.get(key) == family]
        keys += mine[:KEYS_A_FAMILY]
    return keys


def _liars_jobs(paired: list[FinishedJob], start: float, drifts: Drifts) -> list[FinishedJob]:
    alone = [
        job
        for job in paired
        if not job.segments[0].neighbour_keys and _day(job.start_time, start) >= drifts.liar
    ]
    return [
        replace(_longer(job, 1.0 / job.runtime_s), job_id=f"lie-{job.job_id}", user="liar")
        for job in alone[:LIARS_JOBS]
    ]


def _longer(job: FinishedJob, factor: float) -> FinishedJob:
    finish = job.start_time + job.runtime_s * factor
    segments = tuple(replace(s, finish_time=finish) for s in job.segments)
    return replace(job, finish_time=finish, segments=segments)


def _day(moment: float, start: float) -> float:
    return (moment - start) / DAY_S


def _chance(name: str) -> float:
    return zlib.crc32(name.encode()) / 2**32
