"""The table, the rows and the plot of ``benchmarks.cycle``."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import log
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.cycle import REACH_MB, REACH_S, Timing

HEAD = "cards   cycle      wall (s)  CPU (s)  predict (s)  decide (s)  jobs started  RSS (MB)"


def row_lines(timing: Timing) -> str:
    """Return what is printed of one size."""
    lines = [
        f"{timing.cards:6d}  {name:9s} {c['wall_s']:9.3f} {c['cpu_s']:8.3f}"
        f" {c['predict_s']:12.3f} {c['decide_s']:11.3f} {c['started']:13.0f} {timing.rss_mb:9.1f}"
        for name, c in timing.cycles.items()
    ]
    known = timing.cycles_to_know
    said = (
        f"        a model had spoken of {timing.answered:.2f} of the jobs started in the cold"
        f" cycle, of all that waited {'never' if known is None else f'after {known} cycles'};"
        f" load average {timing.load_average:.1f}"
    )
    return "\n".join([*lines, said])


def report(timings: Sequence[Timing], path: Path) -> None:
    """Print what was reached, write JSON and a plot beside it."""
    first, last = timings[0], timings[-1]
    allowed = _n_log_n(last.cards) / _n_log_n(first.cards)
    held = {f"{name}_wall_s": (last.cycles[name]["wall_s"], REACH_S) for name in last.cycles} | {
        "rss_mb": (last.rss_mb, REACH_MB)
    }
    for name in ("starting", "waiting"):
        growth = last.cycles[name]["cpu_s"] / first.cycles[name]["cpu_s"]
        held[f"{name}_cpu_growth"] = (growth, allowed)
    for name, (value, reach) in held.items():
        said = "reached" if value <= reach else "missed"
        print(f"{name}: {value:.3f} (at most {reach:.3f}): {said}")
    document = {"timings": [asdict(t) for t in timings], "reach": held}
    path.write_text(json.dumps(document, indent=1) + "\n")
    _plot(timings, path.with_suffix(".png"))


def _n_log_n(cards: int) -> float:
    return cards * log(cards)


def _plot(timings: Sequence[Timing], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    cards = [t.cards for t in timings]
    for name in ("starting", "waiting"):
        axes.plot(cards, [t.cycles[name]["cpu_s"] for t in timings], "o-", label=f"{name} cycle")
    axes.plot(
        cards, [t.cycles["waiting"]["decide_cpu_s"] for t in timings], "o-", label="decisions"
    )
    scale = timings[0].cycles["waiting"]["cpu_s"] / _n_log_n(cards[0])
    axes.plot(cards, [scale * _n_log_n(n) for n in cards], "--", color="grey", label="n log n")
    axes.set(xlabel="cards", ylabel="CPU seconds", xscale="log", yscale="log")
    axes.set_title(f"One live cycle, {timings[0].jobs} pending jobs")
    axes.legend()
    figure.savefig(path, dpi=120)
