"""The machine itself as a cluster: submitted commands as processes on its GPUs or CPU slots."""

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from data.domain import Outcome
from data.errors import ClusterError
from scheduler_client.clusters import EndedRun, Launch
from scheduler_client.local.devices import Device
from scheduler_client.local.live_signals import LiveSignals
from scheduler_client.local.processes import RunningProcess
from scheduler_client.local.sampling import Sampler
from scheduler_client.policy.occupancy import Occupancy
from scheduler_client.policy.view import CardState

KILL_GRACE_S = 5.0
"""From the polite signal to the end of a job that has used up its time limit."""
REST_S = 30.0
"""For so long a card is left alone on which a process could not be started."""


@dataclass(frozen=True, slots=True)
class GangDevice(Device):
    """Several cards of one kind as one device, so that one process is bound to all of them."""

    members: tuple[Device, ...] = ()

    @property
    def cores(self) -> tuple[int, ...]:
        """The CPU cores of all members."""
        return tuple(core for member in self.members for core in member.cores)


@dataclass(slots=True)
class _Run:
    launch: Launch
    process: RunningProcess
    sampler: Sampler | None = None
    is_sampled: bool = False
    asked: tuple[Outcome, float] | None = None
    kill_s: float | None = None


class LocalCluster:
    """Runs jobs as processes of this machine.

    Parameters
    ----------
    devices : sequence of Device
        The cards to use.
    log_folder : Path
        Where each attempt's output goes: ``<job id>.<attempt>.log``.
    sample_period_s : float
        Between two samples of a job's signals.
    live : LiveSignals, optional
        Told who enters and leaves the cards.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        log_folder: Path,
        sample_period_s: float = 0.2,
        live: LiveSignals | None = None,
    ) -> None:
        self._live = live
        self._devices = {device.card_id: device for device in devices}
        self._log_folder, self._sample_period_s = log_folder, sample_period_s
        cards = [CardState(d.card_id, d.model, d.mem_mib, d.mem_mib) for d in devices]
        self._occupancy = Occupancy(cards)
        self._runs: dict[str, _Run] = {}
        self._resting_until_s: dict[str, float] = {}

    def cards(self) -> tuple[CardState, ...]:
        """Return all cards with their residents; one that failed a start rests as unhealthy."""
        now_s = time.monotonic()
        resting = {c for c, until_s in self._resting_until_s.items() if until_s > now_s}
        return tuple(
            CardState(
                card.card_id,
                card.gpu_model,
                card.total_mem_mib,
                card.free_mem_mib,
                card.residents,
                card.card_id not in resting,
            )
            for card in self._occupancy.cards()
        )

    def start(self, launch: Launch) -> float:
        """Start an attempt and return when it was started; raises `ClusterError`.

        Raises
        ------
        ClusterError
            If a card is unknown or too full, or no process can be started at all. A command that
            cannot be run is no error here, but a run that failed.
        """
        self._occupancy.enter(launch, time.time())
        self._sample_who_is_alone()
        try:
            process = self._process(launch)
        except ClusterError:
            self._occupancy.discard(launch.job_id)
            until_s = time.monotonic() + REST_S
            self._resting_until_s |= dict.fromkeys(launch.card_ids, until_s)
            self._sample_who_is_alone()
            raise
        self._occupancy.discard(launch.job_id)
        self._occupancy.enter(launch, process.started_time)  # the exact moment
        self._runs[launch.job_id] = _Run(launch, process)
        if self._live is not None:
            self._live.entered(launch, process)
        self._sample_who_is_alone()
        return process.started_time

    def stop(self, job_ids: Iterable[str], outcome: Outcome, grace_s: float) -> None:
        """Send SIGTERM; `poll` sends SIGKILL after `grace_s` to what is still there."""
        for job_id in job_ids:
            run = self._runs.get(job_id)
            if run is not None and run.asked is None:
                run.asked = (outcome, time.time())
                run.kill_s = time.monotonic() + grace_s
                run.process.send_signal(signal.SIGTERM)

    def poll(self) -> tuple[EndedRun, ...]:
        """Return the runs that have ended since the last call; enforces time limits."""
        ended = [run for run in self._runs.values() if run.process.poll() is not None]
        for run in ended:
            finish_time = run.process.finished_time
            self._occupancy.leave(run.launch.job_id, finish_time or time.time())
        answers = tuple(self._ended(run) for run in ended)
        self._occupancy.forget()
        self._sample_who_is_alone()
        self._enforce()
        return answers

    def saved_times(self) -> Mapping[str, float]:
        """Return when each job last touched the file that ``COLOCAST_CHECKPOINT`` names."""
        found = {}
        for job_id, run in self._runs.items():
            with suppress(OSError):  # it has never said anything
                saved = self._checkpoint(job_id).stat().st_mtime
                if saved >= run.process.started_time:
                    found[job_id] = saved
        return found

    def _checkpoint(self, job_id: str) -> Path:
        return self._log_folder / f"{job_id}.checkpoint"

    def _process(self, launch: Launch) -> RunningProcess:
        log = self._log_folder / f"{launch.job_id}.{launch.attempt}.log"
        try:
            self._log_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"{self._log_folder}: cannot be made: {error.strerror}") from error
        marks = {
            "COLOCAST_JOB_ID": launch.job_id,
            "COLOCAST_ATTEMPT": str(launch.attempt),
            "COLOCAST_CARDS": ",".join(launch.card_ids),
            "COLOCAST_CHECKPOINT": str(self._checkpoint(launch.job_id).absolute()),
        }
        return RunningProcess.start(
            launch.command,
            _bound(tuple(self._devices[card_id] for card_id in launch.card_ids)),
            cwd=launch.working_directory or None,
            environment={**launch.environment, **marks},
            log_path=log,
        )

    def _ended(self, run: _Run) -> EndedRun:
        launch, process = run.launch, run.process
        del self._runs[launch.job_id]
        if self._live is not None:
            self._live.left(launch.job_id)
        finish_time = process.finished_time or time.time()
        return EndedRun(
            job_id=launch.job_id,
            attempt=launch.attempt,
            outcome=_outcome(run, finish_time),
            start_time=process.started_time,
            finish_time=finish_time,
            segments=self._occupancy.segments(launch.job_id, finish_time),
            signals=_signals(run),
        )

    def _enforce(self) -> None:
        now_s, now = time.monotonic(), time.time()
        for run in self._runs.values():
            limit_s = run.launch.limit_s
            if run.asked is None and limit_s is not None:
                if now - run.process.started_time > limit_s:
                    self.stop([run.launch.job_id], Outcome.TIMEOUT, KILL_GRACE_S)
            elif run.kill_s is not None and now_s > run.kill_s:
                run.process.send_signal(signal.SIGKILL)

    def _sample_who_is_alone(self) -> None:
        """Sample exactly the jobs without a neighbour: a shared card's counters are nobody's."""
        for job_id, run in self._runs.items():
            is_alone = self._occupancy.is_alone(job_id)
            if is_alone and run.sampler is None:
                first = self._devices[run.launch.card_ids[0]]
                run.sampler = Sampler(run.process, first, self._sample_period_s)
                run.sampler.start()
            elif run.sampler is not None and is_alone and not run.is_sampled:
                run.sampler.resume()
            elif run.sampler is not None and run.is_sampled and not is_alone:
                run.sampler.pause()
            run.is_sampled = is_alone


def _bound(devices: tuple[Device, ...]) -> Device:
    if len(devices) == 1:
        return devices[0]
    first = devices[0]
    return GangDevice(
        card_id="+".join(device.card_id for device in devices),
        kind=first.kind,
        index=first.index,
        model=first.model,
        mem_mib=sum(device.mem_mib for device in devices),
        uuid=",".join(device.uuid for device in devices),
        members=devices,
    )


def _signals(run: _Run) -> dict[str, float]:
    """Return what was measured while it was alone; its own memory peak is known in any case."""
    if run.sampler is not None:
        run.sampler.stop()
        return run.sampler.summary()
    usage = run.process.usage
    if usage is None or run.process.device.kind == "gpu":
        return {}
    return {"gpu_mem_peak_mib": usage.peak_rss_mib}


def _outcome(run: _Run, finish_time: float) -> Outcome:
    """Return how a run ended; one that was told to end did so, whatever its exit status."""
    ended = run.process.poll() or Outcome.FAILED
    if run.asked is None or finish_time < run.asked[1]:
        return ended
    return run.asked[0]
