"""Avro object container files as Hudi's timeline uses them: a writer schema and one record."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from functools import lru_cache
from typing import Any, NamedTuple

import fastavro

from tidelake.errors import Malformed
from tidelake.formats._inflation import most_inflated

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
#: Bytes appended before decoding: whoever reads into them ran over the end of the data.
_MARGIN = b"\0" * 16


def decode(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the record name of the writer schema, without namespace, and the file's first record.

    Every length in the file is checked before it is believed, and the whole file must be sound.
    """
    if not data.startswith(MAGIC):
        raise Malformed("this is no Avro file: the first four bytes are not Obj1")
    header, at = _header(data, len(MAGIC))
    schema_text = header.get("avro.schema")
    if schema_text is None:
        raise Malformed("the Avro file names no schema")
    codec = header.get("avro.codec", b"null")
    sync = data[at : at + _SYNC_BYTES]
    at += _SYNC_BYTES
    first: dict[str, Any] | None = None
    schema = _parsed(schema_text)
    while at < len(data):
        count, at = _read_long(data, at)
        length, at = _read_long(data, at)
        if count < 1 or length < 0 or at + length + _SYNC_BYTES > len(data):
            raise Malformed(
                f"an Avro block claims {count} records in {length} bytes, {len(data) - at} are left"
            )
        if data[at + length : at + length + _SYNC_BYTES] != sync:
            raise Malformed("an Avro block does not end with the file's sync marker")
        if first is None:
            body = _inflated(data[at : at + length], codec)
            first, used = _decode_record(body, schema)
            if count == 1 and used != len(body):
                raise Malformed(f"an Avro record ends after {used} of {len(body)} bytes")
        at += length + _SYNC_BYTES
    if first is None:
        raise Malformed("the Avro file holds no record")
    return str(schema["name"]).rpartition(".")[2], first


