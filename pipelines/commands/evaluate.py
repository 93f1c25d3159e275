"""``colocast evaluate``: measure a model on the held-out splits that matter."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from data.settings import Settings

SHOWN = (
    *("split", "n", "r2", "r2_log", "mae", "within_2x", "under_rate"),
    *("coverage_90", "coverage_90_worst", "width_90_median", "baseline_r2", "ceiling_r2"),
)


@click.command()
@click.argument("model", type=click.Choice(["interference", "memory", "demand", "runtime"]))
@click.option("--split", "splits", help="Ways of holding out, joined by commas; default: all.")
@click.option(
    "--data",
    "--jobs",
    "data_path",
    type=click.Path(path_type=Path),
    help="Any path that `colocast import` reads; default: what was imported, else the sample.",
)
@click.option("--train", "train_path", type=click.Path(path_type=Path), help="Learn from this.")
@click.option("--test", "test_path", type=click.Path(path_type=Path), help="Ask about this.")
@click.option(
    "--from",
    "from_day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Runtime: measure jobs submitted from this day on (UTC).",
)
@click.option(
    "--measured",
    default="0,3",
    show_default=True,
    help="Interference: numbers of measured pairs of each new job, joined by commas.",
)
@click.option(
    "--rows",
    "which_rows",
    type=click.Choice(["audited", "all"]),
    default="audited",
    show_default=True,
    help="Interference: whether rows that the label audit quarantines are left out.",
)
@click.option(
    "--mlflow/--no-mlflow",
    "to_mlflow",
    default=None,
    help="Log rows and pictures; default: if there is a tracking store already.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the rows.")
def command(  # noqa: PLR0913 - one argument an option
    *,
    model: str,
    splits: str | None,
    data_path: Path | None,
    train_path: Path | None,
    test_path: Path | None,
    from_day: datetime | None,
    measured: str,
    which_rows: str,
    to_mlflow: bool | None,
    json_path: Path | None,
) -> None:
    """Measure MODEL on data that it did not learn from; one row a split.

    --json writes a list of flat objects with at least the columns shown (null where one makes
    no sense): R² of values and of logs, mean absolute error, share within a factor of 2, share
    under-estimated, coverage of the 90 % interval (overall, and of the worst tenth of groups) and
    its median width, the best trivial baseline's
    R², and the highest R² that the noise allows. Interference of new jobs is reported before any
    of their pairs was measured, and (split NAME_kN) once N pairs of each were. With --train and
    --test it writes one object.
    """
    from pipelines.evaluate import EVALUATIONS, Question, checked_question, question_params
    from pipelines.judged import Judged
    from pipelines.registering.evaluation_log import (
        EXPERIMENT,
        Evaluation,
        has_store,
        log_evaluation,
    )

    question = checked_question(
        Question(
            tuple(name.strip() for name in splits.split(",")) if splits else (),
            data_path,
            train_path,
            test_path,
            None if from_day is None else from_day.replace(tzinfo=UTC).timestamp(),
            measured=_whole_numbers(measured),
            all_rows=which_rows == "all",
        )
    )
    settings = Settings.from_mapping(os.environ, Path.cwd())
    judged: list[Judged] = []
    rows = EVALUATIONS[model](question, settings, judged.append)
    click.echo(_table(rows))
    if json_path is not None:
        json_path.write_text(json.dumps(rows[0] if test_path is not None else rows, indent=2))
    if has_store(settings) if to_mlflow is None else to_mlflow:
        run_id = log_evaluation(
            settings, Evaluation(model, rows, judged, question_params(question))
        )
        click.echo(f"logged in {EXPERIMENT} of {settings.tracking_uri}, run {run_id}", err=True)


def _whole_numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise click.BadParameter(f"found {text!r}, wanted whole numbers joined by commas")
    return tuple(int(part) for part in parts)


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the columns of `SHOWN`, as wide as what is in them."""
    cells = [SHOWN, *([_text(row.get(name)) for name in SHOWN] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ([c.rjust(width) for c, width in zip(line, widths, strict=True)] for line in cells)
    return "\n".join("  ".join(line) for line in lines)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
