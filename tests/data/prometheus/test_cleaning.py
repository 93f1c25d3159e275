import numpy as np
import pytest

from data.prometheus.cleaning import cleaned
from data.prometheus.config import DEFAULT_SIGNALS, Reading
from tests.data.prometheus.memory_source import series

INT32, FP64, INT64 = 2147483632.0, 140737488355328.0, 9223372036854775794.0


def one(signal, values, unit, times=None, kind="gauge"):
    times = range(len(values)) if times is None else times
    reading = Reading(unit, ("m",), kind=kind)
    return cleaned(signal, reading, [[series("m", times, values)]])


@pytest.mark.parametrize(
    ("signal", "unit", "value", "ours"),
    [
        ("gpu_util", "percent", 35.0, 0.35),
        ("gpu_util", "ratio", 0.35, 0.35),
        ("gpu_mem_mib", "MiB", 1024.0, 1024.0),
        ("gpu_mem_mib", "B", 2.0**30, 1024.0),
        ("gpu_mem_mib", "GiB", 1.0, 1024.0),
        ("pcie_bytes_per_s", "kB/s", 3.0, 3000.0),
    ],
)
def test_units_are_converted_where_samples_enter(signal, unit, value, ours):
    assert one(signal, [value], unit).values.tolist() == [pytest.approx(ours)]


@pytest.mark.parametrize("blank", [INT32, INT32 + 1, INT32 + 3, FP64, FP64 + 2, INT64])
@pytest.mark.parametrize("signal", ["gpu_util", "gpu_mem_mib", "pcie_bytes_per_s"])
def test_dcgms_blanks_are_missing_never_a_value(signal, blank):
    unit = {"gpu_util": "percent", "gpu_mem_mib": "MiB", "pcie_bytes_per_s": "B/s"}[signal]
    found = one(signal, [1.0, blank, 3.0], unit)
    assert found.times.tolist() == [0, 2]
    assert found.dropped == {"blank": 1}


def test_texts_and_infinities_are_missing():
    found = one("sm_active", [np.nan, np.inf, -np.inf, 0.5], "ratio")
    assert found.values.tolist() == [0.5]
    assert found.dropped == {"not a number": 3}


def test_a_percent_read_as_a_ratio_is_dropped_and_counted():
    found = one("sm_active", [87.0, 55.0, 0.0, 1.005, -0.1], "ratio")
    assert found.values.tolist() == [0.0, 1.0]
    assert found.dropped == {"out of range": 3}


def test_a_counter_becomes_its_rate_and_a_reset_is_no_increase():
    found = one("pcie_bytes_per_s", [0, 100, 300, 50, 150], "B/s", [0, 10, 20, 30, 40], "counter")
    assert found.times.tolist() == [10, 20, 40]
    assert found.values.tolist() == [10, 20, 10]
    assert found.dropped == {"reset": 1}


def test_copies_of_a_shared_cards_value_count_once_and_the_largest_wins():
    pods = [series("m", [0, 1], [40, 50], pod="a"), series("m", [0, 1], [40, 60], pod="b")]
    found = cleaned("gpu_util", Reading("percent", ("m",)), [pods])
    assert found.values.tolist() == [0.4, 0.6]


def test_two_exporters_of_one_card_are_one_series_of_all_their_samples():
    pair = [series("m", [0, 10], [10, 30], Hostname="n"), series("m", [5], [20], hostname="n")]
    found = cleaned("gpu_util", Reading("percent", ("m",)), [pair])
    assert found.times.tolist() == [0, 5, 10]


def test_both_directions_are_added_where_both_are_known():
    reading = DEFAULT_SIGNALS["pcie_bytes_per_s"][0]
    sent, received = series("tx", [0, 1, 2], [1, 2, 3]), series("rx", [1, 2, 3], [10, INT64, 30])
    found = cleaned("pcie_bytes_per_s", reading, [[sent], [received]])
    assert (found.times.tolist(), found.values.tolist()) == ([1], [12])
    assert cleaned("pcie_bytes_per_s", reading, [[sent], []]).values.size == 0
