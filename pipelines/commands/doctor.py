"""``colocast doctor``: check the installation and say what to do."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from data.settings import Settings


@click.command()
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the findings.")
def command(json_path: Path | None) -> None:
    """Check installation, ports, registry, champions and job log; exit 1 if something fails."""
    from pipelines.doctor import State, examine

    findings = examine(Settings.from_mapping(os.environ, Path.cwd()), os.environ)
    width = max(len(finding.part) for finding in findings)
    for finding in findings:
        advice = f"  -> {finding.advice}" if finding.advice else ""
        click.echo(f"{finding.state:>4}  {finding.part:<{width}}  {finding.found}{advice}")
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(finding) for finding in findings], indent=2))
    if any(finding.state is State.FAIL for finding in findings):
        raise click.exceptions.Exit(1)
