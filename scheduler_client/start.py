"""Puts the parts of a scheduler on this machine together, and runs it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from data.settings import Settings
from scheduler_client.clusters import Cluster
from scheduler_client.config import SchedulerConfig, load_config
from scheduler_client.events import log_event
from scheduler_client.explaining.explainer import Explainer
from scheduler_client.explaining.kept_waits import KeptWaits
from scheduler_client.forecast.client import PredictorClient
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.forecast.remembered import Remembered
from scheduler_client.jobs.delivery import Delivery
from scheduler_client.jobs.outbox import Outbox
from scheduler_client.jobs.spool import Spool
from scheduler_client.local.card_metrics import CardPage
from scheduler_client.local.cluster import LocalCluster
from scheduler_client.local.devices import DeviceKind, discover
from scheduler_client.local.live_signals import LiveSignals
from scheduler_client.lock import SchedulerLock
from scheduler_client.loop import Cycle, LoopParts, SchedulerLoop
from scheduler_client.policy.policies import policy_named
from scheduler_client.report import RunFacts, report_document, write_report
from scheduler_client.run import RunEnd, RunRules, run

QUEUES_NOTE = "queues"
"""Under this name the spool keeps the configured queues, so that `submit` can check."""
CLIENT_DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class Start:
    """How to run a scheduler.

    Attributes
    ----------
    settings : Settings
    config : SchedulerConfig
    policy : str
        Name of the policy.
    rules : RunRules
    service_url : str
    token : str, optional
        Bearer token for the service.
    slots : int, optional
        At most so many cards.
    device : {"gpu", "cpu"}, optional
        Kind of card; GPUs where there are any, by default.
    report_path : Path, optional
        Where to write the report at the end.
    page : CardPage, optional
        Shows the cards' signals as metrics; without it nobody measures them.
    """

    settings: Settings
    config: SchedulerConfig
    policy: str
    rules: RunRules
    service_url: str
    token: str | None = None
    slots: int | None = None
    device: DeviceKind | None = None
    report_path: Path | None = None
    page: CardPage | None = None


def config_path(settings: Settings) -> Path:
    """Return where the configuration lies unless another file is named."""
    return settings.home / "scheduler.yaml"


def found_config(settings: Settings, named: Path | None) -> SchedulerConfig:
    """Return the named configuration, else the installation's, else the default.

    Raises
    ------
    SettingError
        If the file says something that is unknown, not supported or out of range.
    """
    path = named or config_path(settings)
    return load_config(path) if named or path.exists() else SchedulerConfig()


@contextmanager
def explaining(start: Start) -> Iterator[Explainer]:
    """Yield what explains the scheduler that `start` describes.

    What-if questions have a client of their own: they must not hold up a cycle. How long jobs
    waited is kept in the spool until the next start.
    """
    asked = start.config.settings.prediction
    with (
        closing(PredictorClient(start.service_url, CLIENT_DEADLINE_S, start.token)) as client,
        Spool(start.settings.spool_path) as spool,
    ):
        forecaster = Forecaster(client, asked, ProfileBook())
        policy = policy_named(start.policy, start.config.settings.rules)
        waits = KeptWaits(spool)
        yield Explainer(policy, forecaster.forecast, waits.book, waits.keep)


def run_local(
    start: Start, stop: threading.Event, observe: Callable[[Cycle], None] | None = None
) -> RunEnd:
    """Schedule this machine until `stop` is set, or until all is done where `start` asks for it.

    Raises
    ------
    ColocastError
        If another scheduler runs on the same spool, no card is found, the policy is unknown, or
        what ended could not be written down.
    """
    settings = start.settings
    policy = policy_named(start.policy, start.config.settings.rules)
    devices = discover(start.slots, start.device)
    with (
        ExitStack() as measuring,
        SchedulerLock(settings.spool_path),
        Spool(settings.spool_path) as spool,
        Outbox(settings.home / "outbox.db") as outbox,
        closing(PredictorClient(start.service_url, CLIENT_DEADLINE_S, start.token)) as client,
    ):
        live = None if start.page is None else measuring.enter_context(LiveSignals(devices))
        if live is not None and start.page is not None:
            start.page.show(live)
        cluster = LocalCluster(devices, settings.home / "jobs", live=live)
        remembered = Remembered(spool, start.config.settings.half_life_s, time.time())
        asked = start.config.settings.prediction
        parts = LoopParts(
            spool=spool,
            cluster=cluster,
            policy=policy,
            forecaster=Forecaster(client, asked, remembered.profiles),
            delivery=Delivery(spool, outbox, client),
            remembered=remembered,
            config=start.config,
        )
        return _run(start, parts, cluster, stop, observe)


def _run(
    start: Start,
    parts: LoopParts,
    cluster: Cluster,
    stop: threading.Event,
    observe: Callable[[Cycle], None] | None,
) -> RunEnd:
    spool, started_time = parts.spool, time.time()
    spool.note(QUEUES_NOTE, [queue.name for queue in start.config.queues])
    newest = spool.newest_attempt()
    cards = cluster.cards()
    log_event("scheduling", policy=start.policy, card_ids=[card.card_id for card in cards])
    end = run(SchedulerLoop(parts), parts, start.rules, stop, observe)
    if start.report_path is not None:
        facts = RunFacts(start.policy, started_time, time.time(), cards)
        document = report_document(facts, spool.attempts(after=newest), end)
        write_report(start.report_path, document)
    return end
