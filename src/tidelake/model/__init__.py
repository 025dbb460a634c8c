from tidelake.model.commit import Commit
from tidelake.model.files import BaseFile, FileGroupId, FileSlice, LogFile
from tidelake.model.instant import Instant
from tidelake.model.statistics import ColumnStats
from tidelake.model.words import WRITE_ACTIONS, Action, MergeMode, State, TableType, Word

__all__ = [
    "WRITE_ACTIONS",
    "Action",
    "BaseFile",
    "ColumnStats",
    "Commit",
    "FileGroupId",
    "FileSlice",
    "Instant",
    "LogFile",
    "MergeMode",
    "State",
    "TableType",
    "Word",
]
