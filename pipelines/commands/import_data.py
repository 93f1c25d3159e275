"""``colocast import``: read a public or mapped format into colocast's tables."""

import os
from pathlib import Path

import click

from data.settings import Settings


@click.command()
@click.argument("kind")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--mapping", type=click.Path(path_type=Path), help="YAML file, for the kind mapped.")
@click.option("--name", help="Name of the import; the kind without it. Same name, replaced.")
@click.option("--out", type=click.Path(path_type=Path), help="Write here, not under home.")
def command(
    *, kind: str, path: Path, mapping: Path | None, name: str | None, out: Path | None
) -> None:
    """Read PATH, a file or directory in the layout KIND, and keep its tables as parquet.

    KIND is lucid, gavel, dlperf, gpumemnet, miso, philly, slurm, tables (our own, as csv or
    parquet) or mapped (any table, with --mapping). The tables are written to
    HOME/imports/NAME/TABLE.parquet, all or none: a file with one bad row changes nothing.
    """
    from tqdm import tqdm

    from data.loaders import read_any, write_tables

    settings = Settings.from_mapping(os.environ, Path.cwd())
    directory = out or settings.imports_path / _checked_name(name or kind)
    # Quick imports show no bar at all.
    with tqdm(total=2, desc=f"import {kind}", unit="step", delay=1.0, leave=False) as progress:
        tables = read_any(path, kind, mapping)
        progress.update()
        write_tables(tables, directory)
        progress.update()
    for table, frame in tables.items():
        click.echo(f"{len(frame):>9,} rows  {directory / table}.parquet")


def _checked_name(name: str) -> str:
    from data.errors import SettingError

    if name.startswith(".") or Path(name).name != name:
        raise SettingError(f"name must be a plain folder name, got {name!r}")
    return name
