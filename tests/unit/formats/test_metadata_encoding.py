"""Records of the metadata table as we write them, beside bytes that Apache Hudi accepted."""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from functools import cache

import pytest

from tests.golden import harness
from tidelake.formats import avro_file, metadata_record
from tidelake.formats.column_bounds import ColumnBounds, ValueKind, joined
from tidelake.formats.hfile import HFile
from tidelake.formats.log_block import BlockKind, decode_blocks
from tidelake.formats.metadata_encoding import (
    column_stats_fit,
    encode_column_stats,
    encode_files,
    encode_location,
    stored_bounds,
    transcode,
)
from tidelake.formats.metadata_record import FileEntry, FileList, RecordLocation
from tidelake.formats.metadata_schema import record_schema_text

HEAD = "000000000000"
TABLES = {
    6: "v6_cow_mdt_full",
    8: "mor_avro_v8_trips_8i3u1d",
    9: "v9_mor_types_full_mdt",
}


@pytest.mark.parametrize(
    ("version", "digest"),
    [
        (9, "e60ee429403d20e0bc0868de73c3c3a20c44afd70b3cc9fc74172a831ba9e3fa"),
        (8, "5e1aed4057cba6c12f407aecf5aaedc132e9302840944a4a10d01dc77efc4125"),
        (6, "d451d2fb0c1084f1d1868b3160e9cd937f4a25897f11b81bae27911d19339ea4"),
    ],
)
def test_schemas_are_those_of_hudi(version: int, digest: str) -> None:
    assert hashlib.sha256(record_schema_text(version).encode()).hexdigest() == digest
    without = json.loads(record_schema_text(version, with_meta_columns=False))
    assert without["fields"] == json.loads(record_schema_text(version))["fields"][5:]


def test_bytes_of_listings_that_apache_accepted() -> None:
    partitions = encode_files({"emea": FileEntry(0, False)}, 9, is_partition_list=True)
    assert partitions.hex() == HEAD + "02020208656d6561000000" + "00000000"
    name = "n" * 70
    files = encode_files({name: FileEntry(3379, False)}, 9)
    assert files.hex() == HEAD + "0402028c01" + name.encode().hex() + "e6340000" + "00000000"
    gone = encode_files({name: FileEntry(0, True)}, 6)
    assert gone.hex() == HEAD + "0402028c01" + name.encode().hex() + "000100" + "000000"
    two = {"apac": FileEntry(0, False), "emea": FileEntry(0, False)}
    assert encode_files(two, 9, is_partition_list=True).hex() == (
        HEAD + "020204" + "08617061630000" + "08656d65610000" + "00" + "00000000"
    )


def test_bytes_of_column_stats_that_apache_accepted() -> None:
    name = "n" * 70
    bounds = ColumnBounds(
        kind=ValueKind.DOUBLE,
        minimum=7777.0,
        maximum=8888.0,
        value_count=2,
        null_count=0,
        packed_bytes=106,
        plain_bytes=102,
    )
    value = encode_column_stats(bounds, 9, name=name, column="amount")
    assert value.hex() == (
        HEAD + "06000002" + "028c01" + name.encode().hex() + "020c616d6f756e74"
        "0a000000000061be400a00000000005cc14002040200" + "02d40102cc01" + "0000020c000000"
    )
    over_all = ColumnBounds(
        kind=ValueKind.DOUBLE,
        minimum=4.0,
        maximum=8888.0,
        value_count=7,
        null_count=0,
        packed_bytes=171,
        plain_bytes=171,
    )
    stats = encode_column_stats(over_all, 9, name="emea", column="amount", is_partition=True)
    assert stats.hex() == (
        HEAD + "0c000002" + "0208656d6561" + "020c616d6f756e74"
        "0a00000000000010400a00000000005cc140020e020002d60202d602" + "0001020c000000"
    )


