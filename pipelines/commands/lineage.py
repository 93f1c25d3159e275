"""``colocast lineage``: from a served answer's model version back to its rows and its code."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from data.settings import Settings

SHOWN_ROWS = 3


@click.command()
@click.argument("version")
@click.option("--verify", is_flag=True, help="Train again from the recorded rows, and compare.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write everything.")
def command(version: str, json_path: Path | None, *, verify: bool) -> None:
    """Show what led to VERSION, written as in an answer's model_version: NAME/NUMBER.

    That is: the run and the retraining it belongs to, digests of files and of data, the ids of all
    rows, the code's commit, the champion before, why it was trained and what the gate said.
    --verify trains again from the recorded rows; exit code 3 if any answer differs by over 1e-9.
    """
    from pipelines.registering.lineage import lineage, remade, split_version
    from pipelines.registering.registry import Registry

    settings = Settings.from_mapping(os.environ, Path.cwd())
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    name, number = split_version(version)
    found = lineage(registry, name, number)
    facts = asdict(found)
    for key in ("version", "run_id", "parent_run_id", "digest", "data_digest", "code_version"):
        click.echo(f"{key:<18}{facts[key] or '-'}")
    for key in ("previous_champion", "cause", "gate"):
        click.echo(f"{key:<18}{facts[key] or '-'}")
    for table, rows in found.tables.items():
        shown = ", ".join(rows[:SHOWN_ROWS]) + (", ..." if len(rows) > SHOWN_ROWS else "")
        click.echo(f"{table:<18}{len(rows)} rows: {shown}")
    again = remade(registry, name, number) if verify else None
    if again is not None:
        facts["verified"] = asdict(again)
        word = "the same" if again.is_same else "another"
        click.echo(
            f"trained again     {word} model by {again.code_version}: largest difference "
            f"{again.largest_difference:.1e} on {again.rows} rows"
        )
    if json_path is not None:
        json_path.write_text(json.dumps(facts, indent=1) + "\n")
    if again is not None and not again.is_same:
        raise click.exceptions.Exit(3)
