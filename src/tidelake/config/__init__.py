from tidelake.config.read_options import ReadOptions
from tidelake.config.service_options import ArchiveOptions, CleanOptions, ServiceOptions
from tidelake.config.table_config import TableConfig
from tidelake.config.words import (
    BucketEngine,
    CdcMode,
    CleanPolicy,
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
    "ArchiveOptions",
    "BucketEngine",
    "CdcMode",
    "CleanOptions",
    "CleanPolicy",
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
    "ServiceOptions",
    "SortMode",
    "TableConfig",
    "TimeBasis",
    "WriteOperation",
    "WriteOptions",
]
