"""Definitions of the metadata table's indexes: `.hoodie/.index_defs/index.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.formats import jackson
from tidelake.formats._wire_record import CORE, from_wire, to_wire


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """One index; `version` is None in table version 8, which means V1."""

    index_name: str
    index_type: str
    index_function: str = ""
    source_fields: tuple[str, ...] = ()
    index_options: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinitions:
    """All definitions, by the name of the index's partition in the metadata table."""

    index_definitions: Mapping[str, IndexDefinition] = field(metadata=CORE)


def decode(data: bytes) -> Mapping[str, IndexDefinition]:
    """Return the definitions by the name of the index's partition in the metadata table."""
    return from_wire(IndexDefinitions, jackson.decode(data)).index_definitions


def encode(definitions: Mapping[str, IndexDefinition]) -> bytes:
    """Return the file as Hudi lays it out."""
    raw = to_wire(IndexDefinitions(index_definitions=definitions))
    for definition in raw["indexDefinitions"].values():
        if definition["version"] is None:
            del definition["version"]
    return jackson.encode(raw)
