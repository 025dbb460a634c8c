"""How a writer shares the table with others, as it was asked to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import Self

from tidelake.config.keys import concurrency_keys as keys
from tidelake.config.keys.key import Key
from tidelake.config.words import ConcurrencyMode, ConflictStrategy, LockKind
from tidelake.errors import ConfigError

_CLASSES = {
    "client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy": "simple",
    "client.transaction.BucketIndexConcurrentFileWritesConflictResolutionStrategy": "simple",
    "client.transaction.EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy": "end",
    "client.transaction.PreferWriterConflictResolutionStrategy": "prefer writer",
    "client.transaction.IngestionPrimaryWriterBasedConflictResolutionStrategy": "prefer writer",
    "client.clustering.update.strategy.SparkRejectUpdateStrategy": "reject",
    "client.clustering.update.strategy.SparkAllowUpdateStrategy": "allow",
    "client.transaction.lock.InProcessLockProvider": "in process",
    "client.transaction.lock.FileSystemBasedLockProvider": "file system",
    "client.transaction.lock.StorageBasedLockProvider": "storage",
    "client.transaction.lock.ZookeeperBasedLockProvider": "zookeeper",
    "aws.transaction.lock.DynamoDBBasedLockProvider": "dynamodb",
    "client.transaction.MergingSchemaConflictResolutionStrategy": "merge",
    "client.transaction.SimpleSchemaConflictResolutionStrategy": "reject",
}
#: People give class names with and without the package.
_WORDS = {name.rpartition(".")[2].lower(): word for name, word in _CLASSES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperOptions:
    """Where the lock is in ZooKeeper; `key` is None for the table's name."""

    url: str
    base_path: str
    key: str | None
    session_ms: int
    connection_ms: int

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Read the options; raise `ConfigError` when one is wrong or missing."""
        url = keys.ZOOKEEPER_URL.needed(settings)
        port = keys.ZOOKEEPER_PORT.count(settings)
        return cls(
            url=url if port is None or ":" in url else f"{url}:{port}",
            base_path=keys.ZOOKEEPER_BASE_PATH.needed(settings),
            key=keys.ZOOKEEPER_KEY.text(settings),
            session_ms=keys.ZOOKEEPER_SESSION_MS.count(settings, least=1_000) or 1_000,
            connection_ms=keys.ZOOKEEPER_CONNECTION_MS.count(settings, least=1) or 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoDbOptions:
    """Where the lock is in DynamoDB; `key` is None for the table's name."""

    table: str
    key: str | None
    region: str | None
    endpoint: str | None = field(repr=False)
    lease_ms: int

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Read the options; raise `ConfigError` when one is wrong or missing."""
        return cls(
            table=keys.DYNAMODB_TABLE.needed(settings),
            key=keys.DYNAMODB_KEY.text(settings),
            region=keys.DYNAMODB_REGION.text(settings),
            endpoint=keys.DYNAMODB_ENDPOINT.text(settings),
            lease_ms=keys.DYNAMODB_LEASE_MS.count(settings, least=1) or 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyOptions:
    """The options of one writer among others, typed; times are in milliseconds."""

    mode: ConcurrencyMode = ConcurrencyMode.SINGLE_WRITER
    strategy: ConflictStrategy = ConflictStrategy.SIMPLE
    allows_update: bool = False
    allows_mtime: bool = False
    retries: int = 0
    lock: LockKind | None = None
    lock_wait_ms: int = 60_000
    lock_retry_ms: int = 1_000
    lock_path: str | None = None
    lock_expire_ms: int = 600_000
    lock_validity_ms: int = 300_000
    zookeeper: ZooKeeperOptions | None = None
    dynamodb: DynamoDbOptions | None = None
    heartbeat_ms: int = 60_000
    heartbeat_misses: int = 2
    max_skew_ms: int = 200
    is_skew_given: bool = False
    max_future_ms: int = 600_000
    checks_new_keys: bool = False
    early_period_ms: int | None = None
    early_commits: bool = False
    checks_schema: bool = True
    merges_schema: bool | None = None
    """None where the table decides."""

    @property
    def expires_after_ms(self) -> int:
        """Return after what silence a write counts as dead."""
        return self.heartbeat_ms * self.heartbeat_misses

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Read the options; raise `ConfigError` for a wrong one."""
        given = {name: _word(value) for name, value in settings.items()}
        strategy = keys.CONFLICT_STRATEGY.word(given, ConflictStrategy) or ConflictStrategy.SIMPLE
        updates = _one_of(keys.CLUSTERING_UPDATES, given)
        lock = keys.LOCK_PROVIDER.word(given, LockKind)
        _refuse_other_times(given)
        return cls(
            mode=keys.CONCURRENCY_MODE.word(given, ConcurrencyMode)
            or ConcurrencyMode.SINGLE_WRITER,
            strategy=strategy,
            allows_update=updates == "allow" or strategy is ConflictStrategy.PREFER_WRITER,
            allows_mtime=keys.ALLOW_MTIME.flag(given),
            retries=keys.RETRIES.count(given) or 0,
            lock=lock,
            lock_wait_ms=keys.LOCK_WAIT_MS.count(given) or 0,
            lock_retry_ms=keys.LOCK_RETRY_MS.count(given, least=1) or 1,
            lock_path=keys.LOCK_FILE_PATH.text(given),
            lock_expire_ms=(keys.LOCK_FILE_EXPIRE.count(given) or 0) * 60_000,
            lock_validity_ms=(keys.LOCK_VALIDITY.count(given, least=1) or 1) * 1_000,
            zookeeper=(
                ZooKeeperOptions.from_settings(given) if lock is LockKind.ZOOKEEPER else None
            ),
            dynamodb=DynamoDbOptions.from_settings(given) if lock is LockKind.DYNAMODB else None,
            heartbeat_ms=keys.HEARTBEAT_MS.count(given, least=1_000) or 1_000,
            heartbeat_misses=keys.HEARTBEAT_MISSES.count(given, least=1) or 1,
            max_skew_ms=keys.MAX_SKEW_MS.count(given) or 0,
            is_skew_given=keys.MAX_SKEW_MS.given(given) is not None,
            max_future_ms=keys.MAX_FUTURE_MS.count(given) or 0,
            checks_new_keys=keys.KEY_CHECK.flag(given),
            early_period_ms=_early(given),
            early_commits=keys.EARLY_COMMITS.flag(given),
            checks_schema=keys.SCHEMA_CHECK.flag(given),
            merges_schema=merges_schema(given) if keys.SCHEMA_STRATEGY.given(given) else None,
        )


