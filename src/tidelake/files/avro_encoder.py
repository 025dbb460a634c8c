"""Rows as the Avro datums of a log block, column by column.

Every value becomes a piece of bytes, and Arrow joins the pieces of a row; a list or map needs no
join of its own, because the bytes of its elements lie side by side already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import SchemaError
from tidelake.formats.table_schema import avro_fields, full_name, parse_avro
from tidelake.records.schema import conform

#: Rows encoded at once: few enough that the offsets of their pieces fit 32 bits.
_BATCH_BYTES = 64 << 20

_Bytes = npt.NDArray[np.uint8]
_Lengths = npt.NDArray[np.int64]
_Live = npt.NDArray[np.bool_]
#: The pieces of each row, in order; of rows that are not live they are empty.
_Pieces = list[pa.Array]
#: Encodes an array of rows that are live, or null where they are not.
_Encode = Callable[[pa.Array, _Live], _Pieces]


def encode_records(table: pa.Table, schema: str) -> Iterator[tuple[int, bytes]]:
    """Return the rows as length-prefixed Avro datums: counts of records and their bytes.

    `table` holds the fields of `schema` by name; one that it lacks is null. Raises `SchemaError`
    for a null where the schema allows none. Large tables come back in several parts.
    """
    for count, pieces in _encoded(table, schema):
        lengths = sum((_lengths(piece) for piece in pieces), np.zeros(count, np.int64))
        prefix = _fixed(lengths.astype(">i4").view(np.uint8).reshape(-1, 4), np.ones(count, bool))
        yield count, _joined([prefix, *pieces]).buffers()[2].to_pybytes()


def encode_items(table: pa.Table, schema: str) -> Iterator[tuple[int, bytes]]:
    """Return the rows as Avro datums side by side, as the blocks of an Avro array hold them."""
    for count, pieces in _encoded(table, schema):
        yield count, _joined(pieces).buffers()[2].to_pybytes()


def _encoded(table: pa.Table, schema: str) -> Iterator[tuple[int, _Pieces]]:
    wanted, encode = _encoder(schema)
    rows = conform(table, wanted)
    per_row = max(1, rows.nbytes // max(1, rows.num_rows))
    step = max(1, _BATCH_BYTES // per_row)
    for start in range(0, rows.num_rows, step):
        batch = rows.slice(start, step).combine_chunks().to_batches()[0]
        yield batch.num_rows, encode(batch.to_struct_array(), np.ones(batch.num_rows, np.bool_))


@lru_cache(maxsize=64)
def _encoder(schema: str) -> tuple[pa.Schema, _Encode]:
    wanted = pa.schema([pa.field(f.name, f.type) for f in avro_fields(schema)])
    return wanted, _Compiler().record(parse_avro(schema), "", "")


class _Compiler:
    """Makes the encoder of a schema; `path` names a column in messages."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, Any], str]] = {}

    def record(self, node: Mapping[str, Any], namespace: str, path: str) -> _Encode:
        inner = self._bind(node, namespace)
        fields = [
            self.type(f["type"], inner, f"{path}.{f['name']}".lstrip(".")) for f in node["fields"]
        ]

        def encode(array: pa.StructArray, live: _Live) -> _Pieces:
            # flatten() makes the fields of a null record null, as `live` has them.
            columns = array.flatten()
            return [
                piece
                for field, column in zip(fields, columns, strict=True)
                for piece in field(column, live)
            ]

        return encode

    def type(self, node: Any, namespace: str, path: str) -> _Encode:
        if isinstance(node, list):
            return self._union(node, namespace, path)
        return _required(self._value(node, namespace, path), path)

    def _value(self, node: Any, namespace: str, path: str) -> _Encode:
        if isinstance(node, str):
            for name in (node, f"{namespace}.{node}"):
                if name in self._known:
                    return self._value(*self._known[name], path)
            return _PRIMITIVES[node]
        kind, logical = node["type"], node.get("logicalType")
        if kind in ("record", "error"):
            return self.record(node, namespace, path)
        if kind == "array":
            return _list(self.type(node["items"], namespace, f"{path}.element"))
        if kind == "map":
            return _map(self.type(node["values"], namespace, f"{path}.value"))
        if kind == "enum":
            self._bind(node, namespace)
            return _enum(node["symbols"], path)
        if kind == "fixed":
            self._bind(node, namespace)
            return _decimal_fixed(node["size"]) if logical == "decimal" else _raw
        if logical == "decimal":
            return _decimal_bytes
        if isinstance(logical, str) and logical.endswith("timestamp-millis"):
            return _millis
        return self._value(kind, namespace, path)

    def _union(self, branches: list[Any], namespace: str, path: str) -> _Encode:
        some = [at for at, branch in enumerate(branches) if branch != "null"]
        if not some:
            return _only_null
        # Of several numbers the widest holds them all, and it is named last or is the only long.
        wide = [at for at in some if branches[at] in ("long", "double")]
        chosen = some[0] if len(some) == 1 else wide[0]
        null_at = branches.index("null") if "null" in branches else None
        value = self._value(branches[chosen], namespace, path)
        if null_at is None:
            value = _required(value, path)

        def encode(array: pa.Array, live: _Live) -> _Pieces:
            valid = live if not array.null_count else live & _mask(array.is_valid())
            branch = np.where(valid, np.uint8(chosen * 2), np.uint8((null_at or 0) * 2))
            return [_fixed(branch.reshape(-1, 1), live), *value(array, valid)]

        return encode

    def _bind(self, node: Mapping[str, Any], namespace: str) -> str:
        full, inner = full_name(node, namespace)
        self._known[full] = (node, namespace)
        return inner


