"""``colocast replay``: compare scheduling policies on a trace of jobs."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from data.errors import SettingError
from data.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.replaying.models import Beliefs
    from pipelines.replaying.result import Result
    from pipelines.replaying.run import Replay
    from pipelines.replaying.workloads import Workloads

_PATH = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be replayed, as asked for on the command line."""

    trace: Path
    mapping: Path | None
    pairs: Path | None
    cluster: Path | None
    load: float | None
    gpu_model: str | None
    model: str
    seed: int
    first: int | None
    burst: int | None
    checkpoint_s: float
    restart_s: float

    def __post_init__(self) -> None:
        if (self.cluster is None) == (self.load is None):
            raise SettingError("wanted --trace, and one of --cluster and --load")
        if not self.checkpoint_s > 0 or not self.restart_s >= 0:
            found = f"{self.checkpoint_s:g}"
            raise SettingError(f"wanted --checkpoint-s > 0, got {found}, and --restart-s >= 0")

    def params(self, source: str) -> dict[str, str]:
        """Return them as parameters of a run in MLflow."""
        return {
            "trace": self.trace.name,
            "pairs": Path(source).name,
            "cluster": self.cluster.name if self.cluster else f"load {self.load:g}",
            "model": self.model,
            "seed": str(self.seed),
            "first": "" if self.first is None else str(self.first),
            "burst": "" if self.burst is None else str(self.burst),
            "checkpoint_s": f"{self.checkpoint_s:g}",
            "restart_s": f"{self.restart_s:g}",
        }


@click.command()
@click.option("--trace", type=_PATH, help="Jobs, in any layout that `colocast import` reads.")
@click.option("--mapping", type=_PATH, help="YAML that maps the columns of any other trace.")
@click.option("--pairs", type=_PATH, help="Profiling runs with pairs. Default: what was imported.")
@click.option("--gpu-model", help="Of the pairs, where they are of several.")
@click.option("--cluster", type=_PATH, help="YAML with gpus, gpus_per_node and quotas.")
@click.option("--load", type=float, help="Instead of --cluster: GPU time asked over there is.")
@click.option(
    "--policy", "policies", multiple=True, help="May be repeated. Default: all but live_*."
)
@click.option(
    "--model",
    default="other-half",
    show_default=True,
    help="What colocate predicts by: other-half, other-pairs, oracle, none, alias or version.",
)
@click.option("--seed", default=0, show_default=True, help="Of the split and the draw.")
@click.option("--first", type=click.IntRange(1), help="Only so many jobs, the first to arrive.")
@click.option("--burst", type=int, help="Submit all jobs of this week (0, 1, …) at once.")
@click.option("--checkpoint-s", default=1800.0, show_default=True, help="Between checkpoints.")
@click.option("--restart-s", default=62.0, show_default=True, help="What a restart costs.")
@click.option("--json", "json_path", type=_PATH, help="Write all metrics, by policy.")
@click.option("--events", type=_PATH, help="Write the event log of the one policy as parquet.")
@click.option("--compare", type=_PATH, help="Write a page of tables and plots (HTML).")
@click.option(
    "--mlflow/--no-mlflow",
    "to_mlflow",
    default=None,
    help="Log the comparison. Default: where --compare is given and MLFLOW_TRACKING_URI is set.",
)
@click.option("--check", type=_PATH, help="Check an event log, and do nothing else.")
def command(  # noqa: PLR0913 - one for each option
    *,
    trace: Path | None,
    policies: tuple[str, ...],
    json_path: Path | None,
    events: Path | None,
    compare: Path | None,
    to_mlflow: bool | None,
    check: Path | None,
    mapping: Path | None,
    pairs: Path | None,
    gpu_model: str | None,
    cluster: Path | None,
    load: float | None,
    model: str,
    seed: int,
    first: int | None,
    burst: int | None,
    checkpoint_s: float,
    restart_s: float,
) -> int | None:
    """Replay a trace under one or several policies, on the same cluster and the same draw.

    Every job gets a measured workload that suits its length; what jobs do to each other on a
    card comes from measured pairs alone. --json writes one object a policy, see docs/replay.md.
    With --check the exit status is 1 where the log does not hold.
    """
    if check is not None:
        return _check(check, json_path)
    if trace is None:
        raise SettingError("wanted --trace, and one of --cluster and --load")
    asked = _Asked(
        *(trace, mapping, pairs, cluster, load, gpu_model),
        *(model, seed, first, burst, checkpoint_s, restart_s),
    )
    from pipelines.replaying.run import BY_DEFAULT

    names = policies or BY_DEFAULT
    if events is not None and len(names) != 1:
        raise SettingError("--events wants exactly one --policy")
    settings = Settings.from_mapping(os.environ, Path.cwd())
    replay, source = _prepared(asked, settings)
    results = _results(replay, names, events)
    if json_path is not None:
        _write_json(json_path, {name: result.metrics for name, result in results.items()})
    if to_mlflow is None:
        to_mlflow = compare is not None and "MLFLOW_TRACKING_URI" in os.environ
    if compare is not None or to_mlflow:
        where = settings if to_mlflow else None
        _report(replay, results, asked.params(source), compare, where)
    return None


