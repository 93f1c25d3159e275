"""The units that a mapped source may use, by what is measured, as factors to ours."""

from collections.abc import Mapping

from data.domain import RATIO_SIGNALS, SIGNALS

MIB = 1024.0**2
TIMES = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
"""Seconds."""
MEMORY = {
    "B": 1 / MIB,
    "KiB": 1024 / MIB,
    "MiB": 1.0,
    "GiB": 1024.0,
    "TiB": 1024.0**2,
    "kB": 1e3 / MIB,
    "MB": 1e6 / MIB,
    "GB": 1e9 / MIB,
    "TB": 1e12 / MIB,
}
"""MiB."""
RATES = {"per_s": 1.0, "per_ms": 1e3, "per_min": 1 / 60, "per_h": 1 / 3600}
"""Steps a second."""
BYTE_RATES = {f"{name}/s": factor * MIB for name, factor in MEMORY.items()}
"""Bytes a second."""
RATIOS = {"ratio": 1.0, "percent": 0.01}
"""Ratios in [0, 1]."""


def units_of(column: str) -> Mapping[str, float]:
    """Return the units in which a source may give one of our columns; none for counts and texts.

    Examples
    --------
    >>> sorted(units_of("steps_per_s"))
    ['per_h', 'per_min', 'per_ms', 'per_s']
    >>> units_of("gpu_mem_mib_mean")["GiB"], units_of("jct_s")["ms"], units_of("gpus")
    (1024.0, 0.001, {})
    """
    signal = next((name for name in SIGNALS if column in {f"{name}_mean", f"{name}_std"}), column)
    if signal in RATIO_SIGNALS or column == "neighbour_overlap":
        return RATIOS
    if signal.endswith("bytes_per_s"):
        return BYTE_RATES
    if column == "steps_per_s":
        return RATES
    if signal.endswith("_mib"):
        return MEMORY
    return TIMES if column.endswith(("_s", "_time")) else {}
