"""Slowdowns of runs whose neighbours changed, where the other runs of the same job tell them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.labelling.segment_equations import (
    Equations,
    Prior,
    Solution,
    Together,
    learnt_prior,
    solved,
)

NOISIEST = 2.0 * np.sqrt(2.0)
"""The most noise of a label, in units of a run's: what a run with half its work shared has."""
LEAST_KNOWN = 0.75
"""Share of the prior's variance that the runs must have taken away from a pair's slowdown."""
LARGEST_RESIDUAL = 4.0
"""In units of the noise; a run beyond did not do the job's work, and tells of no neighbour."""
FEWEST_JOINT = 2
"""Runs from which a joint solution is filed: of one alone, all but one unknown is assumed."""
MOST_RUNS = 2_000
"""Of a job on one GPU model, the newest; more change little and take long."""
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class SegmentedRun:
    """One run that ended well and was on record throughout.

    Attributes
    ----------
    run_id : str
    job_key, gpu_model : str
    seconds : mapping of Together to float
        Time by who was there at once.
    is_asked : bool
        Whether a label is wanted for it; the others only help.
    """

    run_id: str
    job_key: str
    gpu_model: str
    seconds: Mapping[Together, float]
    is_asked: bool = False

    @property
    def met(self) -> set[Together]:
        """With whom any time was spent; the empty tuple is alone."""
        return {met for met, seconds in self.seconds.items() if seconds > 0}


@dataclass(frozen=True, slots=True)
class SegmentLabel:
    """A slowdown told by several runs.

    Attributes
    ----------
    log_sd : float
        Standard deviation of its logarithm.
    is_joint : bool
        True: what all runs say of the pair, filed once. False: of this run itself, after the
        work done beside others was taken off.
    """

    run_id: str
    neighbour_key: str
    slowdown: float
    log_sd: float
    is_joint: bool


def segment_labels(runs: Sequence[SegmentedRun], noise_sd: float) -> list[SegmentLabel]:
    """Return the labels that runs with changing neighbours give, at most one a run.

    Parameters
    ----------
    runs : sequence of SegmentedRun
        Oldest first. Of each job key and GPU model the runs that were alone are its baseline;
        without one there is no label.
    noise_sd : float
        Relative standard deviation of a run's time when it is repeated (> 0).

    Returns
    -------
    list of SegmentLabel
        Only where the noise is no larger than of the noisiest run with one neighbour, and the
        slowdown is known from runs and not from what was assumed: anything else has no label.

    Notes
    -----
    All runs of a job on one GPU model are solved together, see ``segment_equations``; the prior
    over pairs is learnt from all of them (three rounds of EM). A run's own label beside n takes
    off what was done beside the others,

        S_n = d_n / (B - sum over s != n of d_s / S_s),

    and its noise is that of the run, the baseline and the others' slowdowns over the share of
    work beside n. Where no run of a pair is clear enough, the joint solution is filed once,
    under the run that did most work beside n: evidence is never counted twice. It takes two
    runs at least.
    """
    groups = [found for found in _groups(runs) if _is_worth_solving(found)]
    systems = [_equations(found) for found in groups]
    prior = Prior(noise_sd=noise_sd)
    solutions: list[Solution] = []
    for _ in range(ROUNDS):
        solutions = [solved(system, prior) for system in systems]
        prior = learnt_prior(prior, solutions)
    labels: list[SegmentLabel] = []
    for found, system, solution in zip(groups, systems, solutions, strict=True):
        baseline_runs = sum(run.met == {()} for run in found)
        group = _Group(found, system, solution, noise_sd, baseline_runs)
        own = group.own_labels()
        labels += own + group.joint_labels(own)
    return labels


