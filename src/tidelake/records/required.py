"""Nulls where the table's schema allows none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import SchemaError
from tidelake.formats.table_schema import full_name, parse_avro
from tidelake.records.schema import META_COLUMNS

_Check = Callable[[pa.Array], None]


def require_values(rows: pa.Table, schema: str) -> None:
    """Raise `SchemaError` when `rows` hold a null that the Avro record schema rules out."""
    for name, check in _checks(schema):
        for chunk in rows.column(name).chunks:
            check(chunk)


@lru_cache(maxsize=64)
def _checks(schema: str) -> tuple[tuple[str, _Check], ...]:
    node = parse_avro(schema)
    compiler = _Compiler()
    inner = compiler.bind(node, "")
    found = []
    for each in node["fields"]:
        check = compiler.type(each["type"], inner, each["name"])
        if check is not None and each["name"] not in META_COLUMNS:
            found.append((each["name"], check))
    return tuple(found)


class _Compiler:
    """Makes the check of a type, or None when nothing in it is required."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, Any], str]] = {}

    def bind(self, node: Mapping[str, Any], namespace: str) -> str:
        full, inner = full_name(node, namespace)
        self._known[full] = (node, namespace)
        return inner

    def type(self, node: Any, namespace: str, path: str) -> _Check | None:
        if isinstance(node, list):
            some = [branch for branch in node if branch != "null"]
            value = self._value(some[0], namespace, path) if len(some) == 1 else None
            return value if len(some) < len(node) else _required(value, path)
        return _required(self._value(node, namespace, path), path)

    def _value(self, node: Any, namespace: str, path: str) -> _Check | None:
        if isinstance(node, str):
            for name in (node, f"{namespace}.{node}"):
                if name in self._known:
                    return self._value(*self._known[name], path)
            return None
        kind = node["type"]
        if kind in ("record", "error"):
            return self._record(node, namespace, path)
        if kind == "array":
            item = self.type(node["items"], namespace, f"{path}.element")
            return None if item is None else lambda array: item(array.flatten())
        if kind == "map":
            value = self.type(node["values"], namespace, f"{path}.value")
            return None if value is None else lambda array: value(_map_values(array))
        if kind in ("enum", "fixed"):
            self.bind(node, namespace)
            return None
        return None if isinstance(kind, str) else self.type(kind, namespace, path)

    def _record(self, node: Mapping[str, Any], namespace: str, path: str) -> _Check | None:
        inner = self.bind(node, namespace)
        checks = [self.type(f["type"], inner, f"{path}.{f['name']}") for f in node["fields"]]
        if not any(checks):
            return None

        def check(array: pa.StructArray) -> None:
            present = array.filter(array.is_valid()) if array.null_count else array
            for each, column in zip(checks, present.flatten(), strict=True):
                if each is not None:
                    each(column)

        return check


def _map_values(array: pa.MapArray) -> pa.Array:
    pair = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
    return pc.struct_field(array.cast(pa.list_(pair)).flatten(), "value")


def _required(inner: _Check | None, path: str) -> _Check:
    def check(array: pa.Array) -> None:
        if array.null_count:
            raise SchemaError(
                f"column {path} holds a null, but the table's schema says that it has none",
                next_step="fill the column, or leave the rows out",
            )
        if inner is not None:
            inner(array)

    return check
