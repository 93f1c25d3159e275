"""Copies of the hand-made fixtures, with one thing wrong."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def fixtures() -> Path:
    """The folder of tiny tables in the original layouts; every value is made up."""
    return FIXTURES


@pytest.fixture
def edited(tmp_path):
    """Copy a layout, change one file in it, and return the copy's folder."""

    def edit(kind: str, file: str, change) -> Path:
        folder = tmp_path / kind
        shutil.copytree(FIXTURES / kind, folder, dirs_exist_ok=True)
        frame = pd.read_csv(folder / file)
        changed = change(frame)
        (frame if changed is None else changed).to_csv(folder / file, index=False)
        return folder

    return edit


@pytest.fixture
def with_value(edited):
    """Copy a layout with one value of one file replaced; rows count from 1."""

    def replace(kind: str, file: str, column: str, row: int, value: object) -> Path:
        def change(frame):
            frame[column] = frame[column].astype("object")
            frame.loc[row - 1, column] = value

        return edited(kind, file, change)

    return replace
