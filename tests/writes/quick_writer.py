"""Writes to a table in this process, through the data source's writer and without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.writes.cases import Case
from tests.writes.model import Do, Step
from tests.writes.staged_writer import batches, create, struct
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.task_runner import Here
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.storage import open_storage

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
        if step.do is Do.COMPACT:
            self.compactor(root, case).both()
            return
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

    def schedule(self, root: Path, case: Case) -> str | None:
        """Plan a compaction."""
        return self.compactor(root, case).schedule()

    def run_pending(self, root: Path, case: Case) -> int:
        """Carry out every plan; return how many there were."""
        compactor = self.compactor(root, case)
        pending = compactor.pending()
        for instant in pending:
            compactor.run(instant.requested_time)
        return len(pending)

    def compactor(self, root: Path | str, case: Case) -> Compactor:
        """Return what compacts the table in this process."""
        options = {**self._storage, **case.options}
        env = Env(open_storage(str(root), options))
        return Compactor(
            env,
            lambda: load_state(env.storage, options),
            WriteOptions.from_options(options),
            Here(),
        )
