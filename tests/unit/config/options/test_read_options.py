from __future__ import annotations

import logging
import pickle

import pytest

from tidelake.config import (
    HollowCommitPolicy,
    IncrementalFormat,
    MergePath,
    QueryType,
    ReadOptions,
    TimeBasis,
)
from tidelake.errors import ConfigError

BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
QUERY = "hoodie.datasource.query.type"


def test_nothing_given_is_a_snapshot_with_the_metadata_table() -> None:
    found = ReadOptions.from_options({})
    assert found == ReadOptions()
    assert found.query_type is QueryType.SNAPSHOT
    assert found.metadata_enable
    assert found.data_skipping
    assert found.log_merge_order is TimeBasis.COMPLETION
    assert found.hollow_commit_policy is HollowCommitPolicy.FAIL
    assert found.merge_path is MergePath.AUTO


def test_names_and_words_come_in_any_case() -> None:
    found = ReadOptions.from_options(
        {"Hoodie.DataSource.Query.Type": "Read_Optimized", "HOODIE.METADATA.ENABLE": "False"}
    )
    assert found.query_type is QueryType.READ_OPTIMIZED
    assert not found.metadata_enable


def test_changes_of_a_window() -> None:
    found = ReadOptions.from_options(
        {
            QUERY: "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            BEGIN: "000",
            END: "20260301101500123",
        }
    )
    assert found.incremental_format is IncrementalFormat.CDC
    assert (found.begin_time, found.end_time) == ("000", "20260301101500123")


@pytest.mark.parametrize("name", ["as.of.instant", "hoodie.read.as.of.timestamp"])
def test_time_travel_by_either_name(name: str) -> None:
    assert ReadOptions.from_options({name: "2026-03-01"}).as_of == "2026-03-01"


def test_the_oldest_names_of_a_snapshot() -> None:
    found = ReadOptions.from_options({"hoodie.datasource.view.type": "realtime"})
    assert found.query_type is QueryType.SNAPSHOT


def test_orders_of_apache() -> None:
    found = ReadOptions.from_options(
        {"hoodie.read.log.merge.order": "requested", "hoodie.read.timetravel.basis": "requested"}
    )
    assert found.log_merge_order is TimeBasis.REQUESTED
    assert found.time_travel_basis is TimeBasis.REQUESTED


def test_merge_options_travel_under_their_own_name() -> None:
    found = ReadOptions.from_options(
        {
            "hoodie.payload.delete.field": "op",
            "hoodie.record.merge.property.hoodie.payload.delete.marker": "D",
        }
    )
    assert found.merge_properties == {
        "hoodie.payload.delete.field": "op",
        "hoodie.payload.delete.marker": "D",
    }


CONTRADICTIONS = [
    {QUERY: "incremental", "as.of.instant": "20260301101500123"},
    {BEGIN: "20260301101500123"},
    {QUERY: "read_optimized", END: "20260301101500123"},
    {"hoodie.datasource.query.incremental.format": "cdc"},
    {QUERY: "incremental", BEGIN: "20260301101500124", END: "20260301101500123"},
    {QUERY: "incremental", BEGIN: "20260301101501", END: "20260301101500123"},
]


@pytest.mark.parametrize("options", CONTRADICTIONS)
def test_contradictions_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        ReadOptions.from_options(options)


@pytest.mark.parametrize("begin", ["20260301101500123", "20260301101500", "2027-01-01", "000"])
def test_windows_that_may_be_empty_are_no_contradiction(begin: str) -> None:
    options = {QUERY: "incremental", BEGIN: begin, END: "20260301101500123"}
    assert ReadOptions.from_options(options).begin_time == begin


WRONG = [
    (QUERY, "latest", "snapshot, read_optimized, incremental"),
    ("hoodie.read.merge.path", "fast", "auto, mask, rows"),
    ("hoodie.metadata.enable", "1", "true or false"),
    ("hoodie.datasource.merge.type", "skip_merge", "payload_combine"),
    ("hoodie.datasource.read.schema.use.end.instanttime", "true", "false"),
    ("hoodie.datasource.read.incr.path.glob", "*", "tidelake does not offer"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_wrong_values_name_key_value_and_what_is_allowed(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ReadOptions.from_options({name: value})
    assert name in caught.value.problem
    assert message in caught.value.problem


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("hoodie.metadata.enabled", "hoodie.metadata.enable"),
        ("hoodie.datasource.qeury.type", "hoodie.datasource.query.type"),
        ("hoodie.datasource.read.begin.instantime", BEGIN),
        ("as.of.instnt", "as.of.instant"),
    ],
)
def test_a_misspelt_option_is_told_apart_from_a_foreign_one(misspelt: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ReadOptions.from_options({misspelt: "x"})
    assert caught.value.next_step == f"did you mean {meant}?"


def test_options_that_are_nobodys_are_refused() -> None:
    with pytest.raises(ConfigError, match="option mergeschema is unknown"):
        ReadOptions.from_options({"mergeSchema": "true"})


def test_writer_options_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    options = {
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.upsert.shuffle.parallelism": "2",
    }
    with caplog.at_level(logging.WARNING):
        assert ReadOptions.from_options(options) == ReadOptions()
    assert len(caplog.records) == 1
    assert "hoodie.upsert.shuffle.parallelism" in caplog.text


def test_storage_and_spark_options_pass_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    options = {"fs.s3a.endpoint": "http://x", "AWS_REGION": "eu-north-1", "path": "/t"}
    with caplog.at_level(logging.WARNING):
        assert ReadOptions.from_options(options) == ReadOptions()
    assert not caplog.records


def test_travels_to_workers() -> None:
    found = ReadOptions.from_options({"hoodie.payload.delete.field": "op"})
    assert pickle.loads(pickle.dumps(found)) == found
