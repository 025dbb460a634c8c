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


class MergePath(Word):
    """How file slices with logs are read: base rows masked in Spark, or rows from workers."""

    AUTO = "auto"
    MASK = "mask"
    ROWS = "rows"
