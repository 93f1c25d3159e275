"""Measured pairs of a job move its own effects at once, without a refit."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.effect_tables import effect_tables, effects_from
from features.effects import adapted, pair_names, without_pairs
from features.pairs import profile_positions
from serving.inference.bundle import Bundle, Floats
from serving.inference.interference import COLD_START_TABLE, MEASURED_TABLE
from serving.inference.interference_rows import effect_rows, has_effects
from serving.inference.own_effects import OWN_TABLE, own_table
from serving.live.cold_starts import with_measured_pairs

PAIR = ["job_key", "neighbour_key", "gpu_model"]
ASSUMED_SD = 0.05  # of a repeated run's log time, while too few pairs were measured repeatedly
LEAST_SD = 0.01  # a few equal repeats prove no more
FEWEST_REPEATS = 10
OFTEN = 3  # runs of a pair, from which on its median is none of them by itself
SD_OF_MEDIAN_DEVIATION = 1.4826  # of a normal distribution


def adapted_bundle(bundle: Bundle, observed: pd.DataFrame) -> Bundle:
    """Return the bundle after more pairs were measured.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-interference``.
    observed : DataFrame of shape (k, >= 4)
        ``job_key``, ``neighbour_key``, ``gpu_model`` and ``slowdown`` (> 0). A pair with a job
        that has no profile teaches nothing yet; repeats of a pair count as their median, and
        replace what was learnt of it.

    Returns
    -------
    Bundle
        Forest, kernel and calibration are those of `bundle`; with nothing to learn from it is
        `bundle` itself. Which calibrated group a new job is in follows beside how many others it
        was measured: the table ``measured`` counts them. What is measured of a pair moves its own
        answer further than those of others (``own_effects``), the further the oftener it was;
        and what was measured on a GPU model answers for jobs that have no profile there.
    """
    if observed.empty or not has_effects(bundle):
        return bundle
    profiles = bundle.tables["profiles"]
    known = (profile_positions(profiles, observed) >= 0).all(axis=1)
    if not known.any():
        return bundle
    logs = observed[PAIR].assign(log=np.log(observed["slowdown"])).iloc[np.flatnonzero(known)]
    learnt, missing = effects_from(bundle.tables)
    measured = _Measured.of(logs)
    rows = effect_rows(profiles, measured.pairs, missing)
    own, noise = measured.variances(learnt.kernel.noise_variance(rows))
    moved = adapted(without_pairs(learnt, rows), rows, measured.log_slowdown, noise)
    names = pair_names(moved.rows).to_frame(index=False)
    tables = {
        **bundle.tables,
        **effect_tables(moved, missing),
        MEASURED_TABLE: _neighbours(measured.pairs),
        OWN_TABLE: own_table(measured.pairs, own, noise, moved.pull[-len(rows) :]),
        COLD_START_TABLE: with_measured_pairs(
            bundle.tables[COLD_START_TABLE], names, moved.log_slowdown
        ),
    }
    return replace(bundle, tables=tables)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Pairs, how often each was measured, and how far repeats differ (variance)."""

    pairs: pd.DataFrame
    log_slowdown: Floats
    runs: Floats
    repeat_variance: float

    @classmethod
    def of(cls, logs: pd.DataFrame) -> "_Measured":
        groups = logs.groupby(PAIR, sort=True)["log"]
        medians = groups.median().reset_index()
        often = groups.transform("size") >= OFTEN
        away = (logs["log"] - groups.transform("median")).abs()[often]
        sd = SD_OF_MEDIAN_DEVIATION * float(away.median()) if len(away) else 0.0
        sd = max(sd, LEAST_SD) if len(away) >= FEWEST_REPEATS else ASSUMED_SD
        runs = np.asarray(groups.size(), dtype=np.float64)
        return cls(medians[PAIR], medians["log"].to_numpy(np.float64), runs, sd**2)

    def variances(self, unexplained: Floats) -> tuple[Floats, Floats]:
        """Return those of each pair's own part, and of that with the noise of its median."""
        noise = np.minimum(unexplained, self.repeat_variance)
        own = unexplained - noise
        return own, own + noise / self.runs


def _neighbours(pairs: pd.DataFrame) -> pd.DataFrame:
    neighbours = pairs.groupby(["job_key", "gpu_model"])["neighbour_key"].nunique()
    return neighbours.rename("neighbours").reset_index()
