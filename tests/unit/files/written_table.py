"""A table whose timeline is made by hand and whose files are made by `write_group`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiTableBuilder

from tidelake.files import read_slice
from tidelake.files.compact_slice import compact_slice
from tidelake.files.write_group import write_group
from tidelake.files.write_task import (
    CHANGE,
    Change,
    GroupTarget,
    WriteKind,
    WriteSpec,
    WriteToken,
)
from tidelake.formats import commit_metadata, properties
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.instant_name import InstantName
from tidelake.formats.marker_name import heartbeat_path, marker_folder
from tidelake.model import Action, FileSlice, MergeMode, State
from tidelake.operations.open_table import open_state
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.records import META_COLUMNS, KeyRule, MergeSpec
from tidelake.storage import open_storage, storage_spec

GROUP = "11111111-2222-4333-8444-555555555555-0"
PARTITION = "city=oslo"
EVENT = MergeSpec(mode=MergeMode.EVENT_TIME, ordering_fields=("ts",))
TOKEN = WriteToken(task=3, stage=7, attempt=11)

Row = dict[str, Any]


def nullable(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


FIELDS = [
    nullable("id", "string"),
    nullable("ts", "long"),
    nullable("text", "string"),
    nullable("city", "string"),
]


def record(fields: Sequence[dict[str, Any]]) -> str:
    return json.dumps(
        {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": list(fields)}
    )


def row(key: str, ts: float | None = 1, text: str | None = "x", **more: Any) -> Row:
    return {"id": key, "ts": ts, "text": text, "city": "oslo", **more}


class WrittenTable:
    """Writes with us, reads with us and with hudi-rs."""

    def __init__(
        self,
        root: Path,
        *,
        version: int = 9,
        mor: bool = False,
        merge: MergeSpec = EVENT,
        fields: Sequence[dict[str, Any]] = FIELDS,
        extra: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        self.root = root
        self.version = version
        self.mor = mor
        self.storage = open_storage(str(root))
        self._count = 0
        self.spec = WriteSpec(
            storage=storage_spec(str(root)),
            schema=record(fields),
            table_version=version,
            instant_time="",
            marker_folder="",
            merge=merge,
            keys=KeyRule(fields=("id",)),
            **spec,
        )
        event = merge.mode is MergeMode.EVENT_TIME
        entries = {
            "hoodie.table.name": "t",
            "hoodie.table.type": "MERGE_ON_READ" if mor else "COPY_ON_WRITE",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "2" if version >= 8 else "1",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "city",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.populate.meta.fields": str(self.spec.populate_meta_fields).lower(),
            "hoodie.timeline.path": "timeline",
            **({} if version < 8 else {"hoodie.record.merge.mode": merge.mode}),
            **({"hoodie.table.precombine.field": "ts"} if event and version < 9 else {}),
            **({"hoodie.table.ordering.fields": "ts"} if event and version >= 9 else {}),
            **(extra or {}),
        }
        if version < 8:
            payload = "DefaultHoodieRecordPayload" if event else "OverwriteWithLatestAvroPayload"
            entries.setdefault(
                "hoodie.compaction.payload.class", f"org.apache.hudi.common.model.{payload}"
            )
        self.storage.put(".hoodie/hoodie.properties", properties.encode(entries))
        self.storage.make_folder(self._timeline)

    @property
    def _timeline(self) -> str:
        return ".hoodie/timeline" if self.version >= 8 else ".hoodie"

    def begin(self) -> WriteSpec:
        """Return the spec of the next write, whose heartbeat is there."""
        self._count += 1
        instant = f"202611152000{self._count:02}000"
        self.storage.put(heartbeat_path(instant), b"")
        return replace(self.spec, instant_time=instant, marker_folder=marker_folder(instant))

    def write(
        self,
        rows: Sequence[Row],
        kind: WriteKind = WriteKind.CREATE,
        *,
        change: Change | Sequence[Change] = Change.INSERT,
        **target: Any,
    ) -> list[WriteStat]:
        """Write the rows to the one file group and commit."""
        spec = self.begin()
        made = self.target(kind, **target)
        stats = write_group(self.batches(rows, change), made, TOKEN, spec)
        self.commit(spec, stats)
        return stats

    def compact(self) -> None:
        """Fold the logs of the file group into a base file."""
        plan = plan_snapshot(open_state(str(self.root)))
        spec = self.begin()
        stats = [compact_slice(task, TOKEN, spec, plan.spec.blocks) for task in plan.tasks]
        self.commit(spec, stats)

    def batches(
        self, rows: Sequence[Row], change: Change | Sequence[Change] = Change.INSERT
    ) -> Iterator[pa.RecordBatch]:
        changes = [change] * len(rows) if isinstance(change, Change) else list(change)
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
        if rows:
            table = table.append_column("_hoodie_record_key", table.column("id").cast(pa.string()))
            table = table.append_column(CHANGE, pa.array([int(each) for each in changes]))
        # Two batches, so that nobody counts on one.
        half = max(1, len(rows) // 2)
        for start in range(0, len(rows), half):
            yield from table.slice(start, half).combine_chunks().to_batches()

    def target(self, kind: WriteKind, **more: Any) -> GroupTarget:
        """Return the file group as the next write finds it."""
        given: dict[str, Any] = {"partition": PARTITION, "file_id": GROUP, "kind": kind}
        found = [] if kind is WriteKind.CREATE else self.slices()
        if found:
            (piece,) = found
            base = piece.base_file
            given |= {
                "base_path": base and base.path,
                "base_instant": base and base.instant_time,
                "slice_instant": piece.base_instant_time,
                "log_names": tuple(log.name for log in piece.log_files),
                "log_version": 1,
            }
            if self.version < 8:
                given["log_version"] = 1 + max((log.version for log in piece.log_files), default=0)
        return GroupTarget(**(given | more))

    def commit(self, spec: WriteSpec, stats: Sequence[WriteStat]) -> None:
        is_delta = self.mor
        action = Action.DELTACOMMIT if is_delta else Action.COMMIT
        metadata = CommitMetadata(
            partition_to_write_stats={PARTITION: tuple(stats)},
            extra_metadata={"schema": spec.schema},
            operation_type="UPSERT",
        )
        for state in State:
            name = InstantName(requested_time=spec.instant_time, action=action, state=state)
            content = b""
            if state is State.COMPLETED:
                if self.version >= 8:
                    completion = spec.instant_time[:-3] + "500"
                    name = replace(name, completion_time=completion)
                    content = commit_metadata.encode_avro(metadata)
                else:
                    content = commit_metadata.encode_json(metadata)
            self.storage.put(f"{self._timeline}/{name.format()}", content)

    def slices(self) -> list[FileSlice]:
        return list(open_state(str(self.root)).view.latest_slices())

    def ours(self, *, meta: bool = False) -> list[Row]:
        """Return the rows that we read, in the order of their keys."""
        plan = plan_snapshot(open_state(str(self.root)), Selection(meta=True))
        rows = [
            r for task in plan.tasks for b in read_slice(task, plan.spec) for r in b.to_pylist()
        ]
        return _sorted(rows, meta=meta)

    def theirs(self, *, meta: bool = False) -> list[Row]:
        """Return the rows that hudi-rs reads."""
        table = HudiTableBuilder.from_base_uri(str(self.root)).build()
        return _sorted([r for b in table.read() for r in b.to_pylist()], meta=meta)

    def files(self) -> set[str]:
        return {p for p in self.storage.files_below("") if not p.startswith(".hoodie/")}


def _sorted(rows: list[Row], *, meta: bool) -> list[Row]:
    rows = sorted(rows, key=lambda r: (str(r["id"]), str(r)))
    return rows if meta else [{k: v for k, v in r.items() if k not in META_COLUMNS} for r in rows]
