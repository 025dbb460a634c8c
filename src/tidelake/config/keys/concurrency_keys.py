"""Every option of writers that share a table, declared once."""

from __future__ import annotations

from tidelake.config.keys.key import Declare, Key, Kind, Scope, spelled
from tidelake.config.words import ConcurrencyMode, ConflictStrategy, LockKind

_key = Declare(Scope.WRITE)
CONCURRENCY_MODE = _key(
    "hoodie.write.concurrency.mode",
    Kind.WORD,
    "Whether others write at the same time: nobody; others, and of two that change the same file "
    "group the later one gives way; others, and nobody ever gives way (merge-on-read tables with "
    "a simple bucket index, from table version 8 on).",
    default=ConcurrencyMode.SINGLE_WRITER.value,
    choices=spelled(ConcurrencyMode),
)
REQUIRED_MODE = _key(
    "hoodie.write.concurrency.mode.required",
    Kind.WORD,
    "The mode that every writer of the table must have; it is given when the table is created.",
    choices=spelled(ConcurrencyMode),
    ours=True,
)
CONFLICT_STRATEGY = _key(
    "hoodie.write.lock.conflict.resolution.strategy",
    Kind.WORD,
    "Which commits a write is compared with, and who gives way: `simple` (those that were pending "
    "when it started or started later), `end` (those that completed later) or `prefer writer` "
    "(as `simple`, and clusterings give way to writes). Hudi's class names do, too.",
    default=ConflictStrategy.SIMPLE.value,
    choices=spelled(ConflictStrategy),
)
CLUSTERING_UPDATES = _key(
    "hoodie.clustering.updates.strategy",
    Kind.WORD,
    "What happens to a write into a file group that a pending clustering rewrites: with `reject` "
    "the write is refused, with `allow` the clustering gives way. Hudi's class names do, too.",
    default="reject",
    choices=("reject", "allow"),
)
ALLOW_MTIME = _key(
    "hoodie.write.occ.allow.mtime",
    Kind.BOOLEAN,
    "Whether the strategy `end` may trust modification times, which is all that table version 6 "
    "has for completion times.",
    default="false",
    ours=True,
)
RETRIES = _key(
    "hoodie.write.num.retries.on.conflict.failures",
    Kind.INTEGER,
    "How often a write that had to give way is made again, from the table as it is then.",
    default="0",
)
KEY_CHECK = _key(
    "hoodie.write.occ.key.conflict.check",
    Kind.BOOLEAN,
    "Whether two writes conflict that add the same new keys at the same time, each to a file group "
    "of its own; without it such keys are in the table twice, as in Hudi. Takes meta fields.",
    default="false",
    ours=True,
)
EARLY_DETECTION = _key(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    Kind.BOOLEAN,
    "Whether a write under optimistic concurrency control gives up while it still writes, once an "
    "older running write changes the same file groups.",
    default="false",
)
EARLY_STRATEGY = _key(
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    Kind.TEXT,
    "Taken for the sake of Hudi's writers; there is one strategy, which reads markers.",
)
EARLY_COMMITS = _key(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    Kind.BOOLEAN,
    "Whether early detection also takes in writes that have completed since the write began, whose "
    "markers are gone.",
    default="false",
)
EARLY_DELAY_MS = _key(
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
    Kind.INTEGER,
    "Taken for the sake of Hudi's writers; the first look is taken before any file is written.",
    default="0",
)
EARLY_PERIOD_MS = _key(
    "hoodie.write.concurrency.async.conflict.detector.period_ms",
    Kind.INTEGER,
    "Milliseconds between two looks at what other writes have begun.",
    default="30000",
)
LOCK_PROVIDER = _key(
    "hoodie.write.lock.provider",
    Kind.TEXT,
    "What writers exclude each other by: `file system` (a file beside the timeline; the default "
    "on file systems), `storage` (conditional writes; the default on object stores), `in "
    "process`, `zookeeper` or `dynamodb`. Hudi's class names do, too.",
    choices=spelled(LockKind),
)
LOCK_WAIT_MS = _key(
    "hoodie.write.lock.wait_time_ms",
    Kind.INTEGER,
    "Milliseconds to wait for the lock.",
    default="60000",
)
LOCK_RETRY_MS = _key(
    "hoodie.write.lock.wait_time_ms_between_retry",
    Kind.INTEGER,
    "The longest pause, in milliseconds, between two looks at a lock that is taken.",
    default="1000",
    aliases=("hoodie.write.lock.max_wait_time_ms_between_retry",),
)
LOCK_RETRIES = _key(
    "hoodie.write.lock.num_retries",
    Kind.INTEGER,
    "Taken for the sake of Hudi's writers; `hoodie.write.lock.wait_time_ms` is the whole wait.",
    aliases=("hoodie.write.lock.client.num_retries",),
)
LOCK_CLIENT_RETRY_MS = _key(
    "hoodie.write.lock.client.wait_time_ms_between_retry",
    Kind.INTEGER,
    "Taken for the sake of Hudi's writers; see `hoodie.write.lock.wait_time_ms_between_retry`.",
)
LOCK_RENEWAL = _key(
    "hoodie.write.lock.storage.renew.interval.secs",
    Kind.INTEGER,
    "Taken for the sake of Hudi's writers; a holder renews its lock when it is needed for longer.",
    aliases=("hoodie.write.lock.heartbeat_interval_ms",),
)
LOCK_FILE_PATH = _key(
    "hoodie.write.lock.filesystem.path",
    Kind.TEXT,
    "Folder of the lock file; the table's `.hoodie` unless given.",
)
LOCK_FILE_EXPIRE = _key(
    "hoodie.write.lock.filesystem.expire",
    Kind.INTEGER,
    "Minutes after which the lock of a holder that does not renew it is free; 0 for never.",
    default="10",
)
LOCK_VALIDITY = _key(
    "hoodie.write.lock.storage.validity.timeout.secs",
    Kind.INTEGER,
    "Seconds after which the storage lock of a holder that does not renew it is free.",
    default="300",
)
ZOOKEEPER_URL = _key(
    "hoodie.write.lock.zookeeper.url",
    Kind.TEXT,
    "Servers of the ZooKeeper lock, as `host:port,host:port`.",
)
ZOOKEEPER_PORT = _key(
    "hoodie.write.lock.zookeeper.port",
    Kind.INTEGER,
    "Port of the ZooKeeper server, unless its address names one.",
)
ZOOKEEPER_BASE_PATH = _key(
    "hoodie.write.lock.zookeeper.base_path",
    Kind.TEXT,
    "ZooKeeper path below which locks are; all writers of a table must name the same.",
)
ZOOKEEPER_KEY = _key(
    "hoodie.write.lock.zookeeper.lock_key",
    Kind.TEXT,
    "Name of the table's lock below that path; the table's name unless given.",
)
ZOOKEEPER_SESSION_MS = _key(
    "hoodie.write.lock.zookeeper.session_timeout_ms",
    Kind.INTEGER,
    "Milliseconds after which ZooKeeper takes the lock of a silent holder away.",
    default="60000",
)
ZOOKEEPER_CONNECTION_MS = _key(
    "hoodie.write.lock.zookeeper.connection_timeout_ms",
    Kind.INTEGER,
    "Milliseconds to wait for ZooKeeper to answer.",
    default="15000",
)
DYNAMODB_TABLE = _key(
    "hoodie.write.lock.dynamodb.table",
    Kind.TEXT,
    "DynamoDB table that holds locks; made if it is not there.",
)
DYNAMODB_KEY = _key(
    "hoodie.write.lock.dynamodb.partition_key",
    Kind.TEXT,
    "Key of the table's lock in it; the table's name unless given.",
)
DYNAMODB_REGION = _key(
    "hoodie.write.lock.dynamodb.region",
    Kind.TEXT,
    "Region of the DynamoDB table.",
    default="us-east-1",
)
DYNAMODB_ENDPOINT = _key(
    "hoodie.write.lock.dynamodb.endpoint_url",
    Kind.TEXT,
    "Address of a DynamoDB other than Amazon's own.",
)
DYNAMODB_LEASE_MS = _key(
    "hoodie.write.lock.dynamodb.lease_ms",
    Kind.INTEGER,
    "Milliseconds after which the lock of a holder that does not renew it is free.",
    default="20000",
    ours=True,
)
HEARTBEAT_MS = _key(
    "hoodie.client.heartbeat.interval_in_ms",
    Kind.INTEGER,
    "Milliseconds between two signs of life of a running write.",
    default="60000",
)
HEARTBEAT_MISSES = _key(
    "hoodie.client.heartbeat.tolerable.misses",
    Kind.INTEGER,
    "How many signs of life may be missing before a write counts as dead.",
    default="2",
)
TIME_GENERATOR = _key(
    "hoodie.time.generator.type",
    Kind.TEXT,
    "How times are made; there is one way.",
    choices=("WAIT_TO_ADJUST_SKEW",),
)
MAX_SKEW_MS = _key(
    "hoodie.time.generator.max_expected_clock_skew_ms",
    Kind.INTEGER,
    "Milliseconds by which the clocks of writers may differ. Whoever takes a time waits that long "
    "before others can. Where it is not given, one millisecond does for writers in one process and "
    "for tables on a disk that only one machine reaches.",
    default="200",
)
MAX_FUTURE_MS = _key(
    "hoodie.time.generator.max_future_ms",
    Kind.INTEGER,
    "Milliseconds by which the newest instant may be ahead of this machine's clock.",
    default="600000",
    ours=True,
)
SCHEMA_CHECK = _key(
    "hoodie.write.concurrency.schema.conflict.resolution.enable",
    Kind.BOOLEAN,
    "Whether a write that changed the table's schema, or did not know of a change, is refused when "
    "another one changed it meanwhile.",
    default="true",
)
SCHEMA_STRATEGY = _key(
    "hoodie.write.concurrency.schema.conflict.resolution.strategy",
    Kind.WORD,
    "What happens when two writes changed the schema: `reject` the later one, or `merge` changes "
    "that do not contradict each other. Given when a table is created, it holds for every write "
    "that does not say otherwise.",
    default="reject",
    choices=("reject", "merge"),
    ours=True,
)

ALL: tuple[Key, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Key))
