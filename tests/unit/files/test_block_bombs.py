"""Log blocks of a few kilobytes whose values would take all memory."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelake.errors import Malformed
from tidelake.files.log_records import raw_records
from tidelake.formats.log_block import BlockKind, LogBlock


def block(rows: int, value: str | bytes, *, with_hint: bool = True) -> LogBlock:
    """Return a Parquet block of so many rows that all have one value."""
    zeros = pa.array([0] * rows, pa.int32())
    table = pa.table(
        {
            "id": [str(n) for n in range(rows)],
            "text": pa.DictionaryArray.from_arrays(zeros, pa.array([value])),
        }
    )
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        dictionary_pagesize_limit=1 << 30,
        store_schema=with_hint,
    )
    return LogBlock(kind=BlockKind.PARQUET_DATA, content=sink.getvalue())


@pytest.mark.parametrize("with_hint", [True, False])
@pytest.mark.parametrize("value", ["x" * (4 << 20), b"x" * (4 << 20)])
def test_one_value_for_many_rows_is_refused(value: str | bytes, with_hint: bool) -> None:
    bomb = block(1000, value, with_hint=with_hint)
    assert len(bomb.content) < 100_000
    with pytest.raises(Malformed, match="column text of the Parquet block unfolds"):
        raw_records(bomb)
    assert raw_records(bomb, ["id"]).num_rows == 1000


@pytest.mark.parametrize("with_hint", [True, False])
@pytest.mark.parametrize(("rows", "length"), [(3, 5), (20_000, 2000), (100, 1 << 20)])
def test_values_that_repeat_are_plain_columns(rows: int, length: int, with_hint: bool) -> None:
    found = raw_records(block(rows, "x" * length, with_hint=with_hint))
    assert found.schema == pa.schema({"id": pa.string(), "text": pa.string()})
    assert found.column("text").unique().to_pylist() == ["x" * length]
    assert found.num_rows == rows
