"""``colocast serve``: start the prediction service with its tuned profile."""

import click

from pipelines.commands.number_option import number_option


@click.command(name="serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), help="Default: COLOCAST_SERVICE_PORT, 3000.")
@number_option(
    "--workers", 1, "Processes that answer; one a core that is free for it.", least=1, most=64
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    help="Bearer tokens, one a line; needed unless the host is loopback.",
)
@click.option(
    "--push-secret-file",
    type=click.Path(dir_okay=False),
    help="Secrets that sign pushes, one a line; without it none is taken.",
)
def command(
    host: str,
    port: int | None,
    workers: int,
    token_file: str | None,
    push_secret_file: str | None,
) -> None:
    """Start the prediction service in this process, until it is told to end."""
    import os
    from pathlib import Path

    from data.settings import Settings
    from pipelines.services.serve_process import serve_command, serve_environment
    from serving.lifeline import SUPERVISOR
    from serving.profile_env import PUSH_SECRET_FILE

    settings = Settings.from_mapping(os.environ, Path.cwd())
    port = port or settings.service_port
    pushes = {PUSH_SECRET_FILE: str(Path(push_secret_file).absolute())} if push_secret_file else {}
    environ = serve_environment({**os.environ, **pushes}, settings, workers, port, token_file)
    words = serve_command(host, port, environ)
    environ[SUPERVISOR] = str(os.getpid())  # it stays this process's, whatever it becomes
    os.execve(words[0], words, environ)  # noqa: S606 - so that signals reach the server itself
