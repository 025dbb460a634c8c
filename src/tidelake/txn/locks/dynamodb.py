"""A lock in DynamoDB: one item a table of ours, changed under conditions only.

Apache Hudi's `DynamoDBBasedLockProvider` keeps its lock with Amazon's lock client. Its item names
the owner, how long a holder may be silent, and a version that changes with every sign of life. No
clock is compared with another: an item is free once its version has not changed for as long as it
says, on the clock of whoever waits. Ours is the same item, so both exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tidelake.config import DynamoDbOptions
from tidelake.env import Env
from tidelake.errors import StorageError
from tidelake.txn.locks.process import ThisProcess, is_gone, process_mark, shown_name
from tidelake.txn.locks.provider import Holder, log_takeover, look_and_release

_KEY = "key"
_OWNER = "ownerName"
_LEASE = "leaseDuration"
_VERSION = "recordVersionNumber"
_RELEASED = "isReleased"
_RENEW_BELOW = 2 / 3
_REFUSED = "ConditionalCheckFailedException"
_NO_TABLE = "ResourceNotFoundException"

_Item = Mapping[str, Mapping[str, str]]


class DynamoDbLock:
    """The item `key` of the table that the options name."""

    def __init__(self, env: Env, options: DynamoDbOptions, key: str) -> None:
        self._table = options.table
        self._region = options.region
        self._lease_ms = options.lease_ms
        self._item_key = {_KEY: {"S": key}}
        self._clock = env.clock
        self._ids = env.ids
        self._process = ThisProcess()
        self._owner = f"{process_mark()}:{env.ids.new()}"
        self._client = boto3.client(
            "dynamodb", region_name=options.region, endpoint_url=options.endpoint
        )
        self._version: str | None = None
        self._renewed_ms = 0
        self._seen: tuple[str, int] | None = None
        """Another's version, and when we first saw it."""

    @property
    def place(self) -> str:
        """Return where the lock is, for messages."""
        return f"dynamodb://{self._region}/{self._table}/{self._item_key[_KEY]['S']}"

    def try_acquire(self) -> bool:
        """Take the lock if it is free or its holder was silent for too long."""
        self._forget_parent()
        found = self._read()
        if found is None:
            return self._put("attribute_not_exists(#key)", {"#key": _KEY}, {})
        version = found[_VERSION]["S"]
        now_ms = self._clock.now_ms()
        if not (_RELEASED in found or self._is_left(found[_OWNER]["S"])):
            if self._seen is None or self._seen[0] != version:
                self._seen = (version, now_ms)
            if now_ms - self._seen[1] <= int(found[_LEASE]["S"]):
                return False
        is_taken = self._put("#version = :seen", {"#version": _VERSION}, {":seen": {"S": version}})
        former = found[_OWNER]["S"]
        if is_taken and _RELEASED not in found and former != self._owner:
            log_takeover(self.place, former)
        return is_taken

    def still_held(self, margin_ms: int) -> bool:
        """Return whether the lock is ours for `margin_ms` more; extend it when it runs short."""
        self._forget_parent()
        if self._version is None:
            return False
        left_ms = self._renewed_ms + self._lease_ms - self._clock.now_ms()
        if left_ms <= 0:
            return False
        if left_ms > max(margin_ms, self._lease_ms * _RENEW_BELOW):
            found = self._read()
            return found is not None and found[_VERSION]["S"] == self._version
        held = {":held": {"S": self._version}}
        return self._put("#version = :held", {"#version": _VERSION}, held)

    def lasts(self, margin_ms: int) -> bool:
        """Return whether the lock is ours; see `LockProvider.lasts`."""
        return self.still_held(margin_ms)

    def release(self) -> None:
        """Delete the item, unless somebody else has it by now."""
        self._forget_parent()
        version = self._version
        if version is None:
            return
        with self._told():
            try:
                self._client.delete_item(
                    TableName=self._table,
                    Key=self._item_key,
                    ConditionExpression="#version = :held",
                    ExpressionAttributeNames={"#version": _VERSION},
                    ExpressionAttributeValues={":held": {"S": version}},
                )
            except ClientError as cause:
                if _code(cause) != _REFUSED:
                    raise
        self._version = None

    def give_back(self) -> bool:
        """Give the lock back; return whether nobody else had it until then."""
        return look_and_release(self)

    def holder(self) -> Holder | None:
        """Return who holds the lock, or None when it is free."""
        found = self._read()
        if found is None or _RELEASED in found:
            return None
        owner = found[_OWNER]["S"]
        # No clock is written down: whoever waits counts from when it came.
        since_ms = None if self._seen is None else self._seen[1]
        return Holder(owner=shown_name(owner), since_ms=since_ms, is_gone=is_gone(owner))

    def break_lock(self) -> Holder | None:
        """Delete the item, whoever holds it."""
        held = self.holder()
        with self._told():
            self._client.delete_item(TableName=self._table, Key=self._item_key)
        return held

    def _forget_parent(self) -> None:
        """Hold nothing, under a name of its own, in a child that was forked from the holder."""
        if self._process.is_inherited:
            self._process = ThisProcess()
            self._owner = f"{process_mark()}:{self._ids.new()}"
            self._version, self._seen = None, None

    def _is_left(self, owner: str) -> bool:
        """Return whether nobody can hold the lock who took it under this name."""
        return owner == self._owner or is_gone(owner)

    def _put(self, condition: str, names: Mapping[str, str], values: _Item) -> bool:
        """Make the item ours if it is what we saw; an answer that got lost is looked up."""
        version = self._ids.new()
        now_ms = self._clock.now_ms()
        values_given = {"ExpressionAttributeValues": values} if values else {}
        with self._told():
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        **self._item_key,
                        _OWNER: {"S": self._owner},
                        _LEASE: {"S": str(self._lease_ms)},
                        _VERSION: {"S": version},
                    },
                    ConditionExpression=condition,
                    ExpressionAttributeNames=names,
                    **values_given,
                )
            except (ClientError, BotoCoreError) as cause:
                found = self._read()
                if found is None or found[_VERSION]["S"] != version:
                    self._version = None
                    if isinstance(cause, ClientError) and _code(cause) == _REFUSED:
                        return False
                    raise
        self._version, self._renewed_ms, self._seen = version, now_ms, None
        return True

    def _read(self) -> _Item | None:
        with self._told():
            try:
                reply = self._asked()
            except ClientError as cause:
                if _code(cause) != _NO_TABLE:
                    raise
                self._create_table()
                reply = self._asked()
            item: _Item | None = reply.get("Item")
            return item

    def _asked(self) -> Mapping[str, Any]:
        reply: Mapping[str, Any] = self._client.get_item(
            TableName=self._table, Key=self._item_key, ConsistentRead=True
        )
        return reply

    def _create_table(self) -> None:
        try:
            self._client.create_table(
                TableName=self._table,
                AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
                KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
            )
        except ClientError as cause:
            if _code(cause) != "ResourceInUseException":
                raise
        self._client.get_waiter("table_exists").wait(TableName=self._table)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as cause:
            raise StorageError(
                self.place,
                f"the lock could not be asked for: {cause}",
                next_step="nothing became visible; check the credentials and the options "
                "hoodie.write.lock.dynamodb.*, and run the write again",
            ) from cause


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
