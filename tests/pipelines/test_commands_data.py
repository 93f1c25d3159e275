"""``colocast import``, ``label`` and ``audit``."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from data.loaders import read_any
from pipelines.cli import main

FIXTURES = Path(__file__).parents[1] / "data" / "fixtures"


@pytest.fixture
def colocast(tmp_path, monkeypatch, capsys):
    """Run the command line in an empty installation; returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLOCAST_HOME", str(tmp_path / "home"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["colocast", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture
def imports(tmp_path):
    return tmp_path / "home" / "imports"


def test_import_writes_each_table_and_says_how_many_rows(colocast, imports):
    code, out, _ = colocast("import", "lucid", FIXTURES / "lucid")
    assert code == 0
    assert "10 rows" in out
    assert sorted(path.name for path in (imports / "lucid").iterdir()) == [
        "profiling_runs.parquet",
        "share_labels.parquet",
    ]
    assert len(read_any(imports)["profiling_runs"]) == 10


def test_bad_input_is_one_line_exit_code_2_and_changes_nothing(colocast, imports, tmp_path):
    colocast("import", "lucid", FIXTURES / "lucid")
    before = {path: path.read_bytes() for path in (imports / "lucid").iterdir()}
    bad = shutil.copytree(FIXTURES / "lucid", tmp_path / "bad")
    pairs = bad / "colocate_info.csv"
    pairs.write_text(pairs.read_text().replace("64,0,1.0,Wide", "64,0,-1.0,Wide"))
    code, out, err = colocast("import", "lucid", bad)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "colocate_info.csv, row 3: found speed1 = -1.0, wanted a number in" in err
    assert {path: path.read_bytes() for path in (imports / "lucid").iterdir()} == before
    assert [path.name for path in imports.iterdir()] == ["lucid"]


def test_mapped_imports_live_side_by_side_under_their_names(colocast, imports):
    source, mapping = FIXTURES / "mapped" / "jobs.csv", FIXTURES / "mapped" / "jobs.yaml"
    colocast("import", "mapped", source, "--mapping", mapping, "--name", "lab")
    colocast("import", "mapped", source, "--mapping", mapping)
    assert sorted(path.name for path in imports.iterdir()) == ["lab", "mapped"]


def test_import_elsewhere_leaves_home_alone(colocast, imports, tmp_path):
    colocast("import", "philly", FIXTURES / "philly", "--out", tmp_path / "else")
    assert (tmp_path / "else" / "jobs.parquet").is_file()
    assert not imports.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense", FIXTURES / "lucid"), "found the kind 'nonsense', wanted one of lucid"),
        (("lucid", FIXTURES / "gone"), "found nothing, wanted a file or directory"),
        (("mapped", FIXTURES / "philly" / "philly_vc.csv"), "wanted a mapping with the kind"),
        (("lucid", FIXTURES / "lucid", "--name", "../x"), "name must be a plain folder name"),
    ],
)
def test_import_that_cannot_be_is_one_line(colocast, arguments, message):
    code, _, err = colocast("import", *arguments)
    assert code == 2
    assert message in err


def test_label_uses_all_that_was_imported(colocast, tmp_path):
    for kind in ("lucid", "gavel"):
        colocast("import", kind, FIXTURES / kind)
    code, out, _ = colocast("label", "--json", tmp_path / "out.json")
    assert code == 0
    assert "9 labels of 10 colocated runs" in out
    assert json.loads((tmp_path / "out.json").read_text())["labels"] == 9
    assert len(read_any(tmp_path / "home" / "labels.parquet")["labels"]) == 9


def test_label_without_a_baseline_names_the_job(colocast, tmp_path):
    runs = read_any(FIXTURES / "lucid")["profiling_runs"]
    runs[runs["job_key"] != "Deep/Words/b8/fp32"].to_csv(tmp_path / "runs.csv", index=False)
    assert colocast("label", "--runs", tmp_path / "runs.csv")[0] == 0
    shared = runs[~((runs["job_key"] == "Deep/Words/b8/fp32") & runs["is_exclusive"])]
    shared.to_csv(tmp_path / "runs.csv", index=False)
    code, _, err = colocast("label", "--runs", tmp_path / "runs.csv")
    assert code == 2
    assert "no exclusive run of 'Deep/Words/b8/fp32'" in err


def test_table_of_another_kind_is_refused(colocast):
    code, _, err = colocast("audit", "--runs", FIXTURES / "philly")
    assert code == 2
    assert "found the tables jobs, wanted a table profiling_runs" in err


def test_audit_prints_reasons_and_noise(colocast, tmp_path):
    arguments = (
        "--runs",
        FIXTURES / "gavel",
        "--out",
        tmp_path / "a",
        "--json",
        tmp_path / "a.json",
    )
    code, out, _ = colocast("audit", *arguments)
    assert code == 0
    assert "4 colocated runs" in out
    assert "out of memory" in out
    assert "noise: not measured, 0.05 assumed; slowdown floor 0.850" in out
    summary = json.loads((tmp_path / "a.json").read_text())
    assert (summary["kept"], summary["quarantined_out_of_memory"]) == (3, 1)
    assert summary["ceiling_r2"] is None
    assert sorted(path.stem for path in (tmp_path / "a").iterdir()) == [
        "flags",
        "labels",
        "left_out",
        "quarantine",
    ]


def test_audit_of_public_pairs_names_what_was_imputed(colocast, public_data):
    code, out, _ = colocast("audit", "--runs", public_data / "lucid", "--rules", "strict")
    assert code == 0
    assert "same value for every neighbour" in out
    assert "PPO" in out
    assert "highest R² it allows 0.96" in out
