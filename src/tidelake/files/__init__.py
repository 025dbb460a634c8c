from tidelake.files.read_slice import Decided, decide_slice, read_base, read_slice
from tidelake.files.task import BlockFilter, ReadSpec, SliceTask
from tidelake.records.history import SchemaHistory

__all__ = [
    "BlockFilter",
    "Decided",
    "ReadSpec",
    "SchemaHistory",
    "SliceTask",
    "decide_slice",
    "read_base",
    "read_slice",
]
