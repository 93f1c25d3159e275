"""The whole loop on real input: serve, schedule, learn, and say what came of it."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tqdm import tqdm

from data.domain import FinishedJob, Outcome, Pair
from data.errors import ServiceStartError
from data.joblog import JobLog
from data.sample_data import sample_path, sample_workloads_path
from data.settings import Settings
from pipelines.demo.jobs import DemoJob, demo_jobs
from pipelines.demo.passes import finished, log_lines, submitted
from pipelines.demo.probe import Probe
from pipelines.demo.summary import summary_lines
from pipelines.profiling.workloads import Workload, load_workloads
from pipelines.retraining.state import KINDS, RetrainRules, RetrainState, due, load_state
from pipelines.services import parts as up
from pipelines.services.processes import ServiceGroup
from scheduler_client.jobs.spool import Spool
from scheduler_client.local.devices import discover

SEED = 7
POLICIES = ("exclusive", "colocate")
MIN_EVIDENCE = 8  # of 80 jobs, few may have been placed together
RETRAIN_WAIT_S = 120.0
SWAP_WAIT_S = 3.0  # a worker polls the alias about once a second
_VERDICTS = ("event=promoted", "event=kept", "event=untrainable")


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo needs from outside.

    Attributes
    ----------
    settings : Settings
    environ : mapping of str to str
    workloads : mapping of job key to Workload
        The sample programs; those measured in pairs are submitted.
    plan : Plan
        Its policy is what the scheduler is left with.
    """

    settings: Settings
    environ: Mapping[str, str]
    workloads: Mapping[str, Workload]
    plan: up.Plan


def sample_demo(settings: Settings, environ: Mapping[str, str], slots: int | None) -> Demo:
    """Return the demo of the embedded sample programs, on this machine's CPU slots."""
    workloads = {work.name: work for work in load_workloads(sample_workloads_path()) if work.paired}
    config = sample_path() / "scheduler.yaml"
    plan = up.Plan(slots=slots, device="cpu", config=config, min_evidence=MIN_EVIDENCE)
    return Demo(settings, environ, workloads, plan)


def run_loop(demo: Demo, group: ServiceGroup) -> list[str]:
    """Run the jobs exclusively, then colocated, then wait for the retrainer; return the summary.

    MLflow and the service must be up. The retrainer and the scheduler are started here and left
    running.

    Raises
    ------
    ServiceStartError
        If a service ends again and again, a job is lost or fails, or a request fails although
        the service was up all the time, while models are swapped.
    """
    jobs = demo_jobs(list(demo.workloads), SEED)
    # All at once at the end: drift would be a second cause, and nobody finishes for a shadow run.
    many = len(POLICIES) * len(jobs)
    plan = replace(demo.plan, retrain_after=many, shadow_jobs=0, watch_jobs=many + 1)
    rules = RetrainRules(min_jobs=plan.retrain_after, min_evidence=plan.min_evidence)
    group.log_path("retrainer").unlink(missing_ok=True)
    up.start(group, up.retrainer(demo.settings, demo.environ, plan))
    with Probe(demo.settings.service_url, _pair(jobs)) as probe:
        exclusive, colocated = (_one_pass(demo, group, jobs, policy) for policy in POLICIES)
        verdicts = _await_retraining(demo, group, rules)
    if probe.failures and not group.restarts["service"]:
        shown = "; ".join(probe.failures[:3])
        raise ServiceStartError(f"{len(probe.failures)} requests failed, first: {shown}")
    restarted = [
        f"{name} ended {count} times and was restarted" for name, count in group.restarts.items()
    ]
    return [
        *summary_lines(exclusive, colocated, probe.answered),
        *verdicts,
        *restarted,
        f"{sum(probe.answered.values())} requests were answered meanwhile, "
        f"{len(probe.failures) or 'none'} failed",
    ]


def _pair(jobs: Sequence[DemoJob]) -> Pair:
    return Pair(jobs[0].job_key, jobs[1].job_key, discover(1, "cpu")[0].model)


def _one_pass(
    demo: Demo, group: ServiceGroup, jobs: Sequence[DemoJob], policy: str
) -> list[FinishedJob]:
    group.stop(["scheduler"])
    plan = replace(demo.plan, policy=policy)
    up.start(group, up.scheduler(demo.settings, demo.environ, plan))
    with (
        Spool(demo.settings.spool_path) as spool,
        tqdm(total=len(jobs), desc=f"{policy} jobs", unit="job") as bar,
    ):
        job_ids = submitted(jobs, demo.workloads, spool)
        found = finished(job_ids, len(jobs), demo.settings.joblog_url, bar.update, group.keep_up)
    failed = [job.job_id for job in found if job.outcome is not Outcome.OK]
    if failed:
        raise ServiceStartError(
            f"{len(failed)} jobs did not end well, first {failed[0]}; see the job's log"
        )
    return found


def _await_retraining(demo: Demo, group: ServiceGroup, rules: RetrainRules) -> list[str]:
    """Wait until the retrainer has counted every job and is due no more; return its verdicts."""
    with JobLog(demo.settings.joblog_url) as log:
        newest = log.count()
    deadline = time.monotonic() + RETRAIN_WAIT_S
    with tqdm(total=len(KINDS), desc="retraining", unit="kind") as bar:
        while (left := _left(load_state(demo.settings.retrain_path), newest, rules)) > 0:
            bar.update(len(KINDS) - left - bar.n)
            group.keep_up()
            if time.monotonic() > deadline:
                raise ServiceStartError(
                    f"not all models were retrained within {RETRAIN_WAIT_S:g} s; "
                    f"see {group.log_path('retrainer')}"
                )
            time.sleep(0.5)
        bar.update(len(KINDS) - bar.n)
    time.sleep(SWAP_WAIT_S)
    lines = log_lines(group.log_path("retrainer"), _VERDICTS)
    return [line.partition("event=")[2] for line in lines]


def _left(state: RetrainState, newest: int, rules: RetrainRules) -> int:
    return len(KINDS) if state.sequence < newest else len(due(state, rules, math.inf))
