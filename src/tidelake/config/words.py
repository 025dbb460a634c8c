"""The closed sets of words that configuration values are made of."""

from __future__ import annotations

from tidelake.model import Word


class KeyGeneratorType(Word):
    """How a row's record key and partition path are made; Avro twins are folded in."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    NON_PARTITION = "NON_PARTITION"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    AUTO_RECORD = "AUTO_RECORD"
    HOODIE_TABLE_METADATA = "HOODIE_TABLE_METADATA"
    SPARK_SQL = "SPARK_SQL"
    SPARK_SQL_UUID = "SPARK_SQL_UUID"
    SPARK_SQL_MERGE_INTO = "SPARK_SQL_MERGE_INTO"


class PartitionFieldType(Word):
    """How a partition field becomes part of the path.

    `UNKNOWN` is a field of a custom key generator whose table does not record the type (version 6):
    the path may hold the value or a formatted time, so nothing may be concluded from it.
    """

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"
    UNKNOWN = "UNKNOWN"


class CdcMode(Word):
    """How much of a change the writer logs."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"


class QueryType(Word):
    """What a read asks for."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"


class IncrementalFormat(Word):
    """What an incremental query returns: rows as they are now, or every change."""

    LATEST_STATE = "latest_state"
    CDC = "cdc"


class TimeBasis(Word):
    """Which of an instant's two times counts."""

    COMPLETION = "completion"
    REQUESTED = "requested"


class HollowCommitPolicy(Word):
    """What an incremental query does about a pending instant older than a completed one."""

    FAIL = "FAIL"
    BLOCK = "BLOCK"
    USE_TRANSITION_TIME = "USE_TRANSITION_TIME"


class UndoneCommits(Word):
    """What a stream does once commits that it has brought were taken off the table."""

    FAIL = "FAIL"
    GO_ON = "GO_ON"


class MergePath(Word):
    """How file slices with logs are read: base rows masked in Spark, or rows from workers."""

    AUTO = "auto"
    MASK = "mask"
    ROWS = "rows"


class WriteOperation(Word):
    """What a write does; the words are those of commit metadata."""

    INSERT = "INSERT"
    BULK_INSERT = "BULK_INSERT"
    UPSERT = "UPSERT"
    DELETE = "DELETE"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"


class IndexType(Word):
    """How a writer finds the file group of a key."""

    SIMPLE = "SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    BUCKET = "BUCKET"
    RECORD_INDEX = "RECORD_INDEX"
    #: How Hudi spells `RECORD_INDEX` from 1.1 on.
    GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"

    @property
    def is_global(self) -> bool:
        """Return whether a key is looked for in every partition."""
        return self not in (IndexType.SIMPLE, IndexType.BLOOM, IndexType.BUCKET)


class BucketEngine(Word):
    """How the bucket index divides keys."""

    SIMPLE = "SIMPLE"
    CONSISTENT_HASHING = "CONSISTENT_HASHING"


class ConcurrencyMode(Word):
    """Who writes at the same time, and what becomes of two that change the same."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"

    @property
    def is_shared(self) -> bool:
        """Return whether others may be writing."""
        return self is not ConcurrencyMode.SINGLE_WRITER


class ConflictStrategy(Word):
    """Which commits a write is compared with, and who gives way."""

    SIMPLE = "simple"
    END = "end"
    PREFER_WRITER = "prefer writer"


class LockKind(Word):
    """What writers exclude each other by."""

    FILE_SYSTEM = "file system"
    STORAGE = "storage"
    IN_PROCESS = "in process"
    ZOOKEEPER = "zookeeper"
    DYNAMODB = "dynamodb"


class FailedWritesPolicy(Word):
    """Who rolls back a write that failed: the next write, a clean, or nobody."""

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class CleanPolicy(Word):
    """What a clean leaves of the past: commits, hours, or versions of each file group."""

    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


class SortMode(Word):
    """How a bulk insert arranges rows before it writes them."""

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"


class DuplicatePolicy(Word):
    """What an insert does about keys that the table has already."""

    NONE = "none"
    DROP = "drop"
    FAIL = "fail"


class NullPartitionPolicy(Word):
    """What a write does about rows without a value for a partition field."""

    FAIL = "fail"
    DEFAULT = "default"


class CompactionTrigger(Word):
    """What makes a compaction due, counted since the last one."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CompactionStrategy(Word):
    """Which file slices a compaction takes; the words are the names of Hudi's classes."""

    LOG_FILE_SIZE = "LogFileSizeBasedCompactionStrategy"
    LOG_FILE_NUM = "LogFileNumBasedCompactionStrategy"
    BOUNDED_IO = "BoundedIOCompactionStrategy"
    UNBOUNDED = "UnBoundedCompactionStrategy"
    DAY_BASED = "DayBasedCompactionStrategy"
    PARTITION_REGEX = "PartitionRegexBasedCompactionStrategy"


class ProgressStyle(Word):
    """How long work shows how far it has come."""

    AUTO = "auto"
    BAR = "bar"
    LOG = "log"
    OFF = "off"
