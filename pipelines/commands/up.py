"""``colocast up``: start MLflow, the service, the retrainer and the scheduler."""

import os
from pathlib import Path

import click

from data.settings import Settings


@click.command()
@click.option("--demo", is_flag=True, help="Train, run 40 sample jobs, say what came of it.")
@click.option("--once", is_flag=True, help="With --demo: end after the summary.")
@click.option("--slots", type=click.IntRange(min=1), help="Use at most so many cards.")
def command(demo: bool, once: bool, slots: int | None) -> None:
    """Start everything, print the addresses, and end it all on Ctrl-C or SIGTERM.

    Where COLOCAST_PROMETHEUS_URL names a Prometheus, finished jobs are looked up there too.
    """
    from pipelines.demo.whole_loop import run_loop, sample_demo
    from pipelines.services.parts import (
        Plan,
        addresses,
        retrainer,
        scheduler,
        start,
        start_trained,
        telemetry,
        watch,
    )
    from pipelines.services.processes import ServiceGroup
    from pipelines.services.shutdown import Shutdown

    settings = Settings.from_mapping(os.environ, Path.cwd())
    with Shutdown().installed() as shutdown, ServiceGroup(settings.home / "logs") as group:
        start_trained(group, settings, os.environ, always=demo)
        if demo:
            summary = run_loop(sample_demo(settings, os.environ, slots), group)
            click.echo("\n" + "\n".join(summary) + "\n")
        else:
            plan = Plan(slots=slots)
            parts = (retrainer, scheduler, telemetry)
            start(group, *(make(settings, os.environ, plan) for make in parts))
        for name, address in addresses(settings).items():
            click.echo(f"{name:<9} {address}")
        if not (demo and once):
            click.echo("everything is up; Ctrl-C ends it")
            watch(group, shutdown.stop, click.echo)
