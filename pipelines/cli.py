"""The command ``colocast``: one lazy group, so that ``--help`` imports nothing heavy."""

import sys
from importlib import import_module

import click

from data.errors import ColocastError

COMMANDS = {
    "import": ("import_data", "Read a public or mapped format into colocast's tables."),
    "label": ("label", "Turn profiling runs into slowdown labels."),
    "audit": ("audit", "Show which rows the label audit quarantines, and why."),
    "profile": ("profile", "Measure commands alone and in pairs on this machine."),
    "train": ("train", "Train a model, register it, and let the gate promote it."),
    "evaluate": ("evaluate", "Measure a model on the held-out splits that matter."),
    "promote": ("promote", "Point the alias champion at a version."),
    "rollback": ("rollback", "Point the alias champion back at the previous version."),
    "models": ("models", "List registered versions, aliases and their metrics."),
    "lineage": ("lineage", "Show what led to a version; prove that it leads there again."),
    "prune": ("prune", "Delete versions that nothing needs any more."),
    "retrain": ("retrain", "Watch the job log and retrain from finished jobs."),
    "telemetry": ("telemetry", "Look up signals of finished jobs in a Prometheus."),
    "replay": ("replay", "Compare scheduling policies on a trace of jobs."),
    "serve": ("serve", "Start the prediction service."),
    "schedule": ("schedule", "Run the scheduler loop."),
    "inspect": ("inspect", "Read a model's structure from its PyTorch code."),
    "submit": ("submit", "Hand a command to the scheduler."),
    "why": ("why", "Say why a job waits, since when, for how long, and what would help."),
    "explain": ("explain", "Say why a job was placed where it is, and what was next best."),
    "whatif": ("whatif", "Say what would happen to a job, and to others, if it were submitted."),
    "up": ("up", "Start MLflow, the service, the retrainer and the scheduler."),
    "doctor": ("doctor", "Check the installation and say what to do."),
}
"""Command name to its module in ``pipelines.commands`` and its one line of help."""


class LazyGroup(click.Group):
    """A click group that imports a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the workflow."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command called `cmd_name`, imported now, or None."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"pipelines.commands.{COMMANDS[cmd_name][0]}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table above, importing none of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="colocast")
def group() -> None:
    """Predict what happens when jobs share GPUs, and schedule by it."""


def main() -> None:
    """Run the command line; a deliberate error is one line on stderr and exit code 2."""
    try:
        status = group(standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except ColocastError as error:
        click.echo(f"colocast: {error}", err=True)
        sys.exit(error.exit_code)
    if isinstance(status, int):  # what click makes of Exit where it does not stand alone
        sys.exit(status)