def _prepared(asked: _Asked, settings: Settings) -> "tuple[Replay, str]":
    from pipelines.input_tables import input_table, mapped_table
    from pipelines.replaying.run import Replay
    from pipelines.replaying.trace import burst_of, site_for_load, site_from, trace_of
    from pipelines.replaying.workloads import draw, of_gpu_model, share_scores, workloads_of
    from scheduler_client.replay.simulation import Costs

    jobs = (
        mapped_table("jobs", asked.trace, asked.mapping)
        if asked.mapping
        else input_table("jobs", asked.trace, settings)[0]
    )
    runs, source = input_table("profiling_runs", asked.pairs, settings)
    workloads = workloads_of(of_gpu_model(runs, asked.gpu_model), asked.seed)
    drawn = draw(trace_of(jobs, asked.first), workloads, asked.seed)
    costs = Costs(asked.checkpoint_s, asked.restart_s)
    site = (
        site_from(asked.cluster, drawn, costs)
        if asked.cluster is not None
        else site_for_load(drawn, asked.load or 0.0, costs)
    )
    drawn = drawn if asked.burst is None else burst_of(drawn, asked.burst)
    click.echo(f"{len(drawn):,} jobs on {site.cards} GPUs; pairs of {source}")
    beliefs = _beliefs(asked, workloads, settings)
    return Replay(drawn, site, workloads, beliefs, share_scores(workloads, asked.pairs)), source


def _beliefs(asked: _Asked, workloads: "Workloads", settings: Settings) -> "Beliefs":
    from pipelines.replaying.models import MODEL, none, of_bundle, oracle, other_half, other_pairs

    if asked.model == "oracle":
        return oracle(workloads)
    if asked.model == "none":
        return none(workloads)
    if asked.model == "other-half":
        return other_half(workloads, asked.seed)
    if asked.model == "other-pairs":
        return other_pairs(workloads, asked.seed)
    from pipelines.registering.registry import Registry

    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    return of_bundle(workloads, registry.load(MODEL, asked.model))


def _results(replay: "Replay", names: tuple[str, ...], events: Path | None) -> "dict[str, Result]":
    from pipelines.replaying.result import headline, replayed

    results = {}
    for name in names:
        results[name] = replayed(replay, name, events)
        click.echo(headline(name, results[name].metrics))
    return results


def _report(
    replay: "Replay",
    results: "Mapping[str, Result]",
    params: dict[str, str],
    path: Path | None,
    settings: Settings | None,
) -> None:
    from pipelines.replaying.page import figures, page

    seed = int(params["seed"])
    pictures = figures(results, seed)
    html = page(replay, results, seed, pictures)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, "utf-8")
        click.echo(f"written to {path}")
    if settings is not None:
        from pipelines.replaying.tracking import Comparison, logged_comparison

        comparison = Comparison(results, params, html, pictures)
        run_id = logged_comparison(comparison, settings.tracking_uri, settings.artifacts_path)
        click.echo(f"logged as run {run_id} of the experiment colocast-replay")


def _write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def _check(path: Path, json_path: Path | None) -> int:
    from data.tables import read_frame
    from pipelines.replaying.check import checked_log

    checked = checked_log(read_frame(path))
    for fault in checked.faults[:20]:
        click.echo(fault)
    for name, value in checked.metrics.items():
        click.echo(f"{name}: {value:,.3f}")
    click.echo(f"{len(checked.faults):,} faults" if checked.faults else "the log holds")
    if json_path is not None:
        _write_json(json_path, {"faults": list(checked.faults), "metrics": checked.metrics})
    return 1 if checked.faults else 0
