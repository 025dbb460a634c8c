"""The change log of a rewritten base file: what it held before, for tables that keep track."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.config import CdcMode
from tidelake.files.avro_encoder import encode_records
from tidelake.files.new_file import NewFile, in_partition
from tidelake.files.write_task import GroupTarget, WriteSpec, WriteToken
from tidelake.formats.file_name import CDC_SUFFIX, format_log
from tidelake.formats.log_block import BlockKind, HeaderKey, avro_block, encode_block
from tidelake.formats.marker_name import MarkerKind
from tidelake.formats.table_schema import full_name, parse_avro
from tidelake.records.merge import Met
from tidelake.records.schema import META_COLUMNS, RECORD_KEY
from tidelake.storage import Storage


class ChangeLog:
    """The changes that a merge makes to one base file, held until it is known what they come to."""

    def __init__(self, spec: WriteSpec, mode: CdcMode) -> None:
        self._spec = spec
        self._mode = mode
        self._parts: list[pa.Table] = []
        self._touched = self._inserted = 0

    def changed(self, before: pa.Table, keys: pa.ChunkedArray, met: Met) -> None:
        """Note what became of the base rows `before`, whose record keys are `keys`."""
        replaced = np.flatnonzero(met.replaced)
        survives = met.survives[replaced]
        place = np.cumsum(met.survives)[replaced] - 1
        self._touched += len(replaced)
        self._add(
            np.where(survives, "u", "d"),
            keys.take(pa.array(replaced)),
            before=_images(before.take(pa.array(replaced))),
            after=_images(met.rows).take(pa.array(place, mask=~survives)),
        )

    def inserted(self, rows: pa.Table) -> None:
        """Note rows that are new in the file."""
        images = _images(rows)
        self._inserted += rows.num_rows
        self._add(
            np.full(rows.num_rows, "i"),
            rows.column(RECORD_KEY),
            before=pa.nulls(rows.num_rows, images.type),
            after=images,
        )

    def _add(self, op: Any, keys: Any, *, before: pa.Array, after: pa.Array) -> None:
        instants = pa.repeat(pa.scalar(self._spec.instant_time), len(op))
        columns = {
            "op": pa.array(op, pa.string()),
            "ts_ms": instants,
            "record_key": keys,
            "before": before,
            "after": after,
        }
        self._parts.append(pa.table(columns))

    def write(
        self, storage: Storage, target: GroupTarget, token: WriteToken, *, rows_left: int
    ) -> Mapping[str, int] | None:
        """Write the log and return its path and size; None when readers find out without one.

        That is when every row of the new file is an insert, and none was there before. Deletes they
        find out only where the operation is a delete and no row is left.
        """
        if not self._touched and self._inserted == rows_left:
            return None
        schema = change_schema(self._mode, self._spec.schema)
        parts = [part for table in self._parts for part in encode_records(table, schema)]
        content = avro_block(sum(count for count, _ in parts), [data for _, data in parts])
        headers: dict[int, str] = {
            HeaderKey.INSTANT_TIME: self._spec.instant_time,
            HeaderKey.SCHEMA: schema,
        }
        name = format_log(
            file_id=target.file_id,
            instant_time=self._spec.instant_time,
            version=1,
            write_token=token.format(),
            suffix=CDC_SUFFIX,
        )
        path = in_partition(target.partition, name)
        # No slice has it, so that whatever the table version it is taken back by deleting it.
        file = NewFile(storage, self._spec, path, MarkerKind.CREATE)
        try:
            with file.writing():
                file.sink.write(encode_block(BlockKind.CDC_DATA, headers, content))
            return {path: file.finish()}
        finally:
            file.close()


def _images(rows: pa.Table) -> pa.Array:
    user = rows.select([name for name in rows.column_names if name not in META_COLUMNS])
    return user.combine_chunks().to_struct_array().combine_chunks()


@lru_cache(maxsize=64)
def change_schema(mode: CdcMode, schema: str) -> str:
    """Return the Avro schema of the records in a change log, as Hudi has it."""
    if mode is CdcMode.OP_KEY_ONLY:
        text = ["string", "null"]
        fields: list[dict[str, Any]] = [
            {"name": name, "type": text} for name in ("op", "record_key")
        ]
        return json.dumps({"type": "record", "name": "Record", "fields": fields})
    node = parse_avro(schema)
    image = {**node, "fields": [f for f in node["fields"] if f["name"] not in META_COLUMNS]}
    full, namespace = full_name(node, "")
    types: dict[str, Any] = {"op": "string", "ts_ms": "string", "before": image, "after": full}
    if mode is CdcMode.DATA_BEFORE:
        types = {"op": "string", "record_key": "string", "before": image}
    fields = [
        {"name": name, "type": ["null", kind], "doc": "", "default": None}
        for name, kind in types.items()
    ]
    made = {"type": "record", "name": "CDC", "namespace": namespace, "doc": "", "fields": fields}
    if not namespace:
        del made["namespace"]
    return json.dumps(made, separators=(",", ":"))
