"""Strict readers and writers for the wire types, and the JSON schema that says the same.

pydantic validates standard dataclasses, but loosely: it ignores unknown fields and knows no
ranges. So the schema it derives from a dataclass is tightened here, once, before it becomes a
validator. ``data.domain`` stays free of pydantic, and there is no second copy of its types.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, SchemaValidator

from data.errors import SHOWN, RequestError
from serving.web.limits import LARGEST_SIGNAL, NO_CONTROL_CHARACTERS, Range, limit_of

T = TypeVar("T")
Schema = dict[str, Any]  # pydantic's core schema: nested dicts and lists
FoundFault = tuple[str, str, str]  # field, what was found, what was wanted

SHOWN_CHARACTERS = 60
REF_TEMPLATE = "#/components/schemas/{model}"
_AS_THEY_ARE = ("cls", "metadata", "members", "default")
WHOLE = "whole_number"
_WANTED = {
    "missing": "this field",
    "unexpected_keyword_argument": "only documented fields",
    "dataclass_type": "an object",
    "tuple_type": "a list",
    "dict_type": "an object",
    "string_type": "a text",
    "string_pattern_mismatch": "a text without control characters",
    WHOLE: "a whole number in [{least}, {most}]",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "enum": "one of {expected}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} rows",
    "too_long": "at most {max_length} rows",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "json_invalid": "a JSON object ({error})",
}


class Reader(Generic[T]):
    """Reads one wire type, and nothing else.

    Parameters
    ----------
    kind : type
        A dataclass of ``serving.web.wire_models``.
    """

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self.schema: Schema = _tightened(TypeAdapter(kind).core_schema)
        self._validator = SchemaValidator(_with_whole_floats(self.schema))

    def read(self, body: bytes) -> T:
        """Return the value that a JSON body describes.

        Raises
        ------
        RequestError
            The body is no JSON, or a field is unknown, missing, of another kind, not finite or
            out of range. Names at most five fields.
        """
        try:
            value: T = self._validator.validate_json(body)
        except ValidationError as error:
            raise RequestError(*faults(error)) from error
        return value


class Writer(Generic[T]):
    """Writes one wire type.

    Parameters
    ----------
    kind : type
        A dataclass of ``serving.web.wire_models``.
    """

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._adapter = TypeAdapter(kind)
        self.schema: Any = self._adapter.core_schema

    def write(self, value: T) -> bytes:
        """Return `value` as JSON."""
        return self._adapter.dump_json(value)


def faults(error: ValidationError) -> list[FoundFault]:
    """Return what pydantic found, in our words.

    A list all of whose rows are at fault is not also called too short.
    """
    found = error.errors(include_url=False)
    real = [fault for fault in found if fault["type"] != "too_short"] or found
    return [_fault(fault) for fault in real[:SHOWN]]


def _fault(fault: ErrorDetails) -> FoundFault:
    kind = fault["type"]
    wanted = _WANTED.get(kind, fault["msg"]).format(**fault.get("ctx", {}))
    return path(fault["loc"]), _found(kind, fault["input"]), wanted


def path(location: Sequence[int | str]) -> str:
    """Return a location as one reads it in code.

    Examples
    --------
    >>> path(("pairs", 0, "job_key"))
    'pairs[0].job_key'
    """
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return _shortened("".join(parts).removeprefix("."))


def _found(kind: str, value: object) -> str:
    if kind == "missing":
        return "nothing"
    if kind == "unexpected_keyword_argument":
        return "an unknown field"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, dict | list | tuple):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return _shortened(repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def request_schemas(readers: Sequence[Reader[Any]]) -> dict[str, Schema]:
    """Return the JSON schemas of requests and of all they hold, by class name."""
    schemas = _json_schemas([(r.kind.__name__, "validation", r.schema) for r in readers])
    # pydantic reads this from a class's own configuration only, not from the validator's schema.
    closed = {"additionalProperties": False}
    return {
        n: schema | closed if "properties" in schema else schema for n, schema in schemas.items()
    }


def answer_schemas(writers: Sequence[Writer[Any]]) -> dict[str, Schema]:
    """Return the JSON schemas of answers and of all they hold, by class name."""
    return _json_schemas([(w.kind.__name__, "serialization", w.schema) for w in writers])


def _json_schemas(inputs: list[Any]) -> dict[str, Schema]:
    generator = GenerateJsonSchema(ref_template=REF_TEMPLATE)
    tops, definitions = generator.generate_definitions(inputs)
    named = {key: schema for (key, _), schema in tops.items() if "$ref" not in schema}
    return {**definitions, **named}


def _tightened(schema: Any, class_name: str = "", field: str = "") -> Any:
    """Return `schema` with unknown fields forbidden and every number, text and list bounded."""
    if isinstance(schema, list):
        return [_tightened(part, class_name, field) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "dataclass-args":
        fields = [_tightened_field(part, schema["dataclass_name"]) for part in schema["fields"]]
        return {**schema, "fields": fields, "extra_behavior": "forbid"}
    inner = {
        key: value if key in _AS_THEY_ARE else _tightened(value, class_name, field)
        for key, value in schema.items()
    }
    return {**inner, **_bounds(kind, class_name, field)}


def _tightened_field(field: Schema, class_name: str) -> Schema:
    return {**field, "schema": _tightened(field["schema"], class_name, field["name"])}


def _bounds(kind: str | None, class_name: str, field: str) -> Schema:
    if kind in ("bool", "enum"):
        return {"strict": True}
    if kind not in ("str", "int", "float", "tuple", "dict"):
        return {}
    limit = limit_of(class_name, field, kind)
    if kind == "float" and field == "signals":
        limit = Range(0.0, LARGEST_SIGNAL)
    if kind == "int":
        return {"strict": True, "ge": int(limit.least), "le": int(limit.most)}
    if kind == "float":
        return {"strict": True, "ge": limit.least, "le": limit.most, "allow_inf_nan": False}
    lengths = {"strict": True, "min_length": int(limit.least), "max_length": int(limit.most)}
    return {**lengths, "pattern": NO_CONTROL_CHARACTERS} if kind == "str" else lengths


def _with_whole_floats(schema: Any) -> Any:
    """Return `schema` reading 3.0 as 3 where a whole number is wanted: in JSON they are the same.

    Leniency alone would also read "3" and true.
    """
    if isinstance(schema, list):
        return [_with_whole_floats(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") != "int":
        return {
            key: value if key in _AS_THEY_ARE else _with_whole_floats(value)
            for key, value in schema.items()
        }
    whole = {"type": "float", "multiple_of": 1.0, "allow_inf_nan": False}
    return {
        "type": "union",
        "mode": "left_to_right",
        "choices": [
            schema,
            {"type": "chain", "steps": [whole | {"strict": True}, schema | {"strict": False}]},
        ],
        "custom_error_type": WHOLE,
        "custom_error_message": "a whole number",
        "custom_error_context": {"least": schema["ge"], "most": schema["le"]},
    }
