"""The JSON form of the domain dataclasses, and the strict way back.

Standard library only: the scheduler, its outbox, the job log and the service all read and write
one form. It holds every field, and only those; a number that JSON cannot hold (NaN, infinity) is
refused in both directions. Numbers survive the round trip bit by bit.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from data.errors import WireError, shown

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Decoder = Callable[[Any], Any]
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
    return _object(value)


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
    try:
        found: T = _dataclass(cls, document)
    except WireError as error:
        raise WireError(error.field or cls.__name__, error.found, error.wanted) from None
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


def _within(name: str, error: WireError) -> WireError:
    """Return `error` as seen from one level up; paths are only built once something is wrong."""
    joint = "." if error.field and not error.field.startswith("[") else ""
    return WireError(f"{name}{joint}{error.field}", error.found, error.wanted)


def _at(convert: Callable[[Any], Any], value: object, name: str) -> Any:
    try:
        return convert(value)
    except WireError as error:
        raise _within(name, error) from None


def _object(value: Any) -> dict[str, Json]:
    return {name: _at(_encoded, getattr(value, name), name) for name in _decoders(value.__class__)}


def _encoded(value: object) -> Json:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, str):
        return _unicode(value)
    return _encoded_many(value)


def _encoded_many(value: object) -> Json:
    if isinstance(value, Mapping):
        return {_unicode(name): _at(_encoded, item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_at(_encoded, item, f"[{i}]") for i, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    raise WireError("", type(value).__name__, "a value with a JSON form")


@cache
def _decoder(kind: Any) -> Decoder:
    """Return the function that turns a JSON value into a `kind`; made once a type."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _optional(kind)
    if origin is tuple:
        return partial(_tuple, get_args(kind))
    if origin in (dict, Mapping):
        return partial(_mapping, _decoder(get_args(kind)[1]))
    if is_dataclass(kind):
        return partial(_dataclass, kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return partial(_member, kind, {member.value: member for member in kind})
    if kind in _SCALARS:
        return _SCALARS[kind]
    raise TypeError(f"no JSON form of {kind}")


def _dataclass(cls: Any, value: object) -> Any:
    if not isinstance(value, Mapping):
        raise WireError("", _kind(value), f"an object, {cls.__name__}")
    decoders = _decoders(cls)
    if unknown := value.keys() - decoders.keys():
        wanted = ", ".join(repr(name) for name in decoders)
        raise WireError("", f"unknown fields {shown(unknown)}", wanted)
    if missing := _required(cls) - value.keys():
        raise WireError("", f"no field {shown(missing)}", f"the fields of {cls.__name__}")
    return cls(**{name: _at(decoders[name], item, name) for name, item in value.items()})


@cache
def _decoders(cls: type) -> Mapping[str, Decoder]:
    hints = get_type_hints(cls)
    return {field.name: _decoder(hints[field.name]) for field in fields(cls)}


@cache
def _required(cls: type) -> frozenset[str]:
    absent = (f.name for f in fields(cls) if f.default is f.default_factory is MISSING)
    return frozenset(absent)


def _optional(kind: Any) -> Decoder:
    kinds = [k for k in get_args(kind) if k is not NoneType]
    if len(kinds) != 1:
        raise TypeError(f"no JSON form of {kind}, only of one type or null")
    decoder = _decoder(kinds[0])
    return lambda value: None if value is None else decoder(value)


def _tuple(kinds: tuple[Any, ...], value: object) -> tuple[Any, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise WireError("", _kind(value), "a list")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise WireError("", f"a list of {len(value)}", f"a list of {len(kinds)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_at(_decoder(kind), item, f"[{i}]") for i, (kind, item) in pairs)


def _mapping(decoder: Decoder, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise WireError("", _kind(value), "an object")
    return {_unicode(name): _at(decoder, item, str(name)) for name, item in value.items()}


def _member(kind: type[Enum], members: Mapping[object, Enum], value: object) -> Enum:
    if isinstance(value, str | int) and not isinstance(value, bool) and value in members:
        return members[value]
    raise WireError("", repr(value)[:80], "one of " + ", ".join(str(m.value) for m in kind))


def _unicode(value: object) -> str:
    # A lone surrogate has no UTF-8 form, and PostgreSQL's text cannot hold NUL.
    if not isinstance(value, str):
        raise WireError("", _kind(value), "a text")
    if "\0" in value or not (value.isascii() or _has_utf8(value)):
        raise WireError("", repr(value)[:80], "a text without NUL and lone surrogates")
    return value


def _has_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WireError("", _kind(value), "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise WireError("", str(number), "a finite number")
    return number


def _whole(value: object) -> int:
    number = _finite(value)
    if not number.is_integer():
        raise WireError("", str(number), "a whole number")
    # The float form above would round an integer beyond 2**53.
    return value if isinstance(value, int) else int(number)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise WireError("", _kind(value), "true or false")
    return value


_SCALARS: dict[Any, Decoder] = {str: _unicode, float: _finite, int: _whole, bool: _flag}


def _kind(value: object) -> str:
    names = {str: "a text", bool: "true or false", int: "a number", float: "a number"}
    text = names.get(type(value), "null" if value is None else type(value).__name__)
    return f"{text} {value!r:.80}" if isinstance(value, str | bool | int | float) else text
