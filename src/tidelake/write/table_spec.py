"""What a new table is to be, from arguments and Hudi's options."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tidelake.config import BucketEngine, CdcMode, IndexType, KeyGeneratorType, WriteOptions
from tidelake.config.column_groups import parse_groups
from tidelake.config.keys import concurrency_keys, write_keys
from tidelake.config.keys import read_keys as keys
from tidelake.config.keys.key import Key
from tidelake.config.table_config import key_generator_of
from tidelake.errors import ConfigError, SchemaError
from tidelake.model import MergeMode, TableType
from tidelake.model.table_format import TableFormat
from tidelake.records import Fill
from tidelake.txn import TableSpec
from tidelake.write.index import BUCKET_COUNT_PROPERTY
from tidelake.write.key_spec import PARTITION_TYPES_PROPERTY
from tidelake.write.schema_evolution import evolve, field_names

_log = logging.getLogger(__name__)

V = TypeVar("V")

_OUTPUT_FORMAT = "output.dateformat"
_NEWEST_VERSION = 9
#: Options that are kept in the table's properties as they stand.
_KEPT_PREFIXES = (
    keys.MERGE_PROPERTY_PREFIX,
    *keys.TIMEBASED_PREFIXES,
)


def table_spec(
    avro: str,
    options: WriteOptions,
    *,
    name: str,
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    table_type: TableType | None = None,
    table_version: int | None = None,
) -> TableSpec:
    """Return the table that arguments and options describe; an argument and its option must agree.

    Raises `ConfigError` for a contradiction and `SchemaError` for fields that are no columns.
    """
    given = options.settings
    evolve(None, avro)
    generator = _generator(options)
    fields = _agreed(write_keys.RECORD_KEY_FIELDS, given, tuple(key))
    partition_fields = _agreed(write_keys.PARTITION_FIELDS, given, tuple(partition_by))
    ordering_fields = _agreed(write_keys.ORDERING_FIELDS, given, tuple(ordering))
    columns = set(field_names(avro))
    for role, names in (
        ("record key", fields),
        ("partition", [f.partition(":")[0] for f in partition_fields]),
        ("ordering", ordering_fields),
    ):
        for field in names:
            if field not in columns:
                raise SchemaError(
                    f"{role} field {field} is no column of the table",
                    next_step=f"its columns are {', '.join(c for c in columns if '.' not in c)}",
                )
    if not fields and generator is None:
        generator = KeyGeneratorType.AUTO_RECORD
    _refuse_lost_times(options, generator, partition_fields)
    for column in _unreadable_times(avro, options, generator, partition_fields):
        _log.warning(
            "Apache Hudi 1.2 cannot read tables in which the number %s makes folders that are no "
            "numbers, not even its own: let %s be of digits alone if it is to read "
            "this one",
            column,
            f"{keys.TIMEBASED_PREFIXES[0]}{_OUTPUT_FORMAT}",
        )
    hive = write_keys.HIVE_STYLE_PARTITIONING
    meta = write_keys.POPULATE_META_FIELDS
    stated = write_keys.TABLE_VERSION
    version = _one(stated, stated.number(given), table_version) or _NEWEST_VERSION
    spec = TableSpec(
        name=write_keys.TABLE_NAME.text(given) or name,
        database=write_keys.DATABASE_NAME.text(given),
        schema=avro,
        table_type=_one(
            write_keys.TABLE_TYPE, write_keys.TABLE_TYPE.word(given, TableType), table_type
        )
        or TableType.COPY_ON_WRITE,
        table_version=version,
        record_key_fields=fields,
        partition_fields=partition_fields,
        ordering_fields=ordering_fields,
        key_generator=generator,
        merge_mode=write_keys.MERGE_MODE.word(given, MergeMode),
        payload_class=write_keys.PAYLOAD_CLASS.text(given),
        merge_strategy_id=write_keys.MERGE_STRATEGY_ID.text(given),
        hive_style_partitioning=hive.flag(given) if hive.given(given) else bool(partition_fields),
        url_encode_partitioning=write_keys.URL_ENCODE_PARTITIONING.flag(given),
        drop_partition_columns=write_keys.DROP_PARTITION_COLUMNS.flag(given),
        populate_meta_fields=meta.flag(given) if meta.given(given) else True,
        properties={
            **_properties(options, partition_fields),
            **_partial_update_mode(options, version),
        },
    )
    return _with_groups(spec, options, columns)


def _generator(options: WriteOptions) -> KeyGeneratorType | None:
    for key in (write_keys.KEY_GENERATOR_TYPE, write_keys.KEY_GENERATOR_CLASS):
        given = key.text(options.settings)
        if given is not None:
            found = key_generator_of(given)
            if found is None:
                raise key.refuse(options.settings, ", ".join(k.value for k in KeyGeneratorType))
            return found
    return None


def _refuse_lost_times(
    options: WriteOptions, generator: KeyGeneratorType | None, partition_fields: Sequence[str]
) -> None:
    key = write_keys.DROP_PARTITION_COLUMNS
    if not key.flag(options.settings):
        return
    typed = [f.partition(":")[0] for f in partition_fields if f.upper().endswith(":TIMESTAMP")]
    times = partition_fields if generator is KeyGeneratorType.TIMESTAMP else typed
    if times:
        raise ConfigError(
            f"{key.name} would lose the values of {', '.join(times)}: a formatted time in a path "
            "does not tell from which time it was made",
            next_step=f"leave {key.name} out",
        )


def _unreadable_times(
    avro: str,
    options: WriteOptions,
    generator: KeyGeneratorType | None,
    partition_fields: Sequence[str],
) -> Iterator[str]:
    """Yield the columns of whose folders Apache would make numbers, and fail."""
    given = (options.settings.get(f"{p}{_OUTPUT_FORMAT}") for p in keys.TIMEBASED_PREFIXES)
    output = next((text for text in given if text), "")
    if generator is not KeyGeneratorType.CUSTOM or re.fullmatch("[yMdHms]*", output):
        return
    numbers = {f["name"] for f in json.loads(avro)["fields"] if _is_number(f["type"])}
    for field in partition_fields:
        name, _, kind = field.partition(":")
        if kind.upper() == "TIMESTAMP" and name in numbers:
            yield name


def _is_number(node: object) -> bool:
    branches = node if isinstance(node, list) else [node]
    return any(branch in ("int", "long") for branch in branches)


def _agreed(key: Key, given: Mapping[str, str], wanted: tuple[str, ...]) -> tuple[str, ...]:
    found = key.items(given)
    if found and wanted and found != wanted:
        raise ConfigError(
            f"{key.name} is {','.join(found)}, but the call says {','.join(wanted)}",
            next_step="give one of the two",
        )
    return found or wanted


def _one(key: Key, found: V | None, wanted: V | None) -> V | None:
    if found is not None and wanted is not None and found != wanted:
        raise ConfigError(
            f"{key.name} is {found}, but the call says {wanted}", next_step="give one of the two"
        )
    return found if found is not None else wanted


def _partial_update_mode(options: WriteOptions, version: int) -> dict[str, str]:
    key = write_keys.PARTIAL_UPDATE_MODE
    mode = (key.text(options.settings) or "").upper()
    if not mode:
        return {}
    known = (Fill.IGNORE_DEFAULTS.value, Fill.FILL_UNAVAILABLE.value)
    if mode not in known:
        raise key.refuse(options.settings, " and ".join(known))
    if version < _NEWEST_VERSION:
        raise ConfigError(
            f"{key.name} is a property of tables of version {_NEWEST_VERSION}, not {version}",
            next_step=f"leave it out, or create a table of version {_NEWEST_VERSION}",
        )
    return {key.name: mode}


def _with_groups(spec: TableSpec, options: WriteOptions, columns: Collection[str]) -> TableSpec:
    key = write_keys.PARTIAL_UPDATE_ORDERING
    text = key.text(options.settings)
    if text is None:
        return spec
    named = [name for group in parse_groups(key.name, text) for name in group.columns]
    unknown = [name for name in named if name not in columns or "." in name]
    if unknown:
        raise SchemaError(
            f"{key.name} names {', '.join(unknown)}, which is no column of the table",
            next_step=f"its columns are {', '.join(c for c in columns if '.' not in c)}",
        )
    fixed = {f.partition(":")[0] for f in (*spec.record_key_fields, *spec.partition_fields)}
    contradiction = None
    if not fixed.isdisjoint(named):
        contradiction = f"a key or partition column ({', '.join(fixed.intersection(named))})"
    elif spec.ordering_fields or spec.merge_mode not in (None, MergeMode.COMMIT_TIME):
        contradiction = "an ordering of whole records"
    elif spec.payload_class is not None or keys.PARTIAL_UPDATE_MODE.name in spec.properties:
        contradiction = "a payload class or partial update mode"
    elif not TableFormat(spec.table_version).has_partial_blocks:
        contradiction = f"table version {spec.table_version}"
    elif not spec.populate_meta_fields:
        contradiction = "rows without meta columns"
    if contradiction is not None:
        raise ConfigError(
            f"{key.name} gives columns an ordering of their own, which does not go with "
            f"{contradiction}",
            next_step="leave one of the two out",
        )
    return replace(spec, properties={**spec.properties, key.name: text})


def _properties(options: WriteOptions, partition_fields: Sequence[str]) -> dict[str, str]:
    found = {n: v for n, v in options.settings.items() if n.startswith(_KEPT_PREFIXES)}
    if write_keys.CDC_ENABLED.flag(options.settings):
        mode = write_keys.CDC_LOGGING_MODE.word(options.settings, CdcMode)
        found[keys.CDC_ENABLED.name] = "true"
        found[keys.CDC_LOGGING_MODE.name] = (mode or CdcMode.DATA_BEFORE_AFTER).value
    if options.index_type is IndexType.BUCKET and options.bucket_engine is BucketEngine.SIMPLE:
        default = write_keys.BUCKET_COUNT.default
        found[BUCKET_COUNT_PROPERTY] = str(options.bucket_count or default)
    for key in (concurrency_keys.REQUIRED_MODE, concurrency_keys.SCHEMA_STRATEGY):
        given = key.given(options.settings)
        if given is not None:
            found[key.name] = given[1]
    if any(":" in field for field in partition_fields):
        found[PARTITION_TYPES_PROPERTY] = ",".join(partition_fields)
    return found
