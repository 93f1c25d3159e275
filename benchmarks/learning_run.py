"""Days lived through: the loop, and what others would have answered meanwhile.

The loop is the real one: job log, retrainer with its defaults, MLflow (SQLite) and the service's
own state (models by alias from MLflow, history and live effects from the job log), stepped in event
time. Beside it, from the same log: the first version that is never retrained (its history and
effects still follow the log, as the service does that without retraining), the same without even
that, and retraining from scratch every night on all jobs, always promoted.
"""

import argparse
import os
import pickle
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.learning_formers import Formers
from benchmarks.learning_lived import (
    JUDGED,
    LOOP,
    NEVER,
    NIGHTLY,
    NOTHING,
    RUNTIME,
    SLOWDOWN,
    WHO,
    Lived,
)
from benchmarks.learning_models import (
    NO_RUNS,
    TAUGHT,
    lessons,
    nothing_to_learn,
    without_reports,
)
from benchmarks.learning_questions import request, slowdown
from benchmarks.learning_world import DAYS, REPORTED_SEED, World, drifts_within, made_world
from data.domain import FinishedJob
from data.joblog import JobLog
from data.jobs_frame import jobs_frame
from data.settings import Settings
from pipelines.labelling.audit import audited
from pipelines.registering.loaded_versions import LoadedVersions
from pipelines.registering.registry import Registry
from pipelines.retraining.challenge import LessonChallenger, answered
from pipelines.retraining.champions import JOBLOG, SEEN, SEQUENCE
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.job_audit import audited_jobs
from pipelines.retraining.lessons import Lesson
from pipelines.retraining.once import Once
from pipelines.retraining.parent_run import RetrainRun
from pipelines.retraining.production import production_runs
from pipelines.retraining.promotion import Promotions
from pipelines.retraining.retrainer import CHANGED, Challenge, Duty, Retrainer
from pipelines.retraining.speeds import RelativeTimes
from pipelines.retraining.state import KINDS, RetrainRules
from pipelines.retraining.watch import Drift
from pipelines.retraining.watcher import LessonWatcher
from serving.champions.cache import ModelCache
from serving.champions.sources import MlflowChampions
from serving.inference.bundle import Bundle
from serving.inference.slowdowns import Live
from serving.live.history_state import HistoryState
from serving.metrics import Metrics
from serving.predictor import Predictor
from serving.state import ServingState

WARM_UP_DAYS = 5
CHUNK_S = 6 * 3600.0


