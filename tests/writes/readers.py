"""What two readers find in a table: ours without Spark, and hudi-rs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiQueryType, HudiReadOptions, HudiTable, HudiTableBuilder

from tests.writes.model import Values, values
from tidelake.files import read_slice
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.table import open_state


class OurReader:
    """Reads with tidelake, in this process."""

    name = "tidelake"

    def __init__(self, root: Path) -> None:
        self._state = open_state(str(root))

    def snapshot(self, as_of: str | None = None) -> list[Values]:
        """Return the rows, now or as of a time."""
        return self._rows(plan_snapshot(self._state, as_of=as_of))

    def base_files(self) -> list[Values]:
        """Return the rows of base files alone."""
        return self._rows(plan_snapshot(self._state, base_only=True))

    def incremental(self, start: str, end: str) -> list[Values]:
        """Return the rows that changed inside (start, end]."""
        return self._rows(plan_incremental(self._state, start=start, end=end))

    @staticmethod
    def _rows(plan: ScanPlan) -> list[Values]:
        batches = (b for task in plan.tasks for b in read_slice(task, plan.spec))
        return values(_comparable(batches))


class HudiRs:
    """Reads with hudi-rs."""

    name = "hudi-rs"

    def __init__(self, root: Path) -> None:
        self._table: HudiTable = HudiTableBuilder.from_base_uri(str(root)).build()

    def snapshot(self, as_of: str | None = None) -> list[Values]:
        """Return the rows, now or as of a time."""
        options = HudiReadOptions()
        return self._rows(options if as_of is None else options.with_as_of_timestamp(as_of))

    def base_files(self) -> list[Values]:
        """Return the rows of base files alone."""
        options = HudiReadOptions().with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
        return self._rows(options)

    def incremental(self, start: str, end: str) -> list[Values]:
        """Return the rows that changed inside (start, end]."""
        options = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
        return self._rows(options.with_start_timestamp(start).with_end_timestamp(end))

    def _rows(self, options: HudiReadOptions) -> list[Values]:
        return values(_comparable(self._table.read(options)))


def _comparable(batches: Iterable[pa.RecordBatch]) -> Iterable[dict[str, Any]]:
    for batch in batches:
        for row in batch.to_pylist():
            # The field of a timestamp key generator comes back as text, as Apache gives it.
            yield {**row, "day": int(row["day"])}
