"""From ``MODULE:NAME`` to the function of the user's that it names, and to PyTorch itself."""

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any

from data.errors import SettingError

EXTRA = "pip install 'colocast[torch]'"


def found_torch() -> Any:
    """Return PyTorch.

    Raises
    ------
    SettingError
        If it is not installed.
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise SettingError(f"found no PyTorch ({error}), wanted it: {EXTRA}") from error


def found_name(text: str, folder: Path) -> tuple[ModuleType, Callable[..., object]]:
    """Return the module and the callable that ``MODULE:NAME`` names.

    Parameters
    ----------
    text : str
        The name may have dots: ``models:Zoo.small``.
    folder : Path
        Where modules are looked for first, as ``python`` does in the working directory.

    Raises
    ------
    SettingError
        If there is no such module or name, if the module cannot be imported, or if it is nothing
        that can be called.
    """
    module_name, sign, name = text.partition(":")
    if not (module_name and sign and name):
        raise SettingError(f"found {text!r}, wanted MODULE:NAME, such as models:build")
    module = _imported(module_name, folder)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise SettingError(f"{module_name}: found no {name!r}, wanted a function or a class")
        found = getattr(found, part)
    if not callable(found):
        raise SettingError(f"{text}: found {type(found).__name__}, wanted a function or a class")
    return module, found


def needed(function: Callable[..., object], given: int = 0) -> list[str]:
    """Return the names of the arguments that `function` cannot do without, after `given` ones.

    Examples
    --------
    >>> needed(lambda width, depth=2: None), needed(lambda width, depth=2: None, 1)
    (['width'], [])
    """
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        return []
    taken = [p for p in parameters if p.kind in positional][:given]
    return [
        p.name
        for p in parameters
        if p not in taken
        and p.default is Parameter.empty
        and p.kind in (*positional, Parameter.KEYWORD_ONLY)
    ]


def default_of_first(function: Callable[..., object]) -> int | None:
    """Return the default of the first argument if it is a whole number.

    Examples
    --------
    >>> default_of_first(lambda batch_size=2048: None), default_of_first(lambda batch_size: None)
    (2048, None)
    """
    first = next(iter(signature(function).parameters.values()), None)
    if first is None or not isinstance(first.default, int) or isinstance(first.default, bool):
        return None
    return first.default


def _imported(name: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise SettingError(f"found no module {name!r} in {folder} or on the path") from error
        raise SettingError(f"{name}: it imports {error.name!r}, which is not installed") from error
    except Exception as error:
        raise SettingError(f"{name}: cannot be imported: {_told(error)}") from error


def _told(error: Exception) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