def test_bytes_of_a_location_that_apache_accepted() -> None:
    location = RecordLocation(partition="emea", file_id="a67fd216-b3cd-4f88-b980-5d7cc01e5e0d-0")
    assert encode_location(location, 1794733843114, 9).hex() == (
        HEAD + "0a00000002" + "0208656d6561" + "02efc195c3a9fa9680b301" + "02e5878dfee7a0d1ff8c01"
        "0200" + "0200" + "02d48ac9e7bb68" + "000000"
    )


LOCATIONS = [
    "a6d90286-5e91-4b1f-b9d0-4b7a7e8c8a5b-0",
    "00000000-0000-0000-0000-000000000001-12",
    "a6d90286-5e91-4b1f-b9d0-4b7a7e8c8a5b",
    "00000003-0000-0000-0000-000000000000-0",
    "A6D90286-5E91-4B1F-B9D0-4B7A7E8C8A5B-0",
    "files-0000-0",
]


@pytest.mark.parametrize("file_id", LOCATIONS)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_locations_come_back(file_id: str, version: int) -> None:
    location = RecordLocation(partition="p=1", file_id=file_id)
    value = encode_location(location, 7, version)
    assert metadata_record.decode(value, record_schema_text(version)) == ("", location)


@cache
def values_of(table: str) -> list[tuple[bytes, str]]:
    """Return every value that Hudi wrote to a metadata table, with its schema."""
    found = []
    with zipfile.ZipFile(harness.TABLES / f"{table}.zip") as archive:
        for name in sorted(archive.namelist()):
            if "/.hoodie/metadata/" not in name or "/._" in name or name.endswith(".crc"):
                continue
            for file in _hfiles(name, archive.read(name)):
                found += [(value, file.schema) for _, value in file.scan()]
    return found


def _hfiles(name: str, data: bytes) -> Iterator[HFile]:
    if name.endswith(".hfile"):
        yield HFile.of_bytes(data)
    elif ".log." in name:
        for block in decode_blocks(data):
            if block.kind is BlockKind.HFILE_DATA:
                yield HFile.of_bytes(block.content)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_listings_of_hudi_are_encoded_as_hudi_did(version: int) -> None:
    seen = 0
    for value, schema in values_of(TABLES[version]):
        record = avro_file.decode_value(value, schema)
        found = metadata_record.decode(value, schema)[1]
        if isinstance(found, FileList) and record["_hoodie_file_name"] is None:
            again = encode_files(found.entries, version, is_partition_list=record["type"] == 1)
            assert again == value
            seen += 1
    assert seen > 3


@pytest.mark.parametrize("version", [8, 9])
def test_column_stats_of_hudi_are_encoded_as_hudi_did(version: int) -> None:
    kinds = set()
    for value, schema in values_of(TABLES[version]):
        record = avro_file.decode_value(value, schema)
        stats = record["ColumnStatsMetadata"]
        if stats is None or record["_hoodie_file_name"] is not None or stats["isDeleted"]:
            continue
        bounds = metadata_record.decode_bounds(value, schema)
        assert bounds is not None
        again = encode_column_stats(
            bounds,
            version,
            name=stats["fileName"],
            column=stats["columnName"],
            is_partition=record["type"] == 6,
        )
        assert again == value
        fits = column_stats_fit(bounds.kind, bounds.info, version)
        assert fits or bounds.kind is ValueKind.NULL
        kinds.add(bounds.kind)
    assert kinds >= {ValueKind.STRING, ValueKind.DOUBLE, ValueKind.LONG}
    if version == 9:
        assert kinds >= {ValueKind.DECIMAL, ValueKind.DATE, ValueKind.TIMESTAMP_MICROS}
        assert kinds >= {ValueKind.BOOLEAN, ValueKind.INT, ValueKind.FLOAT, ValueKind.BYTES}


