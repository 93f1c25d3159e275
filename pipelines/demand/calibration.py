"""Calibrate predicted profiles signal by signal, and for families that are not known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.structure import COMPUTE_COLUMNS, structure_features
from pipelines.conformal import calibration, interval_scores, outside_factor, residual_quantiles
from pipelines.demand.fit import (
    LEAST_SPREAD,
    DemandOptions,
    held_out_demand,
    learnt_signals,
    scaled_residuals,
    uncalibrated_demand_bundle,
)
from pipelines.splits import Fold, memory_configuration_folds, memory_family_folds
from serving.inference.bundle import Bundle, Calibration, Floats
from serving.inference.demand import (
    SIGNALS_TABLE,
    STRANGER,
    Signal,
    demand_estimates_of_rows,
    family_names,
    scaled_signals,
    signals_of,
)

Held = tuple[Floats, pd.DataFrame]
"""Residuals of all signals one after the other, and their rows."""

THIRD = 1 / 3


@dataclass(frozen=True, slots=True)
class Reach:
    """How far another family may be off, beside the only one that was learnt.

    Attributes
    ----------
    times : float
        What errors about new configurations are multiplied by.
    by_trees : bool
        Whether these count in what the trees differ by.
    """

    times: float = 8.0
    by_trees: bool = False


REACHES = [Reach(times, by_trees) for by_trees in (False, True) for times in (4.0, 8.0, 16.0)]


def calibrated_demand_bundle(
    runs: pd.DataFrame, signals: Sequence[Signal], options: DemandOptions, seed: int
) -> tuple[Bundle, dict[str, pd.DataFrame]]:
    """Return the fitted forest with intervals, and the held-out answers they rest on.

    Returns
    -------
    bundle : Bundle
    held_out : dict of signal to DataFrame
        As `held_out_demand`, by configuration.

    Raises
    ------
    SettingError
        If the runs are of a single configuration.
    """
    folds = memory_configuration_folds(runs, options.folds, seed)
    held_out = held_out_demand(runs, signals, folds, options, seed)
    bundle = uncalibrated_demand_bundle(runs, signals, options, seed)
    if len(family_names(runs).unique()) == 1:
        reach = stranger_reach(runs, signals, options, seed)
        return _of_single_family(bundle, runs, held_out, reach), held_out
    apart = memory_family_folds(runs, options.folds, seed)
    strange = _residuals(held_out_demand(runs, signals, apart, options, seed), signals)
    found = _calibration(_residuals(held_out, signals), strange, family_names(runs))
    return replace(bundle, spec=replace(bundle.spec, calibration=found)), held_out


def stranger_reach(
    runs: pd.DataFrame, signals: Sequence[Signal], options: DemandOptions, seed: int
) -> Reach:
    """Return how far another family may be off, as the ends of a single one tell of each other.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        Of one family, in which each of `signals` was measured.
    signals : sequence of Signal
    options : DemandOptions
    seed : int

    Returns
    -------
    Reach
        Of six the one with the least interval score, in standard deviations of the signals, where
        `thirds_apart` are learnt and asked; without any, eight times the errors.

    Notes
    -----
    Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 2007.
    """
    trials = [_scores(runs, fold, signals, options, seed) for fold in thirds_apart(runs)]
    if not trials:
        return Reach()
    return REACHES[int(np.argmin(np.mean(trials, axis=0)))]


def thirds_apart(runs: pd.DataFrame, amounts: Sequence[str] = COMPUTE_COLUMNS) -> list[Fold]:
    """Return folds that learn one end of a family and ask the other, as if it were another family.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
    amounts : sequence of str
        Of ``features.structure.STRUCTURE_COLUMNS``; by default the amounts of computation, all
        that a family which was not learnt is told by.

    Returns
    -------
    list of Fold
        By each amount from the lowest third of the runs to the highest, and back; where both hold
        two configurations.
    """
    ranks = structure_features(runs)[list(amounts)].rank(pct=True)
    configuration = runs["configuration"].to_numpy(dtype=str)
    folds = []
    for name in ranks:
        low = np.flatnonzero(ranks[name] <= THIRD)
        high = np.flatnonzero(ranks[name] > 1 - THIRD)
        if min(len(np.unique(configuration[part])) for part in (low, high)) > 1:
            folds += [Fold(f"{name}, up", low, high), Fold(f"{name}, down", high, low)]
    return folds


def _scores(
    runs: pd.DataFrame, fold: Fold, signals: Sequence[Signal], options: DemandOptions, seed: int
) -> list[float]:
    """Return what the intervals by each reach cost about what a fold asks."""
    learnt = runs.iloc[fold.train].reset_index(drop=True)
    asked = runs.iloc[fold.test].assign(family=STRANGER)
    folds = memory_configuration_folds(learnt, options.folds, seed)
    own = learnt_signals(signals, learnt)  # as for another family: its spread is not known
    held_out = held_out_demand(learnt, own, folds, options, seed)
    bundle = uncalibrated_demand_bundle(learnt, own, options, seed)
    observed, scores = scaled_signals(asked, signals), []
    for reach in REACHES:
        told = demand_estimates_of_rows(_of_single_family(bundle, learnt, held_out, reach), asked)
        lower, upper = (
            scaled_signals(pd.DataFrame({name: told[name][end] for name in told}), signals)
            for end in ("lower", "upper")
        )
        scores.append(float(interval_scores(lower, upper, observed).mean()))
    return scores


def _of_single_family(
    bundle: Bundle, runs: pd.DataFrame, held_out: Mapping[str, pd.DataFrame], reach: Reach
) -> Bundle:
    """Return the bundle with the intervals of its family, and those of any other by `reach`."""
    errors, rows = known = _residuals(held_out, signals_of(bundle))
    units = rows["spread"].to_numpy(np.float64) if reach.by_trees else np.ones(len(rows))
    strange = reach.times * errors / units, rows
    spec = replace(bundle.spec, calibration=_calibration(known, strange, family_names(runs)))
    table = bundle.tables[SIGNALS_TABLE].assign(by_trees=reach.by_trees)
    return replace(bundle, spec=spec, tables={**bundle.tables, SIGNALS_TABLE: table})


def _calibration(known: Held, strange: Held, families: pd.Series) -> Calibration:
    """Return quantiles by signal, by signal and family, and by signal of families not learnt.

    Notes
    -----
    Errors of known families count in what the trees differ by: Johansson, Boström, Löfström and
    Linusson, "Regression conformal prediction with random forests", Machine Learning 2014.
    """
    rows, apart = known[1], strange[1]
    found = known[0] / rows["spread"].to_numpy(np.float64)
    outside = outside_factor(found, rows["in_domain"].to_numpy(dtype=np.bool_))
    signal = rows["signal"].astype("str")
    of_family = signal + " " + families.iloc[rows.index].to_numpy(dtype=str)
    other = STRANGER + apart["signal"].astype("str")
    coarse, fine = (pd.concat([each, other], ignore_index=True) for each in (signal, of_family))
    both = np.concatenate([found, strange[0]])
    made = calibration(both, [coarse, fine], residual_quantiles(found), outside)
    return replace(made, least_spread=LEAST_SPREAD)


def _residuals(held_out: Mapping[str, pd.DataFrame], signals: Sequence[Signal]) -> Held:
    """Return the residuals of held-out answers, on the scale that the forest learns."""
    found = np.concatenate([scaled_residuals(held_out[signal.name], signal) for signal in signals])
    rows = pd.concat([held_out[signal.name].assign(signal=signal.name) for signal in signals])
    return found, rows
