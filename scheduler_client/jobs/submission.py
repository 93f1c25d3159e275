"""What a user hands in: one command with what it asks for, checked where it enters."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite

from data.domain import JobRequest, ModelStructure
from data.errors import SettingError

MOST_GPUS = 1024
MOST_MIB = 2**31 - 1
MOST_PRIORITY = 1_000_000
LONGEST_NAME = 200
LONGEST_KEY = 512
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it was handed in.

    Attributes
    ----------
    user, queue : str
        Letters, digits and ``._@+-``.
    job_key : str
        What makes two jobs the same kind: model, data set, batch size, precision.
    command : tuple of str
        Program and arguments, run without a shell.
    gpu_mem_mib, cpus, mem_mib : int, optional
        Requested GPU memory on each card, CPU cores and main memory.
    limit_s : float, optional
        Run time after which it is ended (``timeout``).
    priority : int
        Among the jobs of the same user.
    gpu_model : str, optional
        The only model of card that will do.
    working_directory : str
        Where it runs; empty: where the scheduler runs.
    environment : mapping of str to str
        Added to the scheduler's own.
    """

    user: str
    queue: str
    job_key: str
    command: tuple[str, ...]
    gpus: int = 1
    gpu_mem_mib: int | None = None
    cpus: int | None = None
    mem_mib: int | None = None
    limit_s: float | None = None
    priority: int = 0
    gpu_model: str | None = None
    structure: ModelStructure | None = None
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def request(self, job_id: str, submit_time: float) -> JobRequest:
        """Return what the models may know of it."""
        return JobRequest(
            job_id=job_id,
            user=self.user,
            queue=self.queue,
            job_key=self.job_key,
            submit_time=submit_time,
            gpus=self.gpus,
            gpu_mem_mib=self.gpu_mem_mib,
            cpus=self.cpus,
            mem_mib=self.mem_mib,
            limit_s=self.limit_s,
            structure=self.structure,
        )


def checked_submission(submission: Submission) -> Submission:
    """Return `submission` itself if it can be run.

    Raises
    ------
    SettingError
        Names the field, what was found and what was wanted.

    Examples
    --------
    >>> checked_submission(Submission("ada", "research", "bert", ("true",), gpus=0))
    Traceback (most recent call last):
    data.errors.SettingError: gpus must be a whole number in [1, 1024], got 0
    """
    for name, found, holds, wanted in _rules(submission):
        if not holds:
            raise SettingError(f"{name} must be {wanted}, got {repr(found)[:80]}")
    return submission


Rule = tuple[str, object, bool, str]


def _rules(job: Submission) -> Iterator[Rule]:
    for name in ("user", "queue"):
        text = getattr(job, name)
        sized = len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None
        yield name, text, sized, f"1 to {LONGEST_NAME} letters, digits or ._@+-"
    plain = job.job_key.isprintable() and job.job_key.strip() == job.job_key
    sized = 0 < len(job.job_key) <= LONGEST_KEY and plain
    yield "job_key", job.job_key, sized, f"1 to {LONGEST_KEY} printable characters"
    texts = (*job.command, job.working_directory, *job.environment, *job.environment.values())
    yield "command", job.command, bool(job.command and job.command[0]), "a program and arguments"
    yield "command", job.command, not any("\0" in text for text in texts), "free of NUL characters"
    yield _whole("gpus", job.gpus, 1, MOST_GPUS)
    for name in ("gpu_mem_mib", "cpus", "mem_mib"):
        if getattr(job, name) is not None:
            yield _whole(name, getattr(job, name), 1, MOST_MIB)
    yield _whole("priority", job.priority, -MOST_PRIORITY, MOST_PRIORITY)
    if job.limit_s is not None:
        yield "limit_s", job.limit_s, isfinite(job.limit_s) and job.limit_s > 0, "seconds above 0"
    if job.structure is not None:
        yield from _structure_rules(job.structure)


def _structure_rules(structure: ModelStructure) -> Iterator[Rule]:
    for each in fields(structure):
        value = getattr(structure, each.name)
        if isinstance(value, int):
            least = 1 if each.name in ("batch_size", "gpus") else 0
            yield _whole(f"structure.{each.name}", value, least, 2**62)


def _whole(name: str, value: int, least: int, most: int) -> Rule:
    holds = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    return name, value, holds, f"a whole number in [{least}, {most}]"
