from tidelake.files.changes import ChangeKind, ChangePart, ChangeTask, change_schema, read_changes
from tidelake.files.footers import check_tails, read_footer, read_footers
from tidelake.files.read_slice import (
    Decided,
    answers_from_logs,
    decide_slice,
    read_base,
    read_slice,
)
from tidelake.files.task import BlockFilter, ReadSpec, SliceTask
from tidelake.files.write_group import write_group
from tidelake.files.write_task import (
    CHANGE,
    POSITION,
    BloomSettings,
    Change,
    GroupTarget,
    LogFormat,
    LogSettings,
    ParquetSettings,
    WriteKind,
    WriteSpec,
    WriteToken,
)

__all__ = [
    "CHANGE",
    "POSITION",
    "BlockFilter",
    "BloomSettings",
    "Change",
    "ChangeKind",
    "ChangePart",
    "ChangeTask",
    "Decided",
    "GroupTarget",
    "LogFormat",
    "LogSettings",
    "ParquetSettings",
    "ReadSpec",
    "SliceTask",
    "WriteKind",
    "WriteSpec",
    "WriteToken",
    "answers_from_logs",
    "change_schema",
    "check_tails",
    "decide_slice",
    "read_base",
    "read_changes",
    "read_footer",
    "read_footers",
    "read_slice",
    "write_group",
]
