"""Writes to a table in this process, through the data source's writer and without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.writes.cases import Case
from tests.writes.model import Do, Step
from tests.writes.staged_writer import batches, create, struct
from tidelake.spark.datasource_writer import TidelakeWriter

#: What the data source can do by itself.
OPERATIONS = (
    Do.INSERT,
    Do.BULK_INSERT,
    Do.UPSERT,
    Do.DELETE,
    Do.INSERT_OVERWRITE,
    Do.INSERT_OVERWRITE_TABLE,
)


class QuickWriter:
    """Does to a table what the data source of Spark does."""

    def __init__(self, storage: Mapping[str, str] | None = None) -> None:
        """Take the options by which the tables' storage is reached."""
        self._storage = dict(storage or {})

    def create(self, root: Path | str, case: Case) -> None:
        """Create the table."""
        create(root, case, self._storage)

    def write(self, root: Path | str, case: Case, step: Step) -> None:
        """Do one step."""
        writer = self.writer(root, case, step)
        writer.commit([writer.write(batches(case, step))])

    def writer(self, root: Path | str, case: Case, step: Step) -> TidelakeWriter:
        """Return what Spark makes of a step, for it to be done in parts."""
        options = {
            **self._storage,
            **case.options,
            "path": str(root),
            "hoodie.datasource.write.operation": step.do.value,
        }
        return TidelakeWriter(options, struct(case, step), overwrite=False)
