"""Fit the forest that predicts a profile from a structure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from data.domain import PROFILE_COLUMNS, RATIO_SIGNALS, Outcome
from data.errors import SettingError
from features.structure import COMPUTE_COLUMNS, STRUCTURE_COLUMNS
from pipelines.registering.model_spec import filled_spec
from pipelines.splits import Fold
from serving.forest.compiled import compiled, tree_spread
from serving.inference.bundle import Bundle, Floats
from serving.inference.demand import (
    FAMILIES_TABLE,
    SIGNAL_COLUMNS,
    SIGNALS_TABLE,
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


def learnt_signals(signals: Sequence[Signal], runs: pd.DataFrame) -> list[Signal]:
    """Return signals on the scale of the runs that are learnt: divided by their spread there.

    Parameters
    ----------
    signals : sequence of Signal
        On whatever scale.
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        In which each was measured; those that are held out must not be among them.

    Examples
    --------
    >>> one = Signal("sm_active_mean", 9.0, is_log=False)
    >>> learnt_signals([one], pd.DataFrame({"sm_active_mean": [0.25, 0.75]}))[0].scale
    0.25
    """
    return [_signal(one.name, runs[one.name].to_numpy(np.float64)) for one in signals]


def uncalibrated_demand_bundle(
    runs: pd.DataFrame,
    signals: Sequence[Signal],
    options: DemandOptions,
    seed: int,
    amounts: Sequence[str] = COMPUTE_COLUMNS,
) -> Bundle:
    """Return the fitted forest with its table of signals; intervals are empty.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        In which each of `signals` was measured.
    signals : sequence of Signal
    options : DemandOptions
    seed : int
    amounts : sequence of str
        Of ``STRUCTURE_COLUMNS``, what families that were not learnt are told by. Others than
        these are for comparing: the service shows the default ones.
    """
    # Each run teaches twice: all that is known of it, and what means the same for any family.
    taught = pd.concat([runs, runs], ignore_index=True)
    strange = pd.Series(np.repeat([False, True], len(runs)))
    features = demand_features(taught, STRUCTURE_COLUMNS, strange, amounts)
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
    named = [(one.name, one.scale, one.is_log, False) for one in signals]
    tables = {
        SIGNALS_TABLE: pd.DataFrame(named, columns=SIGNAL_COLUMNS),
        FAMILIES_TABLE: families,
    }
    spread = tree_spread(forest, predict)
    return Bundle(spec, f"{NAME}/unregistered", predict, forest, tables, spread)


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
        the scale of `signals`), ``fold`` and ``observed`` (as measured).
    """
    parts: dict[str, list[pd.DataFrame]] = {signal.name: [] for signal in signals}
    for fold in folds:
        learnt, asked = runs.iloc[fold.train], runs.iloc[fold.test]
        own = learnt_signals(signals, learnt)
        bundle = uncalibrated_demand_bundle(learnt, own, options, seed)
        units = [one.scale / each.scale for one, each in zip(own, signals, strict=True)]
        told = zip(
            demand_estimates_of_rows(bundle, asked).items(),
            (demand_spreads(bundle, asked) * units).T,
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
