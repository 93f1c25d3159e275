"""What came of the days that were lived, and what it is told by."""

from dataclasses import dataclass, field

import pandas as pd

from pipelines.retraining.retrainer import Challenge
from pipelines.retraining.watch import Drift

LOOP, NEVER, NOTHING, NIGHTLY = WHO = ("loop", "never retrained", "nothing learnt", "nightly")
SLOWDOWN, RUNTIME = "slowdown", "runtime"
JUDGED = ["promoted_day", "kind", "group", "now", "before"]


@dataclass(slots=True)
class Lived:
    """What came of it.

    Attributes
    ----------
    day : float
        How far it has come.
    errors : DataFrame
        A row an answer: ``day``, ``kind`` (``slowdown``, ``runtime``), ``family``, and the absolute
        log error of each of ``WHO``; of jobs whose times are honest.
    challenges, drifts : list of (day, kind or Challenge, ...)
    promotions : DataFrame
        A row an answer within three days of a promotion, and before the next of its kind:
        ``promoted_day``, ``kind``, ``group`` (what repeats) and the errors of the new version
        (``now``) and of the one before it, asked beside it (``before``).
    cpu_s : mapping of str to float
        CPU seconds of training (the loop's, with watching and judging: ``loop``, of it
        ``watching``).
    """

    day: float
    errors: pd.DataFrame
    challenges: list[tuple[float, Challenge]]
    drifts: list[tuple[float, str, Drift]]
    cpu_s: dict[str, float]
    quarantine: dict[str, str] = field(default_factory=dict)
    promotions: pd.DataFrame = field(default_factory=pd.DataFrame)
