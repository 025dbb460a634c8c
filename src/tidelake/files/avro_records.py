"""The records of an Avro log block as an Arrow table, without a step per record."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from tidelake.errors import Malformed
from tidelake.formats.table_schema import avro_fields, full_name, parse_avro
from tidelake.records._polars import polars as pl
from tidelake.records.schema import conform

_LENGTH = "tidelake_record_length"
_SYNC = bytes(16)
#: Replacing references by what they name could otherwise grow a small schema without end.
_MOST_TYPES = 10_000
#: Logical types that polars decodes as Arrow knows them; of others the plain number is read.
_KEPT = frozenset(
    {
        "date",
        "decimal",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    }
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the records of one writer schema are decoded: as `wire`, then cast to `schema`."""

    header: bytes
    schema: pa.Schema
    wire: pa.Schema
    by_polars: bool


class _NotForPolarsError(Exception):
    """The schema holds a type that polars cannot decode."""


def decode_records(
    body: bytes | memoryview, count: int, schema: str, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the `count` length-prefixed Avro datums of `body` as a table.

    `schema` is the writer's schema; `columns` narrows the result, in the writer's order. Raises
    `Malformed` when the bytes are not exactly `count` records of the schema.
    """
    plan = _plan(schema)
    wanted = (
        plan.schema
        if columns is None
        else pa.schema([f for f in plan.schema if f.name in set(columns)])
    )
    if count == 0:
        if len(body):
            raise Malformed(f"{len(body)} bytes follow the last record of the block")
        return wanted.empty_table()
    wire = pa.schema([f for f in plan.wire if f.name in set(wanted.names)])
    container = b"".join((plan.header, _zigzag(count), _zigzag(len(body)), body, _SYNC))
    decode = _by_polars if plan.by_polars else _by_fastavro
    decoded = decode(container, wire)
    _check_lengths(decoded.column(_LENGTH), count, len(body))
    return conform(decoded, wanted)


@lru_cache(maxsize=256)
def _plan(text: str) -> _Plan:
    # Blocks of a table share a few schemas, and parsing one costs more than a small block.
    schema = pa.schema([pa.field(f.name, f.type) for f in avro_fields(text)])
    node = parse_avro(text)
    length = {"name": _LENGTH, "type": {"type": "fixed", "name": f"{_LENGTH}_bytes", "size": 4}}
    try:
        wire, by_polars = _Wire(for_polars=True).record(node, ""), True
    except _NotForPolarsError:
        wire, by_polars = _Wire(for_polars=False).record(node, ""), False
    fields = pa.schema([pa.field(f.name, f.type) for f in avro_fields(json.dumps(wire))])
    return _Plan(_header({**wire, "fields": [length, *wire["fields"]]}), schema, fields, by_polars)


class _Wire:
    """Rewrites a schema to one of the same bytes that is easier to decode.

    References are replaced by what they name, a map by the list of pairs it is on the wire, and
    fields that take no bytes are left out.
    """

    def __init__(self, *, for_polars: bool) -> None:
        self._for_polars = for_polars
        self.known: dict[str, tuple[Mapping[str, Any], str]] = {}
        self.made = 0

    def record(self, node: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        inner = self._bind(node, namespace)
        fields = []
        for each in node["fields"]:
            made = self.type(each["type"], inner)
            if made != "null":
                fields.append({"name": each["name"], "type": made})
        if not fields:
            raise Malformed("a record without fields is no column type")
        return {"type": "record", "name": self._fresh(), "fields": fields}

    def type(self, node: Any, namespace: str) -> Any:
        if isinstance(node, list):
            return self._union(node, namespace)
        if isinstance(node, str):
            for name in (node, f"{namespace}.{node}"):
                if name in self.known:
                    return self.type(*self.known[name])
            return node
        kind = node["type"]
        if kind in ("record", "error"):
            return self.record(node, namespace)
        if kind == "array":
            return {"type": "array", "items": self._item(node["items"], namespace)}
        if kind == "map":
            pair = [
                {"name": "key", "type": "string"},
                {"name": "value", "type": self._item(node["values"], namespace)},
            ]
            entry = {"type": "record", "name": self._fresh(), "fields": pair}
            return {"type": "array", "items": entry}
        if kind == "enum":
            if self._for_polars:
                # It panics over one that may be null.
                raise _NotForPolarsError
            self._bind(node, namespace)
            return {"type": "enum", "name": self._fresh(), "symbols": node["symbols"]}
        if kind == "fixed":
            self._bind(node, namespace)
            return {**self._kept(node), "name": self._fresh(), "size": node["size"]}
        if isinstance(kind, str):
            return self._kept(node)
        return self.type(kind, namespace)

    def _item(self, node: Any, namespace: str) -> Any:
        made = self.type(node, namespace)
        if made == "null":
            # Elements that take no bytes could come in any number.
            raise Malformed("a list or map of nothing is no column type")
        return made

    def _union(self, node: list[Any], namespace: str) -> Any:
        made = [self.type(branch, namespace) for branch in node]
        if self._for_polars and (len(made) != 2 or made.count("null") != 1):
            raise _NotForPolarsError
        return made

    def _kept(self, node: Mapping[str, Any]) -> dict[str, Any]:
        keys = ["type"]
        if node.get("logicalType") in _KEPT:
            keys += ["logicalType", "precision", "scale"]
        return {key: node[key] for key in keys if key in node}

    def _bind(self, node: Mapping[str, Any], namespace: str) -> str:
        full, inner = full_name(node, namespace)
        self.known[full] = (node, namespace)
        return inner

    def _fresh(self) -> str:
        self.made += 1
        if self.made > _MOST_TYPES:
            raise Malformed("the Avro schema grows without end")
        return f"t{self.made}"


def _by_polars(container: bytes, wire: pa.Schema) -> pa.Table:
    try:
        frame = pl.read_avro(io.BytesIO(container), columns=[_LENGTH, *wire.names])
    except BaseException as cause:
        # A panic of polars is no Exception; what must not be swallowed is raised again.
        if isinstance(cause, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise Malformed(f"the records do not follow their schema: {cause}") from cause
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _by_fastavro(container: bytes, wire: pa.Schema) -> pa.Table:
    whole = pa.schema([pa.field(_LENGTH, pa.binary()), *wire])
    try:
        rows: list[Any] = list(fastavro.reader(io.BytesIO(container)))
        columns = [pa.array([row[f.name] for row in rows], f.type) for f in whole]
    except MemoryError:
        raise
    except Exception as cause:
        raise Malformed(f"the records do not follow their schema: {cause}") from cause
    return pa.Table.from_arrays(columns, schema=whole)


def _check_lengths(prefixes: pa.ChunkedArray, count: int, size: int) -> None:
    # A record that decoded to another length than its prefix says would shift every later prefix,
    # so right lengths that add up to the body mean that each record ended where it should.
    if len(prefixes) != count:
        raise Malformed(f"the block has {len(prefixes)} records instead of {count}")
    fixed = prefixes.cast(pa.binary()).cast(pa.binary(4)).combine_chunks()
    raw = np.frombuffer(fixed.buffers()[1], ">i4")
    lengths = raw[fixed.offset : fixed.offset + count].astype(np.int64)
    if (lengths < 0).any() or int(lengths.sum()) + 4 * count != size:
        raise Malformed(f"the {count} records do not add up to the {size} bytes of the block")


def _header(schema: Mapping[str, Any]) -> bytes:
    text = json.dumps(schema).encode()
    entries = ((b"avro.schema", text), (b"avro.codec", b"null"))
    pairs = b"".join(_bytes(key) + _bytes(value) for key, value in entries)
    return b"Obj\x01" + _zigzag(len(entries)) + pairs + _zigzag(0) + _SYNC


def _bytes(value: bytes) -> bytes:
    return _zigzag(len(value)) + value


def _zigzag(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
