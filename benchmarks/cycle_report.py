"""The table, the rows and the plot of ``benchmarks.cycle``."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import log
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.cycle import REACH_MB, REACH_S, Timing

HEAD = "cards  jobs  cold (s)  by model  warm (s)  slowest (s)  decide (s)  RSS (MB)"


def report(timings: Sequence[Timing], path: Path) -> None:
    """Print the table, write JSON and a plot beside it."""
    print(HEAD)
    for t in timings:
        print(
            f"{t.cards:5d} {t.jobs:5d} {t.cold_s:9.3f} {t.cold_model_jobs:9.2f} {t.warm_s:9.3f}"
            f" {t.started_s:12.3f} {t.decide_s:11.3f} {t.rss_mb:9.1f}"
        )
    first, last = timings[0], timings[-1]
    growth = last.warm_s / first.warm_s
    allowed = _n_log_n(last.cards) / _n_log_n(first.cards)
    held = {
        "cold_s": [last.cold_s, REACH_S, last.cold_s <= REACH_S],
        "warm_s": [last.warm_s, REACH_S, last.warm_s <= REACH_S],
        "slowest_s": [last.started_s, REACH_S, last.started_s <= REACH_S],
        "rss_mb": [last.rss_mb, REACH_MB, last.rss_mb <= REACH_MB],
        "growth": [growth, allowed, growth <= allowed],
    }
    for name, (value, reach, holds) in held.items():
        print(f"{name}: {value:.3f} (at most {reach:.3f}): {'reached' if holds else 'missed'}")
    document = {"timings": [asdict(t) for t in timings], "reach": held}
    path.write_text(json.dumps(document, indent=1) + "\n")
    _plot(timings, path.with_suffix(".png"))


def _n_log_n(cards: int) -> float:
    return cards * log(cards)


def _plot(timings: Sequence[Timing], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    cards = [t.cards for t in timings]
    axes.plot(cards, [t.cold_s for t in timings], "o-", label="cold cycle")
    axes.plot(cards, [t.warm_s for t in timings], "o-", label="warm cycle")
    axes.plot(cards, [t.decide_s for t in timings], "o-", label="of it, decisions")
    scale = timings[0].warm_s / _n_log_n(cards[0])
    axes.plot(cards, [scale * _n_log_n(n) for n in cards], "--", color="grey", label="n log n")
    axes.set(xlabel="cards", ylabel="seconds", xscale="log", yscale="log")
    axes.set_title(f"One live cycle, {timings[0].jobs} pending jobs")
    axes.legend()
    figure.savefig(path, dpi=120)
