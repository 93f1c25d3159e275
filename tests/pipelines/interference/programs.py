"""Really measured runs of a few programs: enough to train on, quick to."""

import pandas as pd

from data.sample_data import sample_runs

PROGRAMS = ["sort-1m", "json-stream", "matmul-384", "mlp-256-input-slow", "sqlite-90k"]


def runs_of_five() -> pd.DataFrame:
    """Return the sample's runs of five programs, alone and together."""
    sample = sample_runs()
    neighbour = sample["neighbour_key"]
    chosen = sample["job_key"].isin(PROGRAMS) & (neighbour.isna() | neighbour.isin(PROGRAMS))
    return sample[chosen].reset_index(drop=True)
