from __future__ import annotations

import os
from collections.abc import Iterator

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from tidelake.config import DynamoDbOptions
from tidelake.env import Env
from tidelake.errors import LockTimeoutError, StorageError
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock, SeededIds
from tidelake.txn.locks import LockWait, TableLock
from tidelake.txn.locks.dynamodb import DynamoDbLock

LEASE_MS = 20_000


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def lock(clock: ManualClock, number: int) -> DynamoDbLock:
    options = DynamoDbOptions(
        table="locks", key=None, region="us-east-1", endpoint=None, lease_ms=LEASE_MS
    )
    return DynamoDbLock(Env(MemoryStorage(), clock, SeededIds(number)), options, "trips")


def test_one_of_two_holds_it(clock: ManualClock) -> None:
    first, second = lock(clock, 1), lock(clock, 2)
    assert first.try_acquire()
    assert not second.try_acquire()
    assert first.still_held(0)
    assert not second.still_held(0)
    holder = second.holder()
    assert holder is not None
    assert holder.owner.endswith(f":{os.getpid()}")
    first.release()
    assert second.holder() is None
    assert second.try_acquire()
    first.release()
    assert second.still_held(0)


def test_a_silent_holder_loses_it_by_the_clock_of_whoever_waits(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = lock(clock, 1), lock(clock, 2)
    assert first.try_acquire()
    clock.sleep_ms(LEASE_MS)
    assert not second.try_acquire(), "it has only just come"
    clock.sleep_ms(LEASE_MS + 1)
    assert second.try_acquire()
    assert f":{os.getpid()}, which was silent" in caplog.text, "A-09"
    assert not first.still_held(0)
    first.release()
    assert second.still_held(0)


def test_a_holder_that_looks_at_it_keeps_it(clock: ManualClock) -> None:
    first, second = lock(clock, 1), lock(clock, 2)
    assert first.try_acquire()
    for _ in range(5):
        clock.sleep_ms(LEASE_MS // 2)
        assert first.still_held(0)
        assert not second.try_acquire()


def test_a_broken_lock_is_lost_to_its_holder(clock: ManualClock) -> None:
    first, second = lock(clock, 1), lock(clock, 2)
    assert first.try_acquire()
    assert second.break_lock() is not None
    assert not first.still_held(0)


def test_the_item_is_the_one_of_amazons_lock_client(clock: ManualClock) -> None:
    ours = lock(clock, 1)
    assert ours.try_acquire()
    client = boto3.client("dynamodb", region_name="us-east-1")
    item = client.get_item(TableName="locks", Key={"key": {"S": "trips"}})["Item"]
    assert set(item) == {"key", "ownerName", "leaseDuration", "recordVersionNumber"}
    assert item["leaseDuration"] == {"S": str(LEASE_MS)}
    ours.release()
    held = {**item, "ownerName": {"S": "spark-1"}, "recordVersionNumber": {"S": "v1"}}
    client.put_item(TableName="locks", Item=held)
    assert not ours.try_acquire()
    client.put_item(TableName="locks", Item={**held, "isReleased": {"S": "1"}})
    assert ours.try_acquire()


def test_a_lost_reply_is_looked_up(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = lock(clock, 1)
    assert ours.holder() is None
    put = ours._client.put_item

    def lose(**arguments: object) -> None:
        put(**arguments)
        raise ReadTimeoutError(endpoint_url="dynamodb")

    monkeypatch.setattr(ours._client, "put_item", lose)
    assert ours.try_acquire()
    assert ours.still_held(0)


def test_a_release_that_got_lost_is_made_again(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = lock(clock, 1)
    delete = ours._client.delete_item
    losses = [ReadTimeoutError(endpoint_url="dynamodb")]

    def lose(**arguments: object) -> None:
        if losses:
            raise losses.pop()
        delete(**arguments)

    monkeypatch.setattr(ours._client, "delete_item", lose)
    with TableLock(ours, clock).held():
        pass
    assert not losses
    assert lock(clock, 2).try_acquire()


def test_waiting_ends_with_who_has_it(clock: ManualClock) -> None:
    first, second = lock(clock, 1), lock(clock, 2)
    assert first.try_acquire()
    waits = TableLock(second, clock, LockWait(wait_ms=300))
    with pytest.raises(LockTimeoutError, match=f":{os.getpid()} holds it since"), waits.held():
        pass


def test_an_address_that_nobody_has_is_named(clock: ManualClock) -> None:
    options = DynamoDbOptions(
        table="locks", key=None, region="us-east-1", endpoint="http://127.0.0.1:1", lease_ms=1
    )
    with pytest.raises(StorageError, match="dynamodb://us-east-1/locks/trips"):
        DynamoDbLock(Env(MemoryStorage(), clock), options, "trips").try_acquire()
