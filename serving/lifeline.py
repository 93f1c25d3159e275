"""A worker that ends when the process that started it does."""

import ctypes
import os
import signal
import sys
from collections.abc import Mapping

PR_SET_PDEATHSIG = 1
SUPERVISOR = "COLOCAST_SUPERVISOR_PID"


def end_with_parent(environ: Mapping[str, str]) -> bool:
    """Ask the kernel for SIGTERM when the parent process ends; return whether that is possible.

    BentoML's supervisor starts each worker in a session of its own. Killed with SIGKILL it would
    leave workers behind that hold the port and go on answering, and no new service could start.

    Parameters
    ----------
    environ : mapping of str to str
        ``COLOCAST_SUPERVISOR_PID`` tells a supervisor that ended before this was called.
    """
    if sys.platform != "linux":
        return False
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if environ.get(SUPERVISOR, str(os.getppid())) != str(os.getppid()):
        os.kill(os.getpid(), signal.SIGTERM)
    return True
