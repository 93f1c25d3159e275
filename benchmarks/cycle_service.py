"""A prediction service with a made-up model of a site's size, as a process of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.serving_bench import made


@contextmanager
def running_service(models: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the address of a service that is ready, and the job keys that it knows.

    Parameters
    ----------
    models : Path
        Where the sample models of the serving benchmark are kept from run to run; they are trained
        if they are not there.
    """
    with made(models, seconds=0.0, rounds=0) as bench, bench.service() as served:
        yield served.url, bench.fleet.keys
