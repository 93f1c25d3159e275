"""Which series of a Prometheus say what: metric names, units and labels, all of them settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import yaml

from data import dcgm
from data.domain import SIGNALS
from data.errors import SettingError, WireError, shown
from data.importers.units import units_of
from data.wire import from_json


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a signal; several metrics are added up.

    Attributes
    ----------
    unit : str
        Of the metrics, see ``data.importers.units``: ``ratio``, ``percent``, ``MiB``, ``B/s``, …
    metrics : tuple of str
        Names of series, one sample a scrape.
    query : str
        Instead of `metrics`: a PromQL expression that keeps the card's label, asked every
        `step_s` seconds.
    kind : str
        ``gauge``; or ``counter``, of which the increase a second counts.
    """

    unit: str
    metrics: tuple[str, ...] = ()
    query: str = ""
    kind: str = "gauge"
    step_s: float = 15.0


@dataclass(frozen=True, slots=True)
class AllocationLabels:
    """The scheduler's own series: 1 for each card of each running job.

    Attributes
    ----------
    match : mapping of label to value
        What else a job's own series must carry, where several schedulers are scraped.
    """

    metric: str = dcgm.ALLOCATION_INFO
    uuid: str = dcgm.UUID_LABEL
    card: str = "card"
    job_id: str = "job_id"
    attempt: str = "attempt"
    match: Mapping[str, str] = field(default_factory=dict)


def _dcgm(unit: str, *names: str) -> tuple[Reading, ...]:
    return tuple(Reading(unit, (name,)) for name in names)