def _required(encode: _Encode, path: str) -> _Encode:
    def checked(array: pa.Array, live: _Live) -> _Pieces:
        if array.null_count and bool((live & _mask(array.is_null())).any()):
            raise SchemaError(
                f"column {path} holds a null, but the table's schema says that it has none",
                next_step="fill the column, or leave the rows out",
            )
        return encode(array, live)

    return checked


def _only_null(_: pa.Array, live: _Live) -> _Pieces:
    return [_fixed(np.zeros((len(live), 1), np.uint8), live)]


def _nothing(_: pa.Array, live: _Live) -> _Pieces:
    del live
    return []


def _boolean(array: pa.Array, live: _Live) -> _Pieces:
    return [_fixed(_mask(array.fill_null(False)).view(np.uint8).reshape(-1, 1), live)]


def _integer(array: pa.Array, live: _Live) -> _Pieces:
    return [_varint(_numbers(array), live)]


def _millis(array: pa.Array, live: _Live) -> _Pieces:
    return [_varint(np.floor_divide(_numbers(array), 1000), live)]


def _float(array: pa.Array, live: _Live) -> _Pieces:
    width = array.type.bit_width // 8
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(f"<f{width}")
    return [_fixed(values.view(np.uint8).reshape(-1, width), live)]


def _string(array: pa.Array, live: _Live) -> _Pieces:
    data = array.fill_null("" if pa.types.is_string(array.type) else b"").cast(pa.binary())
    return [_varint(_lengths(data), live), data]


def _raw(array: pa.Array, live: _Live) -> _Pieces:
    del live
    return [array.fill_null(b"").cast(pa.binary())]


def _enum(symbols: list[str], path: str) -> _Encode:
    known = pa.array(symbols, pa.string())

    def encode(array: pa.Array, live: _Live) -> _Pieces:
        found = pc.index_in(array, value_set=known)
        if bool((live & _mask(found.is_null())).any()):
            raise SchemaError(
                f"column {path} holds a value that is none of {', '.join(symbols)}",
                next_step="write one of these values",
            )
        return [_varint(_numbers(found), live)]

    return encode


def _decimal_fixed(size: int) -> _Encode:
    return lambda array, live: [_fixed(_big_endian(array)[:, 16 - size :], live)]


