"""Footers of base files that Apache Hudi wrote."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.golden import harness
from tidelake.errors import Malformed
from tidelake.formats import parquet_footer
from tidelake.formats.bloom_filter import BloomKind


def base_file(table: str) -> bytes:
    with zipfile.ZipFile(harness.TABLES / f"{table}.zip") as archive:
        name = min(n for n in archive.namelist() if n.endswith(".parquet") and ".hoodie/" not in n)
        return archive.read(name)


@pytest.fixture(scope="module")
def written() -> bytes:
    return base_file("v9_cow_cleaned")


def test_the_last_bytes_say_how_much_is_needed(written: bytes) -> None:
    needed = parquet_footer.footer_bytes(written[-8:])
    assert parquet_footer.decode(written[-needed:]) == parquet_footer.decode(written)


def test_key_range_and_bloom_filter_cover_the_keys_of_the_file(written: bytes) -> None:
    footer = parquet_footer.decode(written)
    table = pq.read_table(BytesIO(written))
    keys = table["_hoodie_record_key"].to_pylist()
    assert footer.row_count == len(keys)
    assert footer.key_range == (min(keys), max(keys))
    assert footer.bloom_filter is not None
    assert footer.bloom_filter.kind is BloomKind.DYNAMIC_V0
    assert footer.bloom_filter.may_contain(keys).all()
    assert footer.schema.names == table.column_names


def test_file_without_meta_fields_has_no_key_range() -> None:
    footer = parquet_footer.decode(base_file("v6_cow_no_meta"))
    assert (footer.key_range, footer.bloom_filter) == (None, None)


def with_properties(properties: dict[str, str]) -> bytes:
    schema = pa.schema([pa.field("a", pa.int32())]).with_metadata(properties)
    sink = BytesIO()
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}, schema=schema), sink)
    return sink.getvalue()


def test_unknown_bloom_filter_type_is_malformed() -> None:
    code = {"org.apache.hudi.bloomfilter": "AAAA", "hoodie_bloom_filter_type_code": "NEW_V7"}
    with pytest.raises(Malformed, match="NEW_V7"):
        _ = parquet_footer.decode(with_properties(code)).bloom_filter


def test_filter_without_a_type_is_a_simple_one() -> None:
    text = "/////wAAAAcBAAAAYKIQgERAcEhQBACAGA=="
    footer = parquet_footer.decode(with_properties({"com.uber.hoodie.bloomfilter": text}))
    assert footer.bloom_filter is not None
    assert footer.bloom_filter.kind is BloomKind.SIMPLE


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1",
        lambda data: data[:-8] + b"\x00\x00\x00\x00PAR1",
        lambda data: data[:-200] + bytes(192) + data[-8:],
    ],
    ids=["empty", "one byte short", "half", "length too great", "no length", "zeros inside"],
)
def test_damaged_footer_is_malformed(damage: Callable[[bytes], bytes], written: bytes) -> None:
    with pytest.raises(Malformed):
        parquet_footer.decode(damage(written))
