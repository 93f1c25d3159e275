"""Replays as a line, as metrics, and as one page that needs nothing beside it."""

import base64
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from data.tables import write_frame
from pipelines.replaying.metrics import (
    colocations,
    mean_jct_by_queue,
    metrics_of,
    paired_difference,
    progress,
    worst_against,
)
from pipelines.replaying.run import Replay
from scheduler_client.replay.eventlog import EventLog
from scheduler_client.replay.outcome import Outcome

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Result:
    """One policy's outcome and metrics."""

    outcome: Outcome
    metrics: dict[str, float]


def replayed(replay: Replay, name: str, events: Path | None = None) -> Result:
    """Replay under the policy `name`; write its event log to `events` if wanted.

    Returns
    -------
    Result
        Metrics as `metrics_of` and `colocations`, and ``replay_s``: the seconds of one core that
        it took.
    """
    log = EventLog()
    started = time.process_time()  # of one core: other work on the machine does not count
    outcome = replay.run(name, log)
    took_s = time.process_time() - started
    frame = pd.DataFrame(log.columns(replay.trace, replay.site.gpus_per_node))
    if events is not None:
        write_frame(frame, events)
    return Result(outcome, metrics_of(outcome) | colocations(frame) | {"replay_s": took_s})


def headline(name: str, metrics: Mapping[str, float]) -> str:
    """Return one line about a replay."""
    return (
        f"{name:<16} queueing delay mean {metrics['mean_queueing_delay_s']:>11,.0f} s,"
        f" P99.9 {metrics['p999_queueing_delay_s']:>11,.0f} s;"
        f" JCT mean {metrics['mean_jct_s']:>11,.0f} s;"
        f" utilisation {metrics['utilisation']:.3f};"
        f" slowdown {metrics['mean_colocated_slowdown']:.3f};"
        f" {metrics['replay_s']:.1f} CPU s"
    )


def page(replay: Replay, results: Mapping[str, Result], seed: int) -> str:
    """Return a self-contained HTML page: metrics, paired differences, queues, plots."""
    title = f"{len(replay.trace):,} jobs on {replay.site.cards} GPUs"
    metrics = pd.DataFrame({name: result.metrics for name, result in results.items()})
    parts = [
        f"<h1>Replay: {escape(title)}</h1>",
        f"<p>Predictions: {escape(replay.beliefs.source)}; seed {seed}.</p>",
        _table("Metrics", metrics),
        _table("Mean JCT less the first policy's, paired by job (s)", _differences(results, seed)),
        _table("Mean JCT by queue (hours)", _by_queue(replay, results)),
        _table("Progress by queue: GPU time owed / (GPUs × JCT)", _progress(replay, results)),
        _plot(results),
    ]
    style = "body{font:14px sans-serif;margin:2em}td,th{padding:2px 8px;text-align:right}"
    head = f"<meta charset='utf-8'><title>{escape(title)}</title><style>{style}</style>"
    return f"<!doctype html><html><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _table(title: str, frame: pd.DataFrame) -> str:
    return f"<h2>{escape(title)}</h2>{frame.to_html(float_format='{:,.3f}'.format, border=0)}"


def _differences(results: Mapping[str, Result], seed: int) -> pd.DataFrame:
    first, *others = results
    rows = {
        name: paired_difference(results[name].outcome, results[first].outcome, seed)
        for name in others
    }
    columns = ["mean difference", "from", "to (95 % bootstrap over jobs)"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _by_queue(replay: Replay, results: Mapping[str, Result]) -> pd.DataFrame:
    hours = {name: mean_jct_by_queue(r.outcome) / HOUR_S for name, r in results.items()}
    frame = pd.DataFrame(hours, index=pd.Index(replay.trace.queues, name="queue"))
    frame.insert(0, "nominal quota", replay.site.quotas)
    if "fifo_fixed" in results:
        fixed = results["fifo_fixed"].outcome
        frame.loc["worst / fixed quota"] = [
            float("nan"),
            *(worst_against(result.outcome, fixed) for result in results.values()),
        ]
    return frame


def _progress(replay: Replay, results: Mapping[str, Result]) -> pd.DataFrame:
    present = np.unique(replay.trace.queue)
    names = [replay.trace.queues[queue] for queue in present]
    return pd.DataFrame({n: progress(r.outcome) for n, r in results.items()}, index=names)


def _plot(results: Mapping[str, Result]) -> str:
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots(1, 2)
    for name, result in results.items():
        for ax, values in zip(
            axes, (result.outcome.queueing_delay_s, result.outcome.jct_s), strict=True
        ):
            at = np.linspace(0, 1, 500)
            ax.plot(np.maximum(1, np.quantile(values, at)), at, label=name, lw=1)
    for ax, label in zip(axes, ("queueing delay (s)", "JCT (s)"), strict=True):
        ax.set(xscale="log", xlabel=label, ylabel="share of jobs")
    axes[0].legend(fontsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    picture = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"<h2>Distributions</h2><img alt='' src='data:image/png;base64,{picture}'>"
