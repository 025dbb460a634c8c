from tidelake.records.history import SchemaHistory
from tidelake.records.keys import KeyRule, partition_values, path_values
from tidelake.records.merge_spec import Fill, MergeSpec
from tidelake.records.schema import META_COLUMNS, arrow_schema, column_names

__all__ = [
    "META_COLUMNS",
    "Fill",
    "KeyRule",
    "MergeSpec",
    "SchemaHistory",
    "arrow_schema",
    "column_names",
    "partition_values",
    "path_values",
]
