"""Which columns a filtered query reads."""

from __future__ import annotations

import json

import pytest

from tidelake.read.scan import Selection, scan_columns
from tidelake.records import META_COLUMNS
from tidelake.state.table_state import TableSchema

FIELDS = ["id", "City", "fare"]
SCHEMA = TableSchema(
    avro=json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": name, "type": "string"} for name in FIELDS],
        }
    )
)
ALL = ("id", *META_COLUMNS, "City", "fare")


def read_for(where: str | None) -> tuple[str, ...]:
    selection = Selection(columns=["id"], where=where, is_filtered=True)
    return scan_columns(SCHEMA, selection)


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        ("fare > 3", ("id", "fare")),
        ("CITY = 'oslo' and Fare > 3", ("id", "City", "fare")),
        ("_HOODIE_COMMIT_TIME > '2026'", ("id", "_hoodie_commit_time")),
    ],
)
def test_a_condition_adds_the_columns_that_it_names(where: str, columns: tuple[str, ...]) -> None:
    assert read_for(where) == columns


@pytest.mark.parametrize(
    "where",
    [
        None,
        "hash(*) = 7",
        "`fare` > 3",
        "city = 'T\N{LATIN SMALL LETTER O WITH STROKE}s'",
        "${column} > 3",
        "Identifier('fa' || 're') > 3",
    ],
)
def test_all_columns_are_read_for_a_condition_whose_names_are_not_plain(where: str | None) -> None:
    assert read_for(where) == ALL


def test_without_a_condition_the_columns_of_the_answer_are_read() -> None:
    assert scan_columns(SCHEMA, Selection(columns=["fare", "id"])) == ("fare", "id")
