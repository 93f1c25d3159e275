import numpy as np
import pandas as pd

from pipelines.interference.thinning import thinned


def measured(pairs: list[tuple[str, str]]) -> pd.DataFrame:
    both = [*pairs, *((second, first) for first, second in pairs)]
    keys = pd.DataFrame(both, columns=["job_key", "neighbour_key"])
    return keys.assign(gpu_model="v100")


def sides(labels: pd.DataFrame) -> pd.Series:
    return pd.concat([labels["job_key"], labels["neighbour_key"]]).value_counts()


def test_few_labels_are_all_kept():
    labels = measured([("a", "b"), ("a", "c")])
    assert thinned(labels, seed=0, most=4) is labels


def test_every_job_keeps_a_pair_and_the_rest_is_shared_out():
    chance = np.random.default_rng(0)
    popular = [(f"p{a}", f"p{b}") for a in range(30) for b in range(a)]
    rare = [(f"r{n}", f"p{chance.integers(30)}") for n in range(20)]
    kept = thinned(measured(popular + rare), seed=1, most=200)
    assert 200 <= len(kept) <= 201
    counts = sides(kept)
    assert len(counts) == 50
    popular_counts = counts[counts.index.str.startswith("p")]
    assert popular_counts.max() <= 4 * popular_counts.min()


def test_a_pair_is_kept_with_both_directions_and_all_repeats():
    labels = pd.concat([measured([("a", "b"), ("c", "d"), ("a", "d")])] * 3, ignore_index=True)
    kept = thinned(labels, seed=3, most=7)
    assert len(kept) == 12  # two pairs, whole
    assert kept.index.is_monotonic_increasing


def test_the_order_of_rows_is_kept_and_the_draw_is_of_the_seed():
    labels = measured([(f"a{n}", f"b{n % 7}") for n in range(100)])
    first, again, other = (thinned(labels, seed, most=60) for seed in (1, 1, 2))
    assert first.index.tolist() == again.index.tolist() != other.index.tolist()
