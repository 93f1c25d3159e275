"""What a person looks at to see whether retraining helps: errors over time."""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from matplotlib.figure import Figure

from pipelines.retraining.drift import Floats

LEAST_WINDOW = 5
WINDOWS = 20  # of the picture's width


def rolling_mean(values: Floats) -> Floats:
    """Return the mean of the newest twentieth of all rows up to each row, of five at least.

    Examples
    --------
    >>> rolling_mean(np.array([1.0, 1.0, 1.0, 1.0, 6.0])).tolist()
    [1.0, 1.0, 1.0, 1.0, 2.0]
    """
    width = max(LEAST_WINDOW, len(values) // WINDOWS)
    sums = np.cumsum(np.append(0.0, values))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def error_over_time(
    places: Sequence[float],
    errors: dict[str, Floats],
    marks: Sequence[tuple[float, str, str]] = (),
    axis: str = "job log entry",
) -> bytes:
    """Return a PNG of rolling mean errors, with marks.

    Parameters
    ----------
    places : sequence of float, shape (n,)
        Where each row lies on the time axis, ascending.
    errors : dict of str to float64 array of shape (n,)
        By who answered.
    marks : sequence of (place, colour, word)
        Vertical lines, such as a drift's beginning; alike words share one entry of the legend.
    axis : str
        Of time.
    """
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for name, values in errors.items():
        axes.plot(places, rolling_mean(values), label=name, linewidth=1.3)
    named: set[str] = set()
    for place, colour, word in marks:
        label = None if word in named else word
        named.add(word)
        axes.axvline(place, color=colour, linewidth=0.9, linestyle="--", label=label)
    axes.set_xlabel(axis)
    axes.set_ylabel("mean absolute log error")
    axes.set_ylim(bottom=0)
    # Below, so that it hides no line.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, fontsize=8, frameon=False)
    png = BytesIO()
    figure.savefig(png, format="png", dpi=110)
    return png.getvalue()
