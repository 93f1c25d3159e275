"""The closed ranges of what a request may hold; also what the OpenAPI document says."""

from dataclasses import dataclass

LONGEST_TEXT = 512
NO_CONTROL_CHARACTERS = r"^[^\u0000-\u001f\u007f]*$"  # PostgreSQL text holds no NUL
LARGEST_COUNT = 2**53 - 1  # the largest whole number that every JSON reader keeps exact
LARGEST_INT = 2**31 - 1
LATEST_TIME = 1e11  # s since 1970: year 5138
LONGEST_S = 1e10
LARGEST_SIGNAL = 1e15
BODY_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Range:
    """A closed range of numbers, or of the length of a text or a list."""

    least: float
    most: float


TEXT = Range(0, LONGEST_TEXT)
NAME = Range(1, LONGEST_TEXT)
COUNT = Range(0, LARGEST_COUNT)
TIME = Range(0.0, LATEST_TIME)
SPAN_S = Range(0.0, LONGEST_S)

LIMITS: dict[tuple[str, str], Range] = {
    ("SlowdownRequest", "pairs"): Range(1, 10_000),
    ("RuntimeRequest", "jobs"): Range(1, 2_000),
    ("RuntimeRequest", "running"): Range(0, 10_000),
    ("StructuresRequest", "structures"): Range(1, 2_000),
    ("PlacementsRequest", "cards"): Range(1, 10_000),
    ("FinishedRequest", "jobs"): Range(1, 1_000),
    ("Card", "residents"): Range(0, 64),
    ("FinishedJob", "segments"): Range(0, 10_000),
    ("FinishedJob", "signals"): Range(0, 64),
    ("Segment", "neighbour_keys"): Range(0, 64),
    ("ModelStructure", "batch_size"): Range(1, LARGEST_INT),
    ("ModelStructure", "gpus"): Range(1, 1_000_000),
    ("JobRequest", "gpus"): Range(0, 1_000_000),
    ("FinishedJob", "gpus"): Range(0, 1_000_000),
    ("FinishedJob", "attempt"): Range(0, LARGEST_INT),
    ("FinishedJob", "predicted_slowdown"): Range(0.0, LARGEST_SIGNAL),
    ("FinishedJob", "predicted_runtime_s"): Range(0.0, LARGEST_SIGNAL),
}
"""Where a field needs a range of its own, by class and field name."""


def limit_of(class_name: str, field: str, kind: str) -> Range:
    """Return the range of a field.

    Parameters
    ----------
    class_name, field : str
    kind : {"str", "int", "float", "tuple", "dict"}

    Examples
    --------
    >>> limit_of("ModelStructure", "batch_size", "int").least
    1
    >>> limit_of("FinishedJob", "start_time", "float") == TIME
    True
    """
    own = LIMITS.get((class_name, field))
    if own is not None:
        return own
    if kind == "str":
        return NAME if field.endswith(("_id", "_key", "gpu_model")) else TEXT
    if kind == "int":
        return COUNT
    if kind == "float":
        return TIME if field.endswith("_time") else SPAN_S
    return Range(0, 1_000)
