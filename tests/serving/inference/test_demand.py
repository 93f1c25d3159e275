from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.domain import ModelStructure
from features.structure import STRUCTURE_COLUMNS
from serving.inference.bundle import Bundle, Calibration, ModelSpec
from serving.inference.demand import Signal, demand_estimates, scaled_signals, signals_of

SIGNALS = [Signal("gpu_util_mean", 0.5, False), Signal("gpu_mem_peak_mib", 2.0, True)]
BATCH = STRUCTURE_COLUMNS.index("batch_size")


def two_signals(rows):
    return np.column_stack([rows[:, BATCH] / 100, np.log1p(rows[:, BATCH]) / 2])


def bundle_of(signals=SIGNALS, predict=two_signals):
    spec = ModelSpec(
        name="colocast-demand",
        features=STRUCTURE_COLUMNS,
        scale="identity",
        calibration=Calibration(0.9, (-1.0, 1.0), {"gpu_util_mean": (-0.2, 0.4)}),
        low=dict.fromkeys(STRUCTURE_COLUMNS, 0.0),
        high=dict.fromkeys(STRUCTURE_COLUMNS, 1e3),
        floor=0.0,
    )
    table = pd.DataFrame(
        {
            "signal": [signal.name for signal in signals],
            "scale": [signal.scale for signal in signals],
            "is_log": [signal.is_log for signal in signals],
        }
    )
    return Bundle(spec, "colocast-demand/1", predict, None, {"signals": table})


def test_signals_come_back_in_their_own_units():
    found = demand_estimates(bundle_of(), [ModelStructure("mlp", 50), ModelStructure("mlp", 100)])
    assert found["gpu_util_mean"]["value"].tolist() == pytest.approx([0.25, 0.5])
    assert found["gpu_mem_peak_mib"]["value"].tolist() == pytest.approx([50.0, 100.0])


def test_each_signal_has_its_own_interval():
    found = demand_estimates(bundle_of(), [ModelStructure("mlp", 50)])
    assert found["gpu_util_mean"].loc[0, ["lower", "upper"]].tolist() == pytest.approx([0.15, 0.45])
    bounds = [51 * np.exp(end) - 1 for end in (-2.0, 2.0)]
    assert found["gpu_mem_peak_mib"].loc[0, ["lower", "upper"]].tolist() == pytest.approx(bounds)


def test_known_family_counts_in_what_the_trees_differ_by():
    groups = {"gpu_util_mean": (-1, 1), "gpu_util_mean mlp": (-2, 3)}
    groups |= {"stranger gpu_util_mean": (-0.1, 0.1)}
    bundle = bundle_of(SIGNALS[:1], lambda rows: np.full(len(rows), 0.5))
    spec = replace(bundle.spec, calibration=Calibration(0.9, (-1, 1), groups, 1.0, 0.02))
    tables = {**bundle.tables, "families": pd.DataFrame({"family": ["cnn", "mlp"]})}
    bundle = replace(
        bundle, spec=spec, tables=tables, spread=lambda rows: np.full((len(rows), 1), 0.08)
    )
    asked = [ModelStructure(family, 50) for family in ("mlp", "cnn", "lstm")]
    found = demand_estimates(bundle, asked)["gpu_util_mean"]
    wanted = [(0.15, 0.4), (0.2, 0.3), (0.2, 0.3)]  # 0.5 of a spread of 0.1, or a residual
    for at, bounds in enumerate(wanted):
        assert found.loc[at, ["lower", "upper"]].tolist() == pytest.approx(bounds)


@pytest.mark.parametrize(("by_trees", "bounds"), [(False, (0.2, 0.3)), (True, (0.245, 0.255))])
def test_family_beside_the_only_one_counts_in_what_training_chose(by_trees, bounds):
    bundle = bundle_of(SIGNALS[:1], lambda rows: np.full(len(rows), 0.5))
    known = Calibration(0.9, (-1, 1), {"stranger gpu_util_mean": (-0.1, 0.1)}, 1.0, 0.02)
    table = bundle.tables["signals"].assign(by_trees=by_trees)
    tables = {"families": pd.DataFrame({"family": ["mlp"]}), "signals": table}
    spec = replace(bundle.spec, calibration=known)
    bundle = replace(
        bundle, spec=spec, tables=tables, spread=lambda rows: np.full((len(rows), 1), 0.08)
    )
    found = demand_estimates(bundle, [ModelStructure("cnn", 50)])["gpu_util_mean"]
    assert found.loc[0, ["lower", "upper"]].tolist() == pytest.approx(bounds)


def test_ratios_stay_within_zero_and_one():
    found = demand_estimates(bundle_of(), [ModelStructure("mlp", 900), ModelStructure("mlp", 1)])
    ratios = found["gpu_util_mean"][["value", "lower", "upper"]].to_numpy()
    assert ratios.max() == 1.0
    assert ratios.min() == 0.0


def test_a_forest_of_one_signal_answers_too():
    bundle = bundle_of(SIGNALS[:1], lambda rows: rows[:, BATCH] / 100)
    found = demand_estimates(bundle, [ModelStructure("mlp", 50)])
    assert found["gpu_util_mean"]["value"].tolist() == pytest.approx([0.25])


def test_what_is_learnt_is_what_estimates_undo():
    measured = pd.DataFrame({"gpu_util_mean": [0.25], "gpu_mem_peak_mib": [50.0]})
    assert scaled_signals(measured, SIGNALS)[0].tolist() == pytest.approx([0.5, np.log(51) / 2])
    assert signals_of(bundle_of()) == SIGNALS


def test_no_models_have_no_demand():
    found = demand_estimates(bundle_of(), [])
    assert set(found) == {"gpu_util_mean", "gpu_mem_peak_mib"}
    assert all(frame.empty for frame in found.values())
