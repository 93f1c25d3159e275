"""The champions that serve now: one snapshot, replaced whole when an alias moves."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from typing import Generic, TypeVar

from data.domain import REGISTERED_MODELS, ServedModel
from data.errors import BadModelError, RegistryError
from serving.champions.cache import CachedVersion, ModelCache
from serving.champions.rehearsal import rehearse
from serving.champions.sources import Champions, VersionFacts
from serving.inference.bundle import Bundle

LOG = logging.getLogger(__name__)
P = TypeVar("P")
_UNEXPECTED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version that serves: its bundle, where it came from, and since when (s, UTC)."""

    bundle: Bundle
    cached: CachedVersion
    loaded_time: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A version that does not serve, and why; `is_final` while the registry keeps naming it."""

    number: str
    reason: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[P]):
    """Everything that one request answers from.

    Attributes
    ----------
    predictor : object
        Made from the bundles by the store's `build`.
    loaded : mapping of str to Loaded
    refused : mapping of str to Refused
    registry_error : str
        Why the registry could not be asked last time; empty if it could.
    swaps : int
        How often a version was replaced by another since the start.
    """

    predictor: P
    loaded: Mapping[str, Loaded] = field(default_factory=dict)
    refused: Mapping[str, Refused] = field(default_factory=dict)
    registry_error: str = ""
    swaps: int = 0

    def served(self) -> tuple[ServedModel, ...]:
        """Return one entry for each registered model, loaded or not."""
        return tuple(self._served(name) for name in REGISTERED_MODELS)

    def ages_s(self, now: float) -> dict[str, float]:
        """Return how long ago each version that serves was registered (s); 0 if unknown."""
        created = {name: found.cached.created_time for name, found in self.loaded.items()}
        return {name: max(0.0, now - time_) if time_ else 0.0 for name, time_ in created.items()}

    def _served(self, name: str) -> ServedModel:
        loaded, refused = self.loaded.get(name), self.refused.get(name)
        return ServedModel(
            name=name,
            version=loaded.cached.number if loaded else None,
            digest=loaded.cached.digest if loaded else None,
            loaded_time=loaded.loaded_time if loaded else None,
            refused_version=refused.number if refused else None,
            refused_reason=refused.reason if refused else None,
        )


class ModelStore(Generic[P]):
    """Keeps the champions loaded; one thread changes it at a time, any number read `current`.

    Parameters
    ----------
    champions : Champions
    cache : ModelCache
    build : callable
        From the bundles by registered name, and the predictor that served before or None, to the
        predictor that serves next.
    clock : callable
        Seconds since 1970, UTC.

    Notes
    -----
    A request reads `current` once and keeps what it read, so that it is answered by exactly one
    version of each model, and the old version lives until its last request is done.
    """

    def __init__(
        self,
        champions: Champions,
        cache: ModelCache,
        build: Callable[[Mapping[str, Bundle], P | None], P],
        clock: Callable[[], float] = time,
    ) -> None:
        self._champions, self._cache, self._build, self._clock = champions, cache, build, clock
        self._current = Snapshot(build({}, None))
        self._changing = threading.Lock()

    @property
    def current(self) -> Snapshot[P]:
        """The snapshot that serves now."""
        return self._current

    def rebuild(self) -> None:
        """Build the predictor anew from the same versions: what else it is made of has changed."""
        with self._changing:
            before = self._current
            bundles = {name: loaded.bundle for name, loaded in before.loaded.items()}
            self._current = replace(before, predictor=self._build(bundles, before.predictor))

    def refresh_exactly(self) -> bool:
        """Ask the registry once; hold what the alias names now and nothing else.

        `refresh` keeps a version whose alias is gone, for something must serve.

        Returns
        -------
        bool
            Whether other versions are held from now on.
        """
        with self._changing:
            before = self._current
            self._refreshed()
            after = self._current
            if after.registry_error:
                return False
            gone = {name for name, each in after.refused.items() if name in after.loaded}
            if gone:
                loaded = {n: each for n, each in after.loaded.items() if n not in gone}
                bundles = {name: each.bundle for name, each in loaded.items()}
                predictor = self._build(bundles, after.predictor)
                self._current = replace(after, predictor=predictor, loaded=loaded, refused={})
            return self._current.loaded != before.loaded

    def refresh(self) -> tuple[str, ...]:
        """Ask the registry once, and load what has changed.

        Returns
        -------
        tuple of str
            Names of the models that another version answers from now on. None of them where the
            registry is out of reach, except at the start: then the last champions are loaded from
            the cache.
        """
        with self._changing:
            return self._refreshed()

    def _refreshed(self) -> tuple[str, ...]:
        before = self._current
        try:
            numbers = self._champions.numbers()
        except RegistryError as error:
            self._current = replace(before, registry_error=str(error))
            missing = [name for name in REGISTERED_MODELS if name not in before.loaded]
            return self._swap({name: self._from_cache(name) for name in missing})
        self._settle_refusals(numbers)
        wanted = [name for name, number in numbers.items() if self._is_news(name, number)]
        return self._swap({name: self._from_registry(name, numbers[name]) for name in wanted})

    def _is_news(self, name: str, number: str) -> bool:
        loaded, refused = self._current.loaded.get(name), self._current.refused.get(name)
        if refused and refused.number == number and refused.is_final:
            return False
        return loaded is None or loaded.cached.number != number

    def _from_registry(self, name: str, number: str) -> Loaded | Refused:
        """Load a version, from the cache where it is there already."""
        try:
            facts = self._champions.facts(name, number)
            return self._from_cache_if_same(name, number, facts) or self._fetched(
                name, number, facts
            )
        except RegistryError as error:
            return Refused(number, str(error), isinstance(error, BadModelError))

    def _from_cache_if_same(self, name: str, number: str, facts: VersionFacts) -> Loaded | None:
        cached = self._cache.champion(name)
        if facts.digest is not None:
            cached = CachedVersion(number, facts.source, facts.digest, facts.created_time)
        elif cached is None or (cached.number, cached.source) != (number, facts.source):
            return None
        if not self._cache.directory(name, cached.digest).is_dir():
            return None
        try:
            return self._read_or_discard(name, cached)
        except BadModelError as error:
            LOG.warning("fetching %s/%s again: %s", name, number, error)
            return None

    def _fetched(self, name: str, number: str, facts: VersionFacts) -> Loaded:
        def fetch(directory: Path) -> None:
            self._champions.fetch(name, number, directory)

        return self._read_or_discard(name, self._cache.add(name, number, facts, fetch))

    def _read_or_discard(self, name: str, cached: CachedVersion) -> Loaded:
        try:
            return self._read(name, cached)
        except BadModelError:
            self._cache.discard(name, cached.digest)
            raise

    def _from_cache(self, name: str) -> Loaded | Refused | None:
        cached = self._cache.champion(name)
        if cached is None:
            return None
        try:
            return self._read_or_discard(name, cached)
        except BadModelError as error:
            return Refused(cached.number, f"damaged in the cache: {error}", is_final=False)
        except RegistryError as error:
            return Refused(cached.number, str(error), is_final=False)

    def _read(self, name: str, cached: CachedVersion) -> Loaded:
        directory = self._cache.directory(name, cached.digest)
        try:
            bundle = self._cache.read(directory, f"{name}/{cached.number}")
            if bundle.spec.name != name:
                raise BadModelError(f"found a model called {bundle.spec.name}, wanted {name}")
            rehearse(bundle)
        except _UNEXPECTED as error:  # no file may end the thread that follows the registry
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            raise BadModelError(f"{name}/{cached.number}: cannot be read ({text:.200})") from error
        except (MemoryError, OSError) as error:  # of this machine, now; the version may be good
            raise RegistryError(
                f"{name}/{cached.number}: cannot be read now ({error!r})"
            ) from error
        return Loaded(bundle, cached, self._clock())

    def _swap(self, results: Mapping[str, Loaded | Refused | None]) -> tuple[str, ...]:
        """Let what was loaded serve, all at once; remember what was refused."""
        fresh = {name: result for name, result in results.items() if isinstance(result, Loaded)}
        refused = {name: result for name, result in results.items() if isinstance(result, Refused)}
        before = self._current
        for name, refusal in refused.items():
            if before.refused.get(name) != refusal:
                LOG.warning("refused %s/%s: %s", name, refusal.number, refusal.reason)
        left = {name: old for name, old in before.refused.items() if name not in fresh}
        after = replace(before, refused={**left, **refused})
        if fresh:
            loaded = {**before.loaded, **fresh}
            bundles = {name: version.bundle for name, version in loaded.items()}
            replaced = len(fresh.keys() & before.loaded.keys())
            predictor = self._build(bundles, before.predictor)
            after = replace(
                after, predictor=predictor, loaded=loaded, swaps=before.swaps + replaced
            )
        self._current = after
        for name, version in fresh.items():
            LOG.info("serving %s (digest %s)", version.bundle.version, version.cached.digest[:12])
            self._remember(name, version.cached)
        return tuple(fresh)

    def _remember(self, name: str, cached: CachedVersion) -> None:
        try:
            self._cache.remember(name, cached)
        except (
            RegistryError
        ) as error:  # it serves all the same; only a start without MLflow would not
            LOG.warning("not remembered for a start without MLflow: %s", error)

    def _settle_refusals(self, numbers: Mapping[str, str]) -> None:
        """Drop refusals of versions that the alias left; note models that it left altogether."""
        before = self._current
        kept = {n: r for n, r in before.refused.items() if numbers.get(n) == r.number}
        gone = {
            name: Refused(
                loaded.cached.number,
                "the alias champion is gone from the registry; this version keeps serving",
                is_final=False,
            )
            for name, loaded in before.loaded.items()
            if name not in numbers
        }
        self._current = replace(before, registry_error="", refused={**kept, **gone})
