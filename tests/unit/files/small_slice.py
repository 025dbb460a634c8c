"""Writes small file slices: a base file, and log files of blocks given as rows."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.files import ReadSpec, SliceTask, decide_slice, read_base, read_slice
from tidelake.formats import delete_block, record_positions
from tidelake.formats.delete_block import DeleteRecords, OrderingKind
from tidelake.formats.log_block import BlockKind, HeaderKey, encode_block, join_avro_block
from tidelake.model import MergeMode
from tidelake.records import META_COLUMNS, KeyRule, MergeSpec
from tidelake.storage import StorageSpec

Row = dict[str, Any]
BASE_INSTANT = "20260101000000000"
FIELDS: tuple[tuple[str, Any], ...] = (
    ("id", ["null", "string"]),
    ("ts", ["null", "long"]),
    ("v", ["null", "string"]),
    ("w", ["null", "string"]),
)
EVENT = MergeSpec(mode=MergeMode.EVENT_TIME, ordering_fields=("ts",))


def avro(fields: Sequence[tuple[str, Any]], *, meta: bool = False) -> str:
    names = [(name, ["null", "string"]) for name in META_COLUMNS] if meta else []
    return json.dumps(
        {
            "type": "record",
            "name": "t",
            "fields": [{"name": n, "type": t} for n, t in (*names, *fields)],
        }
    )


def instant(number: int) -> str:
    return f"2026010100000{number:04d}"


@dataclass
class SmallSlice:
    """One file group in a folder; every log gets the next instant."""

    folder: Path
    meta: bool = True
    fields: tuple[tuple[str, Any], ...] = FIELDS
    logs: list[str] = field(default_factory=list)
    base_name: str | None = None

    def base(self, rows: Sequence[Row], schema: pa.Schema | None = None, **options: Any) -> None:
        self.base_name = f"f-0_0-1-1_{BASE_INSTANT}.parquet"
        names = [name for name, _ in self.fields] if schema is None else schema.names
        table = pa.table(
            {
                **{
                    name: pa.array([self._meta(name, r, BASE_INSTANT) for r in rows], pa.string())
                    for name in META_COLUMNS
                },
                **{
                    name: pa.array(
                        [r.get(name) for r in rows],
                        (pa.int64() if name == "ts" else pa.string())
                        if schema is None
                        else schema.field(name).type,
                    )
                    for name in names
                },
            }
        )
        pq.write_table(table, self.folder / self.base_name, **options)

    def log(
        self,
        rows: Sequence[Row],
        *,
        fields: Sequence[tuple[str, Any]] | None = None,
        headers: Mapping[int, str] | None = None,
    ) -> str:
        """Append a log file with one Avro block."""
        schema = avro(self.fields if fields is None else fields, meta=True)
        at = instant(len(self.logs) + 1)
        parsed = fastavro.parse_schema(json.loads(schema))
        datums = []
        for r in rows:
            datum = io.BytesIO()
            made = {name: self._meta(name, r, at) for name in META_COLUMNS}
            fastavro.schemaless_writer(datum, parsed, {**made, **r})
            datums.append(datum.getvalue())
        return self.block(
            BlockKind.AVRO_DATA,
            join_avro_block(datums),
            {HeaderKey.SCHEMA: schema, **(headers or {})},
        )

    def parquet_log(self, rows: Sequence[Row]) -> str:
        at = instant(len(self.logs) + 1)
        made = [{**{n: self._meta(n, r, at) for n in META_COLUMNS}, **r} for r in rows]
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(made), out)
        return self.block(BlockKind.PARQUET_DATA, out.getvalue(), {})

    def deletes(
        self,
        keys: Sequence[str],
        ordering: object = 0,
        kind: OrderingKind = OrderingKind.INT,
        headers: Mapping[int, str] | None = None,
    ) -> str:
        records = DeleteRecords(
            keys=keys,
            partitions=[""] * len(keys),
            ordering=[ordering] * len(keys),
            kinds=[kind] * len(keys),
        )
        return self.block(BlockKind.DELETE, delete_block.encode(records), headers or {})

    def block(self, kind: BlockKind, content: bytes, headers: Mapping[int, str]) -> str:
        at = instant(len(self.logs) + 1)
        name = f".f-0_{at}.log.1_0-1-1"
        data = encode_block(kind, {HeaderKey.INSTANT_TIME: at, **headers}, content)
        (self.folder / name).write_bytes(data)
        self.logs.append(name)
        return name

    def positions(self, *rows: int) -> dict[int, str]:
        """Return the headers that say which base rows a block's records belong to."""
        return {
            HeaderKey.RECORD_POSITIONS: record_positions.encode(rows),
            HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: BASE_INSTANT,
        }

    def _meta(self, name: str, row: Row, at: str) -> str | None:
        if not self.meta:
            return None
        known = {"_hoodie_commit_time": at, "_hoodie_record_key": row.get("id")}
        return known.get(name, "")

    def task(self, **changes: Any) -> SliceTask:
        settings: dict[str, Any] = {
            "partition": "",
            "file_id": "f-0",
            "base_path": self.base_name,
            "base_instant": BASE_INSTANT if self.base_name else None,
            "log_paths": tuple(self.logs),
            "log_size_bytes": sum((self.folder / log).stat().st_size for log in self.logs),
        }
        return SliceTask(**{**settings, **changes})

    def spec(self, **changes: Any) -> ReadSpec:
        settings: dict[str, Any] = {
            "storage": StorageSpec(str(self.folder)),
            "schema": avro(self.fields),
            "columns": tuple(name for name, _ in self.fields),
            "merge": EVENT,
            "keys": KeyRule(fields=("id",)),
            "populate_meta_fields": self.meta,
        }
        return ReadSpec(**{**settings, **changes})

    def read(self, **changes: Any) -> list[Row]:
        """Return the merged rows, after checking that masked base and decided rows agree."""
        task, spec = self.task(), self.spec(**changes)
        rows = ordered(read_slice(task, spec))
        decided = decide_slice(task, spec)
        base = [r for batch in read_base(task, spec) for r in batch.to_pylist()]
        if spec.keep_instants is None:
            bits = np.unpackbits(decided.mask.view(np.uint8), bitorder="little")
            kept = [r for r, gone in zip(base, bits, strict=False) if not gone]
            both = kept + decided.rows.to_pylist()
            assert sorted(both, key=str) == rows
        return rows


def ordered(batches: Any) -> list[Row]:
    return sorted((r for batch in batches for r in batch.to_pylist()), key=str)


def row(key: str, ts: int | None = 1, v: str | None = None, w: str | None = None) -> Row:
    return {"id": key, "ts": ts, "v": v, "w": w}
