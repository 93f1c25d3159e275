"""One worker's models, history and threads: what the routes answer from."""

import ctypes
import gc
import logging
import os
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import time
from typing import cast

from data.domain import REGISTERED_MODELS, FinishedJob
from data.errors import JobLogError
from data.joblog import Appended, JobLog
from data.settings import Settings
from serving.champions.cache import ModelCache
from serving.champions.locations import local_roots
from serving.champions.prepared import prepared_bundle
from serving.champions.push_book import PushBook
from serving.champions.rest import RestChampions
from serving.champions.sources import ALIAS, SHADOW, Champions, MlflowChampions
from serving.champions.store import ModelStore
from serving.inference.bundle import Bundle
from serving.inference.slowdowns import Live
from serving.live.history_state import HistoryState
from serving.live.outcomes import Outcomes
from serving.live.shadow import Overheard, Shadow
from serving.metrics import Metrics
from serving.predictor import Predictor
from serving.repeater import Repeater
from serving.web.wire_models import ModelsAnswer

LOG = logging.getLogger(__name__)
STOP_S = 1.0
PUSH_LOOK_S = 0.1
NEEDED = REGISTERED_MODELS[0]  # without slowdowns there is nothing to schedule by


class ServingState:
    """The backend of ``serving.web.api``.

    Parameters
    ----------
    champions : Champions
    cache : ModelCache
    open_log : callable
        Opens the job log.
    metrics : Metrics
    book : PushBook, optional
        Where pushes are written down, by whichever worker they reach.
    """

    def __init__(
        self,
        champions: Champions,
        cache: ModelCache,
        open_log: Callable[[], JobLog],
        metrics: Metrics,
        book: PushBook | None = None,
    ) -> None:
        self._metrics, self._book = metrics, book
        self._pushed = book.mark() if book else None
        self._history = HistoryState(open_log)
        self._store = ModelStore(champions, cache, self._built)
        self._threads: list[Repeater] = []
        self._tail: Repeater | None = None
        self._shadow_store: ModelStore[Predictor | None] | None = None
        self._shadow = Shadow(self._shadow_predictor, self._history.alone_s, metrics)
        self._registry: Repeater | None = None
        self._outcomes = Outcomes(self._history.alone_s)
        self._history.on_finished = self._finished

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], metrics: Metrics, book: PushBook | None = None
    ) -> "ServingState":
        """Return the state that an environment describes, not started yet.

        Raises
        ------
        SettingError
            If a setting is out of range.
        """
        settings = Settings.from_mapping(environ, Path.cwd())
        roots = local_roots(environ, settings.home)
        state = cls(
            champions_of(settings.tracking_uri, environ, roots),
            ModelCache(settings.cache_path, prepared_bundle),
            lambda: JobLog(settings.joblog_url),
            metrics,
            book,
        )
        state.shadow_by(
            champions_of(settings.tracking_uri, environ, roots, SHADOW),
            ModelCache(settings.cache_path / SHADOW, prepared_bundle),
        )
        return state

    def shadow_by(self, shadows: Champions, cache: ModelCache) -> None:
        """Let other versions answer what the champions are asked, unseen; before `start`."""
        self._shadow_store = ModelStore(shadows, cache, self._built_shadow)

    def start(self, interval_s: float) -> None:
        """Load what there is, then follow the registry and the job log in the background."""
        try:
            self.follow_log()
        except JobLogError as error:
            LOG.warning("starting without the job log: %s", error)
        self.refresh()
        seed = random.Random(os.getpid())  # noqa: S311 - jitter, not a secret
        self._tail = Repeater("job log", self.follow_log, interval_s, seed)
        self._registry = Repeater("registry", self.refresh, interval_s, seed)
        self._threads = [self._registry, self._tail]
        if self._shadow_store is not None:
            self._threads.append(Repeater("shadow", self.follow_shadow, interval_s, seed))
        if self._book is not None:
            self._threads.append(Repeater("pushes", self.look_for_push, PUSH_LOOK_S, seed))
        _freeze()
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._warm, name="warm", daemon=True).start()

    def stop(self) -> None:
        """End the background threads and close the job log."""
        for thread in self._threads:
            thread.stop(STOP_S)  # one that waits for a silent registry ends with the process
        self._history.close()

    def refresh(self) -> None:
        """Ask the registry once; let what is new serve."""
        swapped = self._store.refresh()
        current = self._store.current
        if swapped and self._threads:
            _freeze()
        registry_up = not current.registry_error
        self._metrics.models(current.served(), current.swaps, registry_up=registry_up)
        self._metrics.ages(current.ages_s(time()))

    def follow_log(self) -> None:
        """Read what is new in the job log; let what it teaches serve.

        Raises
        ------
        JobLogError
            If the log cannot be read now.
        """
        try:
            self._history.catch_up()
        finally:
            self._metrics.sequence(self._history.sequence)
            self._rebuild_if_news()

    def _finished(self, jobs: Sequence[FinishedJob]) -> None:
        """Hold what was predicted against what has come of it."""
        self._outcomes.observe(jobs)
        for kind, error in self._outcomes.errors().items():
            self._metrics.live_error(kind, error.count, error.median)
        if self._shadow_store is not None:
            self._shadow.observe(jobs)

    def follow_shadow(self) -> None:
        """Ask the registry who shadows, and let them answer what the champions were asked."""
        store = self._shadow_store
        if store is not None:
            if store.refresh_exactly():
                self._shadow.forget()
            self._shadow.answer()

    def predictor(self) -> Predictor:
        """Return the predictor that serves now; the shadow hears what it answers."""
        champion = self._store.current.predictor
        if self._shadow_predictor() is None:
            return champion
        return cast("Predictor", Overheard(champion, self._shadow))

    def append(self, jobs: tuple[FinishedJob, ...]) -> Appended:
        """Append finished jobs to the job log; what they teach serves a moment later.

        Their reporter does not wait for that: the effects of many pairs take a while to move.
        """
        appended = self._history.append(jobs)
        if self._tail is not None:
            self._tail.wake()
        return appended

    def models(self) -> ModelsAnswer:
        """Return what serves now."""
        return ModelsAnswer(self._store.current.served(), self._history.sequence)

    def push(self, name: str) -> None:
        """Ask the registry now: somebody who may say so has said that an alias moved."""
        LOG.info("pushed: the alias champion of %s has moved", name)
        if self._registry is not None:
            self._registry.wake()

    def look_for_push(self) -> None:
        """Ask the registry now if a push has reached any worker since the last look."""
        mark = self._book.mark() if self._book else None
        if mark != self._pushed:
            self._pushed = mark
            if self._registry is not None:
                self._registry.wake()

    def is_alive(self) -> bool:
        """Return whether registry and job log are still followed."""
        return all(thread.is_alive for thread in self._threads)

    def unready(self) -> str:
        """Return why no slowdown can be predicted now; empty if it can."""
        current = self._store.current
        if NEEDED in current.loaded:
            return ""
        refused = current.refused.get(NEEDED)
        if refused:
            return f"{NEEDED}/{refused.number} was refused: {refused.reason}"
        if current.registry_error:
            return f"no {NEEDED} in the cache, and no registry: {current.registry_error}"
        return f"no version of {NEEDED} has the alias champion; train or promote one"

    def _live(self) -> Live:
        return Live(self._history.profiles, self._history.colocations)

    def _warm(self) -> None:
        self.predictor().warm()
        _freeze()  # tens of thousands of estimates that live as long as their version

    def _rebuild_if_news(self) -> None:
        if not self._live().is_same(self._built_with):
            self._store.rebuild()

    def _shadow_predictor(self) -> Predictor | None:
        return self._shadow_store.current.predictor if self._shadow_store else None

    def _built_shadow(
        self, bundles: Mapping[str, Bundle], previous: Predictor | None
    ) -> Predictor | None:
        del previous
        if not bundles:
            return None
        serving = {n: loaded.bundle for n, loaded in self._store.current.loaded.items()}
        return Predictor({**serving, **bundles}, self._history.features, self._live())

    def _built(self, bundles: Mapping[str, Bundle], previous: Predictor | None) -> Predictor:
        self._built_with = live = self._live()
        predictor = Predictor(bundles, self._history.features, live, previous)
        if previous is not None and previous.versions:
            predictor.warm()  # before it serves, so that a swap is not felt
        return predictor


def champions_of(
    tracking_uri: str, environ: Mapping[str, str], roots: Sequence[Path] = (), alias: str = ALIAS
) -> Champions:
    """Return the lightest reader of a registry: REST for a server, MLflow's client otherwise.

    Parameters
    ----------
    tracking_uri : str
    environ : mapping of str to str
        Holds the credentials.
    roots : sequence of Path
        Folders below which a server's local paths are read.
    alias : str
        Which versions count as champions.
    """
    if tracking_uri.startswith(("http://", "https://")):
        return RestChampions(tracking_uri, environ, roots, alias)
    return MlflowChampions(tracking_uri, alias)


def _freeze() -> None:
    """Keep the garbage collector off what lives as long as the process, and give memory back.

    A full collection over the imports and models takes 100 ms and more, in the middle of a
    request.
    """
    gc.collect()
    gc.freeze()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):  # no glibc
        LOG.debug("malloc_trim is not available")
