"""The columns that Hudi puts in front of the user's: their schema, and their values in new rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.formats.table_schema import full_name, parse_avro
from tidelake.records.schema import META_COLUMNS


@lru_cache(maxsize=64)
def with_meta_columns(schema: str, without: Collection[str] = ()) -> str:
    """Return an Avro record schema as it stands in files: meta columns first, `without` left out.

    Raises `Malformed` for a broken schema.
    """
    node = parse_avro(schema)
    meta = [
        {"name": name, "type": ["null", "string"], "doc": "", "default": None}
        for name in META_COLUMNS
        if name not in without
    ]
    hidden = {*META_COLUMNS, *without}
    fields = [field for field in node["fields"] if field["name"] not in hidden]
    if any(name in without for name in (field["name"] for field in node["fields"])):
        fields = _with_definitions(node, fields)
    return json.dumps({**node, "fields": meta + fields}, separators=(",", ":"))


def _with_definitions(
    record: Mapping[str, Any], fields: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return some fields of a record, with the types that only those left out define."""
    types: dict[str, dict[str, Any]] = {}
    _, namespace = full_name(record, "")

    def collect(node: Any, inside: str) -> None:
        if isinstance(node, list):
            for branch in node:
                collect(branch, inside)
        elif isinstance(node, dict):
            if "name" in node:
                full, inside = full_name(node, inside)
                types[full] = {
                    **node,
                    "name": full.rpartition(".")[2],
                    "namespace": full.rpartition(".")[0],
                }
            for part in ("type", "items", "values"):
                collect(node.get(part), inside)
            for field in node.get("fields", ()):
                collect(field["type"], inside)

    defined: set[str] = set()

    def complete(node: Any, inside: str) -> Any:
        if isinstance(node, list):
            return [complete(branch, inside) for branch in node]
        if isinstance(node, str):
            full = node if node in types else f"{inside}.{node}"
            if full not in types or full in defined:
                return node
            return complete(types[full], inside)
        if not isinstance(node, dict):
            return node
        if "name" in node:
            full, inside = full_name(node, inside)
            defined.add(full)
        made = {
            name: complete(value, inside) if name in ("items", "values") else value
            for name, value in node.items()
        }
        if isinstance(node.get("type"), dict | list):
            made["type"] = complete(node["type"], inside)
        if "fields" in node:
            made["fields"] = [{**f, "type": complete(f["type"], inside)} for f in node["fields"]]
        return made

    for field in record["fields"]:
        collect(field["type"], namespace)
    return [{**field, "type": complete(field["type"], namespace)} for field in fields]


def sequence_numbers(
    instant_time: str, task: int, numbers: npt.NDArray[np.int64]
) -> pa.StringArray:
    """Return `_hoodie_commit_seqno` of the rows that are `numbers` in their file."""
    return pc.binary_join_element_wise(
        f"{instant_time}_{task}_", pa.array(numbers).cast(pa.string()), ""
    )


def constant(value: str | None, rows: int) -> pa.DictionaryArray:
    """Return a column that holds `value` in each of `rows` rows, stored once."""
    if value is None:
        return pa.nulls(rows, CONSTANT)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string())
    )


#: The type of columns that hold few different texts.
CONSTANT = pa.dictionary(pa.int32(), pa.string())
