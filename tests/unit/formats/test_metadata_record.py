"""Records of the metadata table: bytes of Hudi, keys, and what a bound may mean."""

from __future__ import annotations

import json
import zipfile
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any

import fastavro
import pytest

from tests.golden import harness
from tidelake.errors import Malformed
from tidelake.formats import metadata_record
from tidelake.formats.hfile import HFile
from tidelake.formats.metadata_record import (
    ColumnRange,
    FileEntry,
    FileList,
    RecordLocation,
    SecondaryEntry,
)

NAMESPACE = "org.apache.hudi.avro.model"
#: The five meta columns, all null, and the key, which is empty in an HFile.
HEAD = "00" * 6


@cache
def schema(table: str = "v9_cow_full_mdt_default") -> str:
    """Return the schema that Hudi wrote into a metadata table of version 9."""
    with zipfile.ZipFile(harness.TABLES / f"{table}.zip") as archive:
        name = min(n for n in archive.namelist() if "/metadata/files/" in n and n.endswith("hfile"))
        return HFile.of_bytes(archive.read(name)).schema


def decoded(value: str) -> metadata_record.MetadataRecord:
    return metadata_record.decode(bytes.fromhex(value), schema())[1]


def test_empty_partition_list_of_hudi() -> None:
    assert decoded(HEAD + "02" + "0200" + "00000000") == FileList(entries={})


def test_secondary_index_entry_of_hudi() -> None:
    assert decoded(HEAD + "0e" + "00000000" + "0200") == SecondaryEntry(is_deleted=False)


def encoded(record: dict[str, Any]) -> bytes:
    nothing = {
        field["name"]: None
        for field in json.loads(schema())["fields"]
        if field["name"] not in ("key", "type")
    }
    sink = BytesIO()
    parsed = fastavro.parse_schema(json.loads(schema()))
    fastavro.schemaless_writer(sink, parsed, {**nothing, "key": "k", **record})
    return sink.getvalue()


def test_file_list_keeps_sizes_and_tombstones() -> None:
    files = {"a.parquet": {"size": 7, "isDeleted": False}, "b": {"size": 0, "isDeleted": True}}
    value = encoded({"type": 2, "filesystemMetadata": files})
    assert metadata_record.decode(value, schema()) == (
        "k",
        FileList(entries={"a.parquet": FileEntry(7, False), "b": FileEntry(0, True)}),
    )


def located(**fields: object) -> RecordLocation:
    blank = {"partitionName": "p", "instantTime": 1, "fileIdEncoding": 0, "position": None}
    value = encoded({"type": 5, "recordIndexMetadata": {**blank, **fields}})
    found = metadata_record.decode(value, schema())[1]
    assert isinstance(found, RecordLocation)
    return found


def test_file_id_is_put_together_from_its_bits() -> None:
    halves = {"fileIdHighBits": 0x97DE74B12A8E4BB7 - 2**64, "fileIdLowBits": 0x074C0A74E1F42A77}
    uuid = "97de74b1-2a8e-4bb7-074c-0a74e1f42a77"
    assert located(**halves, fileIndex=3, fileId="").file_id == f"{uuid}-3"
    assert located(**halves, fileIndex=-1, fileId="").file_id == uuid


def test_file_id_that_is_no_uuid_is_kept_as_text() -> None:
    raw = {"fileIdHighBits": -1, "fileIdLowBits": -1, "fileIndex": -1}
    assert located(**raw, fileIdEncoding=1, fileId="any-name").file_id == "any-name"


def stats(
    wrapper: str | None,
    value: object,
    *,
    ordinal: int | None = None,
    info: str | None = None,
    counts: tuple[int | None, int | None] = (10, 1),
) -> ColumnRange:
    bound = None if wrapper is None else (f"{NAMESPACE}.{wrapper}", {"value": value})
    kind = None if ordinal is None else {"typeOrdinal": ordinal, "additionalInfo": info}
    content = {
        "fileName": "f",
        "columnName": "c",
        "minValue": bound,
        "maxValue": bound,
        "valueCount": counts[0],
        "nullCount": counts[1],
        "totalSize": 0,
        "totalUncompressedSize": 0,
        "isDeleted": False,
        "isTightBound": False,
        "valueType": kind,
    }
    value = encoded({"type": 3, "ColumnStatsMetadata": content})
    found = metadata_record.decode(value, schema())[1]
    assert isinstance(found, ColumnRange)
    return found


NOON = datetime(2026, 3, 1, 12, 0, 0, 500_000)  # noqa: DTZ001 - zones are added below
NOON_MICROS = 1_772_366_400_500_000

