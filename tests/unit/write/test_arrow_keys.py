from __future__ import annotations

from datetime import date, datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.write.tables import options, table
from tidelake.config import KeyGeneratorType, TableConfig
from tidelake.errors import SchemaError
from tidelake.formats.java_hash import java_string_hash
from tidelake.records.java_hashes import buckets, string_hashes
from tidelake.records.keys import bucket_of
from tidelake.write.arrow_keys import bucket_words, partition_paths, record_keys
from tidelake.write.key_spec import KeySpec, key_spec

ROWS = pa.table(
    {
        "id": ["a", "b", "c"],
        "name": ["x", "", None],
        "ts": [1, 2, 3],
        "p": ["u", "v/w", "u"],
        "ms": [1705311000000, 0, 86400000],
        "d": [date(2024, 1, 2)] * 3,
        "t": [datetime(2024, 1, 2, 3, 4, tzinfo=timezone.utc)] * 3,
        "text": ["2023-04-01T12:01:00.123Z"] * 3,
    }
)


def spec(config: TableConfig, **given: str) -> KeySpec:
    return key_spec(config, options(**given), named_single=None)


def test_a_single_field_is_its_value() -> None:
    keys = record_keys(spec(table()), ROWS)
    assert keys is not None
    assert keys.to_pylist() == ["a", "b", "c"]


def test_several_fields_are_named_and_may_lack_a_value() -> None:
    keys = record_keys(spec(table(record_key_fields=("id", "name"))), ROWS)
    assert keys is not None
    assert keys.to_pylist() == ["id:a,name:x", "id:b,name:__empty__", "id:c,name:__null__"]


def test_a_complex_key_of_one_field_is_named() -> None:
    keys = record_keys(spec(table(key_generator=KeyGeneratorType.COMPLEX)), ROWS)
    assert keys is not None
    assert keys[0].as_py() == "id:a"


def test_rows_without_key_are_counted() -> None:
    with pytest.raises(SchemaError, match="2 rows have no value in the record key"):
        record_keys(spec(table(record_key_fields=("name",))), ROWS)


def test_made_up_keys_are_left_to_the_tasks() -> None:
    config = table(record_key_fields=(), key_generator=KeyGeneratorType.AUTO_RECORD)
    assert record_keys(spec(config), ROWS) is None


def test_paths() -> None:
    assert partition_paths(spec(table()), ROWS).to_pylist() == ["u", "v/w", "u"]
    encoded = table(hive_style_partitioning=True, url_encode_partitioning=True)
    assert partition_paths(spec(encoded), ROWS).to_pylist() == ["p=u", "p=v%2Fw", "p=u"]
    none = table(partition_fields=())
    assert partition_paths(spec(none), ROWS).to_pylist() == ["", "", ""]
    two = table(partition_fields=("p", "d"), hive_style_partitioning=True)
    assert partition_paths(spec(two), ROWS)[0].as_py() == "p=u/d=2024-01-02"


def test_a_null_partition_is_refused_or_filed_apart() -> None:
    config = table(partition_fields=("name",))
    with pytest.raises(SchemaError, match="partition field name"):
        partition_paths(spec(config), ROWS)
    lenient = spec(config, hoodie__write__partition__null__policy="default")
    assert partition_paths(lenient, ROWS).to_pylist() == [
        "x",
        "__HIVE_DEFAULT_PARTITION__",
        "__HIVE_DEFAULT_PARTITION__",
    ]


def timed(field: str, **settings: str) -> KeySpec:
    names = {f"hoodie.keygen.timebased.{n.replace('_', '.')}": v for n, v in settings.items()}
    config = table(
        partition_fields=(field,), key_generator=KeyGeneratorType.TIMESTAMP, properties=names
    )
    return spec(config)


@pytest.mark.parametrize(
    ("field", "settings", "path"),
    [
        ("ms", {"timestamp_type": "EPOCHMILLISECONDS"}, "2024/01/15/09"),
        ("t", {"timestamp_type": "EPOCHMILLISECONDS"}, "2024/01/02/03"),
        (
            "text",
            {
                "timestamp_type": "DATE_STRING",
                "input_dateformat": "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
            },
            "2023/04/01/12",
        ),
        (
            "ms",
            {"timestamp_type": "EPOCHMILLISECONDS", "timezone": "Asia/Tokyo"},
            "2024/01/15/18",
        ),
    ],
)
def test_formatted_times(field: str, settings: dict[str, str], path: str) -> None:
    made = timed(field, output_dateformat="yyyy/MM/dd/HH", **settings)
    assert partition_paths(made, ROWS)[0].as_py() == path


@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), min_size=1, max_size=20))
def test_hashes_of_columns_are_those_of_their_texts(texts: list[str | None]) -> None:
    expected = [0 if t is None else java_string_hash(t) & 0xFFFFFFFF for t in texts]
    assert string_hashes(pa.chunked_array([pa.array(texts, pa.string())])).tolist() == expected


def test_hashes_of_a_slice() -> None:
    whole = pa.array(["abc", "TXN-001", None, "polygenelubricants"])
    assert string_hashes(pa.chunked_array([whole.slice(1)])).tolist() == [
        java_string_hash("TXN-001") & 0xFFFFFFFF,
        0,
        java_string_hash("polygenelubricants") & 0xFFFFFFFF,
    ]


def test_buckets_are_those_of_hudi() -> None:
    keys = pa.chunked_array([["1", "abc", "TXN-001", "é", "日本語", "😀"]])
    assert buckets([keys], 10).tolist() == [0, 5, 1, 4, 4, 0]
    names = pa.chunked_array([["Alice"]])
    assert buckets([pa.chunked_array([["1"]]), names], 256).tolist() == [16]


def test_bucket_words_hash_chosen_fields() -> None:
    made = spec(table(record_key_fields=("id", "name")))
    keys = record_keys(made, ROWS)
    assert keys is not None
    words = bucket_words(made, ROWS, keys, ("id",), 8)
    assert words.to_pylist() == [f"{bucket_of([i], 8):08d}" for i in ("a", "b", "c")]


@pytest.mark.parametrize("value", [10**18, -(10**18), float("nan"), float("inf"), 1e300, "soon"])
@pytest.mark.parametrize("unit", ["EPOCHMILLISECONDS", "UNIX_TIMESTAMP"])
def test_a_partition_value_that_is_no_time_is_refused(value: object, unit: str) -> None:
    made = timed("ms", output_dateformat="yyyy", timestamp_type=unit)
    with pytest.raises(SchemaError, match="a calendar has"):
        partition_paths(made, pa.table({"ms": [value]}))


def test_a_partition_value_of_another_year_where_it_is_shown_is_refused() -> None:
    made = timed(
        "t",
        output_dateformat="yyyy",
        timestamp_type="EPOCHMILLISECONDS",
        output_timezone="Asia/Tokyo",
    )
    last = datetime(9999, 12, 31, 23, tzinfo=timezone.utc)
    with pytest.raises(SchemaError, match="no year from 1 to 9999"):
        partition_paths(made, pa.table({"t": pa.array([last], pa.timestamp("us", "UTC"))}))
