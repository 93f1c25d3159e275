"""The pictures of a runtime model, as PNG."""

import io
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from features.history_groups import HISTORY_GROUPS

Floats = NDArray[np.float64]
DOTS_PER_INCH = 110
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
TICKS = {
    "1 s": 1.0,
    "10 s": 10.0,
    "1 min": MINUTE_S,
    "10 min": 10 * MINUTE_S,
    "1 h": HOUR_S,
    "6 h": 6 * HOUR_S,
    "1 d": DAY_S,
    "10 d": 10 * DAY_S,
}


def predicted_against_measured(runtime_s: Floats, estimates: pd.DataFrame, title: str) -> bytes:
    """Draw predicted against measured runtimes, both in log scale.

    Parameters
    ----------
    runtime_s : float64 array of shape (n,)
    estimates : DataFrame of shape (n, >= 1)
        ``value`` (s).
    title : str

    Returns
    -------
    bytes
        A PNG with the identity line and the band within a factor of two.
    """
    figure = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes = figure.add_subplot()
    measured, predicted = np.maximum(runtime_s, 0.1), estimates["value"].to_numpy()
    low, high = _limits(measured, predicted)
    line = np.array([low, high])
    axes.fill_between(line, line / 2, line * 2, color="tab:green", alpha=0.15, label="within 2×")
    axes.plot(line, line, color="tab:green", linewidth=1, label="predicted = measured")
    drawn = axes.hexbin(
        measured, predicted, gridsize=60, xscale="log", yscale="log", bins="log", mincnt=1
    )
    figure.colorbar(drawn, ax=axes, label="jobs")
    _time_axes(axes, low, high)
    axes.set(title=title, xlabel="measured runtime", ylabel="predicted runtime")
    axes.legend(loc="upper left")
    return _png(figure)


def coverage_by_history(
    covered: NDArray[np.bool_], groups: "pd.Series[str]", level: float
) -> bytes:
    """Draw the share of jobs inside their interval, by the size of their user's history.

    Parameters
    ----------
    covered : bool array of shape (n,)
    groups : Series of str, length n
        ``features.history_groups.HISTORY_GROUPS``.
    level : float
        Nominal coverage, drawn as a line.

    Returns
    -------
    bytes
        A PNG.
    """
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    table = pd.Series(covered, index=groups.to_numpy()).groupby(level=0).agg(["mean", "size"])
    table = table.reindex([group for group in HISTORY_GROUPS if group in table.index])
    bars = axes.bar(table.index, table["mean"], color="tab:blue")
    axes.bar_label(bars, [f"{size:,} jobs" for size in table["size"]], fontsize=8)
    axes.axhline(level, color="tab:red", linewidth=1, label=f"wanted: {level:.0%}")
    axes.set(ylim=(0, 1.08), xlabel="the user's finished jobs", ylabel="share inside the interval")
    axes.legend(loc="lower right")
    return _png(figure)


def layers_by_history(
    runtime_s: Floats, layers: Mapping[str, pd.DataFrame], groups: "pd.Series[str]"
) -> bytes:
    """Draw what each layer of the runtime model is worth, by the size of the user's history.

    Parameters
    ----------
    runtime_s : float64 array of shape (n,)
    layers : mapping of str to DataFrame of shape (n, >= 1)
        Estimates (``value``, s) under the name that the legend shows.
    groups : Series of str, length n
        ``features.history_groups.HISTORY_GROUPS``.

    Returns
    -------
    bytes
        A PNG: the share of jobs predicted within a factor of two.
    """
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    within = {
        name: np.abs(np.log(frame["value"].to_numpy() / np.maximum(runtime_s, 0.1))) <= np.log(2)
        for name, frame in layers.items()
    }
    table = pd.DataFrame(within).groupby(groups.to_numpy()).mean()
    table = table.reindex([group for group in HISTORY_GROUPS if group in table.index])
    sizes = groups.value_counts()
    width = 0.8 / len(table.columns)
    for at, name in enumerate(table.columns):
        axes.bar(np.arange(len(table)) + at * width, table[name], width, label=name)
    ticks = [f"{group}\n{sizes[group]:,} jobs" for group in table.index]
    axes.set_xticks(np.arange(len(table)) + 0.4 - width / 2, ticks, fontsize=8)
    axes.set(ylim=(0, 1), xlabel="the user's finished jobs", ylabel="share predicted within 2×")
    axes.legend(loc="upper left")
    return _png(figure)


def _limits(measured: Floats, predicted: Floats) -> tuple[float, float]:
    both = np.concatenate([measured, predicted])
    return float(both.min()) / 1.5, float(both.max()) * 1.5


def _time_axes(axes: Axes, low: float, high: float) -> None:
    shown = {text: place for text, place in TICKS.items() if low <= place <= high}
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(list(shown.values()), labels=list(shown))
        axis.set_minor_locator(NullLocator())
    axes.set(xlim=(low, high), ylim=(low, high))


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    return file.getvalue()
