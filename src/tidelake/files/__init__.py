from tidelake.files.task import BlockFilter, ReadSpec, SchemaHistory, SliceTask

__all__ = ["BlockFilter", "ReadSpec", "SchemaHistory", "SliceTask"]
