"""What Hudi keeps in the footer of a Parquet base file: schema, key range and bloom filter."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import Malformed
from tidelake.formats.bloom_filter import BloomFilter, BloomKind

MAGIC = b"PAR1"
#: The length of the footer and the magic, at the very end of the file.
TAIL_BYTES = 8
_TAIL = struct.Struct("<I4s")
AVRO_SCHEMA = "parquet.avro.schema"
#: Goes with `AVRO_SCHEMA`, and is then `avro`.
WRITER_MODEL = "writer.model.name"
_MIN_KEY = "hoodie_min_record_key"
_MAX_KEY = "hoodie_max_record_key"
_BLOOM_KEYS = ("org.apache.hudi.bloomfilter", "com.uber.hoodie.bloomfilter")
_BLOOM_KIND = "hoodie_bloom_filter_type_code"
_PARQUET_ERRORS = (pa.ArrowException, OSError, ValueError, EOFError, OverflowError)


_FILE_NAME = "_hoodie_file_name"
#: Hudi's own columns come first, one of them optional.
_META_COLUMNS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFooter:
    """A base file's footer. Files of Spark's row writer carry no Avro schema; that is no fault."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    properties: Mapping[str, str]

    @property
    def row_count(self) -> int:
        """Return the number of rows in the file."""
        return int(self.metadata.num_rows)

    @property
    def file_names(self) -> frozenset[str]:
        """Return the names that the file's rows say they are in, as far as its statistics tell."""
        return file_names(self.metadata)

    @property
    def avro_schema(self) -> str | None:
        """Return the Avro schema, as JSON text, that the file was written with."""
        return self.properties.get(AVRO_SCHEMA)

    @property
    def key_range(self) -> tuple[str, str] | None:
        """Return the smallest and the greatest record key."""
        low = self.properties.get(_MIN_KEY)
        high = self.properties.get(_MAX_KEY)
        return None if low is None or high is None else (low, high)

    @property
    def bloom_filter(self) -> BloomFilter | None:
        """Return the filter over the record keys; absent in files without meta fields."""
        text = next(filter(None, map(self.properties.get, _BLOOM_KEYS)), None)
        if text is None:
            return None
        code = self.properties.get(_BLOOM_KIND, BloomKind.SIMPLE)
        try:
            kind = BloomKind(code)
        except ValueError as cause:
            raise Malformed(f"the bloom filter is of the unknown type {code!r}") from cause
        return BloomFilter.decode(text, kind)


def file_names(metadata: pq.FileMetaData) -> frozenset[str]:
    """Return the names that rows say they are in, as far as the statistics of a footer tell."""
    found: set[str] = set()
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for at in range(min(group.num_columns, _META_COLUMNS)):
            column = group.column(at)
            if column.path_in_schema == _FILE_NAME:
                known = column.statistics
                if known is not None and known.has_min_max:
                    found.update(str(value) for value in (known.min, known.max))
    return frozenset(found)


def key_entries(bloom: BloomFilter, key_range: tuple[str, str] | None) -> Mapping[str, str]:
    """Return the entries about record keys; a filter without its kind would be taken for SIMPLE."""
    entries = {_BLOOM_KEYS[0]: bloom.encode()}
    if bloom.kind is not BloomKind.SIMPLE:
        entries[_BLOOM_KIND] = bloom.kind
    if key_range is not None:
        entries[_MIN_KEY], entries[_MAX_KEY] = key_range
    return entries


def footer_bytes(tail: bytes) -> int:
    """Return how many bytes of the file's end `decode` needs, given at least the last eight."""
    if len(tail) < TAIL_BYTES:
        raise Malformed(f"a Parquet file has at least {TAIL_BYTES} bytes, this one has {len(tail)}")
    length, magic = _TAIL.unpack(tail[-TAIL_BYTES:])
    if magic != MAGIC:
        raise Malformed("the file does not end with PAR1, so it is cut short or no Parquet file")
    return int(length) + TAIL_BYTES


def decode(tail: bytes) -> ParquetFooter:
    """Take a footer apart, given the end of the file from the footer on or more."""
    needed = footer_bytes(tail)
    if needed > len(tail):
        raise Malformed(f"the Parquet footer wants {needed} bytes, but the file has {len(tail)}")
    try:
        return from_metadata(pq.read_metadata(BytesIO(tail)))
    except _PARQUET_ERRORS as cause:
        raise Malformed(f"the Parquet footer does not decode: {cause}") from cause


def from_metadata(metadata: pq.FileMetaData) -> ParquetFooter:
    """Return the facts of a footer that is already read."""
    try:
        schema = metadata.schema.to_arrow_schema()
        properties = {
            key.decode(): value.decode() for key, value in (metadata.metadata or {}).items()
        }
    except _PARQUET_ERRORS as cause:
        raise Malformed(f"the Parquet footer does not decode: {cause}") from cause
    return ParquetFooter(metadata=metadata, schema=schema, properties=properties)
