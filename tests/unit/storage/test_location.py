from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidelake.errors import ConfigError
from tidelake.storage import (
    LocalStorage,
    MemoryStorage,
    ObjectStorage,
    StorageSpec,
    SubStorage,
    open_storage,
    spark_options,
    spark_path,
    storage_spec,
)
from tidelake.testing import FaultyStorage

LOCAL = [
    ("/data/t", "/data/t"),
    ("file:/data/t", "/data/t"),
    ("file:///data/t", "/data/t"),
    ("file://localhost/data/t", "/data/t"),
    ("file:///data/a%2Fb c", "/data/a%2Fb c"),
    ("/data/a:b/t", "/data/a:b/t"),
    ("/", "/"),
]


@pytest.mark.parametrize(("typed", "path"), LOCAL)
def test_local_paths(typed: str, path: str) -> None:
    storage = open_storage(typed)
    assert isinstance(storage, LocalStorage)
    assert storage.spec == StorageSpec(path)


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_storage("t:1/x").spec == StorageSpec(str(tmp_path / "t:1/x"))


OBJECTS = [
    ("s3://bucket/a/t", "s3://bucket/a/t"),
    ("s3a://bucket/a/t/", "s3://bucket/a/t"),
    ("S3N://bucket", "s3://bucket"),
    ("gs://bucket/t", "gs://bucket/t"),
    (
        "abfss://box@account.dfs.core.windows.net/t",
        "abfss://box@account.dfs.core.windows.net/t",
    ),
]


@pytest.mark.parametrize(("typed", "uri"), OBJECTS)
def test_object_stores(typed: str, uri: str) -> None:
    options = {"azure_storage_account_key": "a2V5", "aws_region": "x", "google_skip_signature": "1"}
    storage = open_storage(typed, options)
    assert isinstance(storage, ObjectStorage)
    assert storage.spec.uri == uri


@pytest.mark.parametrize(
    "uri",
    ["hdfs://node/t", "hdfs:/t", "dbfs:/t", "ftp://x/t", "s3:/bucket/t", "s3://", "file://h/t"],
)
def test_places_nobody_serves_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_storage(uri)
    assert uri in caught.value.problem


def test_memory_opens_in_its_own_process_and_does_not_travel() -> None:
    storage = MemoryStorage()
    faulty = FaultyStorage(storage)
    assert open_storage(storage.spec) is storage
    assert open_storage(faulty.spec) is faulty
    open_storage(SubStorage(faulty, "a/b").spec).put("c", b"1")
    assert storage.read("a/b/c") == b"1"
    assert faulty.calls == [("put", "a/b/c")]
    with pytest.raises(ConfigError, match="this process alone"):
        pickle.dumps(SubStorage(storage, "a").spec)


def test_only_storage_options_travel_and_secrets_are_not_shown() -> None:
    spec = storage_spec(
        "s3a://bucket/t",
        {
            "hoodie.metadata.enable": "false",
            "fs.s3a.secret.key": "hush",
            "spark.hadoop.fs.s3a.endpoint": "http://localhost:1",
            "AWS_REGION": "eu-north-1",
        },
    )
    assert dict(spec.options) == {
        "fs.s3a.secret.key": "hush",
        "fs.s3a.endpoint": "http://localhost:1",
        "aws_region": "eu-north-1",
    }
    assert "hush" not in repr(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_unknown_client_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="no client for s3://bucket"):
        open_storage("s3://bucket", {"aws_no_such_thing": "1"})


SPARK = [
    ("/data/t", "p=1/a.parquet", "file:/data/t/p=1/a.parquet"),
    ("/data/t", "", "file:/data/t"),
    ("s3://bucket/t", "a%2Fb/c d", "s3a://bucket/t/a%2Fb/c d"),
    ("gs://bucket/t", "a", "gs://bucket/t/a"),
    ("/d", "{x}[y]*?/a\\b", "file:/d/\\{x\\}\\[y\\]\\*\\?/a\\\\b"),
]


@pytest.mark.parametrize(("uri", "relative", "expected"), SPARK)
def test_paths_for_spark(uri: str, relative: str, expected: str) -> None:
    assert spark_path(StorageSpec(uri), relative) == expected


def test_spark_gets_the_options_of_the_storage_in_hadoops_words() -> None:
    spec = storage_spec(
        "s3://bucket/t",
        {
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_endpoint": "http://localhost:1",
            "fs.s3a.connection.maximum": "8",
        },
    )
    assert spark_options(spec) == {
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.endpoint": "http://localhost:1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.maximum": "8",
    }
    assert spark_options(StorageSpec("/data/t")) == {}


def test_anonymous_access_is_anonymous_on_both_sides() -> None:
    found = spark_options(storage_spec("s3://bucket/t", {"aws_skip_signature": "true"}))
    assert found["fs.s3a.aws.credentials.provider"].endswith("AnonymousAWSCredentialsProvider")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA:s3cr3t@bucket/t",
        "s3a://AKIA:s3/cr3t@bucket/t",
        "gs://me:s3cr3t@bucket/t",
        "abfss://me:s3cr3t@account.dfs.core.windows.net/t",
    ],
)
def test_an_address_with_credentials_is_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(ConfigError, match="carries credentials") as refused:
        open_storage(uri)
    assert "cr3t" not in str(refused.value)


@pytest.mark.parametrize("bucket", ["a b", "a\nb", "a\0b", "\u00a0", "\udcff"])
def test_a_bucket_that_no_client_survives_is_refused(bucket: str) -> None:
    with pytest.raises(ConfigError, match="names no bucket"):
        open_storage(f"s3://{bucket}/t")


def test_long_names_of_access_points_have_colons() -> None:
    uri = "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/mine/a@b"
    assert storage_spec(uri).uri == uri
