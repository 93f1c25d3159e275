"""Traces in their original layouts, replayed: what is imported can be scheduled."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from data.errors import TableError
from data.tables import write_frame
from pipelines.commands.replay import command

FIXTURES = Path(__file__).parents[2] / "data" / "fixtures"
HELIOS = """\
job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u1,vcA,x,1,6,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 00:10:10,600,10
2,u2,vcB,y,8,48,1,FAILED,2020-04-01 00:05:00,2020-04-01 00:05:00,2020-04-01 01:05:00,3600,0
3,u2,vcB,y,0,4,1,CANCELLED,2020-04-01 00:06:00,2020-04-01 00:06:00,2020-04-01 00:07:00,60,0
"""
HELIOS_MAPPING = """\
table: jobs
columns:
  job_id: job_id
  user: user
  queue: vc
  gpus: gpu_num
  submit_time: {from: submit_time, zone: Asia/Shanghai}
  start_time: {from: start_time, zone: Asia/Shanghai}
  runtime_s: duration
  outcome: {from: state, values: {COMPLETED: ok, FAILED: failed, CANCELLED: cancelled}}
constants: {attempt: 0}
"""
PAI = """\
job_id,arrival_s,service_sec,gpu_count
ali-a-worker#0,100,618,1
ali-b-worker#0,160,3699,2
"""
PAI_MAPPING = """\
table: jobs
columns:
  job_id: job_id
  gpus: gpu_count
  submit_time: {from: arrival_s, unit: s}
  start_time: {from: arrival_s, unit: s}
  runtime_s: service_sec
constants: {attempt: 0, user: unknown, queue: all, outcome: ok}
"""


@pytest.fixture
def replay(tmp_path, monkeypatch, runs_of):
    monkeypatch.setenv("COLOCAST_HOME", str(tmp_path / "home"))
    pairs, cluster = tmp_path / "profiling_runs.parquet", tmp_path / "cluster.yaml"
    write_frame(runs_of(8), pairs)
    cluster.write_text("gpus: 8\n")

    def run(trace, *arguments):
        given = ["--trace", trace, "--pairs", pairs, "--cluster", cluster, *arguments]
        policies = ["--policy", "fair_share", "--policy", "colocate", "--model", "oracle"]
        texts = [*map(str, given), *policies]
        result = CliRunner().invoke(command, texts, standalone_mode=False)
        if result.exception:
            raise result.exception
        return result.output

    return run


def test_trace_in_a_known_layout_is_replayed(replay):
    assert "3 jobs on 8 GPUs" in replay(FIXTURES / "philly")


def test_slurm_log_is_replayed_without_its_cpu_jobs(replay, tmp_path):
    jobs = pd.read_csv(FIXTURES / "slurm" / "jobs_core.csv")
    jobs.to_parquet(tmp_path / "jobs_core.parquet")
    output = replay(tmp_path / "jobs_core.parquet")
    on_gpus = jobs["req_tres"].str.contains("gpu").sum()
    assert f"{on_gpus} jobs on 8 GPUs" in output


@pytest.mark.parametrize(
    ("name", "text", "mapping", "jobs"),
    [("helios", HELIOS, HELIOS_MAPPING, 2), ("pai", PAI, PAI_MAPPING, 2)],
)
def test_trace_in_any_other_layout_is_replayed_by_a_mapping(
    replay, tmp_path, name, text, mapping, jobs
):
    trace, columns = tmp_path / f"{name}.csv", tmp_path / f"{name}.yaml"
    trace.write_text(text)
    columns.write_text(mapping)
    output = replay(trace, "--mapping", columns, "--compare", tmp_path / "page.html")
    assert f"{jobs} jobs on 8 GPUs" in output
    assert "worst_user" not in (tmp_path / "page.html").read_text()  # nothing to compare with
    assert np.isfinite(float(output.split("JCT mean")[1].split("s;")[0].replace(",", "")))


def test_mapping_of_another_table_is_refused(replay, tmp_path):
    trace, columns = tmp_path / "pai.csv", tmp_path / "pai.yaml"
    trace.write_text(PAI)
    columns.write_text("table: profiling_runs\ncolumns: {run_id: job_id}\n")
    with pytest.raises(TableError):
        replay(trace, "--mapping", columns)