@pytest.mark.parametrize(
    ("kind", "info", "bounds", "told"),
    [
        (ValueKind.DATE, None, (-46_000, 20_454), ("DateWrapper", -46_000, 20_454)),
        (ValueKind.TIMESTAMP_MICROS, None, (-1, 7), ("LongWrapper", -1, 7)),
        (ValueKind.LOCAL_TIMESTAMP_MICROS, None, (-1, 7), ("LongWrapper", -1, 7)),
        (ValueKind.BYTES, None, (b"", b"\xff"), ("BytesWrapper", b"", b"\xff")),
        (
            ValueKind.DECIMAL,
            "9,2",
            (-999_999_999, 1),
            ("DecimalWrapper", Decimal("-9999999.99"), Decimal("0.01")),
        ),
    ],
)
def test_version_8_stores_values_in_wrappers_of_its_own(
    kind: ValueKind, info: str | None, bounds: tuple[object, object], told: tuple[object, ...]
) -> None:
    least, greatest = bounds
    given = ColumnBounds(
        kind=kind, minimum=least, maximum=greatest, value_count=3, null_count=0, info=info
    )
    assert column_stats_fit(kind, info, 8)
    stored = stored_bounds(given, 8)
    value = encode_column_stats(stored, 8, name="f.parquet", column="c")
    found = avro_file.decode_value(value, record_schema_text(8))["ColumnStatsMetadata"]
    wrapper, low, high = told
    for side, owed in (("minValue", low), ("maxValue", high)):
        name, fields = found[side]
        assert (name.rpartition(".")[2], fields["value"]) == (wrapper, owed)
    assert metadata_record.decode_bounds(value, record_schema_text(8)) == stored


@pytest.mark.parametrize("info", ["38,10", "18,0", "20,16"])
def test_version_8_has_no_room_for_some_decimals(info: str) -> None:
    assert not column_stats_fit(ValueKind.DECIMAL, info, 8)
    assert column_stats_fit(ValueKind.DECIMAL, info, 9)


@pytest.mark.parametrize("older", [6, 8])
def test_values_move_on_to_a_newer_schema(older: int) -> None:
    for value, schema in values_of(TABLES[older]):
        moved = transcode(value, schema, record_schema_text(9))
        newer = metadata_record.decode(moved, record_schema_text(9))
        assert newer == metadata_record.decode(value, schema)


def test_a_file_without_content_is_never_listed() -> None:
    with pytest.raises(ValueError, match="without content"):
        encode_files({"a.parquet": FileEntry(0, False)}, 9)


def of(kind: ValueKind, least: object, greatest: object, nulls: int = 0) -> ColumnBounds:
    return ColumnBounds(
        kind=kind, minimum=least, maximum=greatest, value_count=3, null_count=nulls, packed_bytes=5
    )


def test_bounds_are_joined_to_what_holds_for_all() -> None:
    nulls = of(ValueKind.LONG, None, None, 3)
    both = joined([nulls, of(ValueKind.LONG, 4, 9), of(ValueKind.LONG, -1, 5, 1), nulls])
    assert both == ColumnBounds(
        kind=ValueKind.LONG,
        minimum=-1,
        maximum=9,
        value_count=12,
        null_count=7,
        packed_bytes=20,
    )
    assert joined([]) is None


def test_nulls_of_no_kind_take_that_of_other_nulls() -> None:
    stored = of(ValueKind.NULL, None, None, 3)
    assert joined([stored, of(ValueKind.INT, None, None, 3)]) == ColumnBounds(
        kind=ValueKind.INT,
        minimum=None,
        maximum=None,
        value_count=6,
        null_count=6,
        packed_bytes=10,
    )


def test_a_number_that_is_none_is_the_greatest() -> None:
    odd = joined([of(ValueKind.DOUBLE, 1.0, math.nan), of(ValueKind.DOUBLE, 0.0, 7.0)])
    assert odd is not None
    assert odd.minimum == 0.0
    assert math.isnan(float(odd.maximum or 0))


def test_bounds_of_different_kinds_say_nothing() -> None:
    assert joined([of(ValueKind.INT, 1, 2), of(ValueKind.LONG, 1, 2)]) is None
    one = ColumnBounds(
        kind=ValueKind.DECIMAL, minimum=1, maximum=1, value_count=1, null_count=0, info="9,2"
    )
    other = ColumnBounds(
        kind=ValueKind.DECIMAL, minimum=1, maximum=1, value_count=1, null_count=0, info="9,3"
    )
    assert joined([one, other]) is None
