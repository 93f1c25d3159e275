"""What the gate reads and what it says: rules, evidence, costs and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numpy.typing import ArrayLike

NAN = float("nan")  # one object, so that equal verdicts are equal


@dataclass(frozen=True, slots=True)
class GateRules:
    """The thresholds of the gate.

    Attributes
    ----------
    min_rows, min_groups : int
        Fewer rows, or fewer groups of them, decide nothing: the bootstrap of a few groups is
        far too sure of itself.
    coverage_floor : float
        Least share inside the challenger's interval, as a mean over groups. Below its nominal
        0.9, for a slice of few groups strays from it by chance.
    confidence : float
        Of the two-sided bootstrap interval of the mean gain, in (0, 1).
    enough_seen : int
        A champion that learnt from fewer production rows is young.
    much_more : float
        And so is one that learnt from fewer than the challenger will have by this factor.
    much_more_in_part : float
        Or, on one GPU model with `fewest_in_part` rows or more, by this one.
    resamples, seed : int
        Of the bootstrap.
    most_regret : float
        By how much the challenger's scheduling regret may exceed the champion's; it must do so
        beyond chance.
    fewest_for_regret : int
        Groups of rows below which regret decides nothing: one best neighbour more or less moves
        that of few rows by tenths.
    fewest_in_part : int
        Groups of rows of one GPU model, family or user below which it is not judged alone.
    least_loss : float
        Of a part, or of all where the champion is young, as a share of the champion's mean error;
        less than that is not felt.
    most_times : float
        How many times slower and larger than the champion a challenger may be.
    free_latency_s, free_bytes : float
        Below these it may be as slow and large as it likes.
    """

    min_rows: int = 8
    min_groups: int = 3
    coverage_floor: float = 0.75
    confidence: float = 0.9
    enough_seen: int = 200
    much_more: float = 1.25
    much_more_in_part: float = 1.5
    resamples: int = 2000
    seed: int = 0
    most_regret: float = 0.02
    fewest_for_regret: int = 50
    fewest_in_part: int = 20
    least_loss: float = 0.05
    most_times: float = 3.0
    free_latency_s: float = 0.005
    free_bytes: float = 64e6


@dataclass(frozen=True, slots=True)
class Costs:
    """What models cost beside their errors; NaN is unknown and decides nothing.

    Attributes
    ----------
    latency_s : float
        Of one answer to the stored examples (s).
    size_bytes : float
        Of the estimators.
    losses : array-like
        Of each decision, in scheduling the judged rows by the predictions: their mean is the
        regret, and 0 is as good as knowing. Both versions decide the same, in the same order.
    """

    latency_s: float = float("nan")
    size_bytes: float = float("nan")
    losses: ArrayLike = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """How champion and challenger answered the same rows, in the same order.

    Attributes
    ----------
    challenger_errors : array-like of shape (n,)
        Finite and not negative, in any unit.
    covered : array-like of shape (n,), in [0, 1]
        Whether, or with what share of several signals, the observed value lay inside the
        challenger's interval.
    champion_errors : array-like of shape (n,), optional
        In the same unit; None where there is no champion.
    champion_seen : int
        Production rows that the champion learnt from.
    challenger_seen : int
        Those that the challenger will have learnt from before it serves; 0 where that decides
        nothing.
    part_seen : mapping of str to (int, int)
        By GPU model: what the champion learnt from, and the challenger will have.
    champion_covered : array-like of shape (n,), optional
        As `covered`, of the champion.
    groups : array-like of shape (n,), optional
        Names what rows repeat, such as one pair or one user's batch; such rows are drawn
        together. By default each row is its own.
    parts : mapping of str to array-like of shape (n,)
        Labels such as ``gpu_model``, ``family`` and ``user``: no large part may lose.
    challenger_costs, champion_costs : Costs
        What the models cost to serve, and to schedule by.
    """

    challenger_errors: ArrayLike
    covered: ArrayLike
    champion_errors: ArrayLike | None = None
    champion_seen: int = 0
    challenger_seen: int = 0
    part_seen: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    champion_covered: ArrayLike | None = None
    groups: ArrayLike | None = None
    parts: Mapping[str, ArrayLike] = field(default_factory=dict)
    challenger_costs: Costs = field(default_factory=Costs)
    champion_costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate decided, and from what.

    Attributes
    ----------
    promote : bool
    reason : str
        One sentence with the numbers that decided.
    rows, groups : int
        Rows compared, and how many groups they fall into.
    challenger_error, champion_error : float
        Mean errors, in the unit given; NaN without rows, or without a champion.
    gain, gain_low, gain_high : float
        Mean of champion error minus challenger error, and its bootstrap interval; NaN likewise.
    coverage : float
        Mean over groups of what was covered; NaN without rows.
    latency_s, size_bytes, regret : float
        The challenger's ``Costs``; of its losses the mean.
    champion_latency_s, champion_size_bytes, champion_regret : float
        The champion's.
    more_regret_low : float
        Low end of the bootstrap interval of the challenger's regret less the champion's; NaN
        where either is unknown.
    champion_coverage : float
        As `coverage`; NaN without a champion, or where it is not known.
    worst_part : str
        The part, such as ``user=ada``, where the challenger loses most; empty without one.
    worst_gain : float
        Mean gain there; NaN without one.
    """

    promote: bool
    reason: str
    rows: int
    groups: int
    challenger_error: float
    champion_error: float
    gain: float
    gain_low: float
    gain_high: float
    coverage: float
    latency_s: float = float("nan")
    size_bytes: float = float("nan")
    regret: float = float("nan")
    champion_latency_s: float = float("nan")
    champion_size_bytes: float = float("nan")
    champion_regret: float = float("nan")
    more_regret_low: float = NAN
    champion_coverage: float = NAN
    worst_part: str = ""
    worst_gain: float = float("nan")


def undecided(rows: int, reason: str) -> Verdict:
    """Return the verdict where nothing could be compared: keep the champion, for `reason`."""
    nan = float("nan")
    return Verdict(
        promote=False,
        reason=reason,
        rows=rows,
        groups=rows,
        challenger_error=nan,
        champion_error=nan,
        gain=nan,
        gain_low=nan,
        gain_high=nan,
        coverage=nan,
    )
