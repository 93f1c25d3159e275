"""What replays came to against what is to be reached, as rows of a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pipelines.replaying.metrics import oracle_gain_share, worst_against
from pipelines.replaying.result import Result

FULL_LOAD, HIGH_LOAD, NO_LOAD = 0.9, 1.1, 0.5
OURS = ("colocate", "colocate_frozen", "colocate_gentle", "colocate_oracle")
TRIVIAL = ("fifo_pooled", "fair_share")
SHOWN = (
    *("mean_queueing_delay_s", "p999_queueing_delay_s", "mean_jct_s", "makespan_s"),
    *("utilisation", "mean_colocated_slowdown", "evictions", "lost_gpu_time_share"),
)
AT_MOST = (
    ("mean_queueing_delay_s", "fifo_fixed", 0.05, None),
    ("p999_queueing_delay_s", "fifo_fixed", 0.1, None),
    ("p999_queueing_delay_s", "fifo_pooled", 0.5, (0.7, FULL_LOAD)),
    ("mean_jct_s", "sjf_oracle", 0.6, (FULL_LOAD,)),
    ("mean_jct_s", "tiresias", 1 / 1.8, (FULL_LOAD,)),
    ("mean_jct_s", "lucid", 1 / 1.2, (FULL_LOAD,)),
    ("makespan_s", "fifo_fixed", 0.75, None),
)
"""Metric, other policy, largest ratio, and the loads at which that is to be reached (None: all)."""

OWN = (
    ("mean_colocated_slowdown", 1.1, "ratio"),
    ("above_tolerance_share", 0.05, "ratio"),
    ("reclaim_wait_max_s", 300.0 + 60.0, "s"),  # grace and cycle of `ReclaimRules`
    ("replay_s", 120.0, "s"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `holds` is None where nothing is to be reached."""

    what: str
    value: float
    unit: str
    target: float | None
    holds: bool | None
    command: str


def rows_of_load(results: Mapping[str, Result], load: float, command: str) -> list[Row]:
    """Return the rows of one load and seed.

    Parameters
    ----------
    results : mapping of str to Result
        By policy; with ``fifo_fixed`` and ``colocate`` at least.
    load : float
        Offered load, which decides what is to be reached.
    command : str
        That gives these numbers.
    """
    rows = [row for ours in OURS if ours in results for row in _of_policy(results, ours, load)]
    rows += _of_oracle(results)
    rows += _bounds(results)
    rows += [
        _row(f"{name}: {metric}", result.metrics[metric], None, "")
        for name, result in results.items()
        for metric in SHOWN
    ]
    return [Row(r.what, r.value, r.unit, r.target, r.holds, command) for r in rows]


def rows_of_burst(results: Mapping[str, Result], command: str) -> list[Row]:
    """Return the rows of a week that is submitted at once."""
    longest_s = float(results["colocate"].outcome.trace.runtime_s.max())
    rows = []
    for other in ("fifo_fixed", "fifo_pooled", "sjf_oracle"):
        makespan_s = results[other].metrics["makespan_s"]
        target = 0.62 if other == "fifo_fixed" else None
        rows.append(_row(f"longest job alone / makespan of {other}", longest_s / makespan_s, None))
        for ours in ("colocate", "colocate_oracle"):
            ratio = results[ours].metrics["makespan_s"] / makespan_s
            rows.append(_row(f"{ours}: makespan / {other}", ratio, target))
    return [Row(r.what, r.value, r.unit, r.target, r.holds, command) for r in rows]


def over_seeds(rows: Mapping[int, list[Row]]) -> Iterator[Row]:
    """Yield the mean of each row over seeds, and half the range beside it in its name.

    Parameters
    ----------
    rows : mapping of int to list of Row
        By seed; only what all of them have in common is yielded.
    """
    by_name = [{row.what: row for row in found} for found in rows.values()]
    for what, row in by_name[0].items():
        if all(what in found for found in by_name):
            values = [found[what].value for found in by_name]
            half = (max(values) - min(values)) / 2
            mean = float(np.mean(values))
            named = f"{what} (± {half:,.3f})"
            held = [found[what].holds for found in by_name]
            holds = None if row.holds is None else all(held)
            yield Row(named, mean, row.unit, row.target, holds, row.command)


def _of_policy(results: Mapping[str, Result], ours: str, load: float) -> Iterator[Row]:
    found = results[ours].metrics
    for metric, other, most, loads in AT_MOST:
        if other in results:
            ratio = found[metric] / max(results[other].metrics[metric], 1e-9)
            target = most if loads is None or load in loads else None
            yield _row(f"{ours}: {metric} / {other}", ratio, target)
    fixed = results["fifo_fixed"]
    worst = worst_against(results[ours].outcome, fixed.outcome)
    yield _row(f"{ours}: worst queue's mean JCT / its own fixed quota", worst, 1.02)
    for metric, most, unit in OWN:
        yield _row(f"{ours}: {metric}", found.get(metric, 0.0), most, unit)
    points = found["utilisation"] - fixed.metrics["utilisation"]
    least = 0.2 if load == HIGH_LOAD else None
    holds = None if least is None else bool(points >= least)
    yield Row(f"{ours}: utilisation over fixed quotas", points, "points", least, holds, "")


def _of_oracle(results: Mapping[str, Result]) -> Iterator[Row]:
    jct = {name: result.metrics["mean_jct_s"] for name, result in results.items()}
    for trivial in (name for name in TRIVIAL if name in jct and "colocate_oracle" in jct):
        share = oracle_gain_share(jct, trivial, "colocate", "colocate_oracle")
        what = f"share of the oracle's gain in mean JCT over {trivial}"
        yield Row(what, share, "ratio", 0.95, bool(share >= 0.95), "")


def _bounds(results: Mapping[str, Result]) -> Iterator[Row]:
    """Yield what no policy can pass, whatever it knows."""
    trace = results["colocate"].outcome.trace
    ends_s = float((trace.arrival_s + trace.runtime_s).max())  # nobody ends before
    fixed = results["fifo_fixed"]
    yield _row("least makespan there can be / fifo_fixed", ends_s / fixed.metrics["makespan_s"])
    if "sjf_oracle" in results:
        work_s = float(trace.runtime_s.mean())  # no delay, no slowdown
        ratio = work_s / results["sjf_oracle"].metrics["mean_jct_s"]
        yield _row("least mean JCT there can be / sjf_oracle", ratio)
    if "srpt_oracle" in results:
        exclusive = results["srpt_oracle"].metrics["mean_jct_s"]
        ratio = exclusive / results["sjf_oracle"].metrics["mean_jct_s"]
        yield _row("srpt_oracle: mean_jct_s / sjf_oracle", ratio)


def _row(what: str, value: float, target: float | None = None, unit: str = "ratio") -> Row:
    holds = None if target is None else bool(value <= target)
    return Row(what, float(value), unit, target, holds, "")
