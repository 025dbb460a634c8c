from __future__ import annotations

import pytest

from tests.unit.write.tables import options, table
from tidelake.config import BucketEngine, IndexType, TableConfig, WriteOptions
from tidelake.errors import ConfigError
from tidelake.formats.file_name import bucket_number
from tidelake.model import TableType
from tidelake.records.keys import bucket_of
from tidelake.write.index import (
    BUCKET_COUNT_PROPERTY,
    Index,
    bucket_file_id,
    choose_index,
)

UUID = "97de74b1-2a8e-4bb7-874c-0a74e1f42a77"
PLAIN = f"{UUID}-0"
BUCKET = options(hoodie__index__type="BUCKET")


def choose(
    config: TableConfig,
    given: WriteOptions,
    file_ids: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    buckets: int = 0,
    *,
    has_rings: bool = False,
) -> Index:
    sample = [(bucket_file_id(bucket_of([k], buckets), UUID, fixed=False), k) for k in keys]
    return choose_index(
        config,
        given,
        file_ids={*file_ids, *(i for i, _ in sample)},
        has_rings=has_rings,
        sample=lambda: sample,
    )


def test_file_ids_of_buckets() -> None:
    assert bucket_number(bucket_file_id(3, UUID, fixed=False)) == 3
    assert bucket_file_id(3, UUID, fixed=True) == "00000003-0000-0000-0000-000000000000-0"
    assert bucket_number("00000012-dd5e-4f1c-8a1b-0a74e1f42a77") == 12  # Flink leaves out the -0
    assert bucket_number(PLAIN) is None
    assert bucket_number("41234567-dd5e-4f1c-8a1b-0a74e1f42a77-0") is None


def test_without_files_and_options_the_index_is_simple() -> None:
    assert choose(table(), options()).type is IndexType.SIMPLE
    assert choose(table(), options(), (PLAIN,)).type is IndexType.SIMPLE


def test_options_choose_the_index_of_an_empty_table() -> None:
    given = options(hoodie__index__type="bucket", **{"hoodie__bucket__index__num__buckets": "7"})
    found = choose(table(), given)
    assert (found.type, found.buckets, found.hash_fields) == (IndexType.BUCKET, 7, ("id",))
    assert choose(table(), BUCKET).buckets == 256


def test_bucket_names_tell_the_index_and_keys_tell_the_count() -> None:
    keys = tuple(f"key-{n}" for n in range(40))
    found = choose(table(), options(), keys=keys, buckets=6)
    assert (found.type, found.buckets) == (IndexType.BUCKET, 6)


def test_too_few_keys_leave_the_count_open() -> None:
    with pytest.raises(ConfigError, match="do not tell how many"):
        choose(table(), options(), keys=("a",), buckets=4)


def test_a_count_that_the_keys_contradict_is_refused() -> None:
    keys = tuple(f"key-{n}" for n in range(10))
    given = options(hoodie__bucket__index__num__buckets="5")
    with pytest.raises(ConfigError, match="another number of buckets"):
        choose(table(), given, keys=keys, buckets=6)


def test_the_recorded_count_rules() -> None:
    config = table(properties={BUCKET_COUNT_PROPERTY: "4"})
    assert choose(config, options()).buckets == 4
    assert choose(config, options(hoodie__bucket__index__num__buckets="4")).buckets == 4
    with pytest.raises(ConfigError, match=r"num.buckets is 8"):
        choose(config, options(hoodie__bucket__index__num__buckets="8"))
    with pytest.raises(ConfigError, match=r"hoodie.index.type is SIMPLE"):
        choose(config, options(hoodie__index__type="SIMPLE"))


def test_a_table_of_other_files_does_not_become_a_bucket_table() -> None:
    with pytest.raises(ConfigError, match="name no bucket"):
        choose(table(), BUCKET, (PLAIN,))


def test_rings_mean_consistent_hashing() -> None:
    found = choose(table(), options(), has_rings=True)
    assert found.engine is BucketEngine.CONSISTENT_HASHING
    assert found.is_ring


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("kind", "version", "has_fixed_ids"),
    [
        (TableType.MERGE_ON_READ, 9, True),
        (TableType.MERGE_ON_READ, 8, True),
        (TableType.MERGE_ON_READ, 6, False),
        (TableType.COPY_ON_WRITE, 9, False),
    ],
)
def test_the_table_decides_whether_ids_are_fixed(
    kind: TableType, version: int, has_fixed_ids: bool, fixed: bool
) -> None:
    """Neither the mode of a writer nor the ids that are there do."""
    config = table(properties={BUCKET_COUNT_PROPERTY: "4"}, table_type=kind, table_version=version)
    found = choose(config, options(), (bucket_file_id(1, UUID, fixed=fixed),))
    assert found.fixed_ids == has_fixed_ids


def test_hash_fields_are_taken_in_the_order_of_the_key() -> None:
    config = table(record_key_fields=("id", "name"), properties={BUCKET_COUNT_PROPERTY: "4"})
    given = options(hoodie__bucket__index__hash__field="name,id")
    assert choose(config, given).hash_fields == ("id", "name")
    with pytest.raises(ConfigError, match="hashes ts"):
        choose(config, options(hoodie__bucket__index__hash__field="ts"))
