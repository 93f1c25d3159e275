"""The pictures of interference, memory and demand models, as PNG."""

import io
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from serving.inference.bundle import Floats

DOTS_PER_INCH = 110
MOST_NAMED = 9  # colours that can still be told apart; the rest are grey "others"
MOST_CELLS = 40  # rows and columns of a heat map that can still be read
MOST_FEATURES = 20
OTHERS = "others"
LEGEND_LETTERS = 20  # of "predicted = measured"
TINY = 1e-9
SPLIT_SHARE = "share of the variance that splits on it removed"


def predicted_against_measured(
    estimates: pd.DataFrame, families: pd.Series, title: str, unit: str, noise_sd: float = 0.0
) -> bytes:
    """Draw predicted against measured values, a colour a family.

    Parameters
    ----------
    estimates : DataFrame of shape (n, >= 2)
        ``value`` and ``observed``, both >= 0. The axes are logarithmic where all are above 0.
    families : Series of str, length n
    title, unit : str
        The unit names the axes: ``predicted <unit>``.
    noise_sd : float
        Relative noise of a measurement; twice it is drawn as a band around the identity.
    """
    names = _named(families)
    # The names stand beside the axes, which stay square: the identity is at 45 degrees.
    width = 6.6 + 0.085 * max(LEGEND_LETTERS, int(names.str.len().max()))
    figure = Figure(figsize=(width, 5.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_box_aspect(1)
    low = float(estimates[["value", "observed"]].min().min()) / 1.08
    high = max(float(estimates[["value", "observed"]].max().max()) * 1.08, low + TINY)
    line = np.array([low, high])
    if noise_sd > 0:
        band = np.exp(2 * noise_sd)
        label = f"noise (±2 × {noise_sd:.1%})"
        axes.fill_between(line, line / band, line * band, color="0.8", label=label)
    axes.plot(line, line, color="black", linewidth=1, label="predicted = measured")
    for name, rows in estimates.groupby(names.to_numpy(), sort=True):
        family = str(name)
        colour = "0.5" if family == OTHERS else None
        axes.scatter(rows["observed"], rows["value"], s=12, alpha=0.6, label=family, color=colour)
    if low > 0:
        axes.set(xscale="log", yscale="log")
        _plain_log_ticks(axes, low, high)
    axes.set(xlim=(low, high), ylim=(low, high), title=title)
    axes.set(xlabel=f"measured {unit}", ylabel=f"predicted {unit}")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return png(figure)


def residuals_by_family(residuals: Floats, families: pd.Series, title: str, unit: str) -> bytes:
    """Draw the spread of the errors of each family as boxes, widest median first.

    Parameters
    ----------
    residuals : array of shape (n,), float64
        Observed minus predicted, or the logarithm of their ratio.
    families : Series of str, length n
        Its name, if it has one, is what the other axis is called.
    title, unit : str
        The unit names the axis.
    """
    groups = {
        str(name): residuals[np.asarray(rows)]
        for name, rows in families.reset_index(drop=True)
        .groupby(families.to_numpy())
        .groups.items()
    }
    order = sorted(groups, key=lambda name: float(np.median(groups[name])))
    figure = Figure(figsize=(7.2, 1.4 + 0.32 * len(order)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color="black", linewidth=1)
    labels = [f"{name} ({len(groups[name]):,})" for name in order]
    axes.boxplot(
        [groups[name] for name in order],
        orientation="horizontal",
        tick_labels=labels,
        whis=(5, 95),
        flierprops={"markersize": 2},
    )
    axes.set(title=title, xlabel=unit, ylabel=f"{families.name or 'family'} (rows)")
    return png(figure)


def coverage_by_group(
    covered: NDArray[np.bool_], groups: pd.Series, level: float, title: str
) -> bytes:
    """Draw the share of rows inside their interval for each group, against what was promised.

    Parameters
    ----------
    covered : array of shape (n,), bool
    groups : Series of str, length n
        Its name, if it has one, is what the other axis is called.
    level : float
        Promised coverage, drawn as a line.
    title : str
    """
    table = pd.Series(covered).groupby(groups.to_numpy()).agg(["mean", "size"]).sort_values("mean")
    figure = Figure(figsize=(7.2, 1.4 + 0.3 * len(table)), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh([str(name) for name in table.index], table["mean"], color="tab:blue")
    texts = [f"{share:.0%} of {size:,}" for share, size in table.itertuples(index=False)]
    for bar, text in zip(bars, texts, strict=True):
        axes.text(1.02, bar.get_y() + bar.get_height() / 2, text, fontsize=8, va="center")
    axes.axvline(level, color="tab:red", linewidth=1)
    xlabel = f"share inside the interval (red line: {level:.0%}, as promised)"
    ylabel = str(groups.name or "family")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel, xlim=(0, 1.25))
    axes.set_xticks(np.linspace(0, 1, 6))
    return png(figure)


def importance(importances: Mapping[str, float], title: str, unit: str = SPLIT_SHARE) -> bytes:
    """Draw the most important features, most important first.

    Parameters
    ----------
    importances : mapping of feature to float, >= 0
    title, unit : str
        The unit names the axis.
    """
    top = sorted(importances.items(), key=lambda item: item[1])[-MOST_FEATURES:]
    top = [(name, value) for name, value in top if value > 0] or top[-1:]
    figure = Figure(figsize=(7.2, 1.4 + 0.26 * len(top)), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh([name for name, _ in top], [value for _, value in top], color="tab:green")
    axes.bar_label(bars, [f"{value:.3g}" for _, value in top], fontsize=8, padding=3)
    axes.set(title=title, xlabel=unit)
    axes.margins(x=0.12)
    return png(figure)


def slowdown_heat_map(labels: pd.DataFrame, title: str) -> bytes:
    """Draw the mean measured slowdown of each job (row) beside each neighbour (column).

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
        With more than forty job keys the families are drawn instead.
    title : str
    """
    sides = ["job_key", "neighbour_key"]
    if labels["job_key"].nunique() > MOST_CELLS:
        sides = ["family", "neighbour_family"]
    table = labels.pivot_table(index=sides[0], columns=sides[1], values="slowdown", aggfunc="mean")
    rows = table.mean(axis=1).sort_values(ascending=False).index
    columns = table.mean(axis=0).sort_values(ascending=False).index
    table = table.loc[rows, columns]
    size = 2.6 + 0.34 * max(table.shape)
    figure = Figure(figsize=(size + 1.2, size), layout="constrained")
    axes = figure.add_subplot()
    high = float(np.nanquantile(table.to_numpy(), 0.98))
    drawn = axes.imshow(table.to_numpy(), cmap="magma_r", vmin=1.0, vmax=max(high, 1.05))
    axes.set_facecolor("0.9")  # what was not measured is grey, not mild
    axes.set_xticks(range(len(columns)), [str(name) for name in columns], rotation=90, fontsize=8)
    axes.set_yticks(range(len(rows)), [str(name) for name in rows], fontsize=8)
    axes.set(title=title, xlabel="beside this neighbour", ylabel="slowed job")
    figure.colorbar(drawn, ax=axes, label="slowdown (grey: not measured)", shrink=0.8)
    return png(figure)


def learning_curve(rows: Sequence[int], scores: Mapping[str, Sequence[float]], title: str) -> bytes:
    """Draw R² on held-out rows against the number of rows learnt from.

    Parameters
    ----------
    rows : sequence of int
    scores : mapping of curve to sequence of float
    title : str
    """
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for name, values in scores.items():
        axes.plot(rows, values, marker="o", label=name)
    axes.set(title=title, xlabel="rows learnt from", ylabel="R² on held-out rows")
    axes.set_ylim(top=1.0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return png(figure)


def _named(families: pd.Series) -> pd.Series:
    """Return the families, all but the most frequent as one."""
    top = families.value_counts().index[:MOST_NAMED]
    return families.where(families.isin(top), OTHERS)


def _plain_log_ticks(axes: Axes, low: float, high: float) -> None:
    """Label logarithmic axes with plain numbers, and enough of them within one decade."""
    steps = [1, 1.5, 2, 3, 5, 7] if high / low > 3 else [0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 2.5]
    decades = 10.0 ** np.arange(np.floor(np.log10(low)) - 1, np.ceil(np.log10(high)) + 1)
    if high / low > 10:
        steps = [1, 2, 5] if high / low < 300 else [1]
    places = sorted({float(step * decade) for step in steps for decade in decades})
    shown = [place for place in places if low <= place <= high]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(shown)
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def png(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    return file.getvalue()
