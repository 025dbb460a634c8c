from tidelake.config.read_options import ReadOptions
from tidelake.config.table_config import TableConfig
from tidelake.config.words import (
    CdcMode,
    HollowCommitPolicy,
    IncrementalFormat,
    KeyGeneratorType,
    MergePath,
    PartitionFieldType,
    QueryType,
    TimeBasis,
)

__all__ = [
    "CdcMode",
    "HollowCommitPolicy",
    "IncrementalFormat",
    "KeyGeneratorType",
    "MergePath",
    "PartitionFieldType",
    "QueryType",
    "ReadOptions",
    "TableConfig",
    "TimeBasis",
]
