"""The pictures of a replay, as PNG."""

import io
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.replaying.result import Result
from pipelines.replaying.service import Service

DAY_S = 86_400.0
MOST_QUEUES = 6
"""Queues of a plot over time: those with the largest quotas."""
MOST_SHARE = 2.5
"""Of the plot over time: a queue that borrows may have far more."""
MOST_POINTS = 20_000
DOTS_PER_INCH = 110


def distributions(results: Mapping[str, Result]) -> bytes:
    """Draw the share of jobs that waited, and took, at most so long; a line a policy."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots(1, 2)
    at = np.linspace(0, 1, 1000)
    for name, result in results.items():
        both = (result.outcome.queueing_delay_s, result.outcome.jct_s)
        for ax, values in zip(axes, both, strict=True):
            ax.plot(np.maximum(1, np.quantile(values, at)), at, label=name, lw=1)
    for ax, label in zip(axes, ("queueing delay (s, at least 1)", "JCT (s)"), strict=True):
        ax.set(xscale="log", xlabel=label, ylabel="share of jobs")
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    return _png(figure)


def shares_over_time(results: Mapping[str, Result]) -> bytes:
    """Draw what the largest queues got over what they were entitled to, a row a policy."""
    figure = Figure(figsize=(11, 0.6 + 1.7 * len(results)), layout="constrained")
    axes = figure.subplots(len(results), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        service = result.service
        days = service.edges_s[:-1] / DAY_S
        for queue in _largest(service):
            entitled = service.entitled[:, queue]
            share = service.got[:, queue] / np.where(entitled > 0.5, entitled, np.nan)
            label = f"{service.queues[queue]} ({service.nominal[queue]:.0f})"
            ax.plot(days, share, lw=0.8, label=label)
        ax.axhline(1, color="black", lw=0.8)
        ax.set(ylim=(0, MOST_SHARE))
        ax.set_title(name, fontsize=8, loc="left")
    axes[0].legend(fontsize=6, ncol=MOST_QUEUES, title="queue (nominal quota)", title_fontsize=6)
    axes[-1].set(xlabel="days since the first arrival")
    return _png(figure)


def predicted_against_true(pairs: pd.DataFrame, seed: int) -> bytes:
    """Draw predicted against true slowdown of colocations, with how often each came."""
    figure = Figure(figsize=(6, 5), layout="constrained")
    ax = figure.add_subplot()
    counts = pairs.round(3).value_counts().reset_index(name="count")
    if len(counts) > MOST_POINTS:
        counts = counts.sample(MOST_POINTS, random_state=seed)
    area = 4 + 150 * counts["count"] / max(1, int(counts["count"].max()))
    ax.scatter(counts["true"], counts["predicted"], s=area, alpha=0.4, lw=0)
    most = float(pairs.to_numpy().max()) if len(pairs) else 1.0
    ax.plot([1, most], [1, most], color="black", lw=1)
    ax.set(xlabel="true slowdown", ylabel="predicted slowdown")
    ax.set_title("area: how many colocations", fontsize=8)
    return _png(figure)


def _largest(service: Service) -> list[int]:
    order = np.argsort(-service.nominal, kind="stable")
    return [int(queue) for queue in order[:MOST_QUEUES]]


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
    return buffer.getvalue()
