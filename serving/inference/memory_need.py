"""How much GPU memory a job will need on a GPU model, from the best that is known of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from data.domain import Estimate, JobRequest, ModelStructure, Source

UNKNOWN_MIB = 2.0**20
"""The upper bound where nothing is known: more than any card has (1 TiB)."""

PEAK_MARGIN = 0.1
"""A measured peak holds within a tenth: allocators round, and inputs differ between runs."""

UNKNOWN = Estimate(0.0, 0.0, UNKNOWN_MIB, "none", Source.COLD_START, in_domain=False)


def memory_need(
    job: JobRequest,
    gpu_model: str,
    peaks_mib: Mapping[tuple[str, str], Estimate],
    predicted: Callable[[ModelStructure], Estimate | None],
) -> Estimate:
    """Return the memory peak of `job` on `gpu_model` (MiB).

    Parameters
    ----------
    job : JobRequest
    gpu_model : str
    peaks_mib : mapping of (job key, GPU model) to Estimate
        As measured on exclusive runs.
    predicted : callable
        The memory model's estimate for a structure, or None without such a model.

    Returns
    -------
    Estimate
        Measured, else predicted from the structure, else what was requested (source
        ``heuristic``), else unknown (source ``cold_start``). Never above ``UNKNOWN_MIB``.
    """
    measured = peaks_mib.get((job.job_key, gpu_model))
    if measured is not None:
        return measured
    if job.structure is not None:
        estimate = predicted(replace(job.structure, gpu_model=gpu_model))
        if estimate is not None:
            return _capped(estimate)
    if job.gpu_mem_mib is not None:
        requested = float(job.gpu_mem_mib)
        return Estimate(requested, 0.0, requested, "none", Source.HEURISTIC, in_domain=False)
    return UNKNOWN


def _capped(estimate: Estimate) -> Estimate:
    value, lower, upper = (
        min(each, UNKNOWN_MIB) for each in (estimate.value, estimate.lower, estimate.upper)
    )
    return replace(estimate, value=value, lower=lower, upper=upper)


def measured_peak(peak_mib: float, version: str) -> Estimate:
    """Return a measured peak as an estimate of the next run's.

    Examples
    --------
    >>> measured_peak(1000.0, "colocast-interference/1").upper
    1100.0
    """
    upper = round(peak_mib * (1 + PEAK_MARGIN), 6)
    return Estimate(peak_mib, peak_mib * (1 - PEAK_MARGIN), upper, version, Source.MODEL)
