"""A clustering as Apache Hudi plans it, carried out by our transactions step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.scenarios.lake import Lake
from tidelake.formats import plans
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import format_base
from tidelake.formats.marker_name import MarkerKind, marker_path
from tidelake.formats.plans import (
    ClusteringGroup,
    ClusteringPlan,
    RequestedReplaceMetadata,
    SliceInfo,
)
from tidelake.model import Action, Commit
from tidelake.records.schema import FILE_NAME
from tidelake.timeline import Timeline
from tidelake.txn.protocol.plans import schedule, take_over


class Clustering:
    """Rewrites the base files of one partition of a copy-on-write table into a new file group."""

    def __init__(
        self, lake: Lake, partition: str, options: Mapping[str, str] | None = None
    ) -> None:
        """Put the plan on the timeline."""
        self._lake = lake
        self._partition = partition
        self._session = lake.writing([], options).session
        slices = self._session.state.view.latest_slices([partition])
        self.inputs = [s.group.file_id for s in slices]
        self._paths = [s.base_file.path for s in slices if s.base_file is not None]

        def make_plan(_timeline: Timeline, _time: str) -> bytes:
            pieces = tuple(
                SliceInfo(file_id=file_id, partition_path=partition) for file_id in self.inputs
            )
            plan = ClusteringPlan(input_groups=(ClusteringGroup(slices=pieces),))
            return plans.encode(
                RequestedReplaceMetadata(operation_type="CLUSTER", clustering_plan=plan)
            )

        found = schedule(
            lake.env(),
            self._session.config,
            self._session.state.timeline,
            action=Action.CLUSTERING,
            make_plan=make_plan,
            keeper=self._session.keeper,
            concurrency=self._session.concurrency,
            roll_back=False,
        )
        assert found is not None
        self.requested_time = found

    def start(self) -> None:
        """Take the plan over and write the new file."""
        self._txn = take_over(
            self._lake.env(),
            self._session.config,
            self._lake.state().timeline,
            requested_time=self.requested_time,
            action=Action.CLUSTERING,
            operation="CLUSTER",
            keeper=self._session.keeper,
            concurrency=self._session.concurrency,
            roll_back=False,
        )
        self._txn.start()
        name = format_base(
            file_id="clustered0-0",
            write_token="0-0-0",
            instant_time=self.requested_time,
            extension="parquet",
        )
        self._path = f"{self._partition}/{name}"
        marker = marker_path(self._txn.marker_folder, self._path, MarkerKind.CREATE)
        self._lake.storage.put(marker, b"")
        root = Path(self._lake.root)
        tables = [pq.ParquetFile(root / path).read() for path in self._paths]
        rows = pa.concat_tables(tables)
        at = rows.schema.get_field_index(FILE_NAME)
        named = rows.set_column(
            at, rows.schema.field(at), pa.array([name] * len(rows), pa.string())
        )
        pq.write_table(named, root / self._path)

    def commit(self, schema: str = "") -> Commit:
        """Let the new file group take the place of the others."""
        size = (Path(self._lake.root) / self._path).stat().st_size
        stat = WriteStat(
            file_id="clustered0-0",
            path=self._path,
            partition_path=self._partition,
            file_size_in_bytes=size,
            total_write_bytes=size,
        )
        with self._txn as txn:
            return txn.commit([stat], schema=schema, replaced={self._partition: self.inputs})
