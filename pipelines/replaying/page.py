"""A comparison of policies as one page (HTML) that needs nothing beside it."""

import base64
from collections.abc import Mapping
from html import escape

import pandas as pd

from pipelines.replaying.figures import (
    distributions,
    predicted_against_true,
    shares_over_time,
)
from pipelines.replaying.result import Result
from pipelines.replaying.run import Replay
from pipelines.replaying.tables import (
    bands,
    by_queue,
    differences,
    metrics_table,
    progress_by_queue,
)

STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:1300px}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}"
    "td,th{padding:2px 8px;text-align:right;white-space:nowrap}tbody th{text-align:left}"
    "tr:nth-child(even){background:#f4f4f4}img{max-width:100%}p{color:#555}"
)
SHARES = (
    "What each of the largest queues got over what it was entitled to (the smaller of its nominal "
    "quota and what it asked for); above 1 it borrows. A card gives a job 1 / slowdown of itself."
)
PAIRS = (
    "Predicted: by the model, before anything ran. True: as measured, or, for pairs that were "
    "not measured, the worst of either job. One count for each card that became shared."
)


def figures(results: Mapping[str, Result], seed: int) -> dict[str, bytes]:
    """Return all pictures of a comparison, PNG by file name."""
    pictures = {
        "distributions.png": distributions(results),
        "shares_over_time.png": shares_over_time(results),
    }
    for name, result in results.items():
        if len(result.pairs):
            pictures[f"slowdown_{name}.png"] = predicted_against_true(result.pairs, seed)
    return pictures


def page(
    replay: Replay, results: Mapping[str, Result], seed: int, pictures: Mapping[str, bytes]
) -> str:
    """Return the page: metrics, paired differences, queues, colocations, pictures."""
    title = f"{len(replay.trace):,} jobs on {replay.site.cards} GPUs"
    first = next(iter(results))
    parts = [
        f"<h1>Replay: {escape(title)}</h1>",
        f"<p>Predictions: {escape(replay.beliefs.source)}; seed {seed}.</p>",
        _table("Metrics", metrics_table(results)),
        _table(
            f"Less {first}, paired by job (s)",
            differences(results, seed),
            "Intervals: 95 %, bootstrap over jobs.",
        ),
        _picture("Distributions", pictures["distributions.png"]),
        _picture("Shares over time", pictures["shares_over_time.png"], SHARES),
        _table("Mean JCT by queue (hours)", by_queue(replay, results)),
        _table(
            "Progress by queue: GPU time owed / (GPUs × JCT)", progress_by_queue(replay, results)
        ),
    ]
    for name, counts in bands(results).items():
        title_of = f"Colocations of {name}, by predicted (rows) and true slowdown"
        parts += [
            _table(title_of, counts, PAIRS),
            _picture("", pictures[f"slowdown_{name}.png"]),
        ]
    head = f"<meta charset='utf-8'><title>{escape(title)}</title><style>{STYLE}</style>"
    return (
        f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>\n"
    )


def _table(title: str, frame: pd.DataFrame, note: str = "") -> str:
    html = frame.to_html(float_format="{:,.3f}".format, border=0, na_rep="")
    return f"<h2>{escape(title)}</h2>{_note(note)}{html}"


def _picture(title: str, png: bytes, note: str = "") -> str:
    data = base64.b64encode(png).decode("ascii")
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    alt = escape(title or "predicted against true slowdown")
    return f"{heading}{_note(note)}<img alt='{alt}' src='data:image/png;base64,{data}'>"


def _note(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""
