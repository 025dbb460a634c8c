"""tidelake reads and writes Apache Hudi tables from PySpark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tidelake.errors import (
    ClockAheadError,
    CommitOutcomeUnknownError,
    ConfigError,
    CorruptFileError,
    HorizonError,
    IncrementalRangeError,
    InputChangedError,
    InstantLostError,
    LockLostError,
    LockTimeoutError,
    MissingFileError,
    NotATableError,
    PlanCompletedError,
    PlanRemovedError,
    PlanRunningError,
    RestorePendingError,
    SameWriteError,
    SchemaConflictError,
    SchemaError,
    SnapshotLostError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TidelakeError,
    TimeTravelError,
    UnsupportedTableError,
    WriteConflictError,
)

if TYPE_CHECKING:
    from tidelake.engine.merge_clauses import MergeBuilder
    from tidelake.model import Commit
    from tidelake.spark.register import register
    from tidelake.spark.sink import sink
    from tidelake.table import Table

__version__ = "0.1.0"

#: What is imported when it is first asked for, so that the command line waits for no Spark.
_HOMES = {
    "Commit": "tidelake.model",
    "MergeBuilder": "tidelake.engine.merge_clauses",
    "Table": "tidelake.table",
    "register": "tidelake.spark.register",
    "sink": "tidelake.spark.sink",
}

__all__ = [
    "ClockAheadError",
    "Commit",
    "CommitOutcomeUnknownError",
    "ConfigError",
    "CorruptFileError",
    "HorizonError",
    "IncrementalRangeError",
    "InputChangedError",
    "InstantLostError",
    "LockLostError",
    "LockTimeoutError",
    "MergeBuilder",
    "MissingFileError",
    "NotATableError",
    "PlanCompletedError",
    "PlanRemovedError",
    "PlanRunningError",
    "RestorePendingError",
    "SameWriteError",
    "SchemaConflictError",
    "SchemaError",
    "SnapshotLostError",
    "StorageError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "TidelakeError",
    "TimeTravelError",
    "UnsupportedTableError",
    "WriteConflictError",
    "__version__",
    "register",
    "sink",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidelake' has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
