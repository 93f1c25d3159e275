"""``colocast replay``: compare scheduling policies on a trace of jobs."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from data.errors import SettingError
from data.settings import Settings

if TYPE_CHECKING:
    from pipelines.replaying.models import Beliefs
    from pipelines.replaying.run import Replay
    from pipelines.replaying.workloads import Workloads
    from scheduler_client.replay.simulation import Costs

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--trace", type=_PATH, help="Jobs, in any layout that `colocast import` reads.")
@click.option("--pairs", type=_PATH, help="Profiling runs with pairs. Default: what was imported.")
@click.option("--cluster", type=_PATH, help="YAML with gpus, gpus_per_node and quotas.")
@click.option("--load", type=float, help="Instead of --cluster: GPU time asked over there is.")
@click.option(
    "--policy", "policies", multiple=True, help="May be repeated. Default: all but live_*."
)
@click.option(
    "--model",
    default="other-half",
    show_default=True,
    help="What colocate predicts by: other-half, oracle, none, or an alias or version.",
)
@click.option("--seed", default=0, show_default=True, help="Of the split and the draw.")
@click.option("--burst", type=int, help="Submit all jobs of this week (0, 1, …) at once.")
@click.option("--checkpoint-s", default=1800.0, show_default=True, help="Between checkpoints.")
@click.option("--restart-s", default=62.0, show_default=True, help="What a restart costs.")
@click.option("--json", "json_path", type=_PATH, help="Write all metrics, by policy.")
@click.option("--events", type=_PATH, help="Write the event log of the one policy as parquet.")
@click.option("--compare", type=_PATH, help="Write a page of tables and plots (HTML).")
@click.option("--check", type=_PATH, help="Check an event log, and do nothing else.")
def command(  # noqa: PLR0913, PLR0917 - one for each option
    trace: Path | None,
    pairs: Path | None,
    cluster: Path | None,
    load: float | None,
    policies: tuple[str, ...],
    model: str,
    seed: int,
    burst: int | None,
    checkpoint_s: float,
    restart_s: float,
    json_path: Path | None,
    events: Path | None,
    compare: Path | None,
    check: Path | None,
) -> int | None:
    """Replay a trace under one or several policies, on the same cluster and the same draw.

    Every job gets a measured workload that suits its length; what jobs do to each other on a
    card comes from measured pairs alone. --json writes one object a policy, see docs/replay.md.
    With --check the exit status is 1 where the log does not hold.
    """
    from scheduler_client.replay.simulation import Costs

    if check is not None:
        return _check(check, json_path)
    if trace is None or (cluster is None) == (load is None):
        raise SettingError("wanted --trace, and one of --cluster and --load")
    if not checkpoint_s > 0 or not restart_s >= 0:
        raise SettingError(f"wanted --checkpoint-s > 0, got {checkpoint_s:g}, and --restart-s >= 0")
    from pipelines.replaying.run import BY_DEFAULT

    names = policies or BY_DEFAULT
    if events is not None and len(names) != 1:
        raise SettingError("--events wants exactly one --policy")
    costs = Costs(checkpoint_s, restart_s)
    replay = _prepared(trace, pairs, cluster or load, model, seed, burst, costs)
    _run(replay, names, seed, json_path, events, compare)
    return None


def _prepared(  # noqa: PLR0913, PLR0917
    trace: Path,
    pairs: Path | None,
    cluster: Path | float | None,
    model: str,
    seed: int,
    burst: int | None,
    costs: "Costs",
) -> "Replay":
    from pipelines.input_tables import input_table
    from pipelines.replaying.run import Replay
    from pipelines.replaying.trace import burst_of, site_for_load, site_from, trace_of
    from pipelines.replaying.workloads import draw, share_scores, workloads_of

    settings = Settings.from_mapping(os.environ, Path.cwd())
    jobs, _ = input_table("jobs", trace, settings)
    runs, source = input_table("profiling_runs", pairs, settings)
    workloads = workloads_of(runs, seed)
    drawn = draw(trace_of(jobs), workloads, seed)
    site = (
        site_from(cluster, drawn, costs)
        if isinstance(cluster, Path)
        else site_for_load(drawn, cluster or 0.0, costs)
    )
    drawn = drawn if burst is None else burst_of(drawn, burst)
    click.echo(f"{len(drawn):,} jobs on {site.cards} GPUs; pairs of {source}")
    beliefs = _beliefs(model, workloads, seed, settings)
    return Replay(drawn, site, workloads, beliefs, share_scores(workloads, pairs))


def _beliefs(model: str, workloads: "Workloads", seed: int, settings: Settings) -> "Beliefs":
    from pipelines.replaying.models import MODEL, none, of_bundle, oracle, other_half

    if model == "oracle":
        return oracle(workloads)
    if model == "none":
        return none(workloads)
    if model == "other-half":
        return other_half(workloads, seed)
    from pipelines.registering.registry import Registry

    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    return of_bundle(workloads, registry.load(MODEL, model))


def _run(  # noqa: PLR0913, PLR0917
    replay: "Replay",
    names: tuple[str, ...],
    seed: int,
    json_path: Path | None,
    events: Path | None,
    compare: Path | None,
) -> None:
    from pipelines.replaying.report import headline, page, replayed

    results = {}
    for name in names:
        results[name] = replayed(replay, name, events)
        click.echo(headline(name, results[name].metrics))
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        found = {name: result.metrics for name, result in results.items()}
        json_path.write_text(json.dumps(found, indent=2) + "\n")
    if compare is not None:
        compare.parent.mkdir(parents=True, exist_ok=True)
        compare.write_text(page(replay, results, seed), "utf-8")
        click.echo(f"written to {compare}")


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
        found = {"faults": list(checked.faults), "metrics": checked.metrics}
        json_path.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if checked.faults else 0
