"""What a job key says of the job: batch size and precision, where it follows the usual form."""

import re

import numpy as np
import pandas as pd

_BATCH = re.compile(r"(?:^|/)b(\d+)(?=/|$)")
_PRECISION = re.compile(r"(?:^|/)(fp64|fp32|tf32|fp16|bf16|fp8|int8|amp)(?=/|$)")


def batch_sizes(job_keys: "pd.Series[str]") -> "pd.Series[float]":
    """Return the batch size in each job key, NaN where it names none.

    Parameters
    ----------
    job_keys : Series of str
        Parts are separated by ``/``; the batch size is a part of its own, ``b64``.

    Examples
    --------
    >>> batch_sizes(pd.Series(["vgg/cifar10/b64/amp", "sort-30m"])).tolist()
    [64.0, nan]
    """
    found = [_BATCH.search(key) for key in job_keys]
    sizes = [float(match[1]) if match else np.nan for match in found]
    return pd.Series(sizes, index=job_keys.index, dtype="float64")


def precisions(job_keys: "pd.Series[str]") -> "pd.Series[str]":
    """Return the number format in each job key, empty where it names none.

    Examples
    --------
    >>> precisions(pd.Series(["vgg/cifar10/b64/amp", "sort-30m"])).tolist()
    ['amp', '']
    """
    found = [_PRECISION.search(key) for key in job_keys]
    names = [match[1] if match else "" for match in found]
    return pd.Series(names, index=job_keys.index, dtype="str")
