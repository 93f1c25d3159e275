"""Forecasts without the service: DeepShare's node cost on profiles measured here."""

from collections.abc import Collection, Iterable, Mapping

from data.domain import Estimate, Source
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.node_cost import crowding, gpu_util_cost
from scheduler_client.policy.predictions import CardClass, Colocation, JobClass, JobForecast

MEMORY_MARGIN = 1.2

Signals = Mapping[str, float]


def heuristic_forecast(
    job: JobClass, classes: Collection[CardClass], profiles: ProfileBook
) -> JobForecast:
    """Return what measured profiles say; level exclusive where they say nothing.

    A card is judged only where the job and all its residents have run alone here before; any
    other sharing stays unpredicted, and thus forbidden.
    """
    ran = {model: profiles.signals(job.job_key, model) for model in _models(classes)}
    measured = {model: signals for model, signals in ran.items() if signals is not None}
    memory = {model: _memory(signals) for model, signals in measured.items()}
    known_memory = {model: known for model, known in memory.items() if known is not None}
    cards = [card for card in classes if card.gpu_model in measured]
    found = {card: _colocation(measured[card.gpu_model], card, profiles) for card in cards}
    colocations = {card: known for card, known in found.items() if known is not None}
    if not any(card.resident_keys for card in colocations):
        return JobForecast(memory=known_memory, level=Level.EXCLUSIVE)
    return JobForecast(memory=known_memory, colocations=colocations, level=Level.HEURISTIC)


def _models(classes: Iterable[CardClass]) -> list[str]:
    return list(dict.fromkeys(card.gpu_model for card in classes))


def _memory(signals: Signals) -> Estimate | None:
    """Return the measured peak, with a margin above it for the next run."""
    peak_mib = signals.get("gpu_mem_peak_mib")
    if peak_mib is None:
        return None
    upper_mib = MEMORY_MARGIN * peak_mib
    return Estimate(peak_mib, peak_mib, upper_mib, "none", Source.HEURISTIC, in_domain=False)


def _colocation(request: Signals, card: CardClass, profiles: ProfileBook) -> Colocation | None:
    used = [profiles.signals(key, card.gpu_model) for key in card.resident_keys]
    known = [signals for signals in used if signals is not None]
    if len(known) < len(used):
        return None
    slowdown, cost = crowding(known, request), gpu_util_cost(known, request)
    if slowdown is None or cost is None:
        return None
    return Colocation(slowdown, (slowdown,) * len(known), cost)
