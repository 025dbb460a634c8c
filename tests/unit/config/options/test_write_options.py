from __future__ import annotations

import pytest

from tidelake.config import DuplicatePolicy, IndexType, SortMode, WriteOperation, WriteOptions
from tidelake.config.keys import write_keys
from tidelake.config.options.write_options import without_write_options
from tidelake.errors import ConfigError


def test_nothing_given_is_an_upsert_with_hudis_defaults() -> None:
    assert WriteOptions.from_options({}) == WriteOptions()


def test_names_and_words_come_in_any_case() -> None:
    found = WriteOptions.from_options(
        {
            "Hoodie.Index.Type": "global_bloom",
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.bulkinsert.sort.mode": "global_sort",
        }
    )
    assert found.index_type is IndexType.GLOBAL_BLOOM
    assert found.operation is WriteOperation.BULK_INSERT
    assert found.sort_mode is SortMode.GLOBAL_SORT


@pytest.mark.parametrize(
    "given",
    [
        {"hoodie.datasource.insert.dup.policy": "fail"},
        {"hoodie.sql.insert.mode": "strict"},
    ],
)
def test_strict_inserts(given: dict[str, str]) -> None:
    assert WriteOptions.from_options(given).insert_duplicates is DuplicatePolicy.FAIL


def test_each_global_index_has_its_own_switch_for_moves() -> None:
    name = "hoodie.bloom.index.update.partition.path"
    assert WriteOptions.from_options({name: "false"}).moves_partition
    given = {name: "false", "hoodie.index.type": "GLOBAL_BLOOM"}
    assert not WriteOptions.from_options(given).moves_partition


def test_options_below_the_prefix_go_to_the_commit() -> None:
    found = WriteOptions.from_options({"_source": "a", "hoodie.index.type": "BLOOM"})
    assert found.commit_metadata == {"_source": "a"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hoodie.index.typ": "BUCKET"}, "did you mean hoodie.index.type"),
        ({"hoodie.index.type": "HBASE"}, "SIMPLE, BLOOM"),
        ({"hoodie.bucket.index.num.buckets": "0"}, "from 1 on"),
        ({"hoodie.combine.before.upsert": "yes"}, "true or false"),
        ({"mergeschema": "true"}, "is unknown"),
        ({"hoodie.bucket.index.partition.expressions": ".*,4"}, "same number of buckets"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        WriteOptions.from_options(given)


def test_options_of_services_and_readers_pass() -> None:
    WriteOptions.from_options(
        {
            "hoodie.clean.automatic": "true",
            "hoodie.compact.inline": "false",
            "as.of.instant": "2026-01-01",
            "fs.s3a.access.key": "x",
        }
    )


def test_a_handle_keeps_what_reads_have_a_use_for() -> None:
    given = {"hoodie.index.type": "BUCKET", "hoodie.metadata.enable": "false"}
    assert without_write_options(given) == {"hoodie.metadata.enable": "false"}


def test_every_name_is_declared_once() -> None:
    names = [name for key in write_keys.ALL for name in key.names]
    assert len(set(names)) == len(names)
    wrong = [k.name for k in write_keys.ALL if k.choices and k.default not in (None, *k.choices)]
    assert wrong == []
