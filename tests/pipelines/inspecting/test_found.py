"""How ``MODULE:NAME`` is found, and what is said where it is not; no PyTorch needed."""

import sys

import pytest

from data.errors import SettingError
from pipelines.inspecting import found as found_module
from pipelines.inspecting.found import default_of_first, found_name, found_torch, needed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "found_zoo.py").write_text("class Zoo:\n    def small():\n        return 1\n")
    (tmp_path / "found_needy.py").write_text("import a_package_that_is_not_there\n")
    (tmp_path / "found_broken.py").write_text("raise RuntimeError('no GPU here')\n")
    return tmp_path


def test_dotted_name_in_the_working_directory_is_found(folder):
    module, function = found_name("found_zoo:Zoo.small", folder)
    assert module.__name__ == "found_zoo"
    assert function() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("found_zoo", "found 'found_zoo', wanted MODULE:NAME"),
        (":Zoo", "found ':Zoo', wanted MODULE:NAME"),
        ("no_such_module:x", "found no module 'no_such_module' in "),
        ("no_such_package.models:x", "found no module 'no_such_package.models' in "),
        ("found_needy:x", "it imports 'a_package_that_is_not_there', which is not installed"),
        ("found_broken:x", "cannot be imported: RuntimeError: no GPU here"),
        ("found_zoo:Zoo.large", "found no 'Zoo.large', wanted a function or a class"),
        ("found_zoo:__name__", "found str, wanted a function or a class"),
    ],
)
def test_what_is_not_found_is_named(folder, text, message):
    with pytest.raises(SettingError, match=message):
        found_name(text, folder)


def test_missing_pytorch_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SettingError, match=r"found no PyTorch .*colocast\[torch\]"):
        found_torch()
    assert "torch" in found_module.EXTRA


def test_arguments_that_cannot_be_left_out_are_named():
    assert needed(lambda width, *rest, depth=1, **more: None) == ["width"]
    assert needed(lambda batch, *, length: None, 1) == ["length"]
    assert needed(int) == []


def test_default_batch_size_is_a_whole_number_or_nothing():
    assert default_of_first(lambda batch_size=32: None) == 32
    assert default_of_first(lambda batch_size=True: None) is None
    assert default_of_first(lambda: None) is None
