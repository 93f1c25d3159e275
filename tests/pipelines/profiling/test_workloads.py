"""Workloads in YAML: read strictly, with errors that say where and what."""

import sys

import pytest

from data.domain import ModelStructure
from data.errors import ProfilerError
from pipelines.profiling.workloads import load_workloads

GOOD = "- {name: sort, family: sort, command: [sort]}\n"


@pytest.fixture
def load(tmp_path):
    def loaded(text):
        path = tmp_path / "workloads.yaml"
        path.write_text(text)
        return load_workloads(path)

    return loaded


def test_an_entry_may_say_everything(load, tmp_path):
    (workload,) = load(
        """
        - name: wide
          family: recommender
          command: ["{python}", "{here}/wide.py", "{}", "{other}"]
          cwd: "{here}"
          env: {MODE: "{here}"}
          paired: false
          structure: {batch_size: 512, embedding_rows: 1000, precision: fp16}
        """
    )
    assert workload.command == (sys.executable, f"{tmp_path}/wide.py", "{}", "{other}")
    assert (workload.cwd, workload.env) == (str(tmp_path), {"MODE": str(tmp_path)})
    wanted = ModelStructure("recommender", 512, embedding_rows=1000, precision="fp16")
    assert workload.structure == wanted
    assert not workload.paired


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "found nothing, wanted a list of entries"),
        ("name: sort", "found a dict, wanted a list of entries"),
        ("- [a", "found no readable YAML"),
        ("- sort", "entry 1: Workload: found a text 'sort'"),
        ("- {name: sort, family: sort}", r"entry 1 \(sort\): .*no field 'command'"),
        (GOOD + GOOD, "entry 2: found the name 'sort' again"),
        ("- {name: sort, name: zip}", "'name' a second time"),
        ("- {name: sort, family: f, command: sort -n}", "command: found a text 'sort -n'"),
        ("- {name: sort, family: f, command: []}", "found an empty command"),
        ("- {name: sort, family: f, command: [sort, 1]}", r"command\[1\]: found a number 1"),
        ("- {name: sort, family: f, command: [a], steps: 3}", "unknown fields 'steps'"),
        ("- {name: a+b, family: f, command: [a]}", r"without space, \+ and #"),
        ("- {name: a, family: '', command: [a]}", "and a family"),
        ("- {name: a, family: f, command: [a], structure: {}}", "no field 'batch_size'"),
        ("- {name: a, family: f, command: [a], structure: {batch_size: 0}}", "wanted both"),
        ("- {name: a, family: f, command: [a], structure: 3}", "found a number 3"),
        ("- {name: a, family: f, command: [a], env: {N: 3}}", "env.N: found a number 3"),
    ],
)
def test_bad_entries_are_named(load, text, match):
    with pytest.raises(ProfilerError, match=match) as caught:
        load(text)
    assert "workloads.yaml" in str(caught.value)


def test_a_file_that_is_absent_is_named(tmp_path):
    with pytest.raises(ProfilerError, match=r"absent\.yaml: found no readable YAML .*No such file"):
        load_workloads(tmp_path / "absent.yaml")
