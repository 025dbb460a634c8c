from tidelake.engine.avro_types import avro_schema
from tidelake.engine.bins import pack
from tidelake.engine.caretaker import Caretaker
from tidelake.engine.dataframe import CHANGES_SCHEMA, changes_dataframe, to_dataframe
from tidelake.engine.merge_clauses import MergeBuilder, MergeRequest
from tidelake.engine.row_json import row_json
from tidelake.engine.spark_types import spark_schema
from tidelake.engine.worker_errors import worker_errors
from tidelake.engine.writer import Writer

__all__ = [
    "CHANGES_SCHEMA",
    "Caretaker",
    "MergeBuilder",
    "MergeRequest",
    "Writer",
    "avro_schema",
    "changes_dataframe",
    "pack",
    "row_json",
    "spark_schema",
    "to_dataframe",
    "worker_errors",
]
