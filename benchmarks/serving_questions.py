"""What the service is asked while it is measured."""

import json

import numpy as np

from benchmarks.serving_sample import GPU_MODEL, fleet
from benchmarks.serving_wrk import Question
from data.domain import Pair
from serving.web.wire_binary import MEDIA, pairs_frame
from serving.web.wire_models import SlowdownRequest

CARDS = 1_000
BODIES = 20
BATCH = 1_024
Job = dict[str, object]


def pairs_question(keys: tuple[str, ...], rows: int = 1, bodies: int = BODIES) -> Question:
    """Return ``/v1/slowdown`` of so many pairs at a time."""
    random = np.random.default_rng(0)
    asked = []
    for _ in range(bodies):
        chosen = random.integers(0, len(keys), (rows, 2))
        asked.append(_json({"pairs": [_pair(keys[a], keys[b]) for a, b in chosen]}))
    return Question("/v1/slowdown", tuple(asked))


def binary_question(keys: tuple[str, ...], rows: int = 1, bodies: int = BODIES) -> Question:
    """Return the same without JSON."""
    random = np.random.default_rng(0)
    asked = []
    for _ in range(bodies):
        chosen = random.integers(0, len(keys), (rows, 2))
        pairs = tuple(Pair(keys[a], keys[b], GPU_MODEL) for a, b in chosen)
        asked.append(pairs_frame(SlowdownRequest(pairs)))
    return Question("/v1/slowdown", tuple(asked), {"Content-Type": MEDIA.decode()})


def placements_question(
    keys: tuple[str, ...], cards: int = CARDS, bodies: int = BODIES
) -> Question:
    """Return ``/v1/placements`` of one job and so many occupied cards."""
    random = np.random.default_rng(0)
    asked = []
    for number in range(bodies):
        residents = random.integers(0, len(keys), cards)
        document = {
            "job": _job(f"job-{number}", keys[int(random.integers(0, len(keys)))]),
            "cards": [_card(at, keys[int(key)]) for at, key in enumerate(residents)],
        }
        asked.append(_json(document))
    return Question("/v1/placements", tuple(asked))


def fresh_pairs_question(many: int, rows: int = BATCH) -> Question:
    """Return ``/v1/slowdown`` of pairs that were hardly ever asked before, made as one goes."""
    keys = fleet(seed=3, keys=many).keys
    listed = ",".join(f'"{key}"' for key in keys)
    return Question("/v1/slowdown", lua=_FRESH % (listed, len(keys), rows, GPU_MODEL))


def fresh_placements_question(many: int, bodies: int = 200) -> Question:
    """Return ``/v1/placements`` on cards with a thousand different residents."""
    keys = fleet(seed=3, keys=many).keys
    return placements_question(keys, CARDS, bodies)


_FRESH = """
local keys = {%s}
local count, rows = %d, %d
math.randomseed(os.time())
function request()
  local parts = {}
  for n = 1, rows do
    parts[n] = '{"job_key":"' .. keys[math.random(count)] .. '","neighbour_key":"' ..
      keys[math.random(count)] .. '","gpu_model":"%s"}'
  end
  return wrk.format(nil, nil, nil, '{"pairs":[' .. table.concat(parts, ",") .. ']}')
end
"""


def _pair(job: str, neighbour: str) -> Job:
    return {"job_key": job, "neighbour_key": neighbour, "gpu_model": GPU_MODEL}


def _job(job_id: str, key: str) -> Job:
    who = {"user": "ada", "queue": "research", "submit_time": 1_795_000_000.0}
    return {"job_id": job_id, "job_key": key, **who}


def _card(at: int, key: str) -> Job:
    resident = {"job_id": f"resident-{at}", "job_key": key}
    return {
        "card_id": f"node{at // 8}/gpu{at % 8}",
        "gpu_model": GPU_MODEL,
        "free_mem_mib": 40_000,
        "residents": [resident],
    }


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