DEFAULT_SIGNALS: Mapping[str, tuple[Reading, ...]] = {
    "gpu_util": (
        *_dcgm("percent", dcgm.GPU_UTIL),
        *_dcgm("ratio", f"{dcgm.GPU_UTIL}_RATIO", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        *_dcgm("ratio", "DCGM_FI_PROF_GR_ENGINE_ACTIVE_RATIO"),
    ),
    "sm_active": _dcgm("ratio", dcgm.SM_ACTIVE, f"{dcgm.SM_ACTIVE}_RATIO"),
    "sm_occupancy": _dcgm("ratio", dcgm.SM_OCCUPANCY, f"{dcgm.SM_OCCUPANCY}_RATIO"),
    "fp32_active": _dcgm("ratio", dcgm.FP32_ACTIVE, f"{dcgm.FP32_ACTIVE}_RATIO"),
    "dram_active": _dcgm("ratio", dcgm.DRAM_ACTIVE, f"{dcgm.DRAM_ACTIVE}_RATIO"),
    "pcie_bytes_per_s": (
        Reading("B/s", (dcgm.PCIE_TX_BYTES, dcgm.PCIE_RX_BYTES)),
        Reading("kB/s", ("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "DCGM_FI_DEV_PCIE_RX_THROUGHPUT")),
    ),
    "gpu_mem_mib": (
        *_dcgm("MiB", dcgm.FB_USED, f"{dcgm.FB_USED}_MIB"),
        *_dcgm("B", f"{dcgm.FB_USED}_BYTES"),
    ),
}
"""Of each signal the first reading of which the cards have samples counts."""


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """How a cluster's Prometheus is read.

    Attributes
    ----------
    signals : mapping of signal to readings
        Those that are named replace the defaults of that signal.
    uuid_label : str
        By which samples are joined with cards.
    match : mapping of label to value
        What else samples must carry. By default an empty ``GPU_I_ID``: the series of a MIG
        instance carries the UUID of the whole card.
    delay_s : float
        How old a sample may be when it is scraped. So much at the beginning of each interval is
        left out: it may still show who was there before. By default dcgm-exporter's own collect
        interval.
    settle_s : float
        A job is looked up no sooner than this after its end, when its last scrape has arrived.
    slack_s : float
        For so long after its end a job may still be shown on its card by the scheduler.
    longest_gap_s : float
        A sample stands for no more than this before it, nor than twice the usual distance of
        samples; longer gaps are not filled.
    least_coverage : float
        Share of an interval's time, in [0, 1], that a signal's samples must cover.
    timeout_s : float
        For one query.
    """

    signals: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)
    allocation: AllocationLabels = field(default_factory=AllocationLabels)
    uuid_label: str = dcgm.UUID_LABEL
    match: Mapping[str, str] = field(default_factory=lambda: {"GPU_I_ID": ""})
    delay_s: float = 30.0
    settle_s: float = 60.0
    slack_s: float = 5.0
    longest_gap_s: float = 60.0
    least_coverage: float = 0.5
    timeout_s: float = 30.0

    @property
    def readings(self) -> Mapping[str, tuple[Reading, ...]]:
        """The readings of every signal, in the order of preference."""
        return {**DEFAULT_SIGNALS, **self.signals}


def load_telemetry(path: Path) -> TelemetryConfig:
    """Return the configuration in a YAML file whose keys are fields of `TelemetryConfig`.

    Raises
    ------
    SettingError
        The file cannot be read, is no YAML, or says something unknown or out of range. Names
        the file, the field and what was wanted.
    """
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: found no YAML: {' '.join(str(error).split())}") from error
    return telemetry_from(document or {}, str(path))


def telemetry_from(document: object, source: str) -> TelemetryConfig:
    """Return the configuration that a parsed YAML document describes.

    Raises
    ------
    SettingError
        As `load_telemetry`.

    Examples
    --------
    >>> found = telemetry_from({"delay_s": 30, "signals": {
    ...     "sm_active": [{"metrics": ["my_sm_percent"], "unit": "percent"}]}}, "telemetry.yaml")
    >>> found.readings["sm_active"]
    (Reading(unit='percent', metrics=('my_sm_percent',), query='', kind='gauge', step_s=15.0),)
    >>> telemetry_from({"delay_s": -1}, "telemetry.yaml")
    Traceback (most recent call last):
    data.errors.SettingError: telemetry.yaml: delay_s must be a number in [0, 86400], got -1.0
    """
    try:
        config = from_json(TelemetryConfig, document)
    except WireError as error:
        raise SettingError(f"{source}: {error}") from error
    for name, value, holds, wanted in _rules(config):
        if not holds:
            raise SettingError(f"{source}: {name} must be {wanted}, got {value}")
    return config


Rule = tuple[str, object, bool, str]


def _rules(config: TelemetryConfig) -> Iterator[Rule]:
    for name in ("delay_s", "settle_s", "slack_s"):
        yield _within(name, getattr(config, name), 0, 86_400)
    yield _within("longest_gap_s", config.longest_gap_s, 0.001, 86_400)
    yield _within("least_coverage", config.least_coverage, 0, 1)
    yield _within("timeout_s", config.timeout_s, 0.1, 3600)
    unknown = set(config.signals) - set(SIGNALS)
    yield "signals", shown(unknown), not unknown, f"named {', '.join(SIGNALS)}"
    for signal, readings in config.signals.items():
        for index, reading in enumerate(readings):
            yield from _reading_rules(f"signals.{signal}[{index}]", signal, reading)


def _reading_rules(where: str, signal: str, reading: Reading) -> Iterator[Rule]:
    units = units_of(f"{signal}_mean")
    if units:  # an unknown signal has been named already
        yield f"{where}.unit", repr(reading.unit), reading.unit in units, f"of {', '.join(units)}"
    one = bool(reading.metrics) != bool(reading.query)
    yield where, reading, one, "given by either `metrics` or `query`"
    known = reading.kind in ("gauge", "counter")
    yield f"{where}.kind", repr(reading.kind), known, "gauge or counter"
    yield _within(f"{where}.step_s", reading.step_s, 0.001, 86_400)


def _within(name: str, value: float, low: float, high: float) -> Rule:
    return name, value, isfinite(value) and low <= value <= high, f"a number in [{low:g}, {high:g}]"
