"""Calibrate the interference forest by how new a pair is."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from pipelines.conformal import (
    WIDEST_OUTSIDE,
    calibration,
    outside_factor,
    residual_quantiles,
    tail_quantiles,
    with_small_groups,
)
from pipelines.conformal_groups import known_groups
from pipelines.interference.few_pairs import answers_after
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.splits import INTERFERENCE_SPLITS, Fold
from serving.inference.bundle import Bundle, Calibration, Floats, Scale
from serving.inference.interference import (
    FEW_MEASURED,
    MEASURED,
    NEW_CONFIGURATION,
    NEW_FAMILY,
    NEW_FAMILY_PAIR,
    NEW_GPU_MODEL,
    NEW_PAIR,
    OF_FAMILY,
    WELL_MEASURED,
)
from serving.inference.interference_rows import has_effects

KINDS = (NEW_PAIR, NEW_FAMILY_PAIR, NEW_CONFIGURATION, NEW_FAMILY)
AFTER = {FEW_MEASURED: 1, MEASURED: WELL_MEASURED}  # pairs of each new job, measured at random
NEW_FAMILY_TAILS = 0.02, 0.08  # in Lucid a family that nobody measured suffers less than told
MIN_LABELS = 10
MIN_RESIDUALS = 10
DRAWS = 3  # of the measured pairs: one alone holds 0.02 less of the worst families of Lucid
CALIBRATION_TREES = 60  # a smaller forest errs hardly more, and intervals need many of them


def calibrated_bundle(
    data: InterferenceData, options: ForestOptions, seed: int, kinds: Sequence[str] = KINDS
) -> tuple[Bundle, Mapping[str, pd.DataFrame]]:
    """Return the fitted forest with intervals, and the held-out answers they rest on.

    Parameters
    ----------
    data : InterferenceData
    options : ForestOptions
    seed : int
    kinds : sequence of str
        Kinds of novelty to calibrate for, from the easiest to the hardest; any other gets the
        intervals of the hardest. With new jobs among them, those of jobs measured since are
        calibrated too, on the hardest. A GPU model that nothing was learnt on is calibrated by
        holding out each of several; where there is one, it gets the widest intervals.

    Returns
    -------
    bundle : Bundle
    held_out : mapping of kind to DataFrame
        As `held_out_estimates` gives without measured pairs; kinds that these labels do not
        allow are left out.

    Raises
    ------
    SettingError
        With fewer than ten labels, or where no kind leaves enough rows to calibrate on.
    """
    if len(data.labels) < MIN_LABELS:
        raise SettingError(f"found {len(data.labels)} slowdown labels, wanted {MIN_LABELS} or more")
    bundle = uncalibrated_bundle(data, options, seed)
    quick = replace(options, trees=min(options.trees, CALIBRATION_TREES))
    held_out: dict[str, pd.DataFrame] = {}
    after: dict[str, pd.DataFrame] = {}
    for kind in kinds:
        folds = possible_folds(kind, data.labels, options.folds, seed)
        is_of_new_jobs = kind in {NEW_CONFIGURATION, NEW_FAMILY}
        measured = AFTER.values() if is_of_new_jobs and has_effects(bundle) else ()
        bundles = bundles_without(data, folds, quick, seed, bundle)
        found = held_out_estimates(bundles, data.labels, (0, *measured), seed)
        if len(found[0]) >= MIN_RESIDUALS:
            held_out[kind] = found[0]
            after |= {name: found[pairs] for name, pairs in AFTER.items() if pairs in found}
    if not held_out:
        raise SettingError("found no pairs to hold out, wanted at least two kinds of pairs")
    # The hardest kind that could be held out stands for all that are as new or newer.
    residual = {**after, **held_out}
    known = _calibration(residual, data, options.scale)
    elsewhere = _elsewhere(bundle, data, quick, seed) or _widest(known.default)
    known = replace(known, groups={**known.groups, NEW_GPU_MODEL: elsewhere})
    spec = replace(bundle.spec, calibration=known)
    return replace(bundle, spec=spec), held_out


def _elsewhere(
    bundle: Bundle, data: InterferenceData, options: ForestOptions, seed: int
) -> tuple[float, float] | None:
    """Return the residual quantiles of GPU models that were held out; None where there is one."""
    folds = possible_folds(NEW_GPU_MODEL, data.labels, options.folds, seed)
    bundles = bundles_without(data, folds, options, seed, bundle)
    found = held_out_estimates(bundles, data.labels, (0,), seed)[0]
    if len(found) < MIN_RESIDUALS:
        return None
    return residual_quantiles(residuals(found, options.scale))


def _widest(quantiles: tuple[float, float]) -> tuple[float, float]:
    return WIDEST_OUTSIDE * quantiles[0], WIDEST_OUTSIDE * quantiles[1]


def possible_folds(kind: str, labels: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Return the folds of one kind of novelty; none where the labels have one group only."""
    try:
        made = INTERFERENCE_SPLITS[kind](labels, folds, seed)
    except SettingError:
        return []
    return [fold for fold in made if len(fold.train) >= 2 and len(fold.test)]


