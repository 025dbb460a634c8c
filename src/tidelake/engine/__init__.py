from tidelake.engine.dataframe import to_dataframe
from tidelake.engine.spark_types import spark_schema

__all__ = ["spark_schema", "to_dataframe"]
