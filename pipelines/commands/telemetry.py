"""``colocast telemetry``: signals of finished jobs from a cluster's Prometheus."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands.number_option import number_option

if TYPE_CHECKING:
    from data.prometheus.config import TelemetryConfig
    from data.prometheus.source import PrometheusSource

URL = click.option(
    "--url",
    envvar="COLOCAST_PROMETHEUS_URL",
    default="http://127.0.0.1:9090",
    show_default=True,
    help="The Prometheus (COLOCAST_PROMETHEUS_URL).",
)
CONFIG = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Metric names, units and labels, YAML; default HOME/telemetry.yaml where there is one.",
)


@click.group()
def command() -> None:
    """Look up the signals of finished jobs in a Prometheus; see docs/telemetry.md.

    The bearer token for it is read from COLOCAST_PROMETHEUS_TOKEN.
    """


@command.command()
@URL
@CONFIG
@click.option("--follow", "is_following", is_flag=True, help="Go on until Ctrl-C or SIGTERM.")
@number_option("--poll-s", 60.0, "With --follow: seconds between two passes.", least=0.1)
@click.option("--again", is_flag=True, help="Also look up jobs of which nothing was found before.")
def pull(
    *, url: str, config_path: Path | None, is_following: bool, poll_s: float, again: bool
) -> None:
    """Look up all finished jobs that were not looked up, and keep their signals.

    They are kept beside the job log, in its database; the retrainer learns from them.
    """
    import time

    from data.joblog_signals import SignalTable
    from data.settings import Settings
    from pipelines.services.shutdown import Shutdown
    from pipelines.telemetry.pull import follow, log_to_stderr
    from pipelines.telemetry.pull import pull as pulled

    settings = Settings.from_mapping(os.environ, Path.cwd())
    with _opened(url, config_path) as (source, config), SignalTable(settings.joblog_url) as table:
        if again:
            click.echo(f"{table.forget_empty()} jobs are looked up again")
        if not is_following:
            click.echo(pulled(table, source, config, time.time()).text())
            return
        log_to_stderr()
        with Shutdown().installed() as shutdown:
            follow(lambda: pulled(table, source, config, time.time()), shutdown.stop, poll_s)


@command.command()
@URL
@CONFIG
@click.pass_context
def check(context: click.Context, *, url: str, config_path: Path | None) -> None:
    """Say which signals the Prometheus has now, of how many cards, and what is missing.

    Exit status 1 says that jobs could not be joined with their cards, or have no signal at all.
    """
    import time

    from pipelines.telemetry.check import checked_cards, checked_text

    with _opened(url, config_path) as (source, config):
        found = checked_cards(source, config, time.time())
    click.echo(checked_text(found))
    if not found.is_usable:
        context.exit(1)


@command.command()
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write them as JSON.")
def profiles(*, json_path: Path | None) -> None:
    """Show the profile of each job key on each GPU model: count, spread, age, sharing class."""
    import time

    from data.settings import Settings
    from pipelines.telemetry.profiles import profiles_text, stored_profiles

    settings = Settings.from_mapping(os.environ, Path.cwd())
    table = stored_profiles(settings.joblog_url)
    if json_path is not None:
        json_path.write_text(table.to_json(orient="records", indent=1))
    click.echo(profiles_text(table, time.time()))


@contextmanager
def _opened(
    url: str, config_path: Path | None
) -> "Iterator[tuple[PrometheusSource, TelemetryConfig]]":
    from data.prometheus.config import TelemetryConfig, load_telemetry
    from data.prometheus.source import PrometheusSource
    from data.settings import Settings

    path = config_path or Settings.from_mapping(os.environ, Path.cwd()).home / "telemetry.yaml"
    config = load_telemetry(path) if config_path or path.exists() else TelemetryConfig()
    token = os.environ.get("COLOCAST_PROMETHEUS_TOKEN")
    with PrometheusSource(url, token, config.timeout_s) as source:
        yield source, config