def _decimal_bytes(array: pa.Array, live: _Live) -> _Pieces:
    whole = _big_endian(array)
    sign = np.where(whole[:, :1] >> 7, np.uint8(0xFF), np.uint8(0))
    # A leading byte may go when it only repeats the sign, which the next byte still shows.
    spare = (whole[:, :-1] == sign) & ((whole[:, 1:] ^ sign) < 0x80)
    size = 16 - np.logical_and.accumulate(spare, axis=1).sum(axis=1, dtype=np.int64)
    shown = (np.arange(16) >= 16 - size[:, None]) & live[:, None]
    return [_varint(size, live), _binary(np.where(live, size, 0), whole[shown])]


def _list(item: _Encode) -> _Encode:
    def encode(array: pa.ListArray, live: _Live) -> _Pieces:
        lengths = _numbers(pc.list_value_length(array))
        values = array.flatten()
        return _blocks(lengths, item(values, np.ones(len(values), np.bool_)), live)

    return encode


def _map(value: _Encode) -> _Encode:
    def encode(array: pa.MapArray, live: _Live) -> _Pieces:
        entries = array.cast(
            pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
        )
        lengths = _numbers(pc.list_value_length(entries))
        pairs = entries.flatten()
        all_live = np.ones(len(pairs), np.bool_)
        pieces = [*_string(pairs.field(0), all_live), *value(pairs.field(1), all_live)]
        return _blocks(lengths, pieces, live)

    return encode


def _blocks(lengths: _Lengths, pieces: _Pieces, live: _Live) -> _Pieces:
    """Return lists of `lengths` elements as Avro's blocks: a count, the elements, and a zero."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    some = live & (lengths > 0)
    count = _varint(lengths, some)
    end = _fixed(np.zeros((len(live), 1), np.uint8), live)
    if not pieces or not ends[-1]:
        return [count, end]
    items = _joined(pieces)
    offsets = np.frombuffer(items.buffers()[1], np.int32, len(items) + 1)[ends]
    data = pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets), items.buffers()[2]]
    )
    return [count, data, end]


_PRIMITIVES: Mapping[str, _Encode] = {
    "null": _nothing,
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "bytes": _string,
    "string": _string,
}


def _joined(pieces: _Pieces) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, b"") if len(pieces) > 1 else pieces[0]


def _mask(flags: pa.Array) -> _Live:
    found: _Live = flags.to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def _numbers(array: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    found: npt.NDArray[np.int64] = array.fill_null(0).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def _lengths(array: pa.Array) -> _Lengths:
    return _numbers(pc.binary_length(array))


def _big_endian(array: pa.Array) -> _Bytes:
    # What lies under a null does not matter: nothing is written of it.
    data = np.frombuffer(array.buffers()[1], np.uint8, 16 * (array.offset + len(array)))
    return data.reshape(-1, 16)[array.offset :, ::-1]


def _varint(values: npt.NDArray[np.int64], live: _Live) -> pa.Array:
    """Return zigzag numbers, seven bits a byte, the low ones first."""
    rest = ((values << 1) ^ (values >> 63)).view(np.uint64)
    most = int(rest.max(initial=0)).bit_length()
    width = max(1, -(-most // 7))
    data = np.empty((len(rest), width), np.uint8)
    lengths = np.ones(len(rest), np.int64)
    for at in range(width):
        low = (rest & np.uint64(0x7F)).astype(np.uint8)
        rest = rest >> np.uint64(7)
        more = rest > 0
        data[:, at] = low | (more.view(np.uint8) << 7)
        lengths += more
    lengths = np.where(live, lengths, 0)
    if width == 1:
        return _fixed(data, live)
    return _binary(lengths, data[np.arange(width) < lengths[:, None]])


def _fixed(data: _Bytes, live: _Live) -> pa.Array:
    """Return one row of `data` for each live row."""
    width = data.shape[1]
    if live.all():
        return _binary(np.full(len(live), width, np.int64), np.ascontiguousarray(data).ravel())
    return _binary(np.where(live, width, 0), data[live].ravel())


def _binary(lengths: _Lengths, data: _Bytes) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
