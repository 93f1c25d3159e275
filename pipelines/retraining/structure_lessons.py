"""What finished jobs whose structure is known teach the memory and the demand model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipelines.labelling.from_runs import usable
from pipelines.recipes import made
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.lessons import Answers, Trained, ends
from pipelines.retraining.production import PEAK, production_memory_runs
from pipelines.retraining.run_rows import run_id
from serving.inference.bundle import Bundle, Floats
from serving.inference.demand import demand_estimates_of_rows
from serving.inference.memory import SMALLEST_MIB, memory_estimates_of_rows

MEMORY_MODEL, DEMAND_MODEL = "colocast-memory", "colocast-demand"
TINY = 1e-9


class StructureLesson:
    """Measured runs of known structure; what both models below share.

    Parameters
    ----------
    known : DataFrame, ``data.schemas.MEMORY_RUNS``
    finished : FinishedJobs
    recipe : str
        A key of ``pipelines.recipes.RECIPES``.
    seed : int
    """

    def __init__(
        self,
        known: pd.DataFrame,
        finished: FinishedJobs,
        recipe: str,
        seed: int,
    ) -> None:
        self._known, self._recipe, self._seed = known, recipe, seed
        entries = dict(zip(map(run_id, finished.jobs), finished.sequences, strict=True))
        self._rows = usable(production_memory_runs(finished.jobs))
        self.sequences = np.array([entries[name] for name in self._rows["run_id"]], dtype=np.int64)
        self.groups = self._rows["configuration"].to_numpy(dtype=np.str_)

    def trained(self, until: int) -> Sequence[Trained]:
        """Return the model and its report; jobs after `until` have no part in it."""
        frames = [self._known, self._rows[self.sequences <= until]]
        rows = pd.concat([frame for frame in frames if len(frame)] or frames, ignore_index=True)
        return made(self._recipe, {"memory_runs": rows}, self._seed)

    def trial(self, _until: int, /) -> Sequence[Bundle]:
        """Return nothing: calibration takes no time here."""
        return []

    def asked(self, after: int) -> pd.DataFrame:
        """Return the measured rows after `after`, ``data.schemas.MEMORY_RUNS``."""
        return self._rows[self.sequences > after]


class MemoryLesson(StructureLesson):
    """The GPU memory peak, judged by the error of its logarithm; see ``lessons.Lesson``."""

    models = (MEMORY_MODEL,)

    def __init__(self, known: pd.DataFrame, finished: FinishedJobs, seed: int) -> None:
        super().__init__(known, finished, "memory", seed)

    def answers(self, bundles: Sequence[Bundle], after: int) -> Answers:
        """Return errors of the log peak, and whether the interval held it."""
        rows = self.asked(after)
        value, lower, upper = ends(memory_estimates_of_rows(bundles[0], rows))
        observed = np.maximum(rows[PEAK].to_numpy(np.float64), SMALLEST_MIB)
        within = (lower <= observed) & (observed <= upper)
        errors = np.abs(np.log(np.maximum(value, SMALLEST_MIB) / observed))
        return Answers(errors, within.astype(np.float64))


class DemandLesson(StructureLesson):
    """The whole profile, judged signal by signal; see ``lessons.Lesson``.

    The error of a row is the mean over its measured signals of the absolute error, each in units
    of what that signal is on average: bytes per second do not drown ratios.
    """

    models = (DEMAND_MODEL,)

    def __init__(self, known: pd.DataFrame, finished: FinishedJobs, seed: int) -> None:
        super().__init__(known, finished, "demand", seed)

    def answers(self, bundles: Sequence[Bundle], after: int) -> Answers:
        """Return mean relative errors, and the share of signals inside their intervals."""
        rows = self.asked(after)
        estimates = demand_estimates_of_rows(bundles[0], rows)
        judged = [_judged(rows[name].to_numpy(np.float64), e) for name, e in estimates.items()]
        errors, within = ([column[part] for column in judged] for part in (0, 1))
        return Answers(_row_means(errors, 0.0), _row_means(within, 1.0))


def _judged(observed: Floats, estimates: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return relative errors of one signal and whether each was covered, NaN where missing."""
    value, lower, upper = ends(estimates)
    known = observed[~np.isnan(observed)]
    unit = max(float(np.abs(known).mean()), TINY) if len(known) else 1.0
    within = ((lower <= observed) & (observed <= upper)).astype(np.float64)
    return np.abs(value - observed) / unit, np.where(np.isnan(observed), np.nan, within)


def _row_means(columns: Sequence[Floats], empty: float) -> Floats:
    """Return means over what was measured; `empty` in a row where nothing was."""
    table = np.column_stack(columns)
    known = ~np.isnan(table)
    sums, counts = np.where(known, table, 0.0).sum(axis=1), known.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), empty)
