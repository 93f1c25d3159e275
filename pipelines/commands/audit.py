"""``colocast audit``: show which rows the label audit quarantines, and why."""

import json
import os
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from data.settings import Settings

if TYPE_CHECKING:
    from pipelines.labelling.audit import Audit
    from pipelines.labelling.audit_noise import Noise


@click.command()
@click.option("--runs", type=click.Path(path_type=Path), help="Default: all that was imported.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the tables of the audit.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the summary.")
@click.option(
    "--rules",
    "strictness",
    type=click.Choice(["default", "strict", "all-rows"]),
    default="default",
    show_default=True,
    help="strict: also quarantine jobs with a suspicious baseline; all-rows: only flag.",
)
def command(runs: Path | None, out: Path | None, json_path: Path | None, strictness: str) -> None:
    """Audit the labels of profiling runs: reasons, counts, and the noise.

    --out writes labels, quarantine, flags and left_out (exclusive runs that no baseline uses) as
    parquet. --json writes one flat object: rows, kept, quarantined, flagged, left_out; the same
    by reason as quarantined_REASON and flagged_REASON; and repeat_sd, self_pair_rms, label_sd,
    is_measured, floor and ceiling_r2 of the noise, null where unknown.
    """
    from pipelines.input_tables import input_table
    from pipelines.labelling.audit import audited
    from pipelines.labelling.audit_rules import ALL_ROWS, STRICT, AuditRules

    settings = Settings.from_mapping(os.environ, Path.cwd())
    table, source = input_table("profiling_runs", runs, settings)
    rules = {"default": AuditRules(), "strict": STRICT, "all-rows": ALL_ROWS}[strictness]
    audit = audited(table, rules)
    summary = audit.summary()
    click.echo(f"{summary['rows']:,} colocated runs in {source}: {summary['kept']:,} kept")
    _echo_reasons(audit)
    click.echo(_noise_line(audit.noise))
    if out is not None:
        _write(audit, out)
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(summary, indent=2) + "\n")


def _echo_reasons(audit: "Audit") -> None:
    reasons = audit.reasons()
    if reasons.empty:
        click.echo("nothing to quarantine")
        return
    width = max(len(str(name)) for name in reasons.index)
    click.echo(f"{'reason':<{width}}  quarantined  flagged  for example")
    for reason, row in reasons.iterrows():
        example = audit.example(str(reason))
        counts = f"{row['quarantined']:>11}  {row['flagged']:>7}"
        click.echo(f"{reason!s:<{width}}  {counts}  {example}")
    for reason, count in audit.left_out["reason"].value_counts().items():
        click.echo(f"{count:,} exclusive runs in no baseline: {reason}")


def _noise_line(noise: "Noise") -> str:
    known = [
        f"{name} {value:.4f}"
        for name, value in (("repeats", noise.repeat_sd), ("self-pairs", noise.self_pair_rms))
        if not isnan(value)  # it was measured
    ]
    if not known:
        return f"noise: not measured, {noise.label_sd:g} assumed; slowdown floor {noise.floor:.3f}"
    return (
        f"noise: {', '.join(known)}; slowdown floor {noise.floor:.3f},"
        f" highest R² it allows {noise.ceiling_r2:.3f}"
    )


def _write(audit: "Audit", out: Path) -> None:
    from data.loaders import write_tables

    tables = {
        "labels": audit.labels,
        "quarantine": audit.quarantine,
        "flags": audit.flags,
        "left_out": audit.left_out,
    }
    write_tables(tables, out)
    click.echo(f"written to {out}")
