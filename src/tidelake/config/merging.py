"""How a new table records which of two records with the same key wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.config.keys import read_keys as keys
from tidelake.errors import ConfigError
from tidelake.model import MergeMode
from tidelake.model.table_format import TableFormat

EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
#: Leaves the decision to the payload class.
PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"

_MODEL = "org.apache.hudi.common.model"
_STRATEGY_OF_MODE = {
    MergeMode.EVENT_TIME: EVENT_TIME_STRATEGY,
    MergeMode.COMMIT_TIME: COMMIT_TIME_STRATEGY,
    MergeMode.CUSTOM: PAYLOAD_STRATEGY,
}
_MODE_OF_STRATEGY = {
    EVENT_TIME_STRATEGY: MergeMode.EVENT_TIME,
    COMMIT_TIME_STRATEGY: MergeMode.COMMIT_TIME,
}
_PAYLOAD_OF_MODE = {
    MergeMode.EVENT_TIME: f"{_MODEL}.DefaultHoodieRecordPayload",
    MergeMode.COMMIT_TIME: f"{_MODEL}.OverwriteWithLatestAvroPayload",
}
#: Payload classes for which versions up to 8 have a mode; all others are CUSTOM there.
_MODE_OF_PLAIN_PAYLOAD = {
    "DefaultHoodieRecordPayload": MergeMode.EVENT_TIME,
    "EventTimeAvroPayload": MergeMode.EVENT_TIME,
    "OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME,
}
_DELETE_FIELD = f"{keys.MERGE_PROPERTY_PREFIX}hoodie.payload.delete.field"
_DELETE_MARKER = f"{keys.MERGE_PROPERTY_PREFIX}hoodie.payload.delete.marker"
_UNAVAILABLE = f"{keys.MERGE_PROPERTY_PREFIX}hoodie.write.partial.update.unavailable.value"
_DEBEZIUM_DELETES = {_DELETE_FIELD: "_change_operation_type", _DELETE_MARKER: "d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replaced:
    """What version 9 writes instead of a payload class."""

    mode: MergeMode
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering_fields: tuple[str, ...] = ()


_KEEPS_OLD_VALUES = {keys.PARTIAL_UPDATE_MODE.name: "IGNORE_DEFAULTS"}
_REPLACED_IN_9: Mapping[str, _Replaced] = {
    "DefaultHoodieRecordPayload": _Replaced(mode=MergeMode.EVENT_TIME),
    "EventTimeAvroPayload": _Replaced(mode=MergeMode.EVENT_TIME),
    "OverwriteWithLatestAvroPayload": _Replaced(mode=MergeMode.COMMIT_TIME),
    "PartialUpdateAvroPayload": _Replaced(mode=MergeMode.EVENT_TIME, properties=_KEEPS_OLD_VALUES),
    "OverwriteNonDefaultsWithLatestAvroPayload": _Replaced(
        mode=MergeMode.COMMIT_TIME, properties=_KEEPS_OLD_VALUES
    ),
    "AWSDmsAvroPayload": _Replaced(
        mode=MergeMode.COMMIT_TIME, properties={_DELETE_FIELD: "Op", _DELETE_MARKER: "D"}
    ),
    "MySqlDebeziumAvroPayload": _Replaced(
        mode=MergeMode.EVENT_TIME,
        properties=_DEBEZIUM_DELETES,
        ordering_fields=("_event_bin_file", "_event_pos"),
    ),
    "PostgresDebeziumAvroPayload": _Replaced(
        mode=MergeMode.EVENT_TIME,
        properties={
            **_DEBEZIUM_DELETES,
            keys.PARTIAL_UPDATE_MODE.name: "FILL_UNAVAILABLE",
            _UNAVAILABLE: "__debezium_unavailable_value",
        },
        ordering_fields=("_event_lsn",),
    ),
}


def new_merge_properties(
    *,
    table_version: int,
    ordering_fields: tuple[str, ...],
    mode: MergeMode | None = None,
    payload_class: str | None = None,
    strategy_id: str | None = None,
) -> Mapping[str, str]:
    """Return the properties, ordering fields included, that say how a new table merges.

    What is not given follows from the rest; without anything the ordering fields decide. Raises
    `ConfigError` for settings that contradict each other.
    """
    if TableFormat(table_version).replaces_payloads:
        replaced = _REPLACED_IN_9.get(_short(payload_class)) if payload_class else None
        ordering_fields = ordering_fields or (replaced.ordering_fields if replaced else ())
        found = _of_version_9(ordering_fields, mode, payload_class, strategy_id, replaced)
    else:
        found = _of_version_8(ordering_fields, mode, payload_class, strategy_id)
        if not TableFormat(table_version).has_merge_modes:
            # Hudi 0.x knows one strategy and leaves the rest to the payload class.
            found = {
                keys.PAYLOAD_CLASS.name: found[keys.PAYLOAD_CLASS.name],
                keys.MERGE_STRATEGY_ID.aliases[0]: EVENT_TIME_STRATEGY,
            }
    return {**_ordering(table_version, ordering_fields), **found}


def _of_version_8(
    ordering_fields: tuple[str, ...],
    given: MergeMode | None,
    payload_class: str | None,
    strategy_id: str | None,
) -> dict[str, str]:
    by_payload = (
        _MODE_OF_PLAIN_PAYLOAD.get(_short(payload_class), MergeMode.CUSTOM)
        if payload_class
        else None
    )
    mode = _agreed(given, by_payload, _mode_of_strategy(strategy_id), ordering_fields)
    payload = payload_class or _PAYLOAD_OF_MODE.get(mode)
    if payload is None:
        raise _needs_payload()
    return {
        keys.RECORD_MERGE_MODE.name: mode.value,
        keys.PAYLOAD_CLASS.name: payload,
        keys.MERGE_STRATEGY_ID.name: strategy_id or _STRATEGY_OF_MODE[mode],
    }


def _of_version_9(
    ordering_fields: tuple[str, ...],
    given: MergeMode | None,
    payload_class: str | None,
    strategy_id: str | None,
    replaced: _Replaced | None,
) -> dict[str, str]:
    by_payload = replaced.mode if replaced else (MergeMode.CUSTOM if payload_class else None)
    mode = _agreed(given, by_payload, _mode_of_strategy(strategy_id), ordering_fields)
    found = {keys.RECORD_MERGE_MODE.name: mode.value}
    if replaced is not None and payload_class is not None:
        return {**found, keys.LEGACY_PAYLOAD_CLASS.name: payload_class, **replaced.properties}
    if mode is MergeMode.CUSTOM:
        if payload_class is None:
            raise _needs_payload()
        found[keys.PAYLOAD_CLASS.name] = payload_class
        found[keys.MERGE_STRATEGY_ID.name] = strategy_id or PAYLOAD_STRATEGY
    return found


def _agreed(
    given: MergeMode | None,
    by_payload: MergeMode | None,
    by_strategy: MergeMode | None,
    ordering_fields: tuple[str, ...],
) -> MergeMode:
    said = {
        keys.RECORD_MERGE_MODE.name: given,
        keys.PAYLOAD_CLASS.name: by_payload,
        keys.MERGE_STRATEGY_ID.name: by_strategy,
    }
    modes = {mode for mode in said.values() if mode is not None}
    if len(modes) > 1:
        shown = ", ".join(f"{key} means {mode}" for key, mode in said.items() if mode is not None)
        raise ConfigError(
            f"the settings contradict each other: {shown}", next_step="give one of them only"
        )
    default = MergeMode.EVENT_TIME if ordering_fields else MergeMode.COMMIT_TIME
    mode = modes.pop() if modes else default
    if mode is MergeMode.EVENT_TIME and not ordering_fields:
        raise ConfigError(
            f"{mode} needs an ordering column, and none is given",
            next_step="name the column whose values say which record is newer, or choose "
            f"{MergeMode.COMMIT_TIME}",
        )
    return mode


def _mode_of_strategy(strategy_id: str | None) -> MergeMode | None:
    if strategy_id is None:
        return None
    return _MODE_OF_STRATEGY.get(strategy_id, MergeMode.CUSTOM)


def _ordering(table_version: int, ordering_fields: tuple[str, ...]) -> dict[str, str]:
    if not ordering_fields:
        return {}
    if TableFormat(table_version).orders_by_several:
        return {keys.ORDERING_FIELDS.name: ",".join(ordering_fields)}
    if len(ordering_fields) > 1:
        raise ConfigError(
            f"a table of version {table_version} has one ordering column, "
            f"but {', '.join(ordering_fields)} are given",
            next_step="give one column, or create a table of version 9",
        )
    return {keys.ORDERING_FIELDS.aliases[0]: ordering_fields[0]}


def _short(payload_class: str) -> str:
    return payload_class.rpartition(".")[2]


def _needs_payload() -> ConfigError:
    return ConfigError(
        f"{keys.RECORD_MERGE_MODE.name}={MergeMode.CUSTOM} says nothing without a payload class",
        next_step=f"give {keys.PAYLOAD_CLASS.name}, or another merge mode",
    )
