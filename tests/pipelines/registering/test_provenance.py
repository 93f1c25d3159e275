import subprocess

import pandas as pd

from pipelines.registering import provenance
from pipelines.registering.provenance import code_version, frame_digest

MODULE = "pipelines/registering/provenance.py"


def test_digest_follows_values_and_names():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]})
    assert frame_digest(frame) == frame_digest(frame.copy())
    assert frame_digest(frame) != frame_digest(frame.rename(columns={"a": "c"}))
    assert frame_digest(frame) != frame_digest(frame.assign(a=[1.0, 3.0]))


def test_code_version_names_the_commit_in_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / MODULE))
    (tmp_path / "pipelines/registering").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(
        subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 0, stdout="abc123\n")
    )
    assert code_version().endswith("+abc123")


def test_code_version_is_the_package_version_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / MODULE))
    assert "+" not in code_version()


def test_checkout_without_git_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / MODULE))
    (tmp_path / "pipelines/registering").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", "")
    assert "+" not in code_version()
