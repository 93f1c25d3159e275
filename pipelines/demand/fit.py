"""Fit the forest that predicts a profile from a structure, and calibrate it signal by signal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from data.domain import PROFILE_COLUMNS, RATIO_SIGNALS, Outcome
from data.errors import SettingError
from features.structure import STRUCTURE_COLUMNS
from pipelines.conformal import WIDEST_OUTSIDE, calibration, outside_factor, residual_quantiles
from pipelines.registering.model_spec import filled_spec
from pipelines.splits import Fold, memory_configuration_folds, memory_family_folds
from serving.forest.compiled import compiled, tree_spread
from serving.inference.bundle import Bundle, Calibration, Floats
from serving.inference.demand import (
    FAMILIES_TABLE,
    SIGNAL_COLUMNS,
    SIGNALS_TABLE,
    STRANGER,
    Signal,
    demand_estimates_of_rows,
    demand_features,
    demand_spreads,
    family_names,
    scaled_signals,
)

NAME = "colocast-demand"
MIN_RUNS = 5
MIN_MEASURED = 0.5  # share of the runs in which a signal must have been measured
TINY = 1e-9
LEAST_SPREAD = 0.02  # of a signal's own: trees that agree are not free of error

Held = tuple[Floats, pd.DataFrame]
"""Residuals of all signals one after the other, and their rows."""


@dataclass(frozen=True, slots=True)
class DemandOptions:
    """How the forest is grown and calibrated.

    Attributes
    ----------
    trees, min_samples_leaf : int
    max_features : float
        Share of the features that a split may choose from.
    folds : int
        Of the calibration.
    """

    trees: int = 40
    min_samples_leaf: int = 2
    max_features: float = 0.5
    folds: int = 5


def measured_signals(memory_runs: pd.DataFrame) -> tuple[pd.DataFrame, list[Signal]]:
    """Return the runs and the signals to learn, each measured in every one of the runs.

    Parameters
    ----------
    memory_runs : DataFrame, ``data.schemas.MEMORY_RUNS``

    Returns
    -------
    runs : DataFrame
        Those that ended well, and in which all of the signals were measured.
    signals : list of Signal
        Those measured in at least half of the runs that ended well. What is no ratio is learnt
        as a logarithm, and each is divided by its spread, so that none drowns the others.

    Raises
    ------
    SettingError
        With fewer than five such runs.
    """
    ok = memory_runs[memory_runs["outcome"] == Outcome.OK]
    share = ok.reindex(columns=list(PROFILE_COLUMNS)).notna().mean()
    names = [name for name in PROFILE_COLUMNS if share[name] >= MIN_MEASURED]
    runs = ok.dropna(subset=names).reset_index(drop=True) if names else ok.iloc[:0]
    if len(runs) < MIN_RUNS:
        raise SettingError(f"found {len(runs)} runs with signals, wanted {MIN_RUNS} or more")
    return runs, [_signal(name, runs[name].to_numpy(np.float64)) for name in names]


def uncalibrated_demand_bundle(
    runs: pd.DataFrame, signals: Sequence[Signal], options: DemandOptions, seed: int
) -> Bundle:
    """Return the fitted forest with its table of signals; intervals are empty."""
    # Each run teaches twice: all that is known of it, and what means the same for any family.
    taught = pd.concat([runs, runs], ignore_index=True)
    strange = pd.Series(np.repeat([False, True], len(runs)))
    features = demand_features(taught, STRUCTURE_COLUMNS, strange)
    targets = scaled_signals(taught, signals)
    forest = RandomForestRegressor(
        options.trees,
        min_samples_leaf=options.min_samples_leaf,
        max_features=options.max_features,
        random_state=seed,
    ).fit(features, targets if len(signals) > 1 else targets[:, 0])
    predict = compiled(forest)
    spec = filled_spec(NAME, features, predict, floor=0.0)
    spec = replace(spec, calibration=replace(spec.calibration, least_spread=LEAST_SPREAD))
    families = pd.DataFrame({"family": sorted(family_names(runs).unique())})
    tables = {SIGNALS_TABLE: _signals_table(runs, signals), FAMILIES_TABLE: families}
    spread = tree_spread(forest, predict)
    return Bundle(spec, f"{NAME}/unregistered", predict, forest, tables, spread)


def _signals_table(runs: pd.DataFrame, signals: Sequence[Signal]) -> pd.DataFrame:
    """Return what each output is, with the ends of what a single family showed."""
    ends = [(np.inf, -np.inf)] * len(signals)
    if len(family_names(runs).unique()) == 1:
        ends = [residual_quantiles(column) for column in scaled_signals(runs, signals).T]
    rows = [
        (signal.name, signal.scale, signal.is_log, *ends[at]) for at, signal in enumerate(signals)
    ]
    return pd.DataFrame(rows, columns=SIGNAL_COLUMNS)


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
    known, rows = _residuals(held_out, signals)
    if len(family_names(runs).unique()) > 1:
        apart = memory_family_folds(runs, options.folds, seed)
        strange = _residuals(held_out_demand(runs, signals, apart, options, seed), signals)
    else:  # nothing tells how far another family would be off
        strange = known * WIDEST_OUTSIDE, rows
    calibrated = _calibration((known, rows), strange, family_names(runs))
    return replace(bundle, spec=replace(bundle.spec, calibration=calibrated)), held_out


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


def held_out_demand(
    runs: pd.DataFrame,
    signals: Sequence[Signal],
    folds: Sequence[Fold],
    options: DemandOptions,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Return what a forest that never saw them answers for the held-out runs.

    Returns
    -------
    dict of signal to DataFrame, indexed by position in `runs`
        ``value`` (the signal's unit), ``in_domain``, ``spread`` (by what the trees differ, on
        the scale that the forest learns), ``fold`` and ``observed`` (as measured).
    """
    parts: dict[str, list[pd.DataFrame]] = {signal.name: [] for signal in signals}
    for fold in folds:
        bundle = uncalibrated_demand_bundle(runs.iloc[fold.train], signals, options, seed)
        asked = runs.iloc[fold.test]
        told = zip(
            demand_estimates_of_rows(bundle, asked).items(),
            demand_spreads(bundle, asked).T,
            strict=True,
        )
        for (name, estimates), spread in told:
            kept = estimates[["value", "in_domain"]].assign(spread=spread, fold=fold.name)
            parts[name].append(kept.assign(observed=asked[name]).set_axis(fold.test))
    return {name: pd.concat(frames).sort_index() for name, frames in parts.items()}


def scaled_residuals(rows: pd.DataFrame, signal: Signal) -> Floats:
    """Return observed minus predicted, on the scale that the forest learns."""
    sides = [rows[name].to_numpy(np.float64) for name in ("observed", "value")]
    if signal.is_log:
        sides = [np.log1p(side) for side in sides]
    return np.asarray((sides[0] - sides[1]) / signal.scale, dtype=np.float64)


def _signal(name: str, values: Floats) -> Signal:
    is_log = name.rsplit("_", 1)[0] not in RATIO_SIGNALS
    spread = float(np.std(np.log1p(values) if is_log else values))
    return Signal(name, spread if spread > TINY else 1.0, is_log)
