"""Estimates of waits are corrected by how long jobs before really waited."""

import random
from math import inf

import pytest

from data.errors import SpoolError, WireError
from scheduler_client.explaining.kept_waits import KEEP_S, KeptWaits
from scheduler_client.explaining.wait import WaitEstimate
from scheduler_client.explaining.wait_book import AGAIN_S, WaitBook
from scheduler_client.explaining.wait_correction import FIRST_BOUND, LEAST_WAITS
from scheduler_client.jobs.spool import Spool

TOLD = WaitEstimate(1000.0, 0.0, 50_000.0, 2)


def nothing():
    raise AssertionError("no job was due")


def lived(book, waits_s, estimate=TOLD, now=0.0):
    """One job after the other comes, waits, and starts; return the intervals they were told."""
    told = []
    for number, waited_s in enumerate(waits_s):
        name = f"{now}-{number}"
        book.observe(now, [name], [], lambda name=name: {name: estimate})
        told.append(book.corrected(estimate, name, now))
        now += waited_s
        book.observe(now, [], [name], nothing)
    return told


def share_within(told, waits_s) -> float:
    within = [t.lower_s <= w <= t.upper_s for t, w in zip(told, waits_s, strict=True)]
    return sum(within) / len(within)


def test_before_there_is_evidence_the_estimate_stays_as_it_is():
    told = lived(WaitBook(), [500.0] * LEAST_WAITS)
    assert told == [TOLD] * LEAST_WAITS


@pytest.mark.parametrize(("factor", "spread"), [(0.1, 0.5), (1.0, 1.0), (8.0, 0.3)])
def test_nine_of_ten_waits_lie_within_however_wrong_the_estimates_are(factor, spread):
    chance = random.Random(1)
    waits_s = [min(500.0, 40 * factor * chance.lognormvariate(0, spread)) for _ in range(3000)]
    estimate = WaitEstimate(40.0, 39.0, 41.0, 0)
    told = lived(WaitBook(), waits_s, estimate)
    assert 0.88 <= share_within(told[100:], waits_s[100:]) <= 0.93


def test_an_interval_that_was_far_too_wide_becomes_narrow():
    (*_, last) = lived(WaitBook(), [950.0, 1050.0] * 500, WaitEstimate(1000.0, 0.0, 1e6, 0))
    assert last.upper_s < 2500.0
    assert last.lower_s > 400.0
    assert last.calibrated_on == 999


def test_a_wait_that_is_too_long_already_is_learnt_from_before_it_is_over():
    book = WaitBook()
    lived(book, [500.0] * LEAST_WAITS)
    before = book.corrected(TOLD, "nobody", 0.0)
    book.observe(1e6, ["slow"], [], lambda: {"slow": TOLD})
    book.observe(1e6 + 1e5, ["slow"], [], lambda: {"slow": TOLD})
    assert book.corrected(TOLD, "nobody", 0.0).upper_s > before.upper_s


def test_it_counts_once_that_a_wait_was_too_long():
    book, other = WaitBook(), WaitBook()
    for one, moments in ((book, (1e5, 2e5, 3e5)), (other, ())):
        one.observe(0.0, ["slow"], [], lambda: {"slow": TOLD})
        for now in moments:
            one.observe(now, ["slow"], [], dict)
        one.observe(4e5, [], ["slow"], nothing)
    assert book.to_json()["new"] == other.to_json()["new"]


def test_jobs_that_have_waited_for_long_are_corrected_by_their_like():
    book = WaitBook()
    lived(book, [500.0] * LEAST_WAITS)  # these were over before they were old
    now = 1e6
    book.observe(now, ["old"], [], lambda: {"old": TOLD})
    assert book.corrected(TOLD, "old", now).calibrated_on == LEAST_WAITS
    assert book.corrected(TOLD, "old", now + AGAIN_S).calibrated_on == 0


def test_a_job_is_estimated_when_it_comes_and_each_time_it_has_waited_twice_as_long():
    book, asked = WaitBook(), []
    for minute in range(100):
        now = 60.0 * minute

        def estimates(minute=minute):
            asked.append(minute)
            return {"7": TOLD}

        book.observe(now, ["7"], [], estimates)
    assert asked == [0, 10, 20, 40, 80]


def test_a_job_that_vanishes_teaches_nothing():
    book = WaitBook()
    book.observe(0.0, ["7"], [], lambda: {"7": TOLD})
    book.observe(1.0, [], [], nothing)
    book.observe(2.0, [], ["7"], nothing)
    assert not book.has_learnt


def test_an_estimate_without_an_end_stays_so():
    book = WaitBook()
    lived(book, [500.0] * 100)
    endless = WaitEstimate(inf, 10.0, inf, 1)
    assert book.corrected(endless, "7", 0.0) == endless


def test_what_was_learnt_outlives_the_scheduler(tmp_path):
    with Spool(tmp_path / "spool.db") as spool:
        kept = KeptWaits(spool)
        lived(kept.book, [500.0] * 100)
        kept.keep(0.0)
    with Spool(tmp_path / "spool.db") as spool:
        again = KeptWaits(spool).book
    assert again.corrected(TOLD, "7", 0.0) == kept.book.corrected(TOLD, "7", 0.0)
    assert again.corrected(TOLD, "7", 0.0).calibrated_on == 100


def test_it_is_written_now_and_then_only(tmp_path, monkeypatch):
    written = []
    with Spool(tmp_path / "spool.db") as spool:
        kept = KeptWaits(spool)
        monkeypatch.setattr(spool, "note", lambda *args: written.append(args))
        for now in (0.0, 1.0, KEEP_S, 2 * KEEP_S):
            if now < 2 * KEEP_S:
                lived(kept.book, [5.0], now=now)
            kept.keep(now)
    assert len(written) == 2


def test_a_spool_that_cannot_be_written_stops_nobody(tmp_path, monkeypatch):
    with Spool(tmp_path / "spool.db") as spool:
        kept = KeptWaits(spool)

        def full(*args):
            raise SpoolError("disk full")

        monkeypatch.setattr(spool, "note", full)
        lived(kept.book, [5.0])
        kept.keep(0.0)
        monkeypatch.undo()
        kept.keep(KEEP_S)
        assert spool.noted("waits")["new"]["waits"] == 1


def test_what_cannot_be_read_is_forgotten(tmp_path):
    with Spool(tmp_path / "spool.db") as spool:
        spool.note("waits", {"new": "much"})
        assert KeptWaits(spool).book.to_json()["new"]["high"] == FIRST_BOUND
    with pytest.raises(WireError):
        WaitBook.from_json([1])
