"""From a trained bundle and a model's structure to its profile, before it ever ran; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from data.domain import RATIO_SIGNALS, ModelStructure, Source
from features.memory_terms import EXACT, kin
from features.structure import COMPUTE_COLUMNS, structure_features, structures_frame
from serving.inference.bundle import Bundle, Floats, interval_frame

SIGNALS_TABLE = "signals"
SIGNAL_COLUMNS = ["signal", "scale", "is_log", "by_trees"]
FAMILIES_TABLE = "families"
STRANGER = "stranger "  # before a signal's name: its calibration group for unknown families
_RATIOS = {f"{name}_{moment}" for name in RATIO_SIGNALS for moment in ("mean", "std")}


@dataclass(frozen=True, slots=True)
class Signal:
    """One output of the forest: the signal, or its ``log1p``, divided by `scale`.

    Attributes
    ----------
    name : str
    scale : float
    is_log : bool
    by_trees : bool
        Whether what another family may be off by counts in what the trees differ by, too.
    """

    name: str
    scale: float
    is_log: bool
    by_trees: bool = False


def signals_of(bundle: Bundle) -> list[Signal]:
    """Return what each output of a demand bundle is, in order."""
    table = bundle.tables[SIGNALS_TABLE]
    if "by_trees" not in table:  # of an older version
        table = table.assign(by_trees=False)
    return [
        Signal(str(name), float(scale), bool(is_log), bool(by_trees))
        for name, scale, is_log, by_trees in table[SIGNAL_COLUMNS].itertuples(index=False)
    ]


def demand_estimates(
    bundle: Bundle, structures: Iterable[ModelStructure]
) -> dict[str, pd.DataFrame]:
    """Predict the profile of each model; see `demand_estimates_of_rows`.

    Returns
    -------
    dict of signal to DataFrame of shape (n, 5), index 0 to n - 1
    """
    return demand_estimates_of_rows(bundle, structures_frame(structures))


def demand_estimates_of_rows(bundle: Bundle, structures: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Predict each signal of the profile that each model would have.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-demand``, with the tables ``signals`` (the fields of `Signal`, its name as
        ``signal``) and ``families`` (``family``, those that were learnt). A calibration group is
        a signal, a signal of a known family, or a signal of any other.
    structures : DataFrame of shape (n, >= 13), any index
        As ``features.structure.structures_frame`` gives, or ``data.schemas.MEMORY_RUNS``.

    Returns
    -------
    dict of signal to DataFrame of shape (n, 5), indexed as `structures`
        ``value``, ``lower``, ``upper`` in the signal's unit (ratios in [0, 1]), ``in_domain``
        (bool) and ``source`` (``model``). Signals that were never measured are left out. A
        family that was not learnt is outside.
    """
    signals = signals_of(bundle)
    asked = _Asked.of(bundle, structures)
    shape = (len(asked.rows), len(signals))
    raw = bundle.predict(asked.rows.to_numpy(np.float64)) if len(asked.rows) else np.empty(shape)
    outputs, spreads = raw.reshape(shape), _spreads(bundle, asked.rows, len(signals))
    return {
        signal.name: _signal_estimates(bundle, asked, (outputs[:, at], spreads[:, at]), signal)
        for at, signal in enumerate(signals)
    }


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the forest sees of each of n models, their families, and which it did not learn."""

    rows: pd.DataFrame
    families: pd.Series
    strange: pd.Series

    @classmethod
    def of(cls, bundle: Bundle, structures: pd.DataFrame) -> "_Asked":
        strange = strangers(bundle, structures)
        rows = demand_features(structures, bundle.spec.features, strange)
        return cls(rows, family_names(structures), strange)


def demand_spreads(bundle: Bundle, structures: pd.DataFrame) -> Floats:
    """Return how much the trees differ about each model, in units of learnt signals.

    Parameters
    ----------
    bundle : Bundle
        One that tells it.
    structures : DataFrame of shape (n, >= 13)

    Returns
    -------
    array of shape (n, n_signals), float64, > 0
        At least the calibration's ``least_spread``; ones where that is not given.
    """
    rows = _Asked.of(bundle, structures).rows
    return _spreads(bundle, rows, len(signals_of(bundle)))


def _spreads(bundle: Bundle, rows: pd.DataFrame, signals: int) -> Floats:
    least = bundle.spec.calibration.least_spread
    if bundle.spread is None or least is None or rows.empty:
        return np.ones((len(rows), signals))
    return np.asarray(bundle.spread(rows.to_numpy(np.float64)) + least, dtype=np.float64)


def demand_features(
    structures: pd.DataFrame,
    columns: Sequence[str],
    strange: pd.Series,
    amounts: Sequence[str] = COMPUTE_COLUMNS,
) -> pd.DataFrame:
    """Return what the forest sees of each model.

    Parameters
    ----------
    structures : DataFrame of shape (n, >= 13), any index
    columns : sequence of str
        Of ``features.structure.STRUCTURE_COLUMNS``.
    strange : Series of bool, indexed as `structures`
        Whether to show only what means the same for every family: the amounts of computation.
        Elsewhere sizes tell families apart, and of one that was not learnt they say nothing.
    amounts : sequence of str
        Of `columns`, what is shown of a strange family; the forest must have learnt by the same.

    Returns
    -------
    DataFrame of shape (n, n_columns), indexed as `structures`
    """
    rows = structure_features(structures)[list(columns)]
    shown = pd.Series([name in amounts for name in columns], index=rows.columns)
    return rows.where(~strange.to_numpy()[:, None] | shown.to_numpy()[None, :])


def strangers(bundle: Bundle, structures: pd.DataFrame) -> pd.Series:
    """Return whether each model is of a family that `bundle` did not learn."""
    table = bundle.tables.get(FAMILIES_TABLE)
    names = family_names(structures)
    if table is None:
        return pd.Series(data=False, index=structures.index)
    return ~names.isin(table["family"].astype("str"))


def family_names(structures: pd.DataFrame) -> pd.Series:
    """Return families as they are compared: small letters and digits alone.

    Examples
    --------
    >>> family_names(pd.DataFrame({"family": ["Wide & Deep"]})).tolist()
    ['widedeep']
    """
    return kin(structures.assign(framework=""))[EXACT].str.strip()


def scaled_signals(measured: pd.DataFrame, signals: Sequence[Signal]) -> Floats:
    """Return measured signals as the forest learns them; `demand_estimates_of_rows` undoes it.

    Parameters
    ----------
    measured : DataFrame of shape (n, >= n_signals)
    signals : sequence of Signal

    Returns
    -------
    array of shape (n, n_signals), float64

    Examples
    --------
    >>> measured = pd.DataFrame({"gpu_util_mean": [0.5], "gpu_mem_peak_mib": [np.e**2 - 1]})
    >>> scaled_signals(measured, [
    ...     Signal("gpu_util_mean", 0.25, False), Signal("gpu_mem_peak_mib", 2.0, True)])
    array([[2., 1.]])
    """
    values = [measured[signal.name].to_numpy(np.float64) for signal in signals]
    logs = [
        np.log1p(value) if signal.is_log else value
        for value, signal in zip(values, signals, strict=True)
    ]
    scales = np.array([signal.scale for signal in signals])
    scaled: Floats = np.column_stack(logs) / scales
    return scaled


def _signal_estimates(
    bundle: Bundle, asked: _Asked, told: tuple[Floats, Floats], signal: Signal
) -> pd.DataFrame:
    # On the learnt scale nothing is clipped yet: a floor there is not the signal's floor.
    spec = replace(bundle.spec, floor=-np.inf)
    groups = signal_groups(signal.name, asked.families, asked.strange)
    known = groups.isin(list(spec.calibration.groups))
    # What a new family may be off by need not follow from how alike the trees are about it.
    plain = known & asked.strange & (not signal.by_trees)
    units = np.where(plain, 1.0, told[1])
    estimates = interval_frame(spec, told[0], asked.rows, groups.where(known, signal.name), units)
    bounds = estimates[["value", "lower", "upper"]].mul(signal.scale)
    high = 1.0 if signal.name in _RATIOS else np.inf
    bounds = (bounds.apply(np.expm1) if signal.is_log else bounds).clip(bundle.spec.floor, high)
    in_domain = estimates["in_domain"] & ~asked.strange
    return bounds.assign(in_domain=in_domain, source=str(Source.MODEL))


def signal_groups(name: str, families: pd.Series, strange: pd.Series) -> pd.Series:
    """Return the calibration group of each estimate of a signal.

    Parameters
    ----------
    name : str
    families : Series of str
        As `family_names` gives them.
    strange : Series of bool, indexed as `families`
        Whether the family was not learnt.

    Examples
    --------
    >>> families, strange = pd.Series(["mlp", "cnn"]), pd.Series([False, True])
    >>> signal_groups("sm_active_mean", families, strange).tolist()
    ['sm_active_mean mlp', 'stranger sm_active_mean']
    """
    return (name + " " + families.astype("str")).mask(strange, STRANGER + name)
