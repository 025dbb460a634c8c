"""The verb `describe`: what kind of table this is, how large, and how it is doing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidelake.cli import instants as timeline
from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.output import Json
from tidelake.config import TableConfig
from tidelake.model import WRITE_ACTIONS, FileSlice, Instant, State
from tidelake.model.byte_size import byte_size_text
from tidelake.operations.open_table import open_state


def as_json(
    path: str, config: TableConfig, instants: Sequence[Instant], slices: Sequence[FileSlice]
) -> Json:
    """Return the facts as one document."""
    last = last_write(instants)
    return {
        "name": config.name,
        "database": config.database,
        "path": path,
        "table_type": config.table_type.value,
        "table_version": config.table_version,
        "timeline_layout": config.layout_version,
        "record_key": list(config.record_key_fields),
        "key_generator": config.key_generator.value,
        "partition_by": list(config.partition_fields),
        "hive_style_partitioning": config.hive_style_partitioning,
        "url_encode_partitioning": config.url_encode_partitioning,
        "ordering": list(config.ordering_fields),
        "ordering_of_columns": {g.ordering: list(g.columns[1:]) for g in config.column_groups},
        "merge_mode": config.record_merge_mode.value if config.record_merge_mode else None,
        "payload_class": config.payload_class,
        "meta_fields": config.populate_meta_fields,
        "cdc": config.cdc_logging_mode.value if config.cdc_enabled else None,
        "metadata_partitions": sorted(config.metadata_partitions),
        "files": {
            "partitions": len({s.group.partition for s in slices}),
            "file_groups": len(slices),
            "base_files": sum(1 for s in slices if s.base_file),
            "log_files": sum(len(s.log_files) for s in slices),
            "base_bytes": sum(s.base_file.size_bytes for s in slices if s.base_file),
            "log_bytes": sum(s.log_bytes for s in slices),
        },
        "timeline": {
            "active_instants": len(instants),
            "by_state": {s.value: sum(1 for i in instants if i.state is s) for s in State},
            "last_write": None if last is None else timeline.as_json(last),
            "pending": [timeline.as_json(i) for i in instants if not i.is_completed],
        },
    }


def render(
    path: str,
    config: TableConfig,
    instants: Sequence[Instant],
    slices: Sequence[FileSlice],
    *,
    now_ms: int,
) -> list[str]:
    """Return the facts in three paragraphs: the table, its files, its timeline."""
    return [
        f"{config.name}: {config.table_type} table, version {config.table_version}",
        *text.pairs(_settings(path, config), indent=2),
        "",
        "files",
        *text.pairs(_files(slices), indent=2),
        "",
        "timeline",
        *text.pairs(_timeline(config, instants, now_ms), indent=2),
        *_pending(config, instants, now_ms),
    ]


def last_write(instants: Sequence[Instant]) -> Instant | None:
    """Return the write that completed last."""
    done = [i for i in instants if i.is_completed and i.action in WRITE_ACTIONS]
    return max(done, key=lambda i: i.completion_time or "", default=None)


def _settings(path: str, config: TableConfig) -> list[tuple[str, str]]:
    style = [
        word
        for word, is_on in (
            ("hive style", config.hive_style_partitioning),
            ("url-encoded", config.url_encode_partitioning),
        )
        if is_on
    ]
    by = ", ".join(config.partition_fields) or "nothing"
    return [
        ("path", path),
        ("record key", ", ".join(config.record_key_fields) or "made by the writer"),
        ("key generator", config.key_generator.value.lower()),
        ("partitioned by", f"{by} ({', '.join(style)})" if style else by),
        ("ordering", _ordering(config)),
        ("merge mode", _merge(config)),
        ("meta columns", "stored" if config.populate_meta_fields else "not stored"),
        ("change capture", config.cdc_logging_mode.value if config.cdc_enabled else "off"),
        ("metadata table", ", ".join(sorted(config.metadata_partitions)) or "none"),
    ]


def _ordering(config: TableConfig) -> str:
    groups = (f"{g.ordering} for {', '.join(g.columns[1:])}" for g in config.column_groups)
    return ", ".join(config.ordering_fields) or "; ".join(groups) or "none, the later write wins"


def _merge(config: TableConfig) -> str:
    payload = (config.payload_class or "").rpartition(".")[2]
    if config.record_merge_mode is None:
        return f"by payload class {payload}" if payload else "by the default payload class"
    mode = config.record_merge_mode.value
    return f"{mode} ({payload})" if payload else mode


def _files(slices: Sequence[FileSlice]) -> list[tuple[str, str]]:
    bases = [s.base_file for s in slices if s.base_file]
    logs = sum(len(s.log_files) for s in slices)
    facts = [
        ("partitions", f"{len({s.group.partition for s in slices}):,}"),
        ("file groups", f"{len(slices):,}"),
        ("base files", f"{len(bases):,}, {byte_size_text(sum(b.size_bytes for b in bases))}"),
    ]
    if logs:
        waiting = byte_size_text(sum(s.log_bytes for s in slices))
        facts.append(("log files", f"{logs:,}, {waiting} not yet compacted"))
    return facts


def _timeline(
    config: TableConfig, instants: Sequence[Instant], now_ms: int
) -> list[tuple[str, str]]:
    actions = Counter(i.action.value for i in instants if i.is_completed)
    facts = [
        ("active", text.count(len(instants), "instant")),
        ("completed", ", ".join(f"{n:,} {a}" for a, n in actions.most_common()) or "none"),
    ]
    last = last_write(instants)
    if last is not None:
        at = text.instant_ms(last.completion_time or "", timeline.zone(config))
        ago = "" if at is None else f", {text.span(max(0, now_ms - at))} ago ({text.moment(at)})"
        facts.append(("last write", f"{last.action} {last.requested_time}{ago}"))
    return facts


def _pending(config: TableConfig, instants: Sequence[Instant], now_ms: int) -> list[str]:
    pending = [i for i in instants if not i.is_completed]
    if not pending:
        return []
    rows = []
    for instant in pending:
        at = text.instant_ms(instant.requested_time, timeline.zone(config))
        since = "" if at is None else f" for {text.span(max(0, now_ms - at))}"
        meaning = timeline.STATES[instant.state]
        rows.append(
            (instant.requested_time, instant.action.value, f"{instant.state}{since}: {meaning}")
        )
    return ["", "pending", *(f"  {line}" for line in text.columns(["", "", ""], rows)[1:])]


def run(call: Call) -> bool:
    """Describe the table that the command names."""
    state = open_state(call.table, call.options)
    path, found = state.storage.spec.uri, state.view.latest_slices()
    instants = state.timeline.instants
    if call.out.as_json:
        call.out.document(as_json(path, state.config, instants, found))
    else:
        call.out.lines(render(path, state.config, instants, found, now_ms=call.now_ms))
    return True
