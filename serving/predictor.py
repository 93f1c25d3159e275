"""The inference core: champions and history in, estimates out; what is evaluated is what serves.

Pure: knows no server, no registry and no clock. One instance holds one version of each model and
never changes, so a request that holds one is answered by exactly those versions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from data.domain import (
    REGISTERED_MODELS,
    Card,
    Estimate,
    JobRequest,
    ModelStructure,
    Pair,
    Placement,
)
from data.errors import NoChampionError, UnknownProfileError
from serving.inference.bundle import Bundle
from serving.inference.combination import NEUTRAL
from serving.inference.demand import demand_estimates
from serving.inference.estimates import estimates_from
from serving.inference.explain import Explanation, profile_of, slowdown_contributions
from serving.inference.interference_rows import forest_question
from serving.inference.memory import memory_estimates
from serving.inference.memory_need import measured_peak, memory_need
from serving.inference.placing import (
    CardKind,
    PairKey,
    Sharing,
    kind_of,
    pairs_on,
    ranked_placements,
    sharing,
)
from serving.inference.runtime import runtime_estimates
from serving.inference.slowdowns import PAIR_COLUMNS, PROFILES, Live, Slowdowns

INTERFERENCE, RUNTIME_CLUSTER, RUNTIME_USER, MEMORY, DEMAND = REGISTERED_MODELS

PEAK = "gpu_mem_peak_mib"

RuntimeFeatures = Callable[[Sequence[JobRequest], Sequence[JobRequest]], pd.DataFrame]
"""From requests to ``features.history.USER_FEATURES``, read from the history as it is now."""


class Predictor:
    """Answers from one version of each registered model; any of them may be absent.

    Parameters
    ----------
    bundles : mapping of str to Bundle
        By registered name.
    runtime_features : callable
    live : Live, optional
        What finished jobs have taught since the interference model was trained.
    previous : Predictor, optional
        What served before: its memory of pairs stays where model and profiles do.
    """

    def __init__(
        self,
        bundles: Mapping[str, Bundle],
        runtime_features: RuntimeFeatures,
        live: Live | None = None,
        previous: "Predictor | None" = None,
    ) -> None:
        self._bundles, self._runtime_features = bundles, runtime_features
        self._slowdowns = _slowdowns(bundles.get(INTERFERENCE), live, previous)
        self._peaks_mib = _peaks_mib(self._slowdowns)

    @property
    def versions(self) -> dict[str, str]:
        """``<registered name>/<version>`` of each model that is there."""
        return {name: bundle.version for name, bundle in self._bundles.items()}

    def warm(self) -> None:
        """Compute ahead what will be asked most, so that the first requests are quick too."""
        if self._slowdowns is not None:
            self._slowdowns.warm()

    def slowdowns(self, pairs: Sequence[Pair]) -> tuple[Estimate, ...]:
        """Predict how much each job slows down beside its neighbour.

        Raises
        ------
        NoChampionError
            Without an interference model.
        UnknownProfileError
            If a job was never profiled exclusively on that GPU model.
        """
        model = self._needed_slowdowns()
        keys = [(pair.job_key, pair.neighbour_key, pair.gpu_model) for pair in pairs]
        unprofiled = model.unprofiled(keys)
        if unprofiled:
            raise UnknownProfileError(sorted(unprofiled))
        return tuple(model.estimates(keys))

    def runtimes(
        self, jobs: Sequence[JobRequest], running: Sequence[JobRequest] = ()
    ) -> tuple[Estimate, ...]:
        """Predict the whole runtime of each job (s), given how long it has been running.

        `running` are jobs that run now, asked about or not: how long they have lasted says how
        long alike ones take at least.

        Without a runtime model the answer is a cold start: limit and history, and a wide interval.
        """
        cluster, user = self._bundles.get(RUNTIME_CLUSTER), self._bundles.get(RUNTIME_USER)
        user = user if cluster else None
        elapsed_s = np.array([job.elapsed_s for job in jobs], dtype=np.float64)
        frame = runtime_estimates(cluster, user, self._runtime_features(jobs, running), elapsed_s)
        answering = user or cluster
        version = answering.version if answering else "none"
        return tuple(estimates_from(frame, version))

    def memories(self, structures: Sequence[ModelStructure]) -> tuple[Estimate, ...]:
        """Predict the GPU memory peak of each model (MiB).

        Raises
        ------
        NoChampionError
            Without a memory model.
        """
        bundle = self._needed(MEMORY)
        frame = memory_estimates(bundle, structures)
        return tuple(estimates_from(frame, bundle.version))

    def demands(self, structures: Sequence[ModelStructure]) -> tuple[Mapping[str, Estimate], ...]:
        """Predict the exclusive profile of each model: signal column to estimate.

        Raises
        ------
        NoChampionError
            Without a demand model.
        """
        bundle = self._needed(DEMAND)
        frames = demand_estimates(bundle, structures)
        columns = {
            signal: estimates_from(frame, bundle.version) for signal, frame in frames.items()
        }
        return tuple(
            {signal: estimates[row] for signal, estimates in columns.items()}
            for row in range(len(structures))
        )

    def placements(self, job: JobRequest, cards: Sequence[Card]) -> tuple[Placement, ...]:
        """Predict what happens if `job` joins each of `cards`, cheapest first.

        Never an error for want of a model or a profile. A job without profile is predicted
        through the profile that the demand model expects of its structure, or else gets what was
        measured of the neighbour beside anyone, or of all pairs; without any interference model
        every pair is ``NEUTRAL``. All of these say ``cold_start``.
        """
        kinds = [kind_of(card) for card in cards]
        sharings = self._sharings(job, set(kinds))
        return ranked_placements(
            cards,
            [sharings[kind] for kind in kinds],
            lambda gpu_model: memory_need(job, gpu_model, self._peaks_mib, self._memory_of),
        )

    def explain(self, pair: Pair) -> Explanation:
        """Take the slowdown estimate of one pair apart.

        Raises
        ------
        NoChampionError, UnknownProfileError
            As `slowdowns`.
        """
        (estimate,) = self.slowdowns([pair])
        bundle = self._needed_slowdowns().bundle
        profiles = bundle.tables[PROFILES]
        asked = pd.DataFrame([(pair.job_key, pair.neighbour_key, pair.gpu_model)])
        question = forest_question(bundle, asked.set_axis(PAIR_COLUMNS, axis="columns"))
        base, contributions = slowdown_contributions(bundle, question)
        return Explanation(
            pair=pair,
            estimate=estimate,
            scale=bundle.spec.scale,
            base=base,
            contributions=contributions,
            job_profile=profile_of(profiles, pair.job_key, pair.gpu_model),
            neighbour_profile=profile_of(profiles, pair.neighbour_key, pair.gpu_model),
        )

    def _sharings(self, job: JobRequest, kinds: Iterable[CardKind]) -> Mapping[CardKind, Sharing]:
        """Return what happens on each kind of card, from memory where that is known."""
        model, key = self._slowdowns, job.job_key
        if model is None:
            neutral = dict.fromkeys(pairs_on(key, kinds), NEUTRAL)
            return {kind: sharing(key, kind, neutral) for kind in kinds}
        result = {kind: model.sharings.get((key, kind)) for kind in kinds}
        missing = [kind for kind, shared in result.items() if shared is None]
        pairs = pairs_on(key, missing)
        slowdowns = dict(zip(pairs, model.estimates(pairs), strict=True))
        demanding = self._demanding(model, job, missing)
        for gpu_model in demanding:
            slowdowns |= self._through_demand(model, job, gpu_model, pairs)
        for kind in missing:
            result[kind] = shared = sharing(key, kind, slowdowns)
            if kind[0] not in demanding:  # that depends on this job's structure too
                model.sharings.put((key, kind), shared)
        return {kind: shared for kind, shared in result.items() if shared is not None}

    def _demanding(
        self, model: Slowdowns, job: JobRequest, kinds: Iterable[CardKind]
    ) -> frozenset[str]:
        """Return the GPU models on which the job's profile has to be predicted, and can be."""
        if job.structure is None or DEMAND not in self._bundles:
            return frozenset()
        models = {gpu_model for gpu_model, _ in kinds}
        return frozenset(each for each in models if not model.is_profiled(job.job_key, each))

    def _through_demand(
        self, model: Slowdowns, job: JobRequest, gpu_model: str, pairs: Sequence[PairKey]
    ) -> Mapping[PairKey, Estimate]:
        """Return the pairs of an unprofiled job with profiled ones, by its predicted profile."""
        assert job.structure is not None
        mine = [
            pair
            for pair in pairs
            if pair[2] == gpu_model
            and job.job_key in pair[:2]
            and all(key == job.job_key or model.is_profiled(key, gpu_model) for key in pair[:2])
        ]
        if not mine:
            return {}
        (demand,) = self.demands([replace(job.structure, gpu_model=gpu_model)])
        profile: dict[str, float | str] = {name: each.value for name, each in demand.items()}
        profile |= {"job_key": job.job_key, "gpu_model": gpu_model, "family": job.structure.family}
        return dict(zip(mine, model.estimates_of_new_job(profile, mine), strict=True))

    def _memory_of(self, structure: ModelStructure) -> Estimate | None:
        return self.memories([structure])[0] if MEMORY in self._bundles else None

    def _needed(self, name: str) -> Bundle:
        bundle = self._bundles.get(name)
        if bundle is None:
            raise NoChampionError(f"{name} has no champion here; train one (colocast train)")
        return bundle

    def _needed_slowdowns(self) -> Slowdowns:
        self._needed(INTERFERENCE)
        assert self._slowdowns is not None
        return self._slowdowns


def _slowdowns(
    trained: Bundle | None, live: Live | None, previous: Predictor | None
) -> Slowdowns | None:
    if trained is None:
        return None
    kept = previous._slowdowns if previous else None
    if kept is not None and kept.trained is trained and kept.has(live):
        return kept
    return Slowdowns(trained, live)


def _peaks_mib(slowdowns: Slowdowns | None) -> Mapping[tuple[str, str], Estimate]:
    if slowdowns is None or PEAK not in slowdowns.bundle.tables[PROFILES]:
        return {}
    measured = slowdowns.bundle.tables[PROFILES].dropna(subset=[PEAK])
    columns = (measured[name] for name in ("job_key", "gpu_model", PEAK))
    return {
        (job_key, gpu_model): measured_peak(float(peak_mib), slowdowns.bundle.version)
        for job_key, gpu_model, peak_mib in zip(*columns, strict=True)
    }
