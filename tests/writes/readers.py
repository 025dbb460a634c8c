"""What readers find in a table, and ours, which needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from typing_extensions import Self

from tests.writes.model import Values, as_values, values
from tidelake.files import read_changes, read_slice
from tidelake.operations.open_table import load_state, open_state
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.state.table_state import TableState
from tidelake.storage import Storage


class Reader(Protocol):
    """Answers questions about a table as it was when the reader was made."""

    @property
    def name(self) -> str:
        """Return who answers."""

    def snapshot(self, as_of: str | None = None) -> list[Values]:
        """Return the rows, now or as of a time."""

    def base_files(self) -> list[Values]:
        """Return the rows of base files alone."""

    def incremental(self, start: str, end: str) -> list[Values]:
        """Return the rows that changed inside (start, end]."""


class OurReader:
    """Reads with tidelake, in this process."""

    name = "tidelake"

    def __init__(
        self, root: Path | str | TableState, storage: Mapping[str, str] | None = None
    ) -> None:
        if isinstance(root, TableState):
            self._state = root
        else:
            self._state = open_state(str(root), storage)

    @classmethod
    def of(cls, storage: Storage, options: Mapping[str, str] | None = None) -> Self:
        """Return a reader of a storage that only this process may reach."""
        return cls(load_state(storage, options or {}))

    def snapshot(self, as_of: str | None = None) -> list[Values]:
        """Return the rows, now or as of a time."""
        return self._rows(plan_snapshot(self._state, as_of=as_of))

    def base_files(self) -> list[Values]:
        """Return the rows of base files alone."""
        return self._rows(plan_snapshot(self._state, base_only=True))

    def incremental(self, start: str, end: str) -> list[Values]:
        """Return the rows that changed inside (start, end]."""
        return self._rows(plan_incremental(self._state, start=start, end=end))

    def changes(self, start: str, end: str) -> list[Values]:
        """Return the changes made inside (start, end], with the rows before and after."""
        plan = plan_changes(self._state, start=start, end=end)
        found = [
            (row["op"], *map(_image, (row["before"], row["after"])))
            for task in plan.tasks
            for batch in read_changes(task, plan.spec)
            for row in batch.to_pylist()
        ]
        return sorted(found, key=repr)

    @staticmethod
    def _rows(plan: ScanPlan) -> list[Values]:
        batches = (b for task in plan.tasks for b in read_slice(task, plan.spec))
        return values(comparable(batches))


def _image(row: dict[str, Any] | None) -> Values | None:
    return None if row is None else as_values({**row, "day": int(row["day"])})


def comparable(batches: Iterable[pa.RecordBatch]) -> Iterable[dict[str, Any]]:
    """Yield the rows of batches as a model has them."""
    for batch in batches:
        for row in batch.to_pylist():
            # The field of a timestamp key generator comes back as text, as Apache gives it.
            yield {**row, "day": int(row["day"])}
