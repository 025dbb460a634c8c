"""The verb `schema`: the user's columns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.config import TableConfig
from tidelake.operations.open_table import open_state
from tidelake.records import arrow_schema
from tidelake.records.spark_json import sql_name, struct_json


def render(schema: dict[str, Any], config: TableConfig) -> list[str]:
    """Return one line a column, with what the column does for the table.

    `schema` is a struct as Spark writes it as JSON.
    """
    rows = [
        (
            field["name"],
            sql_name(field["type"]),
            "yes" if field["nullable"] else "no",
            ", ".join(_roles(field["name"], config)),
        )
        for field in schema["fields"]
    ]
    return text.columns(["COLUMN", "TYPE", "NULLABLE", "ROLE"], rows)


def _roles(name: str, config: TableConfig) -> list[str]:
    roles: list[tuple[str, Collection[str]]] = [
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", (*config.ordering_fields, *(g.ordering for g in config.column_groups))),
    ]
    return [role for role, names in roles if name in names]


def run(call: Call) -> bool:
    """Show the columns, now or as of a point in time."""
    state = open_state(call.table, call.options)
    at = None if call.args.as_of is None else state.as_of(call.args.as_of)
    found = struct_json(arrow_schema(state.schema(at).avro))
    if call.out.as_json:
        call.out.document(found)
    else:
        call.out.lines(render(found, state.config))
    return True
