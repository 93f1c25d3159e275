import numpy as np
import pytest

from features.kriging import Kernel, Kriged, kriged

KERNEL = Kernel((1.0, 2.0), (100.0, 1.0), noise=0.5, noise_jobs=1e9)
NAN = np.nan


def one(residuals, submit_time, asked_time=0.0, kernel=KERNEL) -> tuple[float, float]:
    told = kriged(np.array([residuals]), np.array([submit_time]), np.array([asked_time]), kernel)
    return float(told.pull[0]), float(told.explained[0])


def test_one_job_is_shrunk_by_its_noise():
    pull, explained = one([2.0], [0.0])
    assert pull == pytest.approx(2.0 * 3 / 3.5)
    assert explained == pytest.approx(3 / 3.5)


def test_a_job_submitted_long_ago_says_little():
    near, far = one([2.0], [0.0])[0], one([2.0], [-1e6])[0]
    assert 0 < far < 0.01 < near


def test_more_jobs_leave_less_open():
    shares = [one([1.0] * n, [0.0] * n)[1] for n in (1, 4, 16)]
    assert shares == sorted(shares)
    assert shares[-1] < 1


def test_empty_places_of_the_window_change_nothing():
    assert one([1.0, 3.0, NAN, NAN], [0.0, 9.0, NAN, NAN]) == pytest.approx(
        one([1.0, 3.0], [0.0, 9.0])
    )


def test_without_jobs_nothing_is_pulled_or_explained():
    assert one([NAN, NAN], [NAN, NAN]) == (0.0, 0.0)


def test_scattered_jobs_are_believed_less():
    learning = Kernel((1.0,), (100.0,), noise=0.5, noise_jobs=1.0)
    calm = one([2.0, 2.0, 2.0], [0.0] * 3, kernel=learning)[0]
    scattered = one([-2.0, 2.0, 6.0], [0.0] * 3, kernel=learning)[0]
    assert 0 < scattered < calm


def test_a_masked_level_tells_nothing():
    told = Kriged(np.ones(2), np.full(2, 0.5), np.full(2, 0.5), np.ones(2))
    masked = told.where(np.array([True, False]))
    assert masked.pull.tolist() == [1.0, 0.0]
    assert masked.weight.tolist() == masked.explained.tolist() == [0.5, 0.0]
