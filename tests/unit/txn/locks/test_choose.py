from __future__ import annotations

import sys

import pytest

from tidelake.config import ConcurrencyOptions
from tidelake.env import Env
from tidelake.errors import ConfigError
from tidelake.storage import MemoryStorage
from tidelake.txn.locks import open_provider

PROVIDER = "hoodie.write.lock.provider"
ZOOKEEPER = {
    PROVIDER: "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
    "hoodie.write.lock.zookeeper.url": "zk1",
    "hoodie.write.lock.zookeeper.port": "2181",
    "hoodie.write.lock.zookeeper.base_path": "/hudi/locks",
}
DYNAMODB = {
    PROVIDER: "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
    "hoodie.write.lock.dynamodb.table": "locks",
}


def place(settings: dict[str, str]) -> str:
    options = ConcurrencyOptions.from_settings(settings)
    return open_provider(Env(MemoryStorage()), options, "trips").place


def test_options_of_hudi_lead_to_its_locks() -> None:
    assert place(ZOOKEEPER) == "zookeeper://zk1:2181/hudi/locks/trips"
    named = {**ZOOKEEPER, "hoodie.write.lock.zookeeper.lock_key": "k"}
    assert place(named) == "zookeeper://zk1:2181/hudi/locks/k"
    assert place(DYNAMODB) == "dynamodb://us-east-1/locks/trips"
    named = {**DYNAMODB, "hoodie.write.lock.dynamodb.partition_key": "k"}
    assert place(named) == "dynamodb://us-east-1/locks/k"


@pytest.mark.parametrize("given", ["/locks", "file:/locks", "file:///locks"])
def test_a_folder_of_the_lock_file_may_be_given_as_hudi_takes_it(given: str) -> None:
    settings = {PROVIDER: "file system", "hoodie.write.lock.filesystem.path": given}
    assert place(settings) == "/locks/lock"


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (ZOOKEEPER, "hoodie.write.lock.zookeeper.url"),
        (ZOOKEEPER, "hoodie.write.lock.zookeeper.base_path"),
        (DYNAMODB, "hoodie.write.lock.dynamodb.table"),
    ],
)
def test_what_a_lock_needs_is_named(settings: dict[str, str], missing: str) -> None:
    given = {name: value for name, value in settings.items() if name != missing}
    with pytest.raises(ConfigError, match=f"{missing} is not given"):
        ConcurrencyOptions.from_settings(given)


def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"HiveMeta.*file system, storage, in process, zookeeper"):
        ConcurrencyOptions.from_settings({PROVIDER: "org.apache.HiveMetastoreBasedLockProvider"})


def test_there_is_one_way_to_make_times() -> None:
    key = "hoodie.time.generator.type"
    ConcurrencyOptions.from_settings({key: "wait_to_adjust_skew"})
    with pytest.raises(ConfigError, match="WAIT_TO_ADJUST_SKEW"):
        ConcurrencyOptions.from_settings({key: "RANDOM"})


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidelake.txn.locks.zookeeper", raising=False)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(ConfigError, match=r"zookeeper lock takes .*kazoo") as refused:
        place(ZOOKEEPER)
    assert "tidelake[zookeeper]" in str(refused.value)
