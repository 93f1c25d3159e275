"""The champions that a lesson is about, and how far into the job log they have learnt."""

import logging
from collections.abc import Sequence

from data.errors import BadModelError, NoChampionError
from pipelines.registering.registry import CHAMPION, Registry
from serving.inference.bundle import Bundle

LOG = logging.getLogger("colocast.retrain")
JOBLOG, SEQUENCE, SEEN = "joblog", "joblog_sequence", "production_rows"
"""Facts of a version: of which job log, up to which entry, and how many rows it learnt."""


def champions(registry: Registry, models: Sequence[str]) -> list[Bundle]:
    """Return the champions, or none at all where one is missing or damaged.

    Raises
    ------
    RegistryError
        If the registry is out of reach.
    """
    try:
        return [registry.load(name, CHAMPION) for name in models]
    except (NoChampionError, BadModelError) as error:
        LOG.warning("event=no_champion models=%s reason=%s", ",".join(models), error)
        return []


def learnt_sequence(bundles: Sequence[Bundle], joblog: str) -> int:
    """Return the entry up to which they learnt; 0 where they know another log or none."""
    facts = [bundle.spec.facts for bundle in bundles]
    known = [int(f.get(SEQUENCE, 0)) if f.get(JOBLOG) == joblog else 0 for f in facts]
    return max(known, default=0)


def learnt_rows(bundles: Sequence[Bundle]) -> int:
    """Return how many production rows the least taught of them learnt from."""
    return min((int(bundle.spec.facts.get(SEEN, 0)) for bundle in bundles), default=0)
