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
    from tidelake.model import (
        Action,
        BaseFile,
        Commit,
        FileGroupId,
        FileSlice,
        Instant,
        LogFile,
        State,
        TableType,
    )
    from tidelake.model.printed import FileSliceList, InstantList
    from tidelake.operations.scheduled_service import ScheduledService
    from tidelake.services import (
        Archived,
        Cleaned,
        PlannedFile,
        Restored,
        RolledBack,
        Savepoint,
        Service,
        ServicePlan,
        Undoing,
    )
    from tidelake.spark.datasource.register import register
    from tidelake.spark.merge.merge_clauses import MergeBuilder
    from tidelake.spark.sink import Sink, sink
    from tidelake.spark.write.given_data import Rows
    from tidelake.table import Table

__version__ = "0.1.0"

#: What is imported when it is first asked for, so that the command line waits for no Spark.
_HOMES = {
    "Action": "tidelake.model",
    "Archived": "tidelake.services",
    "BaseFile": "tidelake.model",
    "Cleaned": "tidelake.services",
    "Commit": "tidelake.model",
    "FileGroupId": "tidelake.model",
    "FileSlice": "tidelake.model",
    "FileSliceList": "tidelake.model.printed",
    "Instant": "tidelake.model",
    "InstantList": "tidelake.model.printed",
    "LogFile": "tidelake.model",
    "MergeBuilder": "tidelake.spark.merge.merge_clauses",
    "PlannedFile": "tidelake.services",
    "Restored": "tidelake.services",
    "RolledBack": "tidelake.services",
    "Rows": "tidelake.spark.write.given_data",
    "Savepoint": "tidelake.services",
    "ScheduledService": "tidelake.operations.scheduled_service",
    "Service": "tidelake.services",
    "ServicePlan": "tidelake.services",
    "Sink": "tidelake.spark.sink",
    "State": "tidelake.model",
    "Table": "tidelake.table",
    "TableType": "tidelake.model",
    "Undoing": "tidelake.services",
    "register": "tidelake.spark.datasource.register",
    "sink": "tidelake.spark.sink",
}

__all__ = [
    "Action",
    "Archived",
    "BaseFile",
    "Cleaned",
    "ClockAheadError",
    "Commit",
    "CommitOutcomeUnknownError",
    "ConfigError",
    "CorruptFileError",
    "FileGroupId",
    "FileSlice",
    "FileSliceList",
    "HorizonError",
    "IncrementalRangeError",
    "InputChangedError",
    "Instant",
    "InstantList",
    "InstantLostError",
    "LockLostError",
    "LockTimeoutError",
    "LogFile",
    "MergeBuilder",
    "MissingFileError",
    "NotATableError",
    "PlanCompletedError",
    "PlanRemovedError",
    "PlanRunningError",
    "PlannedFile",
    "RestorePendingError",
    "Restored",
    "RolledBack",
    "Rows",
    "SameWriteError",
    "Savepoint",
    "ScheduledService",
    "SchemaConflictError",
    "SchemaError",
    "Service",
    "ServicePlan",
    "Sink",
    "SnapshotLostError",
    "State",
    "StorageError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "TableType",
    "TidelakeError",
    "TimeTravelError",
    "Undoing",
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
