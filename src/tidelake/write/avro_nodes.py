"""Types of an Avro schema, as parsed JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What people call a type, where Avro has another name for it.
_CALLED = {
    "record": "a struct",
    "array": "an array",
    "map": "a map",
    "long": "bigint",
    "bytes": "binary",
    "timestamp-micros": "timestamp",
    "timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-millis": "timestamp_ntz",
}

#: What each type may become without losing a row's meaning, as Hudi widens.
WIDER = {
    "int": ("long", "float", "double", "string"),
    "long": ("float", "double", "string"),
    "float": ("double", "string"),
    "double": ("string",),
    "string": ("bytes",),
}


def is_nullable(node: Any) -> bool:
    """Return whether a value of the type may be null."""
    return isinstance(node, list) and "null" in node


def core(node: Any) -> Any:
    """Return the type without the null beside it."""
    if not isinstance(node, list):
        return node
    some = [branch for branch in node if branch != "null"]
    return some[0] if len(some) == 1 else node


def kind(node: Any) -> str:
    """Return the name of the type, the logical one where it has one."""
    if isinstance(node, list):
        return "union"
    if isinstance(node, str):
        return node
    logical = node.get("logicalType")
    if logical == "decimal":
        return "decimal"
    inner = node["type"]
    if logical is not None and inner in ("int", "long"):
        return str(logical)
    return inner if isinstance(inner, str) else kind(inner)


def digits(node: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many digits a decimal has before and behind the point."""
    scale = int(node.get("scale", 0))
    return int(node["precision"]) - scale, scale


def shown(node: Any) -> str:
    """Return the type as people write it in Spark."""
    inner = core(node)
    name = kind(inner)
    if name == "decimal":
        return f"decimal({inner['precision']},{inner.get('scale', 0)})"
    return _CALLED.get(name, name)
