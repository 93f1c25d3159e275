import pytest

from data.domain import Estimate, Placement, Source
from scheduler_client.forecast.last_good import LastGood
from scheduler_client.policy.predictions import CardClass, JobClass

JOB = JobClass("job")
EMPTY, SHARED = CardClass("v100"), CardClass("v100", ("other",))


def placement(slowdown, *neighbours):
    job, *theirs = (
        Estimate(value, value, value, "m/1", Source.MODEL) for value in (slowdown, *neighbours)
    )
    memory = Estimate(900.0, 800.0, 1000.0, "m/1", Source.MODEL)
    return Placement("card", job, tuple(theirs), memory, fits=True, cost=0.0)


@pytest.mark.parametrize("first", [(EMPTY, SHARED), (SHARED, EMPTY)])
def test_a_later_answer_for_one_class_keeps_those_for_the_others(first):
    answers = {EMPTY: placement(1.0), SHARED: placement(1.3, 1.2)}
    last_good = LastGood(fresh_s=5.0, last_good_s=60.0)
    for at_s, card in enumerate(first):
        last_good.put(JOB, [(card, answers[card])], float(at_s))
    known = last_good.answers(JOB, first, 2.0)
    assert (known.is_whole, known.missing, known.oldest_s) == (True, (), 0.0)
    assert known.colocations[SHARED].slowdowns[1].value == 1.2
    assert known.memory["v100"].value == 900.0