class Life:
    """Steps through a world."""

    def __init__(
        self, world: World, home: Path, who: Sequence[str] = WHO, kinds: Sequence[str] = TAUGHT
    ) -> None:
        without_reports()
        self.world, self.now, self.who = world, world.start_time, tuple(who)
        self.kinds = tuple(kinds)
        self.settings = Settings.from_mapping({"COLOCAST_HOME": str(home)}, home)
        home.mkdir(parents=True, exist_ok=True)
        self.registry = Registry(
            self.settings.tracking_uri, self.settings.artifacts_path, LoadedVersions()
        )
        self.log = JobLog(self.settings.joblog_url)
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        self.drifts: list[tuple[float, str, Drift]] = []
        self.challenges: list[tuple[float, Challenge]] = []
        self.rows: list[dict[str, object]] = []
        self.asked: dict[str, dict[str, float]] = {}
        self._times = Once(lambda: RelativeTimes().of)
        duties = dict.fromkeys(KINDS, Duty(nothing_to_learn))
        duties |= {kind: self._duty(kind, each) for kind, each in lessons(self.kinds).items()}
        self.retrainer = Retrainer(
            self.settings.joblog_url, home / "retrain.json", duties, RetrainRules(),
            lambda: self.now,
        )  # fmt: skip
        self.bundles: dict[str, dict[str, Bundle]] = {who: {} for who in WHO}
        self.shared, self.frozen = HistoryState(lambda: self.log), HistoryState(lambda: self.log)
        self.state: ServingState | None = None
        self.formers = Formers(self.registry.load, self.shared)

    def _duty(self, kind: str, lesson: Callable[[FinishedJobs], list[Lesson]]) -> Duty:
        run = RetrainRun(self.settings.tracking_uri, self.settings.artifacts_path)
        challenger = LessonChallenger(lambda: self.registry, run, lesson, shadow_rows=8)
        watcher = LessonWatcher(
            lambda: self.registry, lesson, promotions=Promotions(answered), times=self._times
        )

        def watched(finished: FinishedJobs, since: int):
            before = time.process_time()
            found = watcher(finished, since)
            self.cpu_s["watching"] += time.process_time() - before
            if found.drift:
                self.drifts.append((self.world.day(self.now), kind, found.drift))
            return found

        return Duty(challenger, watched)

    def live(self, until_day: float, tell: Callable[[Lived], object]) -> Lived:
        """Live until a day, tell each evening what came of it so far, and return it."""
        jobs = self.world.jobs
        starts = sorted(jobs, key=lambda job: job.start_time)
        at_start = at_finish = 0
        night = WARM_UP_DAYS + 1.0
        while self.world.day(self.now) < until_day:
            self.now += CHUNK_S
            day = self.world.day(self.now)
            begin, finish = at_start, at_finish
            while at_start < len(starts) and starts[at_start].start_time < self.now:
                at_start += 1
            while at_finish < len(jobs) and jobs[at_finish].finish_time < self.now:
                at_finish += 1
            if self.state is not None:
                self._ask(starts[begin:at_start])
            self._finish(jobs[finish:at_finish])
            if self.state is None and day >= WARM_UP_DAYS:
                self._begin()
            elif self.state is not None:
                if LOOP in self.who:
                    self._step()
                if day >= night:
                    night += 1.0
                    if NIGHTLY in self.who:
                        self._retrain_all(NIGHTLY)
                    tell(self._so_far(day))
        return replace(self._so_far(until_day), quarantine=self._quarantined())

    def _so_far(self, day: float) -> Lived:
        rows = pd.DataFrame(self.rows)
        return Lived(
            day, rows, self.challenges, self.drifts, dict(self.cpu_s),
            promotions=pd.DataFrame(self.formers.judged, columns=JUDGED),
        )  # fmt: skip

    def _begin(self) -> None:
        """Train the first versions on the warm-up; everyone starts from them."""
        finished = self._finished()
        facts = {
            JOBLOG: self.log.identity(),
            SEQUENCE: str(finished.sequences[-1]),
            SEEN: str(len(finished.jobs)),
        }
        for trained, report in self._trained():
            spec = replace(trained.spec, facts={**trained.spec.facts, **facts})
            bundle = replace(trained, spec=spec)
            version = self.registry.register(bundle, report)
            self.registry.promote(bundle.spec.name, version)
            for who in WHO:
                self.bundles[who][bundle.spec.name] = bundle
        self.frozen.catch_up()
        self.state = ServingState(
            MlflowChampions(self.settings.tracking_uri), ModelCache(self.settings.cache_path),
            lambda: JobLog(self.settings.joblog_url), Metrics(),
        )  # fmt: skip
        self.state.follow_log()
        self.state.refresh()
        self.predictors = {who: self._predictor(who) for who in self.who if who != LOOP}

    def _step(self) -> None:
        before = time.process_time()
        made = self.retrainer.step()
        self.cpu_s["loop"] += time.process_time() - before
        self.challenges += [(self.world.day(self.now), challenge) for challenge in made]
        changed = [challenge for challenge in made if challenge.stage in CHANGED]
        if changed:
            self.formers.keep(changed, self.world.day(self.now))
            self.state.refresh()

    def _trained(self):
        finished = self._finished()
        newest = int(finished.sequences[-1])
        made = [lesson for make in lessons(self.kinds).values() for lesson in make(finished)]
        return [pair for lesson in made for pair in lesson.trained(newest)]

    def _retrain_all(self, who: str) -> None:
        before = time.process_time()
        for bundle, _ in self._trained():
            self.bundles[who][bundle.spec.name] = bundle
        self.cpu_s[who] += time.process_time() - before
        self.predictors[who] = self._predictor(who)

    def _predictor(self, who: str) -> Predictor:
        if who == NOTHING:
            return Predictor(self.bundles[who], self.frozen.features)
        live = Live(self.shared.profiles, self.shared.colocations)
        previous = getattr(self, "predictors", {}).get(who)
        self.built = {**getattr(self, "built", {}), who: live}
        return Predictor(self.bundles[who], self.shared.features, live, previous)

    def _finished(self) -> FinishedJobs:
        entries, sequence = [], 0
        while page := self.log.since(sequence):
            entries += page
            sequence = page[-1][0]
        return FinishedJobs("all", [n for n, _ in entries], [job for _, job in entries])

    def _finish(self, jobs: Sequence[FinishedJob]) -> None:
        for job in jobs:
            asked = self.asked.pop(job.job_id, None)
            if asked is None or job.job_id in self.world.poisoned | self.world.lied:
                continue
            is_pair = job.job_id in self.world.truth
            true = self.world.truth[job.job_id] if is_pair else job.runtime_s
            errors = {who: abs(np.log(value / max(true, 0.1))) for who, value in asked.items()}
            self.formers.judge(job, true, errors)
            family = job.structure.family if job.structure else "drac"
            kind = SLOWDOWN if is_pair else RUNTIME
            self.rows.append(
                {"job_id": job.job_id, "day": self.world.day(self.now), "kind": kind,
                 "family": family, "key": job.job_key,
                 "gpu_model": job.segments[0].gpu_model, "user": job.user, **errors}
            )  # fmt: skip
        self.log.append(jobs)
        self.shared.catch_up()
        if self.state is not None:
            if LOOP in self.who:
                self.state.follow_log()
            for who in {NEVER, NIGHTLY} & set(self.who):
                live = Live(self.shared.profiles, self.shared.colocations)
                if not live.is_same(self.built[who]):
                    self.predictors[who] = self._predictor(who)

    def _ask(self, jobs: Sequence[FinishedJob]) -> None:
        pairs = [job for job in jobs if job.job_id in self.world.truth]
        others = [job for job in jobs if job.job_id not in self.world.truth]
        others = others if "runtime" in self.kinds else []
        self.formers.ask(pairs, others, self.world.day(self.now))
        for who in self.who:
            predictor = self.state.predictor() if who == LOOP else self.predictors[who]
            for job in pairs:
                self.asked.setdefault(job.job_id, {})[who] = slowdown(predictor, job)
            if others:
                told = predictor.runtimes([request(job) for job in others])
                for job, estimate in zip(others, told, strict=True):
                    self.asked.setdefault(job.job_id, {})[who] = estimate.value

    def _quarantined(self) -> dict[str, str]:
        """Return job id to reason, of all that both audits put aside."""
        jobs = self._finished().jobs
        labels = audited(production_runs(jobs, NO_RUNS))
        found = {
            run.split(":")[1]: str(reason)
            for table in (labels.quarantine, labels.left_out)
            for run, reason in zip(table["run_id"], table["reason"], strict=True)
        }
        runtimes = audited_jobs(jobs_frame(jobs)).quarantine
        return found | dict(zip(runtimes["job_id"], runtimes["reason"], strict=True))


def main() -> None:
    """Live, and pickle each evening what came of it so far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--who", required=True, help="Names of WHO, with commas.")
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument("--kinds", default=",".join(TAUGHT), help="That are asked and learnt.")
    parser.add_argument("--seed", type=int, default=REPORTED_SEED, help="Another is another life.")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    folder = Path(os.environ["COLOCAST_PUBLIC_DATA"])
    world = made_world(folder, drifts_within(given.days), given.seed)

    def tell(lived: Lived) -> None:
        beside = given.out.with_suffix(".new")
        beside.write_bytes(pickle.dumps(lived))
        beside.replace(given.out)

    with tempfile.TemporaryDirectory(prefix="colocast-bench-") as home:
        life = Life(world, Path(home), given.who.split(","), given.kinds.split(","))
        tell(life.live(given.days, tell))


if __name__ == "__main__":
    main()
