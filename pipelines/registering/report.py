"""What a person finds in MLflow about one training run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from pipelines.registering.provenance import code_version, frame_digest


@dataclass(frozen=True, slots=True)
class Origin:
    """From what a model was made, and can be made again.

    Attributes
    ----------
    recipe : str
        A key of ``pipelines.recipes.RECIPES``.
    seed : int
    tables : mapping of str to DataFrame
        All that the recipe was given.
    """

    recipe: str
    seed: int
    tables: Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Everything that is logged beside a trained model.

    Attributes
    ----------
    params : mapping of str to str
        Hyperparameters and choices.
    metrics : mapping of str to float
        Flat names, such as ``pair_r2``; what makes no sense is left out, never NaN.
    dataset : DataFrame
        The rows that were trained on.
    dataset_name : str
    card : str
        The model card, in Markdown; becomes the version's description.
    figures : mapping of str to bytes
        File name to PNG.
    documents : mapping of str to str
        File name to text, such as ``audit.md`` or ``splits.json``.
    origin : Origin, optional
        Kept beside the version, so that it can be made again.
    """

    params: Mapping[str, str]
    metrics: Mapping[str, float]
    dataset: pd.DataFrame
    dataset_name: str
    card: str
    figures: Mapping[str, bytes] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)
    origin: Origin | None = None


def provenance_facts(dataset: pd.DataFrame) -> dict[str, str]:
    """Return the facts every spec carries: rows and digest of the data, version of the code."""
    return {
        "rows": str(len(dataset)),
        "data_digest": frame_digest(dataset),
        "code_version": code_version(),
    }


def flat_metrics(splits: list[dict[str, object]]) -> dict[str, float]:
    """Return the numbers of evaluated splits under ``<split>_<metric>``.

    Examples
    --------
    >>> flat_metrics([{"split": "pair", "n": 10, "r2": 0.5, "ceiling_r2": None}])
    {'pair_n': 10.0, 'pair_r2': 0.5}
    """
    return {
        f"{row['split']}_{name}": float(value)
        for row in splits
        for name, value in row.items()
        if isinstance(value, int | float) and np.isfinite(value)
    }


def splits_json(splits: list[dict[str, object]]) -> str:
    """Return evaluated splits as a JSON document, one object a split."""
    return json.dumps(splits, indent=1, allow_nan=False)


def markdown_table(frame: pd.DataFrame) -> str:
    """Return a frame as a Markdown table, without its index; numbers to four digits.

    Examples
    --------
    >>> print(markdown_table(pd.DataFrame({"split": ["pair"], "r2": [0.71234], "k": [None]})))
    | split | r2 | k |
    | --- | --- | --- |
    | pair | 0.7123 | – |
    """
    lines = [list(map(str, frame.columns)), ["---"] * len(frame.columns)]
    lines += [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
