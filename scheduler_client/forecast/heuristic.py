"""Forecasts without the service: DeepShare's node cost on profiles measured here."""

from collections.abc import Iterable

from data.domain import Estimate, Source
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.node_cost import crowding, gpu_util_cost
from scheduler_client.policy.predictions import CardClass, Colocation, JobClass, JobForecast

MEMORY_MARGIN = 1.2


def heuristic_forecast(
    job: JobClass, classes: Iterable[CardClass], profiles: ProfileBook
) -> JobForecast:
    """Return what measured profiles say; level exclusive where they say nothing.

    A card is judged only where the job and all its residents have run alone here before; any
    other sharing stays unpredicted, and thus forbidden.
    """
    of_model: dict[str, list[CardClass]] = {}
    for card in classes:
        of_model.setdefault(card.gpu_model, []).append(card)
    ran_on = [model for model in of_model if profiles.signals(job.job_key, model) is not None]
    found = {c: _colocation(job, c, profiles) for model in ran_on for c in of_model[model]}
    colocations = {card: known for card, known in found.items() if known is not None}
    memory = {model: _memory(job, model, profiles) for model in ran_on}
    known_memory = {model: known for model, known in memory.items() if known is not None}
    if not any(card.resident_keys for card in colocations):
        return JobForecast(memory=known_memory, level=Level.EXCLUSIVE)
    return JobForecast(memory=known_memory, colocations=colocations, level=Level.HEURISTIC)


def _memory(job: JobClass, gpu_model: str, profiles: ProfileBook) -> Estimate | None:
    """Return the measured peak, with a margin above it for the next run."""
    peak_mib = (profiles.signals(job.job_key, gpu_model) or {}).get("gpu_mem_peak_mib")
    if peak_mib is None:
        return None
    upper_mib = MEMORY_MARGIN * peak_mib
    return Estimate(peak_mib, peak_mib, upper_mib, "none", Source.HEURISTIC, in_domain=False)


def _colocation(job: JobClass, card: CardClass, profiles: ProfileBook) -> Colocation | None:
    request = profiles.signals(job.job_key, card.gpu_model)
    used = [profiles.signals(key, card.gpu_model) for key in card.resident_keys]
    known = [signals for signals in used if signals is not None]
    if request is None or len(known) < len(used):
        return None
    slowdown, cost = crowding(known, request), gpu_util_cost(known, request)
    if slowdown is None or cost is None:
        return None
    return Colocation(slowdown, (slowdown,) * len(known), cost)
