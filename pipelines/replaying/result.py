"""One policy's replay with all that is reported of it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from data.tables import write_frame
from pipelines.replaying.metrics import colocations, metrics_of
from pipelines.replaying.pairs import placed_pairs
from pipelines.replaying.reclaim import reclaim_waits_s
from pipelines.replaying.run import Replay
from pipelines.replaying.service import Service, service_of
from scheduler_client.replay.eventlog import EventLog
from scheduler_client.replay.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one policy.

    Attributes
    ----------
    outcome : Outcome
    metrics : dict of str to float
        See `replayed`.
    service : Service
        By queue, over time.
    pairs : DataFrame of shape (n_colocations, 2)
        ``predicted`` and ``true`` slowdown, see `placed_pairs`.
    """

    outcome: Outcome
    metrics: dict[str, float]
    service: Service
    pairs: pd.DataFrame


def replayed(replay: Replay, name: str, events: Path | None = None) -> Result:
    """Replay under the policy `name`; write its event log to `events` if wanted.

    Returns
    -------
    Result
        Metrics as `metrics_of` and `colocations`; ``shortfall_share`` and ``jain_over_time`` of
        `Service`; ``reclaim_wait_max_s``: the longest of `reclaim_waits_s`; ``replay_s``: the
        seconds of one core that the replay took.
    """
    log = EventLog()
    started = time.process_time()  # of one core: other work on the machine does not count
    outcome = replay.run(name, log)
    took_s = time.process_time() - started
    frame = pd.DataFrame(log.columns(replay.trace, replay.site.gpus_per_node))
    if events is not None:
        write_frame(frame, events)
    queues, quotas = replay.trace.queues, replay.site.quotas
    service = service_of(frame, queues, quotas)
    waits_s = reclaim_waits_s(frame, queues, quotas)
    over_time = {
        "shortfall_share": service.shortfall_share,
        "jain_over_time": service.jain,
        "reclaim_wait_max_s": float(np.max(waits_s, initial=0.0)),
        "replay_s": took_s,
    }
    metrics = metrics_of(outcome) | colocations(frame) | over_time
    return Result(outcome, metrics, service, placed_pairs(frame, replay))


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
