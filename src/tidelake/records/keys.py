"""Record keys and partition paths: how Hudi spells them, and what can be read back from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import KeyGeneratorType, PartitionFieldType, TableConfig
from tidelake.errors import SchemaError
from tidelake.formats.java_hash import java_string_hash
from tidelake.formats.partition_path import parse_path
from tidelake.records.schema import field_column
from tidelake.records.text import key_text

_NULL_PART = "__null__"
_EMPTY_PART = "__empty__"
_COMPOSITE = frozenset({KeyGeneratorType.COMPLEX, KeyGeneratorType.GLOBAL_DELETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """How a row's record key follows from its columns, for tables without meta columns.

    With `named_single` the key of a single field may be spelled `field:value` or `value`: releases
    of Hudi differ, so both spellings are taken for the same key.
    """

    fields: tuple[str, ...]
    named_single: bool = False

    @classmethod
    def from_config(cls, config: TableConfig) -> KeyRule:
        """Take the rule from the table's key generator."""
        fields = config.record_key_fields
        return cls(
            fields=fields, named_single=len(fields) == 1 and config.key_generator in _COMPOSITE
        )

    def keys(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the record key of each row."""
        if not self.fields:
            raise SchemaError(
                "the table has neither meta columns nor record key fields, so rows have no key",
                next_step="set hoodie.table.recordkey.fields in hoodie.properties",
            )
        if len(self.fields) == 1:
            return key_text(_column(rows, self.fields[0]))
        parts = []
        for name in self.fields:
            text = key_text(_column(rows, name))
            text = pc.if_else(pc.equal(text, ""), _EMPTY_PART, text)
            parts.append(pc.binary_join_element_wise(name, pc.fill_null(text, _NULL_PART), ":"))
        return pc.binary_join_element_wise(*parts, ",")

    def normal(self, keys: Sequence[str]) -> list[str]:
        """Return `keys`, as a delete block spells them, in the spelling of `keys()`."""
        if not self.named_single:
            return list(keys)
        prefix = f"{self.fields[0]}:"
        return [key.removeprefix(prefix) for key in keys]


def _column(rows: pa.Table, path: str) -> pa.ChunkedArray:
    if path.partition(".")[0] not in rows.column_names:
        raise SchemaError(
            f"record key field {path} is not a column of the table",
            next_step="check hoodie.table.recordkey.fields in hoodie.properties",
        )
    return field_column(rows, path)


def split_record_key(key: str, fields: Sequence[str]) -> list[str | None]:
    """Return the values of `fields` in a composite key, as Hudi 1.x takes it apart.

    A key that is not composite, or names none of `fields`, is returned whole. Values may hold `,`
    and `:`, as long as no part of them reads like the name that follows.
    """
    if "," not in key or ":" not in key:
        return [key]
    found: list[str | None] = []
    at = 0
    while (colon := key.find(":", at)) >= 0:
        following = key.find(":", colon + 1)
        comma = key.rfind(",", colon + 1, following) if following >= 0 else -1
        while following >= 0 and comma < 0:
            following = key.find(":", following + 1)
            comma = key.rfind(",", colon + 1, following) if following >= 0 else -1
        end = len(key) if following < 0 else comma
        if key[at:colon] in fields:
            found.append(_part(key[colon + 1 : end]))
        if following < 0:
            break
        at = comma + 1
    return found or [key]


def split_record_key_0x(key: str, fields: Sequence[str]) -> list[str | None]:
    """Return the values of `fields` in a composite key, as Hudi 0.x takes it apart."""
    if ":" not in key:
        return [key]
    found: list[str | None] = []
    for piece in key.split(","):
        name, colon, value = piece.partition(":")
        if not colon:
            found.append(piece)
        elif name in fields:
            found.append(_part(value))
    return found


def _part(value: str) -> str | None:
    return None if value == _NULL_PART else "" if value == _EMPTY_PART else value


def bucket_of(values: Sequence[str | None], buckets: int) -> int:
    """Return the bucket that the simple bucket index gives to the hash values of a key."""
    value = 1
    for part in values:
        value = (31 * value + (0 if part is None else java_string_hash(part))) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % buckets


def partition_values(config: TableConfig, partition: str) -> dict[str, str | None]:
    """Return the column values that `partition` spells, as text; None for Hudi's default partition.

    Fields whose path part is a formatted time, or may be one, are left out: their text is not the
    column's value. So is everything when the path does not fit the partition fields.
    """
    return {
        name: value
        for (name, value), kind in zip(
            path_values(config, partition).items(), config.partition_field_types, strict=False
        )
        if kind is PartitionFieldType.SIMPLE
    }


def path_values(config: TableConfig, partition: str) -> dict[str, str | None]:
    """Return the text that `partition` holds for each partition field, formatted times included."""
    parts = _split_path(config, partition)
    found: dict[str, str | None] = {}
    for name, part in zip(config.partition_fields, parts, strict=bool(parts)):
        value = parse_path(
            part,
            [name],
            hive_style=config.hive_style_partitioning,
            url_encode=config.url_encode_partitioning,
        )
        if value is None:
            return {}
        found[name] = value[0]
    return found


def _split_path(config: TableConfig, partition: str) -> list[str]:
    """Return the part of the path that belongs to each field; nothing when they do not fit."""
    fields = config.partition_fields
    if len(fields) <= 1:
        return [partition] * len(fields)
    if config.hive_style_partitioning:
        pattern = "/".join(f"({re.escape(name)}=.*)" for name in fields)
        found = re.fullmatch(pattern, partition, re.DOTALL)
        return list(found.groups()) if found else []
    levels = partition.split("/")
    widths = [_levels_of(config.timebased, kind) for kind in config.partition_field_types]
    if sum(widths) != len(levels):
        return []
    ends = [sum(widths[: i + 1]) for i in range(len(widths))]
    return ["/".join(levels[end - width : end]) for width, end in zip(widths, ends, strict=True)]


def _levels_of(timebased: Mapping[str, str], kind: PartitionFieldType) -> int:
    if kind is PartitionFieldType.TIMESTAMP:
        return 1 + timebased.get("output.dateformat", "").count("/")
    return 1