def merges_schema(settings: Mapping[str, str]) -> bool:
    """Return whether changes of the schema by two writers are put together, by options or table."""
    key = keys.SCHEMA_STRATEGY
    return _one_of(key, {key.name: _word(key.text(settings) or "")}) == "merge"


def _word(value: str) -> str:
    return _WORDS.get(value.strip().rpartition(".")[2].lower(), value)


def _early(settings: Mapping[str, str]) -> int | None:
    if not keys.EARLY_DETECTION.flag(settings):
        return None
    mode = keys.CONCURRENCY_MODE.word(settings, ConcurrencyMode)
    if mode is not ConcurrencyMode.OPTIMISTIC:
        raise ConfigError(
            f"{keys.EARLY_DETECTION.name}=true is for writes that may have to give way, and under "
            f"{keys.CONCURRENCY_MODE.name}={mode} none does",
            next_step=f"leave it out, or set {keys.CONCURRENCY_MODE.name}="
            f"{ConcurrencyMode.OPTIMISTIC}",
        )
    return keys.EARLY_PERIOD_MS.count(settings, least=1)


def _refuse_other_times(settings: Mapping[str, str]) -> None:
    key = keys.TIME_GENERATOR
    if (key.text(settings) or key.choices[0]).upper() not in key.choices:
        raise key.refuse(settings, " and ".join(key.choices))


def _one_of(key: Key, settings: Mapping[str, str]) -> str:
    value = (key.text(settings) or "").lower()
    if value not in key.choices:
        raise key.refuse(settings, " and ".join(key.choices))
    return value
