from tidelake.config.read_options import ReadOptions
from tidelake.config.table_config import TableConfig
from tidelake.config.words import (
    BucketEngine,
    CdcMode,
    DuplicatePolicy,
    FailedWritesPolicy,
    HollowCommitPolicy,
    IncrementalFormat,
    IndexType,
    KeyGeneratorType,
    MergePath,
    NullPartitionPolicy,
    PartitionFieldType,
    QueryType,
    SortMode,
    TimeBasis,
    WriteOperation,
)
from tidelake.config.write_options import WriteOptions

__all__ = [
    "BucketEngine",
    "CdcMode",
    "DuplicatePolicy",
    "FailedWritesPolicy",
    "HollowCommitPolicy",
    "IncrementalFormat",
    "IndexType",
    "KeyGeneratorType",
    "MergePath",
    "NullPartitionPolicy",
    "PartitionFieldType",
    "QueryType",
    "ReadOptions",
    "SortMode",
    "TableConfig",
    "TimeBasis",
    "WriteOperation",
    "WriteOptions",
]
