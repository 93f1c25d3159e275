"""A really full file system, mounted for one process: needs root on Linux."""

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.chaos

WORKER = """
from serving.metrics import METRICS
METRICS.request("/v1/slowdown", 200, 0.1, {("m/3", "model"): 3})
assert b'source="model"} 3.0' in METRICS.page()
"""
FULL = """
mount -t tmpfs -o size=64k tmpfs "$1" || exit 77
head -c 57344 /dev/zero > "$1/fill"
export PROMETHEUS_MULTIPROC_DIR="$1"
"$2" -c "$3"
status=$?
rm -rf "/dev/shm/colocast-$(id -u)-$$"
exit $status
"""


def test_worker_on_a_full_disk_keeps_its_metrics_elsewhere_and_lives(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("no unshare on PATH: it needs a file system of its own to fill")
    command = ["unshare", "--mount", "sh", "-c", FULL, "sh", str(tmp_path), sys.executable, WORKER]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 77 or "unshare failed" in result.stderr:
        pytest.skip("may not mount a file system here: needs root")
    assert result.returncode == 0, result.stderr
    assert "metrics go to /dev/shm/colocast-" in result.stderr
    assert list(tmp_path.iterdir()) == []
