"""Generated situations: clusters that are busy in every way, queues, jobs, predictions."""

import os
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from data.domain import Estimate, JobRequest, Resident, Source
from scheduler_client.policy.card_classes import card_classes
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.predictions import Colocation, JobForecast
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.view import CardState, ClusterView, PendingJob, Queue, RunningJob

KEYS = ("bert", "gan", "dlrm")
MODELS = ("A100", "T4")
EPSILON = 1e-5
MOST_JOBS = 2
LEVELS = LevelRules(
    (100.0, 600.0), 50.0, reserve_after_s=0.0, fresh_slowdown=1.5, guaranteed_slowdown=1.2
)


def estimates(low: float, high: float) -> st.SearchStrategy[Estimate]:
    widths = st.tuples(st.floats(0, 0.3), st.floats(0, 0.5))
    return st.builds(
        lambda value, width, known: Estimate(
            value, value * (1 - width[0]), value * (1 + width[1]), "m/1", Source.MODEL, known
        ),
        st.floats(low, high),
        widths,
        st.booleans(),
    )


@st.composite
def queue_lists(draw) -> tuple[Queue, ...]:
    limits = st.one_of(st.none(), st.floats(0, 3))
    queues = []
    for name in ("q0", "q1", "q2"):
        cohort = draw(st.sampled_from([None, "all", "all"]))
        queues.append(
            Queue(
                name,
                draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0])),
                cohort,
                draw(limits) if cohort else None,
                draw(limits) if cohort else None,
                draw(st.sampled_from([0.5, 1.0, 2.0])),
                draw(st.sampled_from([False, False, False, True])),
            )
        )
    return tuple(queues)


@st.composite
def busy_clusters(draw) -> tuple[tuple[CardState, ...], tuple[RunningJob, ...]]:
    cards, running = [], []
    for number in range(draw(st.integers(0, 5))):
        model, total = draw(st.sampled_from(MODELS)), draw(st.sampled_from([4096, 8192]))
        card = CardState(f"gpu{number}", model, total, total)
        for slot in range(draw(st.integers(0, MOST_JOBS))):
            job_id, key = f"r{number}-{slot}", draw(st.sampled_from(KEYS))
            used = draw(st.integers(0, card.free_mem_mib))
            card = card.with_resident(Resident(job_id, key), used)
            queue = draw(st.sampled_from(["q0", "q1", "q2"]))
            running.append(RunningJob(job_id, "ada", queue, key, (card.card_id,), 0.0))
        cards.append(replace(card, is_healthy=draw(st.sampled_from([True, True, True, False]))))
    return tuple(cards), tuple(running)


@st.composite
def pending_jobs(draw, number: int) -> PendingJob:
    job = JobRequest(
        job_id=f"p{number}",
        user=draw(st.sampled_from(["ada", "bob"])),
        queue=draw(st.sampled_from(["q0", "q1", "q2", "unknown"])),
        job_key=draw(st.sampled_from(KEYS)),
        submit_time=draw(st.floats(0, 900)),
        gpus=draw(st.sampled_from([1, 1, 1, 2, 3])),
        gpu_mem_mib=draw(st.one_of(st.none(), st.integers(1, 9000))),
    )
    model = draw(st.sampled_from([None, None, *MODELS]))
    had_gpu_s = draw(st.sampled_from([0.0, 0.0, 50.0, 100.0, 2000.0]))
    return PendingJob(job, draw(st.integers(-5, 5)), gpu_model=model, attained_gpu_s=had_gpu_s)


@st.composite
def situations(draw) -> tuple[ClusterView, dict[str, JobForecast]]:
    cards, running = draw(busy_clusters())
    pending = tuple(draw(pending_jobs(n)) for n in range(draw(st.integers(0, 7))))
    queues = draw(queue_lists())
    ahead = {queue.name: 60.0 for queue in queues if draw(st.booleans())}
    view = ClusterView(1000.0, cards, pending, running, queues, ahead_gpu_s=ahead)
    classes = card_classes(cards, KEYS, MOST_JOBS)
    predictions = {}
    for job in pending:
        known = [c for c in classes if draw(st.sampled_from([True, True, False]))]
        colocations = {
            c: Colocation(
                draw(estimates(1.0, 1.7)),
                tuple(draw(estimates(1.0, 1.7)) for _ in c.resident_keys),
            )
            for c in known
            if c.resident_keys
        }
        memory = {m: draw(estimates(1.0, 9000.0)) for m in MODELS if draw(st.booleans())}
        predictions[job.job.job_id] = JobForecast(None, memory, colocations, Level.MODEL)
    return view, predictions


def examples(count: int) -> settings:
    """So many examples in `make test`, always the same; thousands in `make test-properties`."""
    thorough = os.environ.get("COLOCAST_EXAMPLES")
    return settings(
        max_examples=int(thorough) if thorough else count,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
