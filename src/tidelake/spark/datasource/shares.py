"""What the readers of the data source share: work that travels to tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from tidelake.errors import ConfigError
from tidelake.files import ChangeTask, ReadSpec, read_changes
from tidelake.files.row_json import row_json
from tidelake.spark.read.dataframe import CHANGES_SCHEMA

Batches = Iterator[pa.RecordBatch]
#: What one task reads.
Share = list[Callable[[], Batches]]

#: Partitions to aim for; how many cores there are is not known here.
PARALLELISM = 16


def json_changes(task: ChangeTask, spec: ReadSpec) -> Batches:
    """Return changes with their rows as JSON, as `Table.changes` has them."""
    for batch in read_changes(task, spec):
        images = [
            pa.array([None if v is None else row_json(v) for v in batch.column(side).to_pylist()])
            for side in ("before", "after")
        ]
        columns = [
            batch.column("op"),
            batch.column("ts_ms"),
            *(i.cast(pa.string()) for i in images),
        ]
        yield pa.RecordBatch.from_arrays(columns, CHANGES_SCHEMA.names)


def path_of(options: Mapping[str, str]) -> str:
    """Return where the table lies; raise `ConfigError` when nobody said it."""
    path = options.get("path")
    if not path:
        raise ConfigError(
            "no path was given", next_step='call load("/path/to/table") or set the option `path`'
        )
    return path
