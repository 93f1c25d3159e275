"""The commands to profile, as a person writes them down in YAML."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from data.domain import ModelStructure
from data.errors import ProfilerError, WireError
from data.wire import from_json

WANTED = "a list of entries with name, family and command"
NAME = re.compile(r"[^\s+#]+")  # run ids are made of names, joined by these signs
NAME_WANTED = "a name without space, + and #, and a family"


@dataclass(frozen=True, slots=True)
class Workload:
    """One command that is profiled, and what its user can say of it.

    Attributes
    ----------
    name : str
        The job key; unique in its file.
    family : str
        Jobs of the same architecture; the unit that is held out to test generalisation.
    command : tuple of str
        Run without a shell. ``{python}`` is this interpreter, ``{here}`` the file's folder.
    structure : ModelStructure, optional
        What is known before the first run; its family is that of the entry.
    cwd : str, optional
        Working directory; may name ``{here}``.
    env : mapping of str to str
        Added to the environment.
    paired : bool
        Whether pairs with it are measured; otherwise exclusive runs only.
    """

    name: str
    family: str
    command: tuple[str, ...]
    structure: ModelStructure | None = None
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    paired: bool = True


def load_workloads(path: Path) -> tuple[Workload, ...]:
    """Return the workloads of a YAML file, in its order.

    Raises
    ------
    ProfilerError
        Names the file, the entry and what was wanted: no such file, no YAML, a field that is
        missing, unknown, named twice or of another kind, a name twice, an empty command.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_OnceLoader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ProfilerError(f"{path}: found no readable YAML ({error}), wanted {WANTED}") from error
    if not isinstance(document, list) or not document:
        raise ProfilerError(f"{path}: found {_kind(document)}, wanted {WANTED}")
    places = {"python": sys.executable, "here": str(path.resolve().parent)}
    workloads = tuple(
        _workload(entry, f"{path}, entry {number}", places)
        for number, entry in enumerate(document, start=1)
    )
    _refuse_twice(workloads, path)
    return workloads


class _OnceLoader(yaml.SafeLoader):
    """YAML's safe loader, except that a key named twice in one mapping is refused."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"{twice!r} a second time in one entry{node.start_mark}")
        return super().construct_mapping(node, deep)


def _workload(entry: object, where: str, places: Mapping[str, str]) -> Workload:
    if isinstance(entry, Mapping) and "name" in entry:
        where = f"{where} ({entry['name']})"
    try:
        workload = from_json(Workload, _with_family(entry))
    except WireError as error:
        raise ProfilerError(f"{where}: {error}") from error
    if not NAME.fullmatch(workload.name) or not workload.family:
        found = f"the name {workload.name!r} and the family {workload.family!r}"
        raise ProfilerError(f"{where}: found {found}, wanted {NAME_WANTED}")
    if not workload.command:
        raise ProfilerError(f"{where}: found an empty command, wanted at least a program")
    _check_structure(workload.structure, where)
    return _placed(workload, places)


def _with_family(entry: object) -> object:
    """Give the entry's family to its structure, so that nobody has to write it twice."""
    structure = entry.get("structure") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(structure, Mapping):
        return entry
    return {**entry, "structure": {"family": entry.get("family"), **structure}}


def _check_structure(structure: ModelStructure | None, where: str) -> None:
    if structure is not None and min(structure.batch_size, structure.gpus) < 1:
        found = f"batch_size {structure.batch_size} and gpus {structure.gpus}"
        raise ProfilerError(f"{where}: found {found}, wanted both at least 1")


def _placed(workload: Workload, places: Mapping[str, str]) -> Workload:
    def filled(text: str) -> str:
        # Not str.format: braces in a command (JSON, awk) are none of ours.
        for name, value in places.items():
            text = text.replace("{" + name + "}", value)
        return text

    return Workload(
        workload.name,
        workload.family,
        tuple(filled(part) for part in workload.command),
        workload.structure,
        None if workload.cwd is None else filled(workload.cwd),
        {name: filled(value) for name, value in workload.env.items()},
        workload.paired,
    )


def _refuse_twice(workloads: tuple[Workload, ...], path: Path) -> None:
    names = [workload.name for workload in workloads]
    for number, name in enumerate(names, start=1):
        if names.index(name) < number - 1:
            raise ProfilerError(
                f"{path}, entry {number}: found the name {name!r} again, wanted each once"
            )


def _kind(document: object) -> str:
    return "nothing" if not document else f"a {type(document).__name__}"
