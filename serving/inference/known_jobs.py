"""The profiled jobs of one interference model, laid out so that any pair of them is quick.

`serving.inference.interference` starts from tables with every question. A service asks one
version about the same jobs over and over: what depends on the job alone is worked out here once.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.domain import PROFILE_COLUMNS, Estimate, Source
from features.effect_jobs import effect_jobs
from features.effect_kernel import EffectRows
from features.effect_sides import JobEffects, job_effects
from features.effect_tables import effects_from
from features.pairs import PAIR_COLUMNS, pair_values
from serving.inference.bundle import Bundle, Floats, interval_arrays
from serving.inference.estimates import estimates_of
from serving.inference.interference import NEW_GPU_MODEL, Novelty, calibration_groups
from serving.inference.interference_rows import (
    EFFECT_COLUMN,
    KNOWN_COLUMN,
    REDUCED_COLUMNS,
    forest_weight,
    has_effects,
    mixed,
)
from serving.inference.own_effects import OwnEffects

PairKey = tuple[str, str, str]
"""Job key (the one slowed down), neighbour key, GPU model."""

AT_ONCE = 4096
"""Pairs at once: more take memory, and keep requests waiting for the interpreter."""


class KnownJobs:
    """Answers pairs of profiled jobs as `serving.inference.interference` does, to 1e-9.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-interference``.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        profiles = bundle.tables["profiles"]
        keys = zip(profiles["job_key"], profiles["gpu_model"], strict=True)
        self._position = {key: at for at, key in enumerate(keys)}
        self._gpu_model, self._family = (
            profiles[name].to_numpy(dtype=str) for name in ("gpu_model", "family")
        )
        signals = profiles.reindex(columns=list(PROFILE_COLUMNS))
        self._signals = signals.to_numpy(np.float64)
        self._effects, self._is_old = _effects(bundle)
        columns = (*PAIR_COLUMNS, *REDUCED_COLUMNS, KNOWN_COLUMN, EFFECT_COLUMN)
        self._columns = np.array([columns.index(name) for name in bundle.spec.features])
        self._novelty = Novelty.of(bundle)
        self._own = OwnEffects.of(bundle)
        self._quantiles: dict[tuple[str, str, str], tuple[float, float]] = {}

    def has(self, job_key: str, gpu_model: str) -> bool:
        """Return whether the job key was profiled on that GPU model."""
        return (job_key, gpu_model) in self._position

    def estimates(self, pairs: Sequence[PairKey]) -> list[Estimate]:
        """Return the slowdown of each pair, all of them of profiled jobs."""
        parts = [pairs[at : at + AT_ONCE] for at in range(0, len(pairs), AT_ONCE)]
        return [estimate for part in parts for estimate in self._estimates(part)]

    def _estimates(self, pairs: Sequence[PairKey]) -> list[Estimate]:
        position = self._position
        sides = [(position[job, model], position[other, model]) for job, other, model in pairs]
        at = np.array(sides, dtype=np.intp).reshape(-1, 2)
        values, base, weight = self._question(at)
        bundle = self._bundle
        raw = base + weight * bundle.predict(values)
        kinds = self._novelty.kinds(at)
        quantiles = self._bounds(kinds, at[:, 0])
        bounds, in_domain = interval_arrays(bundle.spec, raw, values, quantiles)
        in_domain &= kinds != NEW_GPU_MODEL
        return estimates_of(bounds, in_domain, [str(Source.MODEL)] * len(at), bundle.version)

    def _question(self, at: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
        """Return what the forest is asked, and what its answers are part of."""
        job, neighbour = at.T
        parts = [pair_values(self._signals[job], self._signals[neighbour])]
        base, weight = np.zeros(len(at)), np.ones(len(at))
        if self._effects is not None:
            effect = self._effects.estimates(EffectRows(self._effects.jobs, job, neighbour))
            known = self._is_old[job] & self._is_old[neighbour]
            base, weight = mixed(effect, known, forest_weight(self._bundle))
            base, weight = self._own.corrected(base, weight, at)
            reduced = self._effects.jobs.reduced
            told = np.where(known, effect, np.nan)
            parts.append(np.column_stack([reduced[job], reduced[neighbour], known, told]))
        return np.hstack(parts)[:, self._columns], base, weight

    def _bounds(self, kinds: NDArray[np.str_], job: NDArray[np.intp]) -> Floats:
        """Return the residual quantiles of each pair, shape (n, 2)."""
        of_job = self._gpu_model[job].tolist(), self._family[job].tolist()
        groups = list(zip(kinds.tolist(), *of_job, strict=True))
        for group in set(groups) - self._quantiles.keys():
            self._quantiles[group] = _quantiles_of(self._bundle, *group)
        return np.array([self._quantiles[group] for group in groups]).reshape(-1, 2)


def _effects(bundle: Bundle) -> tuple[JobEffects | None, NDArray[np.bool_]]:
    profiles = bundle.tables["profiles"]
    if not has_effects(bundle) or profiles.empty:
        return None, np.zeros(len(profiles), dtype=np.bool_)
    learnt, missing = effects_from(bundle.tables)
    found = job_effects(learnt, effect_jobs(profiles, missing))
    return found, np.isin(found.jobs.family, learnt.rows.jobs.family)


def _quantiles_of(bundle: Bundle, kind: str, gpu_model: str, family: str) -> tuple[float, float]:
    calibration, kinds = bundle.spec.calibration, np.array([kind])
    of_job = pd.Series([gpu_model]), pd.Series([family])
    group = calibration_groups(calibration, kinds, *of_job).iloc[0]
    return calibration.groups.get(group, calibration.default)
