"""Joining jobs with samples, on series written by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.dcgm import ALLOCATION_INFO, FB_USED, GPU_UTIL, PCIE_RX_BYTES, PCIE_TX_BYTES, SM_ACTIVE
from data.domain import PROFILE_COLUMNS, FinishedJob, Outcome, Segment
from data.prometheus.config import AllocationLabels, Reading, TelemetryConfig
from data.prometheus.job_signals import (
    NEVER_ALONE,
    NO_ALLOCATION,
    NO_SAMPLES,
    NO_SEGMENTS,
    SEEN_SHARED,
    Sharing,
    job_signals,
)
from tests.data.prometheus.memory_source import MemorySource, held, series

CONFIG = TelemetryConfig(delay_s=0.0, longest_gap_s=15.0)
T = np.arange(0, 121, 10.0)


def job(*segments, **more):
    spans = segments or (Segment(0, 100, "g0", "A100"),)
    facts = ("1", 1, "ada", "q", "ncf", 1, 0.0, 0.0, 100.0, Outcome.OK, spans)
    return FinishedJob(*facts, **more)


def gpu(name, values, uuid="GPU-1", times=T, **labels):
    values = [values] * len(times) if np.isscalar(values) else values
    return series(name, times, values, UUID=uuid, **labels)


def found(finished, *all_series, config=CONFIG):
    return job_signals(finished, MemorySource(*all_series), config)


def test_a_job_has_the_signals_of_its_card_by_uuid_and_of_no_other():
    others = [gpu(GPU_UTIL, 99, "GPU-2"), held(T, "GPU-2", job_id="2")]
    (own,) = found(job(), held(T), gpu(GPU_UTIL, 40), gpu(FB_USED, T), *others)
    assert own.sharing is Sharing.EXCLUSIVE
    assert (own.signals["gpu_util_mean"], own.signals["gpu_util_std"]) == (pytest.approx(0.4), 0)
    assert own.signals["gpu_mem_peak_mib"] == 100
    assert own.signals["gpu_mem_mib_mean"] == pytest.approx(55)
    assert (own.watched_s, own.samples, own.note) == (100, 10, "")
    assert own.signals.keys() <= set(PROFILE_COLUMNS)
    assert "sm_active_mean" not in own.signals


def test_only_exclusive_intervals_count():
    mixed = job(Segment(0, 50, "g0", "A100"), Segment(50, 100, "g0", "A100", ("bert",)))
    (own,) = found(mixed, held(T), gpu(GPU_UTIL, np.where(T <= 50, 20, 100)))
    assert own.signals["gpu_util_mean"] == pytest.approx(0.2)
    assert own.watched_s == 50


def test_light_sharing_is_a_class_of_its_own():
    mixed = job(Segment(0, 50, "g0", "A100"), Segment(50, 100, "g0", "A100", ("bert",)))
    own, light = found(mixed, held(T), gpu(GPU_UTIL, np.where(T <= 50, 20, 60)))
    assert own.signals["gpu_util_mean"] == pytest.approx(0.2)
    assert (light.sharing, light.watched_s) == (Sharing.LIGHT, 50)
    assert light.signals["gpu_util_mean"] == pytest.approx(0.6)


def test_a_job_that_was_never_alone_has_no_signals_of_its_own():
    (own,) = found(job(Segment(0, 100, "g0", "A100", ("bert",))), held(T), gpu(GPU_UTIL, 90))
    assert (own.signals, own.note) == ({}, NEVER_ALONE)


def test_an_interval_in_which_another_job_was_seen_on_the_card_is_not_exclusive():
    stranger = held(T[4:6], job_id="9")
    own, light = found(job(), held(T), stranger, gpu(GPU_UTIL, 40))
    assert (own.signals, own.note) == ({}, SEEN_SHARED)
    assert light.sharing is Sharing.LIGHT


def test_another_attempt_of_the_same_job_is_somebody_else():
    own = found(job(), held(T), held(T[4:6], attempt="2"), gpu(GPU_UTIL, 90))[0]
    assert own.note == SEEN_SHARED


def test_who_is_just_leaving_does_not_spoil_an_interval():
    own = found(job(), held(T), held([1.0, 4.0, 97.0], job_id="9"), gpu(GPU_UTIL, 40))[0]
    assert own.note == ""


@pytest.mark.parametrize(
    ("allocations", "note"),
    [([], NO_ALLOCATION), ([held(T, card="g7")], NO_ALLOCATION), ([held(T)], NO_SAMPLES)],
)
def test_a_card_that_is_not_known_for_sure_gives_nothing(allocations, note):
    (own,) = found(job(), *allocations, gpu(GPU_UTIL, 40, "GPU-other"))
    assert (own.signals, own.note) == ({}, note)


def test_a_card_with_two_uuids_is_not_known_until_the_right_scheduler_is_named():
    mine = series(
        ALLOCATION_INFO, T, [1.0] * len(T), UUID="GPU-1", card="g0", job_id="1", attempt="1",
        cluster="here",
    )  # fmt: skip
    both = [mine, held(T, "GPU-2"), gpu(GPU_UTIL, 40), gpu(GPU_UTIL, 90, "GPU-2")]
    assert found(job(), *both)[0].note == NO_ALLOCATION
    here = TelemetryConfig(delay_s=0.0, allocation=AllocationLabels(match={"cluster": "here"}))
    assert found(job(), *both, config=here)[0].signals["gpu_util_mean"] == pytest.approx(0.4)


def test_a_job_without_a_placement_asks_nothing():
    source = MemorySource()
    facts = ("1", 1, "ada", "q", "ncf", 1, 0.0, 0.0, 100.0, Outcome.OK)
    (own,) = job_signals(FinishedJob(*facts), source, CONFIG)
    assert (own.note, source.asked) == (NO_SEGMENTS, [])


def test_a_gang_is_described_by_all_its_cards_or_not_at_all():
    gang = job(Segment(0, 100, "g0", "A100"), Segment(0, 100, "g1", "A100"))
    cards = [held(T), held(T, "GPU-2", "g1")]
    usage = [gpu(GPU_UTIL, 20), gpu(GPU_UTIL, 60, "GPU-2"), gpu(FB_USED, 10), gpu(SM_ACTIVE, 0.5)]
    (own,) = found(gang, *cards, *usage, gpu(FB_USED, 30, "GPU-2"))
    assert own.signals["gpu_util_mean"] == pytest.approx(0.4)
    assert own.signals["gpu_util_std"] == pytest.approx(0.2)
    assert own.signals["gpu_mem_peak_mib"] == 30
    assert "sm_active_mean" not in own.signals  # one card's only
    assert found(gang, cards[0], *usage)[0].note == NO_ALLOCATION


def test_the_series_of_a_mig_instance_is_not_the_cards():
    instance = gpu(GPU_UTIL, 100, GPU_I_ID="3")
    (own,) = found(job(), held(T), gpu(GPU_UTIL, 40), instance)
    assert own.signals["gpu_util_mean"] == pytest.approx(0.4)


def test_the_first_reading_with_samples_counts_under_whatever_name():
    renamed = gpu(f"{GPU_UTIL}_RATIO", 0.25)
    assert found(job(), held(T), renamed)[0].signals["gpu_util_mean"] == pytest.approx(0.25)
    both = found(job(), held(T), renamed, gpu(GPU_UTIL, 40))[0]
    assert both.signals["gpu_util_mean"] == pytest.approx(0.4)


def test_a_signal_may_come_from_an_expression():
    config = TelemetryConfig({"sm_active": (Reading("percent", query="expression"),)}, delay_s=0.0)
    (own,) = found(job(), held(T), gpu("expression", 12), config=config)
    assert own.signals["sm_active_mean"] == pytest.approx(0.12)


def test_a_signal_whose_samples_cover_too_little_is_missing():
    few = gpu(GPU_UTIL, [40, 40], times=[20.0, 40.0])  # 30 of 100 s
    assert found(job(), held(T), few)[0].note == NO_SAMPLES
    patient = TelemetryConfig(delay_s=0.0, longest_gap_s=15.0, least_coverage=0.25)
    assert found(job(), held(T), few, config=patient)[0].samples == 2


def test_samples_that_are_no_readings_are_counted_and_explain_an_absence():
    (own,) = found(job(), held(T), gpu(SM_ACTIVE, 50), gpu(GPU_UTIL, 40))
    assert "sm_active_mean" not in own.signals
    assert own.dropped == {"out of range": 11}


def test_bytes_of_both_directions_are_added():
    pcie = [gpu(PCIE_TX_BYTES, 1e9), gpu(PCIE_RX_BYTES, 2e9)]
    assert found(job(), held(T), *pcie)[0].signals["pcie_bytes_per_s_mean"] == 3e9


def test_what_may_be_older_than_the_job_is_left_out():
    config = TelemetryConfig(delay_s=30.0, longest_gap_s=15.0)
    usage = gpu(GPU_UTIL, np.where(T <= 30, 0, 50))
    (own,) = found(job(), held(T), usage, config=config)
    assert own.signals["gpu_util_mean"] == pytest.approx(0.5)


@given(
    st.lists(st.floats(0, 100), min_size=13, max_size=13),
    st.lists(st.sampled_from([2147483632.0, 9.3e18, np.nan, np.inf, -1.0, 250.0]), max_size=5),
    st.integers(0, 3),
)
def test_copies_and_what_is_no_reading_never_change_a_signal(values, junk, copies):
    plain = found(job(), held(T), gpu(GPU_UTIL, values))[0]
    more = [gpu(GPU_UTIL, values, pod=f"p{n}") for n in range(copies)]
    if junk:
        more.append(gpu(GPU_UTIL, junk, times=T[: len(junk)] + 5.0, pod="x"))
    other = found(job(), held(T), gpu(GPU_UTIL, values), *more)[0]
    assert other.signals == plain.signals
    assert all(0 <= value <= 1 for value in other.signals.values())
    assert sum(other.dropped.values()) == len(junk)
