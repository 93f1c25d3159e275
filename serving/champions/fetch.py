"""``python -m serving.champions.fetch NAME NUMBER DIRECTORY``: MLflow's client, out of process."""

import os
import sys
from pathlib import Path

from data.errors import RegistryError
from serving.champions.sources import MlflowChampions


def main(arguments: list[str]) -> int:
    """Fetch one version from ``MLFLOW_TRACKING_URI``; the reason of a failure ends stderr."""
    name, number, directory = arguments
    try:
        MlflowChampions(os.environ["MLFLOW_TRACKING_URI"]).fetch(name, number, Path(directory))
    except RegistryError as error:
        sys.stderr.write(f"\n{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