KNOWN: list[tuple[str, object, int | None, str | None, object]] = [
    # wrapper           stored         type ordinal, info   what it means
    ("BooleanWrapper",  True,            None, None,   True),
    ("IntWrapper",      3,               None, None,   3),
    ("LongWrapper",     2**40,           None, None,   2**40),
    ("DoubleWrapper",   0.5,             None, None,   0.5),
    ("StringWrapper",   "日本",          None, None,   "日本"),
    ("StringWrapper",   "",              None, None,   ""),
    ("DateWrapper",     20_513,          None, None,   date(2026, 3, 1)),
    ("LocalDateWrapper", 20_513,         None, None,   date(2026, 3, 1)),
    ("DecimalWrapper",  Decimal("2.500000000000000"), None, None, Decimal("2.5")),
    ("TimestampMicrosWrapper", NOON_MICROS, None, None, NOON.replace(tzinfo=timezone.utc)),
    ("IntWrapper",      3,               0,    None,   3),
    ("BooleanWrapper",  False,           2,    None,   False),
    ("IntWrapper",      3,               3,    None,   3),
    ("LongWrapper",     3,               4,    None,   3),
    ("FloatWrapper",    0.5,             5,    None,   0.5),
    ("DoubleWrapper",   0.5,             6,    None,   0.5),
    ("StringWrapper",   "z",             7,    None,   "z"),
    ("BytesWrapper",    b"\x7f",         8,    None,   b"\x7f"),
    ("BytesWrapper",    b"\x09\xc4",     10,   "10,2", Decimal("25.00")),
    ("BytesWrapper",    b"\xff",         10,   "10,2", Decimal("-0.01")),
    ("IntWrapper",      20_513,          12,   None,   date(2026, 3, 1)),
    ("LongWrapper",     NOON_MICROS // 1000, 15, None, NOON.replace(tzinfo=timezone.utc)),
    ("LongWrapper",     NOON_MICROS,     16,   None,   NOON.replace(tzinfo=timezone.utc)),
    ("LongWrapper",     NOON_MICROS // 1000, 18, None, NOON),
    ("LongWrapper",     NOON_MICROS,     19,   None,   NOON),
]  # fmt: skip


@pytest.mark.parametrize(("wrapper", "stored", "ordinal", "info", "meaning"), KNOWN)
def test_bounds_get_the_type_of_their_column(
    wrapper: str, stored: object, ordinal: int | None, info: str | None, meaning: object
) -> None:
    found = stats(wrapper, stored, ordinal=ordinal, info=info)
    assert (found.is_known, found.minimum, found.maximum) == (True, meaning, meaning)
    assert type(found.minimum) is type(meaning)


@pytest.mark.parametrize(
    ("wrapper", "stored", "ordinal", "info"),
    [
        ("DoubleWrapper", float("nan"), None, None),
        ("FloatWrapper", float("nan"), 5, None),
        ("TimeMicrosWrapper", 1, None, None),
        ("LongWrapper", 1, 14, None),
        ("LongWrapper", 1, 17, None),
        ("LongWrapper", 1, 99, None),
        ("StringWrapper", "1", 4, None),
        ("IntWrapper", 2**31 - 1, 12, None),
        ("LongWrapper", 2**62, 16, None),
        ("BytesWrapper", b"\x01", 10, None),
        ("BytesWrapper", b"\x01", 10, "ten"),
        ("StringWrapper", "a\U0001f600", None, None),
        ("StringWrapper", "\uff5e", 7, None),
        ("BytesWrapper", b"a\x80", 8, None),
        (None, None, None, None),
    ],
)
def test_bounds_that_cannot_be_told_are_not_known(
    wrapper: str | None, stored: object, ordinal: int | None, info: str | None
) -> None:
    found = stats(wrapper, stored, ordinal=ordinal, info=info)
    assert (found.is_known, found.minimum, found.maximum) == (False, None, None)


@pytest.mark.parametrize("wrapper", [None, "IntWrapper"])
def test_column_of_nulls_has_no_bounds_even_where_hudi_writes_zeros(wrapper: str | None) -> None:
    found = stats(wrapper, 0, counts=(4, 4))
    assert (found.is_known, found.minimum, found.maximum) == (True, None, None)


def test_missing_counts_leave_an_empty_range_unknown() -> None:
    assert not stats(None, None, counts=(None, None)).is_known


@pytest.mark.parametrize(
    "value",
    [b"", b"\x00", bytes.fromhex(HEAD + "02"), encoded({"type": 2}), encoded({"type": 99})],
    ids=["nothing", "one byte", "cut short", "empty listing", "unknown type"],
)
def test_damaged_value_is_malformed(value: bytes) -> None:
    with pytest.raises(Malformed):
        metadata_record.decode(value, schema())


def test_damaged_schema_is_malformed() -> None:
    value = encoded({"type": 2, "filesystemMetadata": {}})
    for damaged in ("", "{}", '"int"', schema().replace('"type"', '"tipe"', 1), schema()[:-1]):
        with pytest.raises(Malformed):
            metadata_record.decode(value, damaged)


def test_ids_in_keys_are_those_of_hudi() -> None:
    name = "3e93c8a9-fda0-4e8a-91dc-b4ade7dab76d-0_1-27-53_20260307162557587.parquet"
    assert metadata_record.column_id("fee_amount") == "5RNSbpYG6oU="
    assert metadata_record.partition_id("region=us") == "431THTTwO5Q="
    assert metadata_record.file_id(name) == "F01d3NbdD9QcFpSCtykrRA=="


def test_root_partition_has_a_name_of_its_own() -> None:
    assert metadata_record.partition_identifier("") == "."
    assert metadata_record.partition_path(".") == ""
    assert metadata_record.partition_path("a=1") == "a=1"


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("😀", 1772899)],
)
def test_file_group_follows_javas_string_hash(key: str, hashed: int) -> None:
    assert metadata_record.file_group_of(key, 7) == abs(hashed) % 7
