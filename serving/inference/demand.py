"""From a trained bundle and a model's structure to its profile, before it ever ran; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from data.domain import RATIO_SIGNALS, ModelStructure, Source
from features.structure import structure_features, structures_frame
from serving.inference.bundle import Bundle, Floats, interval_frame

SIGNALS_TABLE = "signals"
_RATIOS = {f"{name}_{moment}" for name in RATIO_SIGNALS for moment in ("mean", "std")}


@dataclass(frozen=True, slots=True)
class Signal:
    """One output of the forest: the signal, or its ``log1p``, divided by `scale`."""

    name: str
    scale: float
    is_log: bool


def signals_of(bundle: Bundle) -> list[Signal]:
    """Return what each output of a demand bundle is, in order."""
    table = bundle.tables[SIGNALS_TABLE]
    parts = zip(table["signal"], table["scale"], table["is_log"], strict=True)
    return [Signal(str(name), float(scale), bool(is_log)) for name, scale, is_log in parts]


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
        Of ``colocast-demand``, with the table ``signals`` (the fields of `Signal`, its name as
        ``signal``). A calibration group is a signal.
    structures : DataFrame of shape (n, >= 13), any index
        As ``features.structure.structures_frame`` gives, or ``data.schemas.MEMORY_RUNS``.

    Returns
    -------
    dict of signal to DataFrame of shape (n, 5), indexed as `structures`
        ``value``, ``lower``, ``upper`` in the signal's unit (ratios in [0, 1]), ``in_domain``
        (bool) and ``source`` (``model``). Signals that were never measured are left out.
    """
    signals = signals_of(bundle)
    rows = structure_features(structures)[list(bundle.spec.features)]
    shape = (len(rows), len(signals))
    raw = bundle.predict(rows.to_numpy(np.float64)) if len(rows) else np.empty(shape)
    outputs = raw.reshape(shape)
    return {
        signal.name: _signal_estimates(bundle, rows, outputs[:, at], signal)
        for at, signal in enumerate(signals)
    }


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
    bundle: Bundle, rows: pd.DataFrame, raw: Floats, signal: Signal
) -> pd.DataFrame:
    # On the learnt scale nothing is clipped yet: a floor there is not the signal's floor.
    spec = replace(bundle.spec, floor=-np.inf)
    groups = pd.Series(signal.name, index=rows.index, dtype="str")
    estimates = interval_frame(spec, raw, rows, groups)
    bounds = estimates[["value", "lower", "upper"]].mul(signal.scale)
    high = 1.0 if signal.name in _RATIOS else np.inf
    bounds = (bounds.apply(np.expm1) if signal.is_log else bounds).clip(bundle.spec.floor, high)
    return bounds.assign(in_domain=estimates["in_domain"], source=str(Source.MODEL))