def decode_bare(data: bytes, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the single record that `data` holds without any container."""
    record, used = _decode_record(data, parsed_schema(schema))
    if used != len(data):
        raise Malformed(f"an Avro record ends after {used} of {len(data)} bytes")
    return record


def encode_bare(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """Return `record` without any container; the inverse of `decode_bare`."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, parsed_schema(schema), record)
    return body.getvalue()


def decode_value(data: bytes, schema_text: str) -> dict[str, Any]:
    """Return the single record that `data` holds under the schema that its writer left elsewhere.

    Where a union has several records, the value is a pair of the record's full name and the record.
    """
    record, used = _decode_record(data, _parsed(schema_text.encode()), name_records=True)
    if used != len(data):
        raise Malformed(f"an Avro record ends after {used} of {len(data)} bytes")
    return record


def encode_value(record: dict[str, Any], schema_text: str) -> bytes:
    """Return a record without any container; the inverse of `decode_value`."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _parsed(schema_text.encode()), record)
    return body.getvalue()


def decode_many(data: bytes | memoryview, schema_text: str) -> list[dict[str, Any]]:
    """Return the records of an Avro log block's body, where a length stands before each record."""
    schema = _parsed(schema_text.encode())
    records = []
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if length < 0 or at + length > len(data):
            raise Malformed(f"an Avro record claims {length} bytes, {len(data) - at} are left")
        record, used = _decode_record(bytes(data[at : at + length]), schema)
        if used != length:
            raise Malformed(f"an Avro record ends after {used} of {length} bytes")
        records.append(record)
        at += length
    return records


def encode(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """Return an uncompressed container with `record`, laid out as Avro for Java does.

    The sync marker is a digest of the content, so equal records give equal files.
    """
    text = json.dumps(schema, separators=(",", ":")).encode()
    payload = encode_bare(schema, record)
    sync = hashlib.md5(text + payload, usedforsecurity=False).digest()
    key = b"avro.schema"
    return b"".join(
        (
            MAGIC,
            _long(1),
            _long(len(key)),
            key,
            _long(len(text)),
            text,
            _long(0),
            sync,
            _long(1),
            _long(len(payload)),
            payload,
            sync,
        )
    )


def parsed_schema(schema: dict[str, Any]) -> Any:
    """Return `schema` in the form that decodes quickly."""
    return _parsed(json.dumps(schema, separators=(",", ":")).encode())


@lru_cache(maxsize=64)
def _parsed(text: bytes) -> Any:
    try:
        schema = fastavro.parse_schema(json.loads(text))
    except Exception as cause:
        raise Malformed(f"the writer schema does not parse: {cause}") from cause
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise Malformed("the writer schema is not a record")
    _refuse_endless(schema)
    return schema


#: Values without bytes that one record may hold; Hudi's own schemas have none.
_MOST_EMPTY_VALUES = 1000


def _refuse_endless(schema: object) -> None:
    """Refuse a schema under which a few bytes decode to no end of values.

    Hudi's schemas have nothing of the kind: records inside themselves, arrays whose items take no
    bytes, for which a wrong count never runs out of data, and records that hold one another so
    often that there are more empty values than anybody can hold.
    """
    if _Sizes().of(schema).empty_values > _MOST_EMPTY_VALUES:
        raise Malformed("the writer schema has more empty values than any record needs")


class _Size(NamedTuple):
    """What a value takes: its fewest bytes, and how many values without bytes are in it."""

    least_bytes: int
    empty_values: int


class _Sizes:
    """Sizes of the types of one schema, each worked out once."""

    def __init__(self) -> None:
        self._named: dict[str, _Size | None] = {}

    def of(self, schema: object) -> _Size:
        if isinstance(schema, str):
            return self._of_name(schema)
        if isinstance(schema, list):
            branches = [self.of(branch) for branch in schema]
            return _Size(1, max((size.empty_values for size in branches), default=0))
        if not isinstance(schema, dict):
            return _Size(1, 0)
        kind = schema.get("type")
        if kind == "record":
            return self._of_record(schema)
        if kind == "fixed":
            size = schema.get("size")
            found = _Size(size if isinstance(size, int) else 0, 0 if size else 1)
            self._named[str(schema.get("name"))] = found
            return found
        if kind == "enum":
            self._named[str(schema.get("name"))] = _Size(1, 0)
            return _Size(1, 0)
        if kind == "array":
            if not self.of(schema.get("items")).least_bytes:
                raise Malformed("the writer schema has an array of nothing")
            return _Size(1, 0)
        if kind == "map":
            self.of(schema.get("values"))
            return _Size(1, 0)
        return self.of(kind)

    def _of_name(self, name: str) -> _Size:
        if name == "null":
            return _Size(0, 1)
        if name not in self._named:
            return _Size(1, 0)
        found = self._named[name]
        if found is None:
            raise Malformed(f"the writer schema puts {name} inside itself")
        return found

    def _of_record(self, schema: dict[str, Any]) -> _Size:
        name = str(schema.get("name"))
        self._named[name] = None
        least_bytes = empty_values = 0
        for field in schema.get("fields") or ():
            size = self.of(field.get("type"))
            least_bytes += size.least_bytes
            empty_values += size.empty_values
        found = _Size(least_bytes, empty_values + (0 if least_bytes else 1))
        self._named[name] = found
        return found


def _decode_record(
    data: bytes, schema: Any, *, name_records: bool = False
) -> tuple[dict[str, Any], int]:
    source = io.BytesIO(data + _MARGIN)
    try:
        record = fastavro.schemaless_reader(
            source,
            schema,
            None,
            return_record_name=name_records,
            return_record_name_override=name_records,
        )
    except Exception as cause:
        # A decoder of damaged bytes may fail with nearly anything, and all of it means the same.
        raise Malformed(f"an Avro record does not decode: {cause!r}") from cause
    if not isinstance(record, dict):
        raise Malformed("an Avro record decodes to something else")
    return record, source.tell()


def _header(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    entries: dict[str, bytes] = {}
    while True:
        count, at = _read_long(data, at)
        if count == 0:
            break
        if count < 0:
            _, at = _read_long(data, at)
        for _ in range(abs(count)):
            key, at = _read_bytes(data, at)
            entries[key.decode("utf-8", "replace")], at = _read_bytes(data, at)
    if at + _SYNC_BYTES > len(data):
        raise Malformed("the Avro file ends inside its header")
    return entries, at


def _inflated(body: bytes, codec: bytes) -> bytes:
    if codec == b"null":
        return body
    if codec != b"deflate":
        raise Malformed(f"the Avro codec {codec!r} is not one that Hudi writes")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        most = most_inflated(len(body))
        result = inflater.decompress(body, most)
    except zlib.error as cause:
        raise Malformed(f"an Avro block does not inflate: {cause}") from cause
    if not inflater.eof:
        if len(result) >= most:
            raise Malformed(f"an Avro block of {len(body)} bytes inflates to more than {most}")
        raise Malformed("an Avro block does not inflate to its end")
    return result


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise Malformed("the Avro file ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise Malformed("an Avro number is longer than ten bytes")


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(data, at)
    if length < 0 or at + length > len(data):
        raise Malformed(f"the Avro header claims {length} bytes, {len(data) - at} are left")
    return data[at : at + length], at + length


def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
