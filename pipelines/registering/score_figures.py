"""Pictures of an evaluation's rows: what the model is worth beside what costs nothing."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.judged import FEWEST
from pipelines.registering.figures import png

MOST_ROWS = 32
BASELINE = "baseline_r2"
LOWEST = -1.0  # R² below is drawn here: how bad does not matter

Rows = Sequence[Mapping[str, object]]


def scores(rows: Rows, title: str, *, is_log: bool = False) -> bytes:
    """Draw R² of each split, its best trivial baseline and the highest R² that noise allows.

    Parameters
    ----------
    rows : sequence of mapping
        ``split``, ``n`` and any of ``r2``, ``r2_log``, ``baseline_r2`` and ``ceiling_r2``; with no
        ``r2`` that of logarithms is drawn.
    title : str
    is_log : bool
        That of logarithms is drawn in any case: baselines and ceilings are of these.
    """
    is_log = is_log or all(row.get("r2") is None for row in rows)
    key = "r2_log" if is_log else "r2"
    shown = [row for row in rows if row.get(key) is not None][:MOST_ROWS]
    figure, axes = _canvas(len(shown))
    _bars(axes, shown, [max(_number(row, key), LOWEST) for row in shown], "the model")
    for name, mark, colour, label in (
        (BASELINE, "|", "tab:red", "best trivial baseline"),
        ("ceiling_r2", "|", "black", "highest that noise allows"),
    ):
        known = [(at, _number(row, name)) for at, row in enumerate(shown) if name in row]
        known = [(at, value) for at, value in known if np.isfinite(value)]
        places, values = [at for at, _ in known], [max(value, LOWEST) for _, value in known]
        if known:
            axes.scatter(values, places, marker=mark, s=160, color=colour, label=label, zorder=3)
    text = "R²" if key == "r2" else "R² of logarithms"
    lowest = np.nanmin([0.0, *(_number(row, name) for row in shown for name in (key, BASELINE))])
    axes.set(xlabel=f"{text} on held-out rows (below {LOWEST:g}: drawn there)")
    axes.set_xlim(max(lowest, LOWEST) - 0.03, 1.05)
    axes.axvline(0, color="0.6", linewidth=1)
    return _named(figure, axes, title)


def intervals(rows: Rows, level: float, title: str) -> bytes:
    """Draw the share inside the interval of each split, overall and of the worst tenth of groups.

    Parameters
    ----------
    rows : sequence of mapping
        ``split``, ``n``, ``coverage_90`` and, where known, ``coverage_90_worst``.
    level : float
        Promised coverage, drawn as a line.
    title : str
    """
    shown = [row for row in rows if row.get("coverage_90") is not None][:MOST_ROWS]
    figure, axes = _canvas(len(shown))
    _bars(axes, shown, [_number(row, "coverage_90") for row in shown], "all rows")
    worst = [_number(row, "coverage_90_worst") for row in shown]
    label = f"worst tenth of groups of {FEWEST} rows or more"
    axes.scatter(worst, range(len(shown)), marker="o", color="tab:orange", label=label)
    axes.axvline(level, color="tab:red", linewidth=1, label=f"promised ({level:.0%})")
    axes.set(xlabel="share of held-out rows inside the interval", xlim=(0, 1.02))
    return _named(figure, axes, title)


def _canvas(rows: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.0, 1.6 + 0.3 * max(rows, 1)), layout="constrained")
    return figure, figure.add_subplot()


def _named(figure: Figure, axes: Axes, title: str) -> bytes:
    """Return the picture with its title, and between that and the axes what is drawn."""
    figure.suptitle(title, fontsize=12)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, frameon=False)
    return png(figure)


def _bars(axes: Axes, rows: Rows, values: Sequence[float], label: str) -> None:
    axes.barh(range(len(rows)), values, color="tab:blue", alpha=0.7, label=label)
    axes.set_yticks(
        range(len(rows)), [f"{row['split']} ({row['n']:,.0f})" for row in rows], fontsize=8
    )
    axes.invert_yaxis()
    axes.set_ylabel("split (rows)")


def _number(row: Mapping[str, object], name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")
