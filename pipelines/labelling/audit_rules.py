"""What the label audit looks for, and how strict it is."""

from dataclasses import dataclass
from enum import StrEnum

from data.errors import SettingError


class Reason(StrEnum):
    """Why a colocated run was quarantined; checked in this order, the first one counts."""

    OUT_OF_MEMORY = "out of memory"
    FAILED = "failed or preempted"
    NO_SPEED = "no speed measured"
    TOO_SHORT = "too short"
    NEIGHBOUR_CHANGED = "neighbour changed"
    NEIGHBOUR_ABSENT = "neighbour was not there"
    BASELINE_NOT_PROVEN = "baseline not proven exclusive"
    NO_BASELINE = "no baseline"
    SWAPPED = "sides swapped"
    UNIT_ERROR = "unit error"
    IMPUTED = "same value for every neighbour"
    WRONG_BASELINE = "baseline wrong"
    SUSPECT_BASELINE = "baseline suspicious"
    BELOW_ONE = "below 1 by more than the noise"


LABELLED = frozenset(
    {
        Reason.TOO_SHORT,
        Reason.NEIGHBOUR_CHANGED,
        Reason.NEIGHBOUR_ABSENT,
        Reason.SWAPPED,
        Reason.UNIT_ERROR,
        Reason.IMPUTED,
        Reason.WRONG_BASELINE,
        Reason.SUSPECT_BASELINE,
        Reason.BELOW_ONE,
    }
)
"""The reasons that leave a label; only these can be flagged instead of quarantined."""


@dataclass(frozen=True, slots=True)
class AuditRules:
    """The thresholds of the audit, and which reasons only flag.

    Attributes
    ----------
    min_run_s : float
        A run that is known to have lasted less (s) is too short to have a speed.
    min_overlap : float
        Smallest share of a run in [0, 1] during which exactly the named neighbour must have
        been there. A run whose overlap was not recorded passes.
    noise_sds : float
        A slowdown may lie this many noise standard deviations below 1.
    assumed_noise_sd : float
        Relative noise of a slowdown where the runs hold neither repeats nor self-pairs to
        measure it.
    min_neighbours : int
        A job with fewer neighbours is not judged as a whole: neither imputed nor suspicious.
    unit_factor : float
        A run this many times off what its job and its neighbour elsewhere give, up or down, is
        taken for a unit error. Measured: in Lucid no run is over 1.9 times off, in Gavel none
        over 3.5, so 4 leaves both alone; a planted factor of 10 is found in both.
    swap_factor : float
        A pair this many times off in all, both sides multiplied, is looked at for exchanged
        sides. Measured: of 2,996 rows of Lucid and Gavel none is then named that is as its
        source gives it; of those with their slowdowns exchanged, a tenth and two fifths are.
    significance : float
        Level of the one-sided sign test by which a job is faster in company than alone.
    flag_only : frozenset of Reason
        Reasons of ``LABELLED`` that are reported but leave the row among the labels. By default
        the suspicious baseline: where a job's median slowdown lies below 1 but within the
        noise, all its labels are low by one common factor while their order still holds. A
        median below 1 by more than the noise is a wrong baseline, and is quarantined.
    """

    min_run_s: float = 1.0
    min_overlap: float = 0.9
    min_second_memory: float = 0.25
    noise_sds: float = 3.0
    assumed_noise_sd: float = 0.05
    min_neighbours: int = 5
    unit_factor: float = 4.0
    swap_factor: float = 1.5
    significance: float = 0.05
    flag_only: frozenset[Reason] = frozenset({Reason.SUSPECT_BASELINE})

    def __post_init__(self) -> None:
        """Refuse thresholds that mean nothing."""
        if self.flag_only - LABELLED:
            names = ", ".join(sorted(self.flag_only - LABELLED))
            raise SettingError(f"flag_only must hold reasons that leave a label, got {names}")
        if self.assumed_noise_sd <= 0:
            raise SettingError(f"assumed_noise_sd must be above 0, got {self.assumed_noise_sd}")
        if not 0 <= self.min_overlap <= 1:
            raise SettingError(f"min_overlap must be in [0, 1], got {self.min_overlap}")
        if min(self.unit_factor, self.swap_factor) <= 1:
            found = f"{self.unit_factor} and {self.swap_factor}"
            raise SettingError(f"unit_factor and swap_factor must be above 1, got {found}")
        if not 0 < self.significance < 1:
            raise SettingError(f"significance must be in (0, 1), got {self.significance}")


STRICT = AuditRules(flag_only=frozenset())
"""Also quarantines every row of a job whose baseline is suspicious."""

ALL_ROWS = AuditRules(flag_only=LABELLED)
"""Quarantines only what has no label: for comparison with results published on all rows."""
