from tidelake.files.changes import ChangeKind, ChangeTask, change_schema, read_changes
from tidelake.files.footers import read_footer, read_footers
from tidelake.files.log_records import TornBlock
from tidelake.files.read_slice import Decided, decide_slice, read_base, read_slice
from tidelake.files.task import BlockFilter, ReadSpec, SliceTask
from tidelake.records.history import SchemaHistory

__all__ = [
    "BlockFilter",
    "ChangeKind",
    "ChangeTask",
    "Decided",
    "ReadSpec",
    "SchemaHistory",
    "SliceTask",
    "TornBlock",
    "change_schema",
    "decide_slice",
    "read_base",
    "read_changes",
    "read_footer",
    "read_footers",
    "read_slice",
]
