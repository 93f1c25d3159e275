"""A choice inside of a fold: the candidate that its training rows prefer, printed before asking."""

import sys

import pandas as pd

CHOSEN = "chosen in every fold"
ROUNDING = 1e-9  # of an error: the same model is summed in another order


def preferred(where: str, errors: pd.Series) -> str:
    """Print what each candidate costs inside of a fold, and return the one that costs least.

    Parameters
    ----------
    where : str
        What the fold holds out.
    errors : Series of float, index candidate
        Of parts of the training rows, held out in turn. Of those that differ by rounding alone
        the first is preferred.

    Examples
    --------
    >>> preferred("fifth 5", pd.Series({"small": 0.25, "large": 0.125}))
    fifth 5: large (small 0.25000, large 0.12500)
    'large'
    """
    best = str(errors.index[errors <= errors.min() * (1 + ROUNDING)][0])
    told = ", ".join(f"{name} {error:.5f}" for name, error in errors.items())
    sys.stdout.write(f"{where}: {best} ({told})\n")
    sys.stdout.flush()
    return best
