"""``colocast retrain``: watch the job log and retrain from finished jobs."""

import os
from pathlib import Path

import click

from pipelines.commands.number_option import number_option


@click.command()
@click.option("--once", is_flag=True, help="Make one pass over what has finished, then exit.")
@number_option("--min-jobs", 50, "Finished jobs that make a kind of model due.", least=1)
@number_option("--min-evidence", 16, "Of these, jobs that can teach that kind.", least=1)
@number_option("--cooldown-s", 60.0, "Least seconds between two attempts of a kind.")
@number_option("--growth", 0.2, "Least share of all evidence so far that new evidence must be.")
@number_option("--watch-jobs", 50, "Finished jobs between two looks for drift.", least=1)
@number_option(
    "--shadow-jobs",
    8,
    "Jobs that a challenger answers beside the champion before it is promoted; 0: none.",
)
@number_option("--poll-s", 2.0, "Seconds between looks at the job log.", least=0.05)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the challenges.")
def command(  # noqa: PLR0913 - one argument an option
    *,
    once: bool,
    min_jobs: int,
    min_evidence: int,
    cooldown_s: float,
    growth: float,
    watch_jobs: int,
    shadow_jobs: int,
    poll_s: float,
    json_path: Path | None,
) -> None:
    """Watch the job log; train challengers from finished jobs, and promote the better ones.

    Runs until SIGTERM or Ctrl-C; one event a line on stderr. --json writes a list with one flat
    object a challenged model of the last attempt: model, stage (promoted, shadow, kept,
    rolled_back), version (null if none was registered), previous, promote, reason, rows, groups,
    challenger_error, champion_error, gain, gain_low, gain_high, coverage, latency_s, size_bytes,
    regret, the same of the champion, more_regret_low, worst_part, worst_gain (null where it makes
    no sense).
    """
    from data.settings import Settings
    from pipelines.retraining.duties import LoopRules, after_promotion, duties, tell_services
    from pipelines.retraining.promotion import ShadowRules
    from pipelines.retraining.report import log_to_stderr, write_challenges
    from pipelines.retraining.retrainer import Retrainer, only_one
    from pipelines.retraining.state import RetrainRules
    from pipelines.services.shutdown import Shutdown

    settings = Settings.from_mapping(os.environ, Path.cwd())
    rules = RetrainRules(min_jobs, min_evidence, cooldown_s, growth, watch_jobs=watch_jobs)
    loop = LoopRules(shadow=ShadowRules(rows=max(shadow_jobs, 1)), has_shadow=shadow_jobs > 0)
    log_to_stderr()
    with Shutdown().installed() as shutdown, only_one(settings.home / "retrain.lock"):
        made = duties(settings, shutdown.shield, loop)
        with Retrainer(settings.joblog_url, settings.retrain_path, made, rules) as retrainer:
            retrainer.after_promotion = after_promotion(settings)
            retrainer.champion_changed = tell_services(os.environ)
            if once:
                found = retrainer.step()
                write_challenges(found, json_path)
                click.echo(f"{len(found)} models challenged")
            else:
                retrainer.run(poll_s, shutdown.stop, lambda c: write_challenges(c, json_path))
