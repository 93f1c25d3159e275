"""The JSON form of the domain dataclasses, and the strict way back.

Standard library only: the scheduler, its outbox, the job log and the service all read and write
one form. It holds every field, and only those; a number that JSON cannot hold (NaN, infinity) is
refused in both directions. Numbers survive the round trip bit by bit.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from data.errors import WireError, shown

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
T = TypeVar("T")


def to_json(value: object) -> dict[str, Json]:
    """Return a domain dataclass as a JSON object, nested values included.

    Raises
    ------
    WireError
        If a value has no JSON form, such as NaN or a text that is no valid Unicode.

    Examples
    --------
    >>> from data.domain import Pair
    >>> to_json(Pair("resnet50", "bert", "A100"))
    {'job_key': 'resnet50', 'neighbour_key': 'bert', 'gpu_model': 'A100'}
    """
    if not is_dataclass(value) or isinstance(value, type):
        raise WireError("", type(value).__name__, "a dataclass")
    return _object(value, "")


def from_json(cls: type[T], document: object) -> T:
    """Return the `cls` that a JSON object describes; nothing is guessed, nothing ignored.

    Parameters
    ----------
    cls : type
        A dataclass of ``data.domain`` or one made alike.
    document : object
        What ``json.loads`` returned. Fields with a default may be absent. A whole number may
        stand for a float, and 3.0 for a whole number, as in JSON they are the same.

    Raises
    ------
    WireError
        Names the field by its path, what was found and what was wanted.

    Examples
    --------
    >>> from data.domain import Resident
    >>> from_json(Resident, {"job_id": "7", "job_key": "bert"})
    Resident(job_id='7', job_key='bert')
    >>> from_json(Resident, {"job_id": "7", "job_key": "bert", "user": "ada"})
    Traceback (most recent call last):
    data.errors.WireError: Resident: found unknown fields 'user', wanted 'job_id', 'job_key'
    """
    found: T = _dataclass(cls, document, "")
    return found


def dumps(value: object) -> str:
    """Return `value` as canonical JSON text: keys sorted, no spaces, ASCII only."""
    return json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def loads(cls: type[T], text: str | bytes) -> T:
    """Return the `cls` that `dumps` wrote.

    Raises
    ------
    WireError
        If `text` is no JSON, names a key twice, or does not describe a `cls`.
    """
    try:
        document = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise WireError(cls.__name__, f"text that is no JSON ({error})", "a JSON object") from error
    return from_json(cls, document)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"a key twice among {shown(names)}")
    return dict(pairs)


def _object(value: Any, path: str) -> dict[str, Json]:
    return {f.name: _encoded(getattr(value, f.name), _join(path, f.name)) for f in fields(value)}


def _encoded(value: object, path: str) -> Json:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return _finite(value, path)
    if isinstance(value, str):
        return _unicode(value, path)
    return _encoded_many(value, path)


def _encoded_many(value: object, path: str) -> Json:
    if isinstance(value, Mapping):
        return {_unicode(k, path): _encoded(v, _join(path, str(k))) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value, path)
    raise WireError(path, type(value).__name__, "a value with a JSON form")


def _decoded(kind: Any, value: object, path: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _optional(kind, value, path)
    if origin is tuple:
        return _tuple(get_args(kind), value, path)
    if origin in (dict, Mapping):
        return _mapping(get_args(kind)[1], value, path)
    if is_dataclass(kind):
        return _dataclass(kind, value, path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value, path)
    if kind in _SCALARS:
        return _SCALARS[kind](value, path)
    raise TypeError(f"{path}: no JSON form of {kind}")


def _dataclass(cls: Any, value: object, path: str) -> Any:
    where = path or cls.__name__
    if not isinstance(value, Mapping):
        raise WireError(where, _kind(value), f"an object, {cls.__name__}")
    kinds = _kinds(cls)
    unknown = set(value) - set(kinds)
    if unknown:
        raise WireError(
            where, f"unknown fields {shown(unknown)}", ", ".join(repr(name) for name in kinds)
        )
    missing = _required(cls) - set(value)
    if missing:
        raise WireError(where, f"no field {shown(missing)}", f"the fields of {cls.__name__}")
    return cls(**{n: _decoded(kinds[n], v, _join(path, n)) for n, v in value.items()})


@cache
def _kinds(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


@cache
def _required(cls: type) -> frozenset[str]:
    absent = (f.name for f in fields(cls) if f.default is f.default_factory is MISSING)
    return frozenset(absent)


def _optional(kind: Any, value: object, path: str) -> Any:
    kinds = [k for k in get_args(kind) if k is not NoneType]
    if value is None and len(kinds) < len(get_args(kind)):
        return None
    if len(kinds) != 1:
        raise TypeError(f"{path}: no JSON form of {kind}, only of one type or null")
    return _decoded(kinds[0], value, path)


def _tuple(kinds: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise WireError(path, _kind(value), "a list")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise WireError(path, f"a list of {len(value)}", f"a list of {len(kinds)}")
    pairs = zip(kinds, value, strict=True)
    return tuple(_decoded(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(pairs))


def _mapping(kind: Any, value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise WireError(path, _kind(value), "an object")
    return {_unicode(k, path): _decoded(kind, v, _join(path, str(k))) for k, v in value.items()}


def _member(kind: type[Enum], value: object, path: str) -> Enum:
    for member in kind:
        if member.value == value and not isinstance(value, bool):
            return member
    raise WireError(path, repr(value)[:80], "one of " + ", ".join(str(m.value) for m in kind))


def _unicode(value: object, path: str) -> str:
    # A lone surrogate has no UTF-8 form, and PostgreSQL's text cannot hold NUL.
    if not isinstance(value, str):
        raise WireError(path, _kind(value), "a text")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise WireError(path, repr(value)[:80], "a text without NUL and lone surrogates")
    return value


def _finite(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WireError(path, _kind(value), "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise WireError(path, str(number), "a finite number")
    return number


def _whole(value: object, path: str) -> int:
    number = _finite(value, path)
    if not number.is_integer():
        raise WireError(path, str(number), "a whole number")
    # The float form above would round an integer beyond 2**53.
    return value if isinstance(value, int) else int(number)


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise WireError(path, _kind(value), "true or false")
    return value


_SCALARS: dict[Any, Any] = {str: _unicode, float: _finite, int: _whole, bool: _flag}


def _kind(value: object) -> str:
    names = {str: "a text", bool: "true or false", int: "a number", float: "a number"}
    text = names.get(type(value), "null" if value is None else type(value).__name__)
    return f"{text} {value!r:.80}" if isinstance(value, str | bool | int | float) else text


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
