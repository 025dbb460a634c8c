"""The verb `schema`: the user's columns."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tidelake.cli import text
from tidelake.config import TableConfig

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def render(schema: StructType, config: TableConfig) -> list[str]:
    """Return one line a column, with what the column does for the table."""
    rows = [
        (
            field.name,
            field.dataType.simpleString(),
            "yes" if field.nullable else "no",
            ", ".join(_roles(field.name, config)),
        )
        for field in schema.fields
    ]
    return text.columns(["COLUMN", "TYPE", "NULLABLE", "ROLE"], rows)


def _roles(name: str, config: TableConfig) -> list[str]:
    roles: list[tuple[str, Collection[str]]] = [
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", (*config.ordering_fields, *(g.ordering for g in config.column_groups))),
    ]
    return [role for role, names in roles if name in names]
