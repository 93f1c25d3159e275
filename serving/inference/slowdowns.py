"""Slowdowns of pairs by one version of the interference model, each computed once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from data.domain import Estimate, Source
from serving.inference.bundle import Bundle
from serving.inference.estimates import estimates_from
from serving.inference.interference import slowdown_estimates
from serving.inference.known_jobs import KnownJobs
from serving.inference.memo import Memo
from serving.inference.placing import CardKind, PairKey, Sharing
from serving.live.adaptation import adapted_bundle
from serving.live.colocations import Colocation, live_slowdowns
from serving.live.profiles import with_live_profiles

PAIR_COLUMNS = ["job_key", "neighbour_key", "gpu_model"]
PROFILES = "profiles"
MOST_WARMED = 50_000  # pairs: 250 job keys of one GPU model, some 20 MB


@dataclass(frozen=True, slots=True)
class Live:
    """What finished jobs have taught since training.

    Attributes
    ----------
    profiles : DataFrame, ``data.schemas.PROFILES``
        Of jobs that ran alone.
    colocations : tuple of Colocation
        Runs beside one neighbour.
    """

    profiles: pd.DataFrame
    colocations: tuple[Colocation, ...]

    def is_same(self, other: "Live") -> bool:
        """Return whether both hold the very same tables."""
        return self.profiles is other.profiles and self.colocations is other.colocations

    def taught(self, trained: Bundle) -> Bundle:
        """Return the bundle with these profiles, its effects moved by these runs."""
        profiles = with_live_profiles(trained.tables[PROFILES], self.profiles)
        bundle = replace(trained, tables={**trained.tables, PROFILES: profiles})
        return adapted_bundle(bundle, live_slowdowns(self.colocations, bundle))


class Slowdowns:
    """The slowdowns that one bundle predicts.

    Parameters
    ----------
    trained : Bundle
        ``colocast-interference``, with its table ``profiles``.
    live : Live, optional

    Attributes
    ----------
    trained, live
        As given.
    bundle : Bundle
        The trained one with all profiles, its effects moved by all colocated runs.
    sharings : Memo
        What was made of the estimates, by job key and kind of card.

    Notes
    -----
    A cluster runs few kinds of jobs many times, and asks of the same pairs in every cycle. What
    one version once answered, it answers from memory.
    """

    def __init__(self, trained: Bundle, live: Live | None = None) -> None:
        self.trained, self.live = trained, live
        self.bundle = trained if live is None else live.taught(trained)
        profiles = self.bundle.tables[PROFILES]
        self._profiled = frozenset(zip(profiles["job_key"], profiles["gpu_model"], strict=True))
        self._known = KnownJobs(self.bundle)
        self.sharings: Memo[tuple[str, CardKind], Sharing] = Memo()
        self._memo: Memo[PairKey, Estimate] = Memo()

    def has(self, live: Live | None) -> bool:
        """Return whether nothing was taught since."""
        if live is None or self.live is None:
            return live is self.live
        return live.is_same(self.live)

    def warm(self) -> None:
        """Estimate every pair of profiled job keys, where there are not too many of them."""
        by_model: dict[str, list[str]] = {}
        for key, gpu_model in sorted(self._profiled):
            by_model.setdefault(gpu_model, []).append(key)
        if sum(len(keys) ** 2 for keys in by_model.values()) > MOST_WARMED:
            return
        for gpu_model, keys in by_model.items():
            for job_key in keys:  # a piece at a time, so that requests get their turn
                self.estimates([(job_key, neighbour, gpu_model) for neighbour in keys])

    def is_profiled(self, job_key: str, gpu_model: str) -> bool:
        """Return whether the job key was measured exclusively on that GPU model."""
        return (job_key, gpu_model) in self._profiled

    def unprofiled(self, pairs: Iterable[PairKey]) -> set[str]:
        """Return the job keys in `pairs` without a profile on the pair's GPU model."""
        sides = {(key, pair[2]) for pair in pairs for key in pair[:2]}
        return {key for key, _ in sides - self._profiled}

    def estimates(self, pairs: Sequence[PairKey]) -> list[Estimate]:
        """Return the slowdown of each pair, in order; a cold start where one is not profiled."""
        get = self._memo.get
        found = [get(pair) for pair in pairs]
        missing = list(dict.fromkeys(p for p, known in zip(pairs, found, strict=True) if not known))
        if not missing:
            return [estimate for estimate in found if estimate]
        fresh = self._predicted(missing)
        for pair, estimate in fresh.items():
            self._memo.put(pair, estimate)
        return [known or fresh[pair] for pair, known in zip(pairs, found, strict=True)]

    def _predicted(self, pairs: Sequence[PairKey]) -> dict[PairKey, Estimate]:
        profiled = self._profiled
        known = [
            (job, other, model)
            for job, other, model in pairs
            if (job, model) in profiled and (other, model) in profiled
        ]
        fresh = dict(zip(known, self._known.estimates(known), strict=True))
        if len(known) < len(pairs):
            cold = [pair for pair in pairs if pair not in fresh]
            fresh |= zip(cold, _predicted(self.bundle, cold), strict=True)
        return fresh

    def estimates_of_new_job(
        self, profile: Mapping[str, float | str], pairs: Sequence[PairKey]
    ) -> list[Estimate]:
        """Return the slowdown of each pair with a job whose profile was itself predicted.

        Parameters
        ----------
        profile : mapping of str to float or str
            A row of ``data.schemas.PROFILES``, for the job key that has none.
        pairs : sequence of (job key, neighbour key, GPU model)
            All of one GPU model; every other key in them is profiled.

        Returns
        -------
        list of Estimate
            Marked as cold start and outside the domain, and at least as wide as what is measured
            of the neighbour beside anyone: how far a predicted profile is off shows only once the
            job has run alone.
        """
        tables = dict(self.bundle.tables)
        known = tables[PROFILES]
        row = pd.DataFrame([profile]).reindex(columns=known.columns).astype(known.dtypes)
        tables[PROFILES] = pd.concat([known, row], ignore_index=True)
        predicted = _predicted(replace(self.bundle, tables=tables), pairs)
        measured = self.estimates(pairs)
        return [_as_wide(*both) for both in zip(predicted, measured, strict=True)]


def _predicted(bundle: Bundle, pairs: Sequence[PairKey]) -> list[Estimate]:
    frame = pd.DataFrame(pairs, columns=PAIR_COLUMNS)
    return estimates_from(slowdown_estimates(bundle, frame), bundle.version)


def _as_wide(estimate: Estimate, measured: Estimate) -> Estimate:
    return replace(
        estimate,
        lower=min(estimate.lower, measured.lower),
        upper=max(estimate.upper, measured.upper),
        source=Source.COLD_START,
        in_domain=False,
    )
