"""``colocast profile``: measure commands alone and in pairs on this machine."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.profiling.plan import Measurement
    from pipelines.profiling.session import Session
    from scheduler_client.local.devices import Device


class Pairs(click.ParamType[int | None]):
    """``all``, ``none`` or how many."""

    name = "all|N|none"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        """Return None for all pairs, else their number."""
        if value is None or isinstance(value, int):
            return value
        text = str(value)
        if text in ("all", "none"):
            return None if text == "all" else 0
        if not text.isdigit():
            self.fail(f"found {text!r}, wanted all, none or a number of pairs", param, ctx)
        return int(text)


@click.command()
@click.argument("workloads", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Output folder.")
@click.option("--repeats", default=3, show_default=True, help="Exclusive runs of each command.")
@click.option("--pairs", type=Pairs(), default="all", help="Unordered pairs (self-pairs too).")
@click.option("--next", "next_count", type=int, help="Measure the N pairs that teach most instead.")
@click.option("--pair-repeats", default=1, show_default=True, help="Measurements of each pair.")
@click.option("--device", type=click.Choice(["gpu", "cpu"]), help="Default: GPUs if there are any.")
@click.option("--slot", default=0, show_default=True, help="Which card, counted from 0.")
@click.option("--seed", default=0, show_default=True, help="Of the order and the choice of pairs.")
@click.option("--timeout-s", default=600.0, show_default=True, help="Longest time of a run.")
@click.option("--format", "suffix", type=click.Choice(["csv", "parquet"]), default="csv")
@click.option("--force", is_flag=True, help="Drop what was measured before, and start over.")
def command(  # noqa: PLR0913 - one argument an option
    *,
    workloads: Path,
    out: Path,
    repeats: int,
    pairs: int | None,
    next_count: int | None,
    pair_repeats: int,
    device: str | None,
    slot: int,
    seed: int,
    timeout_s: float,
    suffix: str,
    force: bool,
) -> None:
    """Measure the commands in WORKLOADS (YAML) alone and in pairs on one card.

    Interrupted in whatever way, it goes on where it stopped when the same command is given again.
    With --next it chooses the pairs itself, by what was measured in --out before, and goes on with
    N others each time.
    """
    from pipelines.profiling.next_session import profile_next
    from pipelines.profiling.plan import Plan
    from pipelines.profiling.session import JOURNAL_FILE, Session, profile
    from pipelines.profiling.workloads import load_workloads

    session = Session(
        load_workloads(workloads),
        _card(device, slot),
        Plan(repeats, pairs, pair_repeats, seed),
        out,
        timeout_s,
    )
    if force:
        (out / JOURNAL_FILE).unlink(missing_ok=True)
    try:
        if next_count is None:
            runs = profile(session, _with_bar, f".{suffix}")
        else:
            runs = profile_next(session, next_count, _with_bar, f".{suffix}")
    except KeyboardInterrupt:
        click.echo("interrupted; give the same command again to go on", err=True)
        raise
    click.echo(_report(session, runs))


def _card(kind: str | None, slot: int) -> "Device":
    from typing import cast

    from data.errors import ProfilerError
    from scheduler_client.local.devices import DeviceKind, discover

    devices = discover(kind=cast("DeviceKind | None", kind))
    if not 0 <= slot < len(devices):
        raise ProfilerError(f"--slot must be in [0, {len(devices) - 1}], got {slot}")
    return devices[slot]


def _with_bar(left: "Sequence[Measurement]") -> "Iterator[Measurement]":
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    with logging_redirect_tqdm(), tqdm(left, desc="profile", unit="run") as bar:
        for measurement in bar:
            bar.set_postfix_str(measurement.key)
            yield measurement


def _report(session: "Session", runs: "pd.DataFrame") -> str:
    outcomes = runs["outcome"].value_counts()
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    return f"{len(runs)} runs ({counts}) on {session.device.card_id}, written to {session.out}"
