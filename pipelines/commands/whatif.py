"""``colocast whatif``: what would happen to a job that has not been submitted."""

import json
import os
from pathlib import Path

import click

from data.settings import Settings


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--user", help="Default: who you are on this machine.")
@click.option("--queue", help="Default: the user's name.")
@click.option("--job-key", help="What makes two jobs the same kind; default: the command line.")
@click.option("--gpus", type=int, default=1, show_default=True, help="Cards, all or none.")
@click.option("--gpu-mem-mib", type=int, help="GPU memory on each card (MiB).")
@click.option("--gpu-model", help="Only cards of this model.")
@click.option("--limit", "limit_s", type=float, help="It would be ended after so many seconds.")
@click.option("--priority", type=int, default=0, show_default=True, help="Among your own jobs.")
@click.option("--json", "as_json", is_flag=True, help="The whole answer as JSON.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    *,
    user: str | None,
    queue: str | None,
    job_key: str | None,
    as_json: bool,
    words: tuple[str, ...],
    **asked: int | float | str | None,
) -> None:
    """Say where a job would run, when, how slow it would be, and what it would do to others.

    Nothing is submitted. Asks the running scheduler, on the port of COLOCAST_SCHEDULER_PORT.
    """
    import getpass

    from data.errors import SettingError
    from data.wire import Json
    from scheduler_client.explaining.asking import answer_of
    from scheduler_client.explaining.texts import whatif_text
    from scheduler_client.jobs.submitting import default_job_key

    if job_key is None and not words:
        raise SettingError("found neither, wanted --job-key or a command after --")
    name = user or getpass.getuser()
    settings = Settings.from_mapping(os.environ, Path.cwd())
    question: dict[str, Json] = {
        "user": name,
        "queue": queue or name,
        "job_key": job_key or default_job_key(words),
        **{field: value for field, value in asked.items() if value is not None},
    }
    found = answer_of(settings.scheduler_port, "/whatif", question)
    click.echo(json.dumps(found, indent=1) if as_json else whatif_text(found))
