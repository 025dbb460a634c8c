from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from tidelake.config import TableConfig
from tidelake.errors import SchemaError
from tidelake.formats.java_hash import java_string_hash
from tidelake.records.keys import (
    KeyRule,
    bucket_of,
    partition_values,
    path_values,
    split_record_key,
    split_record_key_0x,
)


def config(**settings: str) -> TableConfig:
    properties: Mapping[str, str] = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        **{f"hoodie.{name.replace('__', '.')}": value for name, value in settings.items()},
    }
    return TableConfig.from_properties(properties)


def test_one_key_field_is_the_value_itself() -> None:
    assert KeyRule(fields=("id",)).keys(pa.table({"id": [1, 20]})).to_pylist() == ["1", "20"]


def test_several_key_fields_are_named_and_nulls_and_empties_are_spelled_out() -> None:
    rows = pa.table({"a": [1, None], "b": ["x", ""]})
    assert KeyRule(fields=("a", "b")).keys(rows).to_pylist() == [
        "a:1,b:x",
        "a:__null__,b:__empty__",
    ]


def test_a_nested_key_field_goes_by_its_dotted_name() -> None:
    rows = pa.table({"s": [{"id": 7}], "b": ["x"]})
    assert KeyRule(fields=("s.id", "b")).keys(rows).to_pylist() == ["s.id:7,b:x"]


def test_an_unknown_key_field_is_named() -> None:
    with pytest.raises(SchemaError, match="nope"):
        KeyRule(fields=("nope",)).keys(pa.table({"id": [1]}))


def test_a_table_without_key_fields_has_no_keys() -> None:
    with pytest.raises(SchemaError, match="neither meta columns nor record key fields"):
        KeyRule(fields=()).keys(pa.table({"id": [1]}))


def test_both_spellings_of_a_single_complex_key_are_one_key() -> None:
    rule = KeyRule.from_config(
        config(
            table__recordkey__fields="id",
            table__partition__fields="p,q",
            table__keygenerator__type="COMPLEX",
        )
    )
    assert rule.normal(["id:1", "2"]) == ["1", "2"]
    assert KeyRule(fields=("id",)).normal(["id:1"]) == ["id:1"]


@pytest.mark.parametrize(
    ("key", "fields", "new", "old"),
    [
        ("1", ["id"], ["1"], ["1"]),
        ("id:1", ["id"], ["id:1"], ["1"]),
        ("a:b", ["id"], ["a:b"], []),
        ("id:a,b,name:z", ["id", "name"], ["a,b", "z"], ["a", "b", "z"]),
        ("id:1,name:Alice", ["name"], ["Alice"], ["Alice"]),
        ("id:1:2,name:x", ["id", "name"], ["1:2", "x"], ["1:2", "x"]),
        ("id:__null__,name:__empty__", ["id", "name"], [None, ""], [None, ""]),
        ("x:1,y:2", ["id"], ["x:1,y:2"], []),
    ],
)
def test_composite_keys_come_apart_as_each_release_line_does_it(
    key: str, fields: list[str], new: list[str | None], old: list[str | None]
) -> None:
    assert split_record_key(key, fields) == new
    assert split_record_key_0x(key, fields) == old


@pytest.mark.parametrize(
    ("values", "mod_4", "mod_10", "mod_256"),
    [
        (["1"], 0, 0, 80),
        (["abc"], 1, 5, 129),
        (["TXN-001"], 1, 1, 77),
        (["334e26e9-8355-45cc-97c6-c31daf0df330"], 3, 5, 227),
        ([""], 3, 1, 31),
        (["é"], 0, 4, 8),
        (["日本語"], 2, 4, 182),
        (["😀"], 2, 0, 130),
        (["polygenelubricants"], 3, 1, 31),
        (["1", "Alice"], 0, 8, 16),
        (["a", None], 0, 8, 128),
        ([None, None], 1, 1, 193),
        (["id:1"], 1, 3, 177),
    ],
)
def test_buckets_match_the_jvm(
    values: list[str | None], mod_4: int, mod_10: int, mod_256: int
) -> None:
    assert [bucket_of(values, n) for n in (4, 10, 256)] == [mod_4, mod_10, mod_256]


def test_string_hash_wraps_to_a_signed_int() -> None:
    assert java_string_hash("polygenelubricants") == -(1 << 31)


def test_partition_values_of_hive_style_and_encoded_paths() -> None:
    found = config(
        table__partition__fields="p,q",
        datasource__write__hive_style_partitioning="true",
        datasource__write__partitionpath__urlencode="true",
    )
    assert partition_values(found, "p=a%2Fb/q=__HIVE_DEFAULT_PARTITION__") == {
        "p": "a/b",
        "q": None,
    }


def test_a_single_field_keeps_slashes_in_its_value() -> None:
    assert partition_values(config(table__partition__fields="day"), "2024/01/02") == {
        "day": "2024/01/02"
    }


def test_a_path_that_does_not_fit_says_nothing() -> None:
    assert partition_values(config(table__partition__fields="p,q"), "only-one") == {}


def test_no_partition_fields_no_values() -> None:
    assert partition_values(config(), "") == {}


def test_a_formatted_time_is_not_the_value_of_its_column() -> None:
    found = config(
        table__partition__fields="zone:SIMPLE,at:TIMESTAMP",
        table__keygenerator__type="CUSTOM",
        keygen__timebased__output__dateformat="yyyy/MM/dd",
    )
    assert partition_values(found, "eu/2024/01/15") == {"zone": "eu"}
    assert path_values(found, "eu/2024/01/15") == {"zone": "eu", "at": "2024/01/15"}
