"""``colocast schedule``: the scheduler loop on this machine."""

import os
from pathlib import Path

import click

from data.settings import Settings
from pipelines.commands.number_option import number_option
from scheduler_client.local.devices import DeviceKind


@click.command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Queues (Kueue's ClusterQueue) and settings, YAML; default HOME/scheduler.yaml.",
)
@click.option(
    "--policy",
    type=click.Choice(["colocate", "exclusive", "fifo_shared"]),
    default="colocate",
    show_default=True,
)
@click.option("--slots", type=click.IntRange(min=1), help="Use at most so many cards.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "gpu"]),
    help="Kind of card; default: GPUs where there are any, else CPU slots.",
)
@click.option("--cycle-s", type=click.FloatRange(0.01, 3600), help="Pause between two cycles.")
@click.option("--until-empty", is_flag=True, help="End when every job has finished and is logged.")
@number_option(
    "--deliver-s",
    60.0,
    "With --until-empty: go on reporting for so long after the last job.",
    most=86_400,
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="At the end, write what was decided, predicted and measured, as JSON.",
)
@click.option("--service-url", help="Prediction service; default: on loopback, by the settings.")
@click.option("--status/--no-status", default=True, help="Serve status and metrics over HTTP.")
@click.pass_context
def command(  # noqa: PLR0913 - one argument an option
    context: click.Context,
    *,
    config_path: Path | None,
    policy: str,
    slots: int | None,
    device: DeviceKind | None,
    cycle_s: float | None,
    until_empty: bool,
    deliver_s: float,
    report_path: Path | None,
    service_url: str | None,
    status: bool,
) -> None:
    """Run submitted jobs, alone or together, as predictions and queues allow.

    Ctrl-C or SIGTERM ends the jobs that run; they count as preempted, and wait for the next
    start. Exit status 1 says that something is left: jobs that cannot start, or finished ones
    that could not be reported. The bearer token for the service is read from COLOCAST_TOKEN.
    """
    from scheduler_client.events import log_to_stderr
    from scheduler_client.local.card_metrics import CardPage
    from scheduler_client.run import RunRules
    from scheduler_client.start import Start, explaining, found_config, run_local
    from scheduler_client.status import status_server
    from scheduler_client.stopping import stop_on_signals

    settings = Settings.from_mapping(os.environ, Path.cwd())
    config = found_config(settings, config_path)
    page = CardPage()
    start = Start(
        settings=settings,
        config=config,
        policy=policy,
        rules=RunRules(
            cycle_s=cycle_s or config.settings.cycle_s,
            grace_s=config.settings.grace_s,
            until_empty=until_empty,
            deliver_s=deliver_s,
        ),
        service_url=service_url or settings.service_url,
        token=os.environ.get("COLOCAST_TOKEN"),
        slots=slots,
        device=device,
        report_path=report_path,
        page=page if status else None,
    )
    log_to_stderr()
    with (
        stop_on_signals() as stop,
        explaining(start) as explainer,
        status_server(settings.scheduler_port if status else None, page.text, explainer) as observe,
    ):
        end = run_local(start, stop, observe)
    if not end.is_stopped and not end.is_clean:
        left = f"{end.pending} jobs, {end.undelivered} reports and {end.refused} refused reports"
        click.echo(f"colocast: left over: {left}; see the log above", err=True)
        context.exit(1)
