"""How the rows of a write get their record keys and partition paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.config import (
    KeyGeneratorType,
    NullPartitionPolicy,
    PartitionFieldType,
    TableConfig,
    WriteOptions,
)
from tidelake.config.keys import read_keys as keys
from tidelake.config.keys import write_keys
from tidelake.errors import ConfigError, UnsupportedTableError

#: Where tidelake records the types of partition fields, which table version 6 does not keep.
PARTITION_TYPES_PROPERTY = "tidelake.partition.fields"

#: Milliseconds of Java's units of time.
UNIT_MS: Mapping[str, float] = {
    "NANOSECONDS": 1e-6,
    "MICROSECONDS": 1e-3,
    "MILLISECONDS": 1,
    "SECONDS": 1000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}
_UNIT_OF_TYPE = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
}
_MADE_UP = frozenset({KeyGeneratorType.AUTO_RECORD})
_ALWAYS_NAMED = frozenset({KeyGeneratorType.COMPLEX, KeyGeneratorType.GLOBAL_DELETE})
_ONE_FIELD = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.TIMESTAMP})
_UNPARTITIONED = frozenset({KeyGeneratorType.NON_PARTITION, KeyGeneratorType.GLOBAL_DELETE})
_KNOWN = (
    _MADE_UP
    | _ALWAYS_NAMED
    | _ONE_FIELD
    | _UNPARTITIONED
    | {KeyGeneratorType.CUSTOM, KeyGeneratorType.COMPLEX}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One field of the partition path."""

    name: str
    kind: PartitionFieldType


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """The table's key generator.

    A `named` key is spelled `field:value,...`. Without `fields` keys are made up by the tasks that
    write the rows. `timebased` are the settings of partition fields that are formatted times.
    """

    fields: tuple[str, ...]
    named: bool
    partition: tuple[PartitionField, ...]
    hive_style: bool
    url_encode: bool
    timebased: Mapping[str, str]
    consistent_timestamps: bool = False
    null_partition: NullPartitionPolicy = NullPartitionPolicy.FAIL

    @property
    def is_made_up(self) -> bool:
        """Return whether rows bring no key."""
        return not self.fields


def key_spec(config: TableConfig, options: WriteOptions, *, named_single: bool | None) -> KeySpec:
    """Return the rule by which rows of this table get keys and paths.

    `named_single` says how keys of a single field are spelled in the table, where that is known
    from its rows. Raises `UnsupportedTableError` for a key generator that tidelake does not have.
    """
    kind = config.key_generator
    if kind not in _KNOWN:
        raise UnsupportedTableError(
            f"tidelake does not write tables with the key generator {kind}",
            next_step="write it with the engine that created it",
        )
    fields = () if kind in _MADE_UP else config.record_key_fields
    if kind in _ONE_FIELD and len(fields) > 1:
        raise ConfigError(
            f"the key generator {kind} takes one field, but the table has {', '.join(fields)}",
            next_step="use the key generator COMPLEX for several key fields",
        )
    return KeySpec(
        fields=fields,
        named=_is_named(config, options, named_single),
        partition=() if kind in _UNPARTITIONED else _partition_fields(config, options),
        hive_style=config.hive_style_partitioning,
        url_encode=config.url_encode_partitioning,
        timebased={**_timebased(options), **config.timebased},
        consistent_timestamps=options.consistent_timestamps,
        null_partition=options.null_partition,
    )


def _timebased(options: WriteOptions) -> dict[str, str]:
    # Hudi 0.x does not record all of them in the table.
    return {
        name[len(prefix) :]: value
        for prefix in reversed(keys.TIMEBASED_PREFIXES)
        for name, value in options.settings.items()
        if name.startswith(prefix)
    }


def input_unit(timebased: Mapping[str, str]) -> str | None:
    """Return the unit of numbers that become formatted times, or None where they are text.

    Raises `ConfigError` when nothing says it.
    """
    given = timebased.get("timestamp.type", timebased.get("type", "")).upper()
    if given in _UNIT_OF_TYPE:
        return _UNIT_OF_TYPE[given]
    if given in ("DATE_STRING", "MIXED"):
        return None
    unit = timebased.get("timestamp.scalar.time.unit", "SECONDS").upper()
    if given != "SCALAR" or unit not in UNIT_MS:
        shown = f"a unit of {unit}" if given == "SCALAR" else (given or "nothing")
        raise ConfigError(
            "a partition field is a formatted time, and hoodie.keygen.timebased.timestamp.type "
            f"says {shown}",
            next_step=f"set it to {', '.join(_UNIT_OF_TYPE)} or DATE_STRING, or to SCALAR with "
            f"hoodie.keygen.timebased.timestamp.scalar.time.unit as one of {', '.join(UNIT_MS)}",
        )
    return unit


def may_be_named(config: TableConfig) -> bool:
    """Return whether only the table's rows tell how keys of its single field are spelled."""
    return (
        config.key_generator is KeyGeneratorType.COMPLEX
        and len(config.record_key_fields) == 1
        and not config.format.spells_keys_alike
    )


def _is_named(config: TableConfig, options: WriteOptions, named_single: bool | None) -> bool:
    if len(config.record_key_fields) != 1:
        return True
    if config.key_generator not in _ALWAYS_NAMED:
        return False
    if not may_be_named(config):
        return True
    return not options.complex_key_new_encoding if named_single is None else named_single


def _partition_fields(config: TableConfig, options: WriteOptions) -> tuple[PartitionField, ...]:
    recorded = config.properties.get(PARTITION_TYPES_PROPERTY, "").split(",")
    items = write_keys.PARTITION_FIELDS.items(options.settings) or recorded
    given = {
        name.strip(): kind.strip().upper()
        for name, colon, kind in (item.partition(":") for item in items)
        if colon
    }
    found = []
    for name, kind in zip(config.partition_fields, config.partition_field_types, strict=True):
        known = kind
        if kind is PartitionFieldType.UNKNOWN:
            if given.get(name) not in ("SIMPLE", "TIMESTAMP"):
                raise ConfigError(
                    f"the table does not record whether partition field {name} is a plain value "
                    "or a formatted time",
                    next_step=f"set {write_keys.PARTITION_FIELDS.name} to the fields with their "
                    f"types, such as {name}:SIMPLE",
                )
            known = PartitionFieldType(given[name])
        found.append(PartitionField(name=name, kind=known))
    return tuple(found)
