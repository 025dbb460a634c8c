"""tidelake reads Apache Hudi tables from PySpark."""

from tidelake.errors import (
    ConfigError,
    CorruptFileError,
    IncrementalRangeError,
    MissingFileError,
    NotATableError,
    SchemaError,
    TableNotFoundError,
    TidelakeError,
    TimeTravelError,
    UnsupportedTableError,
)
from tidelake.spark.register import register
from tidelake.table import Table

__all__ = [
    "ConfigError",
    "CorruptFileError",
    "IncrementalRangeError",
    "MissingFileError",
    "NotATableError",
    "SchemaError",
    "Table",
    "TableNotFoundError",
    "TidelakeError",
    "TimeTravelError",
    "UnsupportedTableError",
    "register",
]