def bundles_without(
    data: InterferenceData,
    folds: Sequence[Fold],
    options: ForestOptions,
    seed: int,
    like: Bundle | None = None,
) -> Iterator[tuple[Fold, Bundle]]:
    """Yield each fold with a bundle fitted on the rows that it does not hold out.

    Parameters
    ----------
    data : InterferenceData
    folds : sequence of Fold
    options : ForestOptions
    seed : int
    like : Bundle, optional
        As in `uncalibrated_bundle`. One learnt from all of `data` spares learning the same in
        every fold, for some twenty numbers that have seen the held-out rows: for calibration,
        not for a reported evaluation.
    """
    for fold in folds:
        yield fold, uncalibrated_bundle(data.of_rows(fold.train), options, seed, like)


def held_out_estimates(
    bundles: Iterable[tuple[Fold, Bundle]], labels: pd.DataFrame, measured: Sequence[int], seed: int
) -> dict[int, pd.DataFrame]:
    """Return what models that never saw them answer for the held-out rows.

    Parameters
    ----------
    bundles : iterable of (Fold, Bundle)
        As `bundles_without` yields.
    labels : DataFrame, ``data.schemas.LABELS``
    measured : sequence of int
        After how many measured pairs of each held-out job to ask; 0 is before the first.
    seed : int

    Returns
    -------
    dict of int to DataFrame, indexed by position in `labels`
        For each of `measured`: ``value`` (slowdown), ``in_domain``, ``fold`` (what was held out)
        and ``slowdown`` (as measured). Rows that no fold tests are not in it; once pairs are
        measured, which are drawn three times, one may be in it as often.
    """
    columns = ["value", "in_domain", "fold", "slowdown"]
    parts: dict[int, list[pd.DataFrame]] = {pairs: [] for pairs in measured}
    for fold, bundle in bundles:
        for pairs, found in parts.items():
            for draw in range(DRAWS if pairs else 1):
                answers = answers_after(bundle, labels, fold, pairs, seed + draw)
                found.append(answers.assign(fold=fold.name)[columns])
    return {
        pairs: pd.concat(found).sort_index() if found else pd.DataFrame(columns=columns)
        for pairs, found in parts.items()
    }


def residuals(estimates: pd.DataFrame, scale: Scale) -> Floats:
    """Return observed minus predicted slowdowns, on the scale that is learnt."""
    observed, value = estimates["slowdown"], estimates["value"]
    if scale == "log":
        observed, value = np.log(observed), np.log(value)
    return (observed - value).to_numpy(np.float64)


def _calibration(
    held_out: Mapping[str, pd.DataFrame], data: InterferenceData, scale: Scale
) -> Calibration:
    rows = pd.concat([frame.assign(kind=kind) for kind, frame in held_out.items()])
    found = residuals(rows, scale)
    gpu_models, families = (
        data.labels[name].to_numpy(dtype=str)[rows.index] for name in ("gpu_model", "family")
    )
    kinds = rows["kind"].astype("str").reset_index(drop=True)
    hardest = list(held_out)[-1]
    is_hardest = rows["kind"].to_numpy() == hardest
    default = (
        tail_quantiles(found[is_hardest], *NEW_FAMILY_TAILS)
        if hardest == NEW_FAMILY
        else residual_quantiles(found[is_hardest])
    )
    outside = outside_factor(found, rows["in_domain"].to_numpy(dtype=np.bool_))
    of_new = set(AFTER) if hardest == NEW_FAMILY else set()
    if len(np.unique(gpu_models)) == 1:
        known = calibration(found, [kinds], default, outside)
        return _by_family(known, found, [kinds], families, of_new)
    narrow = kinds + "/" + gpu_models
    known = calibration(found, [kinds, narrow], default, outside)
    known = _by_family(known, found, [kinds, narrow], families, of_new)
    return with_small_groups(known, found, kinds, narrow, MIN_RESIDUALS)


def _by_family(
    known: Calibration,
    found: Floats,
    groupings: Sequence[pd.Series],
    families: NDArray[np.str_],
    of_new: Collection[str],
) -> Calibration:
    """Return intervals that hold in each family: the learnt ones' own, and those of new ones."""
    groups = dict(known.groups)
    for grouping in groupings:
        names = grouping.to_numpy(dtype=str)
        for name in set(names) & set(known.groups):
            own, kind = names == name, name.split("/", maxsplit=1)[0]
            if kind == NEW_FAMILY:
                groups[name] = tail_quantiles(found[own], *NEW_FAMILY_TAILS)
                continue
            rest, learnt = known_groups(found[own], families[own], known.level)
            groups[name] = groups[name] if kind in of_new else rest
            groups |= {name + OF_FAMILY + family: ends for family, ends in learnt.items()}
    return replace(known, groups=groups)
