"""What every row of the serving benchmark is measured with: models, a registry, two servers."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving_processes import (
    MODEL,
    PROBE_SITE,
    Served,
    bare_command,
    empty_command,
    service_command,
    service_environment,
)
from benchmarks.serving_registry import FolderRegistry
from benchmarks.serving_sample import Fleet, fleet, trained, widened, written
from serving.champions.files import read_bundle
from serving.inference.bundle import Bundle
from serving.profile_env import FIXED

REPOSITORY = Path(__file__).resolve().parents[1]
MANY_KEYS = 1_500  # 2.25 million pairs: too many to compute ahead


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of the benchmark.

    Attributes
    ----------
    folder : Path
        Of this run.
    fleet : Fleet
    bundle : Bundle
        The sample model, as trained.
    versions : tuple of Path
        Two versions of it, and one with ``MANY_KEYS`` job keys.
    seconds : float
        That one load lasts.
    rounds : int
        How often service and bare application take turns; the best round of each counts, since
        other work on this machine only adds.
    """

    folder: Path
    fleet: Fleet
    bundle: Bundle
    versions: tuple[Path, ...]
    seconds: float
    rounds: int

    @contextmanager
    def service(self, workers: int = 1, **options: object) -> Iterator[Served]:
        """Run the service on a warm cache; see `start`."""
        with ExitStack() as stack:
            registry = stack.enter_context(FolderRegistry(*self.versions))
            registry.champion = int(str(options.get("champion", 1)))
            yield stack.enter_context(self.start(registry, workers, is_pinned=workers == 1))

    def start(
        self, registry: FolderRegistry, workers: int = 1, *, is_pinned: bool = False
    ) -> Served:
        """Return the service, not started yet; pinned, it keeps to the bare one's core."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        environ = service_environment(home, registry.url)
        environ |= {"PYTHONPATH": f"{PROBE_SITE}:{REPOSITORY}", "COLOCAST_BENCH_PROBE": str(home)}
        environ["COLOCAST_ARTIFACT_ROOTS"] = str(self.versions[0].parent)
        core = server_core() if is_pinned else None
        return Served(service_command(workers), environ, self.folder / "service.log", core)

    def empty(self) -> Served:
        """Return a BentoML service that answers nothing, not started yet."""
        environ = {"PYTHONPATH": str(REPOSITORY), **FIXED}
        return Served(empty_command(), environ, self.folder / "empty.log")

    def bare(self, version: int = 1, workers: int = 1) -> Served:
        """Return the bare application, not started yet; one worker keeps to the server's core."""
        model = str(self.versions[version - 1])
        environ = {MODEL: model, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        core = server_core() if workers == 1 else None
        return Served(bare_command(workers), environ, self.folder / "bare.log", core)


@contextmanager
def made(models: Path, seconds: float, rounds: int) -> Iterator[Bench]:
    """Hand out a bench in a temporary folder; the sample models are trained if they are not there.

    Parameters
    ----------
    models : Path
        Where the sample models are kept from run to run.
    seconds, rounds
        As in ``Bench``.
    """
    sample = fleet(seed=0)
    versions = tuple(models.absolute() / name for name in ("1", "2", "many"))
    if not versions[-1].is_dir():
        print(f"training the sample models into {models}; half a minute", flush=True)
        shutil.rmtree(models, ignore_errors=True)
        _train(sample, versions)
    first = read_bundle(versions[0], "colocast-interference/1")
    with tempfile.TemporaryDirectory(prefix="colocast-bench-") as name:
        yield Bench(Path(name), sample, first, versions, seconds, rounds)


def _train(sample: Fleet, versions: tuple[Path, ...]) -> None:
    first = trained(sample, seed=1)
    second = trained(sample, seed=2, like=first)
    many = widened(first, fleet(seed=3, keys=MANY_KEYS).profiles)
    for bundle, folder in zip((first, second, many), versions, strict=True):
        written(bundle, folder)


def server_core() -> int | None:
    """Return the core for the server, None where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0] if len(cores) > 1 else None
