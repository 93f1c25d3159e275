import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving.lifeline import SUPERVISOR

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")

CHILD = """
import os, sys, time
from serving.lifeline import end_with_parent
end_with_parent(os.environ)
sys.stdout.write(f"{os.getpid()}\\n"); sys.stdout.flush()
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {CHILD!r}], start_new_session=True)
time.sleep(60)
"""


def ended(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # nobody has asked for its exit code
            return True
        time.sleep(0.02)
    return False


def test_child_ends_with_a_parent_that_was_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert ended(child)


def test_child_of_a_supervisor_that_ended_before_ends_too():
    environ = {**os.environ, SUPERVISOR: "1"}
    child = subprocess.run([sys.executable, "-c", CHILD], env=environ, check=False, timeout=30)
    assert child.returncode == -signal.SIGTERM
