"""``colocast submit``: hand a command to the scheduler."""

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
@click.option("--cpus", type=int, help="CPU cores it uses; for runtime prediction.")
@click.option("--mem-mib", type=int, help="Main memory it uses (MiB); for runtime prediction.")
@click.option("--limit", "limit_s", type=float, help="End it after so many seconds.")
@click.option("--priority", type=int, default=0, show_default=True, help="Among your own jobs.")
@click.option("--structure", help="ModelStructure as JSON, or @FILE: what memory is predicted by.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The scheduler's configuration, to check the queue; default HOME/scheduler.yaml.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(  # noqa: PLR0913 - one argument an option
    *,
    user: str | None,
    queue: str | None,
    job_key: str | None,
    structure: str | None,
    environment: tuple[str, ...],
    config_path: Path | None,
    words: tuple[str, ...],
    **asked: int | float | str | None,
) -> None:
    """Queue a command and print its job id; the scheduler may be running or not.

    It will run in this directory, without a shell, with the scheduler's environment and what
    --env adds.
    """
    import getpass

    from scheduler_client.jobs.spool import Spool
    from scheduler_client.jobs.submission import Submission
    from scheduler_client.jobs.submitting import (
        default_job_key,
        found_program,
        known_queue,
        read_environment,
        read_structure,
    )

    settings = Settings.from_mapping(os.environ, Path.cwd())
    name = user or getpass.getuser()
    line = found_program(words, os.environ.get("PATH"))
    with Spool(settings.spool_path) as spool:
        submission = Submission(
            user=name,
            queue=known_queue(queue or name, settings, config_path, spool),
            job_key=job_key or default_job_key(words),
            command=line,
            structure=read_structure(structure),
            working_directory=str(Path.cwd()),
            environment=read_environment(environment),
            **asked,  # type: ignore[arg-type]  # click has converted them; checked on submission
        )
        click.echo(spool.submit(submission))
