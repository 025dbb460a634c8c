"""The schema of files, whole or without some columns."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from tidelake.formats.table_schema import column_names
from tidelake.records.meta_columns import with_meta_columns
from tidelake.records.schema import META_COLUMNS

ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop.model",
    "fields": [
        {"name": "street", "type": "string"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["HOME", "WORK"]}},
    ],
}
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "billing", "type": ["null", ADDRESS], "default": None},
            {"name": "shipping", "type": ["null", "shop.model.Address"], "default": None},
            {"name": "stops", "type": {"type": "array", "items": "shop.model.Address"}},
            {"name": "kinds", "type": {"type": "map", "values": "shop.model.Kind"}},
        ],
    }
)
PLACE = {"street": "Lane 1", "kind": "HOME"}


def test_the_meta_columns_come_first() -> None:
    assert column_names(with_meta_columns(ORDER))[: len(META_COLUMNS) + 1] == [*META_COLUMNS, "id"]


def test_meta_columns_are_left_out_by_name() -> None:
    names = column_names(with_meta_columns(ORDER, ("_hoodie_file_name", "billing")))
    assert "_hoodie_file_name" not in names
    assert "billing" not in names


@pytest.mark.parametrize(
    ("without", "value"),
    [
        (("billing",), {"shipping": PLACE, "stops": [PLACE], "kinds": {"a": "WORK"}}),
        (("billing", "shipping"), {"stops": [PLACE, PLACE], "kinds": {"a": "WORK"}}),
        (("billing", "shipping", "stops"), {"kinds": {"a": "WORK"}}),
        (("shipping",), {"billing": PLACE, "stops": [PLACE], "kinds": {}}),
    ],
)
def test_a_type_that_a_left_out_column_defined_is_defined_by_the_next(
    without: tuple[str, ...], value: dict[str, Any]
) -> None:
    schema = fastavro.parse_schema(json.loads(with_meta_columns(ORDER, without)))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"id": "1", **value})
    written.seek(0)
    found: Any = fastavro.schemaless_reader(written, schema, None)
    assert {name: found[name] for name in value} == value
