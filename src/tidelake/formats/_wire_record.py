"""Dataclasses as the Avro or JSON records of the same shape.

The types of a dataclass say what a decoded record must look like, and its attribute names, turned
to camel case, say what the record's fields are called; metadata `name` overrides that. A field of
the record that the dataclass does not know is skipped, so newer writers stay readable.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tidelake.errors import Malformed

T = TypeVar("T")
_Convert = Callable[[Any], Any]
_ABSENT = object()

#: Metadata of a dataclass field that no record has: it travels between tasks and driver alone.
OFF_WIRE: Mapping[str, Any] = {"off_wire": True}
#: Metadata of a dataclass field that may be null but never absent: a record without it is of
#: another kind or damaged, and reading it as empty would hide data.
CORE: Mapping[str, Any] = {"core": True}


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    name: str
    core: bool
    required: bool
    nullable: bool
    read: _Convert
    write: _Convert


def from_wire(kind: type[T], raw: object) -> T:
    """Return the decoded record `raw` as an instance of `kind`."""
    if not isinstance(raw, dict):
        raise Malformed(f"{kind.__name__} should be a record, but is {_shown(raw)}")
    arguments = {}
    known = _fields_of(kind)  # type: ignore[arg-type]  # every class is hashable
    for spec in known:
        value = raw.get(spec.name, _ABSENT)
        if value is _ABSENT and spec.core:
            raise Malformed(f"{kind.__name__} lacks its field {spec.name}")
        if value is _ABSENT or (value is None and not spec.nullable):
            if spec.required:
                raise Malformed(f"{kind.__name__} lacks a value for {spec.name}")
            continue
        try:
            arguments[spec.attribute] = spec.read(value)
        except _Mismatch as cause:
            raise Malformed(f"{spec.name} of {kind.__name__} {cause}") from None
    return kind(**arguments)


def to_wire(value: object) -> dict[str, Any]:
    """Return the record, as plain dicts and lists, that `from_wire` reads back as `value`."""
    known = _fields_of(type(value))  # type: ignore[arg-type]  # every class is hashable
    return {spec.name: spec.write(getattr(value, spec.attribute)) for spec in known}


class _Mismatch(Exception):  # noqa: N818 - never leaves this module
    pass


@cache
def _fields_of(kind: type[Any]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(
        _Field(
            attribute=spec.name,
            name=spec.metadata.get("name") or _camel_case(spec.name),
            core=spec.metadata.get("core", False),
            required=spec.default is MISSING and spec.default_factory is MISSING,
            nullable=_is_optional(hints[spec.name]),
            read=_reader(hints[spec.name]),
            write=_writer(hints[spec.name]),
        )
        for spec in fields(kind)
        if not spec.metadata.get("off_wire", False)
    )


def _camel_case(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def _is_optional(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


def _inner(hint: Any) -> Any:
    (inner,) = (arg for arg in get_args(hint) if arg is not type(None))
    return inner


def _reader(hint: Any) -> _Convert:
    if _is_optional(hint):
        read_present = _reader(_inner(hint))
        return lambda value: None if value is None else read_present(value)
    if is_dataclass(hint):
        return lambda value: from_wire(hint, value)  # type: ignore[arg-type]  # a type, not an instance
    if get_origin(hint) is tuple:
        read_item = _reader(get_args(hint)[0])
        return lambda value: tuple(map(read_item, _checked(value, list)))
    if get_origin(hint) is Mapping:
        read_value = _reader(get_args(hint)[1])
        return lambda value: {key: read_value(item) for key, item in _checked(value, dict).items()}
    if hint is float:
        return lambda value: float(_checked(value, int if type(value) is int else float))
    return lambda value: _checked(value, hint)


def _checked(value: Any, kind: type[Any]) -> Any:
    # Compares types exactly because a bool is an int to isinstance.
    if type(value) is not kind:
        raise _Mismatch(f"should be {kind.__name__}, but is {_shown(value)}")
    return value


def _writer(hint: Any) -> _Convert:
    if _is_optional(hint):
        write_present = _writer(_inner(hint))
        return lambda value: None if value is None else write_present(value)
    if is_dataclass(hint):
        return to_wire
    if get_origin(hint) is tuple:
        write_item = _writer(get_args(hint)[0])
        return lambda value: [write_item(item) for item in value]
    if get_origin(hint) is Mapping:
        write_value = _writer(get_args(hint)[1])
        return lambda value: {key: write_value(item) for key, item in value.items()}
    return lambda value: value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
