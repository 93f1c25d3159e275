"""Tables on disk."""

import pandas as pd
import pytest

from data.errors import TableError
from data.tables import read_frame, write_frame, write_tables

FRAME = pd.DataFrame({"gpus": [1.0, 2.0]})


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_what_was_written_is_read(tmp_path, name):
    write_frame(FRAME, tmp_path / "new" / name)
    pd.testing.assert_frame_equal(read_frame(tmp_path / "new" / name), FRAME)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


def test_tables_replace_the_whole_directory(tmp_path):
    write_tables({"jobs": FRAME, "labels": FRAME}, tmp_path / "kind")
    write_tables({"jobs": FRAME * 2}, tmp_path / "kind")
    assert [path.name for path in tmp_path.iterdir()] == ["kind"]
    assert [path.name for path in (tmp_path / "kind").iterdir()] == ["jobs.parquet"]
    assert read_frame(tmp_path / "kind" / "jobs.parquet")["gpus"].tolist() == [2.0, 4.0]


def test_failure_on_the_second_table_changes_nothing(tmp_path):
    write_tables({"jobs": FRAME}, tmp_path / "kind")
    unwritable = pd.DataFrame({"mixed": [1, "text", object()]})
    with pytest.raises(Exception, match=r"mixed|object"):
        write_tables({"jobs": FRAME * 2, "labels": unwritable}, tmp_path / "kind")
    assert [path.name for path in tmp_path.iterdir()] == ["kind"]
    assert read_frame(tmp_path / "kind" / "jobs.parquet")["gpus"].tolist() == [1.0, 2.0]


def test_previous_tables_come_back_when_the_new_ones_cannot_take_their_place(tmp_path, monkeypatch):
    from data import tables

    directory = tmp_path / "kind"
    write_tables({"jobs": FRAME}, directory)
    original = tables.Path.rename

    def rename(self, target):
        if "previous" not in self.name and target == directory:
            raise OSError("disk full")
        return original(self, target)

    monkeypatch.setattr(tables.Path, "rename", rename)
    with pytest.raises(TableError, match=r"disk full .*wanted a folder to write to"):
        write_tables({"jobs": FRAME * 2}, directory)
    assert read_frame(directory / "jobs.parquet")["gpus"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "found an unreadable file"),
        ("t.csv", b"gpus\n", "found no rows, wanted at least one"),
        ("t.csv", b"\xff\xfe\x00", "found an unreadable file"),
        ("t.csv.gz", b"gpus\n1\n", "found an unreadable file"),
        ("t.parquet", b"PAR1", "found an unreadable file"),
        ("t.xlsx", b"", "found the name t.xlsx, wanted one ending in .parquet"),
    ],
)
def test_unreadable_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=f"{name}: {message}"):
        read_frame(tmp_path / name)


def test_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TableError, match=r"t.parquet: found (Not a directory|File exists)"):
        write_frame(FRAME, tmp_path / "file" / "t.parquet")
    with pytest.raises(TableError, match=r"kind: found (Not a directory|File exists)"):
        write_tables({"jobs": FRAME}, tmp_path / "file" / "kind")


def test_other_endings_are_not_written(tmp_path):
    with pytest.raises(TableError, match=r"found the name t.xlsx, wanted one ending in"):
        write_frame(FRAME, tmp_path / "t.xlsx")
