"""From what a version was made: the digest of its data and the state of the code."""

import hashlib
import subprocess
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from pandas.util import hash_pandas_object


def frame_digest(frame: pd.DataFrame) -> str:
    """Return a SHA-256, in hex, of a frame's columns and rows; the index does not count.

    Examples
    --------
    >>> one = pd.DataFrame({"gpus": [1.0, 2.0]})
    >>> frame_digest(one) == frame_digest(one.set_index([[7, 8]]))
    True
    >>> frame_digest(one) == frame_digest(one[::-1])
    False
    """
    digest = hashlib.sha256("\0".join(map(str, frame.columns)).encode())
    digest.update(hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def code_version() -> str:
    """Return the package version, with the commit where the code runs from a git checkout."""
    here = Path(__file__).resolve().parent
    # Only a checkout of this project counts, not whatever repository an environment lies in.
    if not (here.parents[1] / ".git").exists():
        return version("colocast")
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=here,
            capture_output=True,
            check=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return version("colocast")
    return f"{version('colocast')}+{described.stdout.strip()}"
