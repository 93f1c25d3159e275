"""What each queue got over time, against what it was entitled to; from an event log alone."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ON_CARD = ("start", "change")
TIMES = 240
"""Intervals into which a replay is cut: enough for a plot, few enough to read."""


@dataclass(frozen=True, slots=True)
class Service:
    """Means over equal intervals of time; q queues, t intervals.

    Attributes
    ----------
    edges_s : array of shape (t + 1,), float64
    asked, got : array of shape (t, q), float64
        GPUs of its jobs from submission to end; GPUs that worked for it: a card gives a job
        1 / slowdown of itself.
    nominal : array of shape (q,), float64
        Nominal quota (GPUs).
    queues : tuple of str, length q
    """

    edges_s: Floats
    asked: Floats
    got: Floats
    nominal: Floats
    queues: tuple[str, ...]

    @property
    def entitled(self) -> Floats:
        """GPUs that a queue is entitled to: what it asks for, up to its nominal quota."""
        return np.minimum(self.asked, self.nominal)

    @property
    def shortfall_share(self) -> float:
        """What was missing to the entitlements, over all queues and times; 0 is none."""
        entitled = self.entitled
        return float(np.maximum(0.0, entitled - self.got).sum() / max(entitled.sum(), 1e-9))

    @property
    def jain(self) -> float:
        """Jain index of got / entitled (1 at most) over queues, mean over time; 1 is fair.

        Only queues count that are entitled to something then.
        """
        entitled = self.entitled
        counts = entitled > 1e-6
        ratio = np.minimum(1.0, np.divide(self.got, entitled, where=counts, out=0 * entitled))
        total, squares = ratio.sum(axis=1), (ratio**2).sum(axis=1)
        busy = squares > 0
        index = total[busy] ** 2 / (counts[busy].sum(axis=1) * squares[busy])
        return float(index.mean()) if busy.any() else 1.0


def service_of(
    events: pd.DataFrame, queues: tuple[str, ...], quotas: tuple[int, ...], times: int = TIMES
) -> Service:
    """Follow an event log and return what every queue asked for and got.

    Parameters
    ----------
    events : DataFrame
        As ``colocast replay --events`` writes it.
    queues : tuple of str
    quotas : tuple of int
        Nominal, by queue.
    times : int
        How many intervals.
    """
    edges = np.linspace(0.0, max(1.0, float(events["time_s"].max())), times + 1)
    asked, got = _requests(events), _stays(events)
    return Service(
        edges_s=edges,
        asked=_means(asked, queues, edges),
        got=_means(got, queues, edges),
        nominal=np.asarray(quotas, np.float64),
        queues=queues,
    )


def _requests(events: pd.DataFrame) -> pd.DataFrame:
    """Return one span a job: its GPUs, from submission to end."""
    finish = events[events["event"] == "finish"].drop_duplicates("job_id")
    spans = events[events["event"] == "submit"][["job_id", "queue", "time_s", "gpus"]]
    end = spans["job_id"].map(finish.set_index("job_id")["time_s"]).fillna(events["time_s"].max())
    return pd.DataFrame(
        {"queue": spans["queue"], "from": spans["time_s"], "to": end, "weight": spans["gpus"]}
    )


def _stays(events: pd.DataFrame) -> pd.DataFrame:
    """Return one span for each job, card and neighbour: what the card gives the job."""
    rows = events[events["gpu"] >= 0]
    by_card = rows.groupby(["job_id", "node", "gpu"], sort=False)["time_s"]
    until = by_card.shift(-1)
    stays = rows[rows["event"].isin(ON_CARD)]
    return pd.DataFrame(
        {
            "queue": stays["queue"],
            "from": stays["time_s"],
            "to": until.loc[stays.index],
            "weight": 1 / stays["slowdown"],
        }
    )


def _means(spans: pd.DataFrame, queues: tuple[str, ...], edges: Floats) -> Floats:
    """Return the mean weight of the spans of each queue between edges, (t, q)."""
    columns = []
    parts = dict(tuple(spans.groupby("queue", sort=False)))
    for queue in queues:
        part = parts.get(queue)
        upto = np.zeros(len(edges)) if part is None else _integral(part, edges)
        columns.append(np.diff(upto) / np.diff(edges))
    return np.stack(columns, axis=1)


def _integral(spans: pd.DataFrame, at: Floats) -> Floats:
    """Return the integral of the weights of all open spans, from 0 to each of `at`."""
    weight = spans["weight"].to_numpy(np.float64)
    opened = _ramp(spans["from"].to_numpy(np.float64), weight, at)
    return opened - _ramp(spans["to"].to_numpy(np.float64), weight, at)


def _ramp(start: Floats, weight: Floats, at: Floats) -> Floats:
    order = start.argsort()
    weights = np.concatenate([[0.0], np.cumsum(weight[order])])
    moments = np.concatenate([[0.0], np.cumsum((weight * start)[order])])
    count = np.searchsorted(start[order], at, "right")
    return np.asarray(at * weights[count] - moments[count], np.float64)
