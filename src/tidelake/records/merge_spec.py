"""Which record wins, and what the winner takes from the loser, as the table's properties say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidelake.config import ReadOptions, TableConfig
from tidelake.config.column_groups import ColumnGroup
from tidelake.config.keys import read_keys as keys
from tidelake.config.merging import COMMIT_TIME_STRATEGY, EVENT_TIME_STRATEGY, PAYLOAD_STRATEGY
from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.model import MergeMode, Word

#: Strategy ids that leave the decision to the payload class.
_PAYLOAD_STRATEGIES = frozenset({PAYLOAD_STRATEGY, "1897ef5f-18bc-4557-939c-9d6a8afd1519"})

DELETE_FIELD = "hoodie.payload.delete.field"
DELETE_MARKER = "hoodie.payload.delete.marker"
UNAVAILABLE_VALUE = "hoodie.write.partial.update.unavailable.value"
_DEBEZIUM_UNAVAILABLE = "__debezium_unavailable_value"
_DEBEZIUM_OPERATION = "_change_operation_type"


class Fill(Word):
    """Which fields of the winner mean "unchanged" and are filled from the loser."""

    NONE = "NONE"
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """How two records of one key become one.

    `mode` is never CUSTOM, and EVENT_TIME only with ordering fields. `deletes_by_arrival` lets a
    delete win whatever its ordering value; `ties_to_earlier` keeps the existing record on equal
    ordering values; `incoming_meta` gives a filled row the meta columns of the record that came
    last. `binlog_ordering` reads a text ordering value as MySQL's `file.position`. The columns of
    `groups` each go by an ordering column of their own, and all others by `mode`.
    """

    mode: MergeMode = MergeMode.COMMIT_TIME
    ordering_fields: tuple[str, ...] = ()
    fill: Fill = Fill.NONE
    unavailable_value: str = _DEBEZIUM_UNAVAILABLE
    delete_field: str | None = None
    delete_marker: str | None = None
    delete_marker_any_case: bool = False
    deletes_by_arrival: bool = False
    ties_to_earlier: bool = False
    incoming_meta: bool = False
    binlog_ordering: bool = False
    groups: tuple[ColumnGroup, ...] = ()
    use_positions: bool = True

    @property
    def takes_columns(self) -> bool:
        """Return whether whole records may give single columns to each other."""
        return self.fill is not Fill.NONE or bool(self.groups)

    @classmethod
    def from_config(cls, config: TableConfig, options: ReadOptions | None = None) -> MergeSpec:
        """Read the rules from the table's properties and the query's own options.

        The rules are those of Hudi 1.x for every table version. Raises `UnsupportedTableError` for
        a payload class or merge strategy that tidelake does not know.
        """
        options = options or ReadOptions()
        spec = _chosen(config, options)
        field, marker = (_setting(config, options, key) for key in (DELETE_FIELD, DELETE_MARKER))
        if (field is None) != (marker is None):
            raise ConfigError(
                f"only one of {DELETE_FIELD} and {DELETE_MARKER} is set",
                next_step="set both, or neither",
            )
        if field is not None:
            spec = replace(spec, delete_field=field, delete_marker=marker)
        if spec.mode is MergeMode.EVENT_TIME and not spec.ordering_fields:
            spec = replace(spec, mode=MergeMode.COMMIT_TIME)
        return replace(
            spec,
            unavailable_value=_setting(config, options, UNAVAILABLE_VALUE)
            or spec.unavailable_value,
            use_positions=options.use_record_positions,
        )


_PAYLOADS: Mapping[str, MergeSpec] = {
    "OverwriteWithLatestAvroPayload": MergeSpec(),
    "HoodieAvroPayload": MergeSpec(),
    "RewriteAvroPayload": MergeSpec(),
    "DefaultHoodieRecordPayload": MergeSpec(mode=MergeMode.EVENT_TIME),
    "EventTimeAvroPayload": MergeSpec(mode=MergeMode.EVENT_TIME),
    "FirstValueAvroPayload": MergeSpec(mode=MergeMode.EVENT_TIME, ties_to_earlier=True),
    "OverwriteNonDefaultsWithLatestAvroPayload": MergeSpec(fill=Fill.IGNORE_DEFAULTS),
    "PartialUpdateAvroPayload": MergeSpec(
        mode=MergeMode.EVENT_TIME,
        fill=Fill.IGNORE_DEFAULTS,
        deletes_by_arrival=True,
        incoming_meta=True,
    ),
    "AWSDmsAvroPayload": MergeSpec(
        delete_field="Op", delete_marker="D", delete_marker_any_case=True
    ),
    "MySqlDebeziumAvroPayload": MergeSpec(
        mode=MergeMode.EVENT_TIME,
        delete_field=_DEBEZIUM_OPERATION,
        delete_marker="d",
        ordering_fields=("_event_seq",),
        binlog_ordering=True,
    ),
    "PostgresDebeziumAvroPayload": MergeSpec(
        mode=MergeMode.EVENT_TIME,
        fill=Fill.FILL_UNAVAILABLE,
        delete_field=_DEBEZIUM_OPERATION,
        delete_marker="d",
        ordering_fields=("_event_lsn",),
    ),
}


def _chosen(config: TableConfig, options: ReadOptions) -> MergeSpec:
    if options.payload_class is not None:
        return _by_payload(config, options.payload_class)
    if options.merge_mode not in (None, MergeMode.CUSTOM):
        return MergeSpec(mode=options.merge_mode, ordering_fields=config.ordering_fields)
    return _by_properties(config)


def _by_properties(config: TableConfig) -> MergeSpec:
    payload = config.payload_class
    if not config.format.has_merge_modes and payload is not None:
        return _by_payload(config, payload)
    mode = config.record_merge_mode
    if mode is None:
        mode = _mode_of_strategy(config.merge_strategy_id)
    if mode is None and payload is not None:
        return _by_payload(config, payload)
    if mode is None:
        mode = MergeMode.EVENT_TIME if config.ordering_fields else MergeMode.COMMIT_TIME
    if mode is MergeMode.CUSTOM:
        strategy = config.merge_strategy_id
        if payload is None or (strategy is not None and strategy not in _PAYLOAD_STRATEGIES):
            raise UnsupportedTableError(
                f"records of this table are merged by a custom merger (strategy id {strategy})",
                next_step="read it with the engine that has the merger, or set "
                "hoodie.record.merge.mode in hoodie.properties when a built-in mode fits",
            )
        return _by_payload(config, payload)
    partial = config.partial_update_mode
    if partial is not None and partial not in set(Fill):
        raise UnsupportedTableError(
            f"hoodie.table.partial.update.mode={partial} is not a mode tidelake knows",
            next_step=f"known modes: {Fill.IGNORE_DEFAULTS}, {Fill.FILL_UNAVAILABLE}",
        )
    fill = Fill.NONE if partial is None else Fill(partial)
    if config.column_groups:
        return _by_groups(config, mode, fill)
    return MergeSpec(mode=mode, ordering_fields=config.ordering_fields, fill=fill)


def _by_groups(config: TableConfig, mode: MergeMode, fill: Fill) -> MergeSpec:
    if mode is not MergeMode.COMMIT_TIME or fill is not Fill.NONE:
        raise UnsupportedTableError(
            f"{keys.PARTIAL_UPDATE_ORDERING.name} gives columns their own ordering, and the table "
            f"has {mode} with partial update mode {fill} for whole records",
            next_step=f"set {keys.RECORD_MERGE_MODE.name}={MergeMode.COMMIT_TIME} and leave "
            f"{keys.PARTIAL_UPDATE_MODE.name} out, or remove the groups",
        )
    # A record may be the newest for one group and late for another, so the last one to come says
    # when the row changed; and a delete, which has no group, goes by arrival.
    return MergeSpec(
        mode=mode, groups=config.column_groups, incoming_meta=True, deletes_by_arrival=True
    )


def _by_payload(config: TableConfig, payload: str) -> MergeSpec:
    package, _, name = payload.rpartition(".")
    spec = _PAYLOADS.get(name) if package.startswith("org.apache.hudi") or not package else None
    if spec is None:
        raise UnsupportedTableError(
            f"this table's records are merged by class {payload}, which tidelake does not know",
            next_step="read it with the engine that has the class; known classes: "
            + ", ".join(sorted(_PAYLOADS)),
        )
    return replace(spec, ordering_fields=config.ordering_fields or spec.ordering_fields)


def _mode_of_strategy(strategy: str | None) -> MergeMode | None:
    if strategy is None:
        return None
    known = {
        EVENT_TIME_STRATEGY: MergeMode.EVENT_TIME,
        COMMIT_TIME_STRATEGY: MergeMode.COMMIT_TIME,
    }
    return known.get(strategy, MergeMode.CUSTOM)


def _setting(config: TableConfig, options: ReadOptions, key: str) -> str | None:
    # Version 9 stores what readers need; older tables mostly leave it to the query.
    return (
        config.merge_properties.get(key)
        or config.properties.get(key)
        or options.merge_properties.get(key)
    )
