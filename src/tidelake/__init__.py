"""tidelake reads and writes Apache Hudi tables from PySpark."""

from tidelake.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    CorruptFileError,
    IncrementalRangeError,
    InputChangedError,
    InstantLostError,
    MissingFileError,
    NotATableError,
    PlanCompletedError,
    PlanRemovedError,
    RestorePendingError,
    SchemaError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TidelakeError,
    TimeTravelError,
    UnsupportedTableError,
)
from tidelake.model import Commit
from tidelake.spark.register import register
from tidelake.table import Table

__all__ = [
    "Commit",
    "CommitOutcomeUnknownError",
    "ConfigError",
    "CorruptFileError",
    "IncrementalRangeError",
    "InputChangedError",
    "InstantLostError",
    "MissingFileError",
    "NotATableError",
    "PlanCompletedError",
    "PlanRemovedError",
    "RestorePendingError",
    "SchemaError",
    "StorageError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "TidelakeError",
    "TimeTravelError",
    "UnsupportedTableError",
    "register",
]
