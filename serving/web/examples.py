"""One request a route that can be sent as it stands; shown in the API documentation.

The job keys are those of the embedded sample, so that they are known after ``make run``.
"""

from dataclasses import replace

from data.domain import (
    Card,
    FinishedJob,
    JobRequest,
    ModelStructure,
    Outcome,
    Pair,
    Resident,
    Segment,
)
from data.wire import Json, to_json

_STRUCTURE = ModelStructure(
    family="dlrm",
    batch_size=2048,
    gpu_model="A100",
    framework="pytorch",
    optimizer="adam",
    embedding_rows=1_000_000,
    embedding_width=64,
    embedding_tables=26,
    dense_parameters=4_000_000,
)
_PAIR = Pair("boosting-30k", "compress-lzma", "cpu")
_JOB = JobRequest(
    job_id="job-1",
    user="ada",
    queue="research",
    job_key="boosting-30k",
    submit_time=1_795_000_000.0,
    limit_s=3600.0,
    structure=_STRUCTURE,
)
_CARDS = (
    Card("node0/gpu0", "cpu", 40_960),
    Card("node0/gpu1", "cpu", 20_480, (Resident("job-0", "compress-lzma"),)),
)
_FINISHED = FinishedJob(
    job_id="job-1",
    attempt=1,
    user="ada",
    queue="research",
    job_key="boosting-30k",
    gpus=1,
    submit_time=1_795_000_000.0,
    start_time=1_795_000_010.0,
    finish_time=1_795_000_070.0,
    outcome=Outcome.OK,
    segments=(Segment(1_795_000_010.0, 1_795_000_070.0, "node0/gpu0", "cpu"),),
)
_MATE = replace(_JOB, job_id="41", elapsed_s=90.0)

EXAMPLES: dict[str, Json] = {
    "/v1/slowdown": {"pairs": [to_json(_PAIR)]},
    "/v1/placements": {"job": to_json(_JOB), "cards": [to_json(card) for card in _CARDS]},
    "/v1/runtime": {"jobs": [to_json(_JOB)], "running": [to_json(_MATE)]},
    "/v1/memory": {"structures": [to_json(_STRUCTURE)]},
    "/v1/demand": {"structures": [to_json(_STRUCTURE)]},
    "/v1/explain": {"pair": to_json(_PAIR)},
    "/v1/finished": {"jobs": [to_json(_FINISHED)]},
    "/v1/push": {"name": "colocast-interference"},
}
"""Request body by path."""
