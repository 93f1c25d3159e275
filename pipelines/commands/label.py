"""``colocast label``: turn profiling runs into slowdown labels."""

import json
import os
from math import isnan
from pathlib import Path

import click

from data.settings import Settings


@click.command()
@click.option("--runs", type=click.Path(path_type=Path), help="Default: all that was imported.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: HOME/labels.parquet.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the summary.")
def command(runs: Path | None, out: Path | None, json_path: Path | None) -> None:
    """Label every colocated run with its slowdown against the same job alone.

    All labels, before any audit; `colocast audit` says which of them may be learnt from. The
    JSON summary has the keys rows (colocated runs), labels, and the slowdown's min, median,
    mean and max.
    """
    from data.tables import write_frame
    from pipelines.input_tables import input_table
    from pipelines.labelling.labels import colocated, slowdown_labels

    settings = Settings.from_mapping(os.environ, Path.cwd())
    table, source = input_table("profiling_runs", runs, settings)
    labels = slowdown_labels(table)
    path = out or settings.home / "labels.parquet"
    write_frame(labels, path)
    slowdown = labels["slowdown"]
    summary = {
        "rows": int(colocated(table).sum()),
        "labels": len(labels),
        **{name: _number(slowdown.agg(name)) for name in ("min", "median", "mean", "max")},
    }
    click.echo(f"{summary['labels']:,} labels of {summary['rows']:,} colocated runs in {source}")
    if len(labels):
        head = ", ".join(f"{name} {summary[name]:.3f}" for name in ("min", "median", "max"))
        click.echo(f"slowdown: {head}")
    click.echo(f"written to {path}")
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(summary, indent=2) + "\n")


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)  # JSON has no NaN
