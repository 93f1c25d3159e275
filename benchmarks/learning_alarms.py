"""How often drift is cried where nothing changes, and how soon where something does.

Errors, coverage and speed are those of DRAC's own jobs as a model that was trained on the first
days answered them, of real users at real times. Stationary is what they become when they are put
in another order: nothing then depends on time, whatever their distribution.
"""

from dataclasses import replace

import numpy as np

from pipelines.retraining.watch import Observations, WatchRules, drifts

MONTH_S = 30 * 86_400.0
SHIFTS = {
    "error": "a driver that slows all by 15 %",
    "coverage": "intervals that miss",
    "input": "a new family becomes dominant",
}


def stationary(rows: Observations, seed: int) -> Observations:
    """Return the same observations with everything but the moments in another order."""
    order = np.random.default_rng(seed).permutation(len(rows))
    return replace(
        rows,
        signals={name: values[order] for name, values in rows.signals.items()},
        labels={name: values[order] for name, values in rows.labels.items()},
    )


def alarms_a_month(rows: Observations, repeats: int, rules: WatchRules | None = None) -> float:
    """Return the mean number of first alarms a month over reordered copies of `rows`."""
    months = float(np.ptp(rows.finish_time)) / MONTH_S
    merged = rows.merged()
    found = [bool(drifts(stationary(merged, seed), rules)) for seed in range(repeats)]
    return float(np.mean(found)) / months