@dataclass(frozen=True, slots=True)
class _Group:
    """The runs of one job key on one GPU model, solved."""

    runs: Sequence[SegmentedRun]
    equations: Equations
    solution: Solution
    noise_sd: float
    baseline_runs: int

    def own_labels(self) -> list[SegmentLabel]:
        asked = [(i, run) for i, run in enumerate(self.runs) if run.is_asked]
        labels = (self._own_label(i, run) for i, run in asked if self._is_the_jobs_work(i))
        return [label for label in labels if label is not None]

    def joint_labels(self, own: Sequence[SegmentLabel]) -> list[SegmentLabel]:
        """Return what is known of pairs that no run tells by itself, each filed once."""
        told = {label.neighbour_key for label in own} | self._directly_told()
        taken = {label.run_id for label in own}
        labels = []
        for column, met in enumerate(self.equations.together):
            if len(met) != 1 or met[0] in told or not self._is_clear(met):
                continue
            free = [
                (self.solution.work[i, column], i)
                for i, run in enumerate(self.runs)
                if run.is_asked and run.run_id not in taken and self._is_the_jobs_work(i)
            ]
            share, i = max(free, default=(0.0, 0))
            runs = int((self.solution.work[:, column] > 0).sum())
            if share > 0 and runs >= FEWEST_JOINT:
                taken.add(self.runs[i].run_id)
                labels.append(self._label(i, met, self.solution.log_slowdown[met], is_joint=True))
        return labels

    def _own_label(self, i: int, run: SegmentedRun) -> SegmentLabel | None:
        together, work = self.equations.together, self.solution.work[i]
        singles = [column for column, met in enumerate(together) if len(met) == 1]
        column = max(singles, key=lambda place: work[place], default=0)
        share, met = float(work[column]), together[column]
        if share <= 0 or not met:
            return None
        others = {m: w for m, w in zip(together, work, strict=True) if m not in ((), met) and w > 0}
        if any(self.solution.known[other] < LEAST_KNOWN for other in others):
            return None
        variance = self.noise_sd**2 * (1 + 1 / self.baseline_runs)
        variance += sum((w * self.solution.log_sd[m]) ** 2 for m, w in others.items())
        log_sd = float(np.sqrt(variance)) / share
        left = float(np.exp(self.solution.log_baseline)) - self._done_beside_others(i, column)
        if log_sd > NOISIEST * self.noise_sd or left <= 0:
            return None
        return SegmentLabel(run.run_id, met[0], run.seconds[met] / left, log_sd, is_joint=False)

    def _done_beside_others(self, i: int, column: int) -> float:
        shares = self.solution.work[i]
        met = self.equations.together[column]
        done_there = self.equations.seconds[i, column] * np.exp(-self.solution.log_slowdown[met])
        # The share of the work done there says what the whole was.
        return float(done_there / shares[column] - done_there)

    def _is_clear(self, met: Together) -> bool:
        known = self.solution.known[met] >= LEAST_KNOWN
        return known and self.solution.log_sd[met] <= NOISIEST * self.noise_sd

    def _is_the_jobs_work(self, i: int) -> bool:
        return abs(float(self.solution.residuals[i])) <= LARGEST_RESIDUAL

    def _directly_told(self) -> set[str]:
        """Neighbours that some run, which needs no solving, was beside throughout."""
        others = [run.met - {()} for run in self.runs if not run.is_asked]
        alone_with = [next(iter(met)) for met in others if len(met) == 1]
        return {met[0] for met in alone_with if len(met) == 1}

    def _label(self, i: int, met: Together, log: float, *, is_joint: bool) -> SegmentLabel:
        log_sd = self.solution.log_sd[met]
        return SegmentLabel(self.runs[i].run_id, met[0], float(np.exp(log)), log_sd, is_joint)


def _groups(runs: Iterable[SegmentedRun]) -> list[list[SegmentedRun]]:
    """Return the runs of each job key on each GPU model."""
    groups: defaultdict[tuple[str, str], list[SegmentedRun]] = defaultdict(list)
    for run in runs:
        if run.met:
            groups[run.job_key, run.gpu_model].append(run)
    return [_newest(found) for found in groups.values()]


def _newest(runs: list[SegmentedRun]) -> list[SegmentedRun]:
    """Return the newest runs, and all of them that are a baseline as far as there is room."""
    if len(runs) <= MOST_RUNS:
        return runs
    alone = [run for run in runs if run.met == {()}][-MOST_RUNS // 4 :]
    rest = [run for run in runs if run.met != {()}][-(MOST_RUNS - len(alone)) :]
    return [*alone, *rest]


def _is_worth_solving(runs: Sequence[SegmentedRun]) -> bool:
    return any(run.is_asked for run in runs) and any(run.met == {()} for run in runs)


def _equations(runs: Sequence[SegmentedRun]) -> Equations:
    counted = Counter(met for run in runs for met in run.met)
    together = ((), *sorted(met for met in counted if met))
    place = {met: column for column, met in enumerate(together)}
    seconds = np.zeros((len(runs), len(together)))
    for row, run in enumerate(runs):
        for met in run.met:
            seconds[row, place[met]] = run.seconds[met]
    return Equations(together, seconds)
