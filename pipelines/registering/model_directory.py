"""A bundle as an MLflow model directory, complete before anything of it is uploaded."""

from importlib.metadata import version
from pathlib import Path

import lightgbm
import mlflow.lightgbm
import mlflow.sklearn
import numpy as np
import pandas as pd
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, Schema

from serving.champions.estimators import TRUSTED_TYPES
from serving.champions.files import write_facts
from serving.inference.bundle import Bundle, ModelSpec

PACKAGES = ("lightgbm", "numpy", "scikit-learn", "skops")
_DOUBLE = DataType.double


def write_model_directory(bundle: Bundle, directory: Path, model: Model) -> str:
    """Write the estimator as MLflow does, then our facts, and return the bundle's digest.

    Parameters
    ----------
    bundle : Bundle
        Its estimator is a public scikit-learn object or a LightGBM booster.
    directory : Path
        Must not exist yet.
    model : mlflow.models.Model
        Carries the ids of run and logged model.
    """
    example = example_frame(bundle.spec)
    options = {
        "mlflow_model": model,
        "signature": signature(bundle),
        "input_example": example if len(example) else None,
        # Left to itself MLflow loads the model in a fresh process to see what it imports.
        "pip_requirements": [f"{name}=={version(name)}" for name in PACKAGES],
    }
    if isinstance(bundle.estimator, lightgbm.Booster):
        mlflow.lightgbm.save_model(bundle.estimator, str(directory), **options)
    else:
        mlflow.sklearn.save_model(
            bundle.estimator,
            str(directory),
            serialization_format=mlflow.sklearn.SERIALIZATION_FORMAT_SKOPS,
            skops_trusted_types=list(TRUSTED_TYPES),
            **options,
        )
    return write_facts(bundle, directory)


def example_frame(spec: ModelSpec) -> pd.DataFrame:
    """Return the stored examples as a frame of float64, one column a feature."""
    rows = np.array(spec.example_rows, dtype=np.float64).reshape(-1, len(spec.features))
    return pd.DataFrame(rows, columns=list(spec.features))


def signature(bundle: Bundle) -> ModelSignature:
    """Return the signature: all inputs and outputs are doubles, NaN is missing."""
    inputs = Schema([ColSpec(_DOUBLE, name) for name in bundle.spec.features])
    targets = max(1, len(bundle.spec.example_values) // max(1, len(bundle.spec.example_rows)))
    names = ["value"] if targets == 1 else [f"value_{at}" for at in range(targets)]
    return ModelSignature(inputs, Schema([ColSpec(_DOUBLE, name) for name in names]))
