"""``colocast replay`` from files to metrics, event log, page and check."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

from data.errors import NoChampionError, SettingError
from data.schemas import JOBS, checked
from data.tables import write_frame
from pipelines.commands.replay import command
from pipelines.replaying.run import BY_DEFAULT


@pytest.fixture
def replay(tmp_path, monkeypatch, runs_of):
    """Run the command in an empty installation, on a small trace with measured pairs."""
    monkeypatch.setenv("COLOCAST_HOME", str(tmp_path / "home"))
    trace, pairs = tmp_path / "jobs.parquet", tmp_path / "profiling_runs.parquet"
    write_frame(jobs_of(150), trace)
    write_frame(runs_of(12), pairs)

    def run(*arguments):
        given = ["--trace", trace, "--pairs", pairs, "--load", "0.9", *arguments]
        result = CliRunner().invoke(command, list(map(str, given)), standalone_mode=False)
        if result.exception:
            raise result.exception
        return SimpleNamespace(output=result.output, status=result.return_value)

    return run


def jobs_of(count):
    rng = np.random.default_rng(2)
    runtime_s = np.exp(rng.normal(6, 2, count)).round() + 1
    submitted = 1e9 + np.sort(rng.uniform(0, 20_000, count)).round()
    queue = np.array(["x", "y"])[rng.integers(0, 2, count)]
    jobs = {
        "job_id": [f"job-{index}" for index in range(count)],
        "attempt": 0,
        "user": queue,
        "queue": queue,
        "gpus": rng.choice([1, 1, 1, 2, 4], count),
        "submit_time": submitted,
        "start_time": submitted,
        "finish_time": submitted + runtime_s,
        "runtime_s": runtime_s,
        "outcome": "ok",
    }
    return checked(pd.DataFrame(jobs), JOBS, "made jobs")


def test_all_policies_do_all_work_and_the_page_shows_them(replay, tmp_path):
    replay("--model", "none", "--json", tmp_path / "all.json", "--compare", tmp_path / "page.html")
    metrics = json.loads((tmp_path / "all.json").read_text())
    assert list(metrics) == list(BY_DEFAULT)
    delay = {name: found["mean_queueing_delay_s"] for name, found in metrics.items()}
    assert delay["fifo_fixed"] >= delay["fifo_pooled"] >= delay["fifo_shared"]
    assert all(found["mean_colocated_slowdown"] >= 1 for found in metrics.values())
    page = (tmp_path / "page.html").read_text()
    wanted = ("worst / fixed quota", "Shares over time", "Colocations of colocate", "jobs sooner")
    assert all(words in page for words in wanted)
    assert page.count("data:image/png;base64,") >= 3
    assert "src='http" not in page


@pytest.mark.parametrize("policy", ["live_exclusive", "live_colocate"])
def test_policies_of_the_loop_write_a_log_that_holds(replay, tmp_path, policy):
    events = tmp_path / "e.parquet"
    replay("--policy", policy, "--model", "oracle", "--events", events)
    assert "the log holds" in replay("--check", events).output


def test_event_log_passes_the_check_with_the_same_metrics(replay, tmp_path):
    events, metrics, found = (tmp_path / n for n in ("e.parquet", "m.json", "c.json"))
    replay("--policy", "colocate", "--model", "oracle", "--events", events, "--json", metrics)
    checked_run = replay("--check", events, "--json", found)
    assert "the log holds" in checked_run.output
    ours = json.loads(metrics.read_text())["colocate"]
    theirs = json.loads(found.read_text())["metrics"]
    for name in set(ours) & set(theirs):
        assert theirs[name] == pytest.approx(ours[name]), name


def test_check_fails_on_a_log_that_does_not_hold(replay, tmp_path):
    events = tmp_path / "e.parquet"
    replay("--policy", "fifo_pooled", "--model", "none", "--events", events)
    frame = pd.read_parquet(events)
    write_frame(frame[frame["event"] != "finish"], events)
    run = replay("--check", events)
    assert run.status == 1
    assert "oversubscribed" in run.output


def test_same_seed_gives_the_same_metrics_and_another_one_others(replay, tmp_path):
    found = []
    for seed in (1, 1, 2):
        replay(
            "--policy", "fifo_shared", "--model", "none", "--seed", seed, "--json", tmp_path / "j"
        )
        found.append(json.loads((tmp_path / "j").read_text())["fifo_shared"]["mean_jct_s"])
    assert found[0] == found[1] != found[2]


def test_burst_submits_one_week_at_once(replay, tmp_path):
    replay("--policy", "fifo_pooled", "--model", "none", "--burst", 0, "--json", tmp_path / "j")
    metrics = json.loads((tmp_path / "j").read_text())["fifo_pooled"]
    assert metrics["makespan_s"] > metrics["mean_jct_s"] > 0
    assert 0 < metrics["utilisation"] < 1
    with pytest.raises(SettingError, match="week must be one with arrivals"):
        replay("--policy", "fifo_pooled", "--model", "none", "--burst", 9)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--policy", "magic", "--model", "none"], "policy must be one of"),
        (["--events", "e.parquet"], "exactly one --policy"),
        (["--cluster", "c.yaml"], "one of --cluster and --load"),
        (["--restart-s", "-1"], "restart-s >= 0"),
        (["--checkpoint-s", "0"], "checkpoint-s > 0"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(replay, arguments, wanted):
    with pytest.raises(SettingError, match=wanted):
        replay(*arguments)


def test_model_of_the_other_half_is_trained_on_the_spot(replay, tmp_path):
    replay("--policy", "colocate_frozen", "--json", tmp_path / "j")
    assert json.loads((tmp_path / "j").read_text())["colocate_frozen"]["colocations"] > 0


def test_comparison_is_a_run_in_mlflow_with_page_and_pictures(replay, settings, monkeypatch):
    monkeypatch.setenv("COLOCAST_HOME", str(settings.home))
    policies = ["--policy", "fifo_fixed", "--policy", "colocate_oracle"]
    output = replay(*policies, "--model", "none", "--mlflow", "--seed", 3).output
    run_id = re.search("logged as run (.*) of the experiment colocast-replay", output)[1]
    client = MlflowClient(settings.tracking_uri, settings.tracking_uri)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "3"
    assert run.data.metrics["colocate_oracle.worst_queue_jct_ratio"] > 0
    assert {"page.html", "metrics.json"} <= {file.path for file in client.list_artifacts(run_id)}
    pictures = {file.path for file in client.list_artifacts(run_id, "figures")}
    assert "figures/shares_over_time.png" in pictures


@pytest.mark.parametrize("model", ["other-half", "none"])
def test_model_that_needs_signals_is_refused_where_there_are_none(replay, tmp_path, runs_of, model):
    bare, runs = tmp_path / "bare.parquet", runs_of(12)
    write_frame(runs[[name for name in runs if not name.endswith("_mean")]], bare)
    policy = ["--policy", "colocate_frozen"]
    with pytest.raises(SettingError, match="predicts from device counters"):
        replay("--pairs", bare, *policy, "--model", model)
    assert "JCT mean" in replay("--pairs", bare, *policy, "--model", "oracle").output


def test_pairs_of_several_gpu_models_want_one_of_them(replay, tmp_path, runs_of):
    both, runs = tmp_path / "both.parquet", runs_of(12)
    other = runs.assign(gpu_model="other", run_id=runs["run_id"] + "-other")
    write_frame(pd.concat([runs, other], ignore_index=True), both)
    policy = ["--policy", "colocate_oracle", "--model", "oracle"]
    assert "JCT mean" in replay("--pairs", both, *policy, "--gpu-model", "other").output
    with pytest.raises(SettingError, match="--gpu-model must be one of"):
        replay("--pairs", both, *policy)


def test_model_of_the_registry_must_be_there(replay, settings, monkeypatch):
    monkeypatch.setenv("COLOCAST_HOME", str(settings.home))
    with pytest.raises(NoChampionError, match="colocast-interference"):
        replay("--policy", "colocate", "--model", "champion")


def test_cluster_comes_from_a_file(replay, tmp_path, runs_of):
    cluster, jobs = tmp_path / "cluster.yaml", tmp_path / "jobs.parquet"
    cluster.write_text("gpus: 6\ngpus_per_node: 2\nquotas: {x: 2}\n")
    given = ["--trace", jobs, "--pairs", tmp_path / "profiling_runs.parquet", "--cluster", cluster]
    arguments = [
        *given,
        "--policy",
        "fair_share",
        "--model",
        "none",
        "--events",
        tmp_path / "e.parquet",
    ]
    result = CliRunner().invoke(command, list(map(str, arguments)), standalone_mode=False)
    assert "on 6 GPUs" in result.output
    assert pd.read_parquet(tmp_path / "e.parquet")["node"].max() == 2
