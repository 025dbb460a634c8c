from tidelake.records.keys import KeyRule, partition_values, path_values
from tidelake.records.merge_spec import Fill, MergeSpec
from tidelake.records.schema import COMMIT_TIME, META_COLUMNS, arrow_schema, conform

__all__ = [
    "COMMIT_TIME",
    "META_COLUMNS",
    "Fill",
    "KeyRule",
    "MergeSpec",
    "arrow_schema",
    "conform",
    "partition_values",
    "path_values",
]
