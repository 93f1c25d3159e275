from scheduler_client.forecast.asking import Asking


def test_first_question_of_a_cycle_goes_however_long_the_last_one_took():
    asking = Asking(deadline_s=1.0)
    assert asking.may_go(0.0, expected_s=5.0)
    assert not asking.may_go(0.999, expected_s=5.0)


def test_later_questions_go_where_they_are_likely_to_be_answered():
    asking = Asking(deadline_s=1.0)
    asking.was_answered = True
    assert asking.may_go(0.0, expected_s=0.7)
    assert not asking.may_go(0.0, expected_s=0.9)
