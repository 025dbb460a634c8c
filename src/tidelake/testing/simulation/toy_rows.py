"""Rows of a simulated table: real files, slices and instants, with a little JSON inside the files.

What is simulated is the control plane, all of which is real; the rows only show what it did.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelake.env import Env
from tidelake.errors import InstantLostError
from tidelake.files import BlockFilter, SliceTask, WriteSpec
from tidelake.files.new_file import in_partition, make_partition
from tidelake.files.wanted import delete_unwanted, is_wanted
from tidelake.files.write_task import GroupTarget, WriteKind, WriteToken
from tidelake.formats.column_bounds import ColumnBounds, ValueKind
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.formats.file_name import format_base, format_log
from tidelake.formats.log_block import (
    BlockKind,
    HeaderKey,
    decode_blocks,
    encode_block,
    valid_blocks,
)
from tidelake.formats.marker_name import MarkerKind, marker_path
from tidelake.model import TableType
from tidelake.model.table_format import TableFormat
from tidelake.read.scan import block_filter, slice_tasks
from tidelake.state.table_state import TableState
from tidelake.storage import Storage
from tidelake.txn import TableSpec, create_table
from tidelake.write.groups import live_groups

#: Ordering value, two columns, and the requested time of the write that it is from.
Row = tuple[int, "int | None", "int | None", str]
#: What a write does to rows, by key: None deletes one, a column that is None stays as it is.
Changes = Mapping[str, "Row | None"]
Rows = dict[str, Row]

_TYPES = {"key": "string", "part": "string", "ts": "long", "a": "long", "b": "long"}


@dataclass(frozen=True, slots=True)
class ToyColumns:
    """The columns of toy rows, by their Avro types."""

    types: Mapping[str, str]

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the columns."""
        return tuple(self.types)

    def only(self, names: Sequence[str]) -> ToyColumns:
        """Return those of the columns that have one of `names`."""
        return ToyColumns({name: kind for name, kind in self.types.items() if name in names})

    def renamed(self, names: Mapping[str, str]) -> ToyColumns:
        """Return those of the columns that `names` has, under the names that it gives them."""
        return ToyColumns({names[n]: kind for n, kind in self.types.items() if n in names})

    def avro_schema(self, table_name: str) -> str:
        """Return the schema that a table of these columns has."""
        fields = [
            {"name": name, "type": ["null", kind], "default": None}
            for name, kind in self.types.items()
        ]
        return json.dumps({"type": "record", "name": table_name, "fields": fields})


SCHEMA = ToyColumns(_TYPES).avro_schema("toy")


def toy_columns(more: Iterable[str] = ()) -> ToyColumns:
    """Return the columns of rows that somebody writes, with some that the table may not have."""
    return ToyColumns({**_TYPES, **dict.fromkeys(more, "long")})


def create_toy(
    env: Env, table_type: TableType, table_version: int, properties: Mapping[str, str] | None = None
) -> None:
    """Create an empty table."""
    create_table(
        env,
        TableSpec(
            name="toy",
            schema=SCHEMA,
            table_type=table_type,
            table_version=table_version,
            record_key_fields=("key",),
            partition_fields=("part",),
            ordering_fields=("ts",),
            properties=properties or {},
        ),
    )


def changed(rows: Rows, changes: Changes) -> None:
    """Apply what came later: a greater ordering value wins, and a tie goes to the later one."""
    for key, new in changes.items():
        old = rows.get(key)
        if new is None:
            rows.pop(key, None)
        elif old is None:
            rows[key] = new
        elif new[0] >= old[0]:
            a = old[1] if new[1] is None else new[1]
            rows[key] = (new[0], a, old[2] if new[2] is None else new[2], new[3])


def read_toy_slice(storage: Storage, task: SliceTask, blocks: BlockFilter) -> Rows:
    """Return the rows of one slice by key, logs in the order in which the task has them."""
    rows: Rows = {}
    if task.base_path is not None:
        changed(rows, _decoded(storage.read(task.base_path)))
    found = [b for path in task.log_paths for b in decode_blocks(storage.read(path))]
    for block in valid_blocks(
        found,
        latest_instant=blocks.latest_instant,
        is_visible=lambda time: time in task.archived_instants or blocks.is_visible(time),
        in_range=blocks.in_range,
    ):
        changed(rows, _decoded(bytes(block.content)))
    return rows


def read_rows(
    state: TableState, partitions: Iterable[str] | None = None
) -> dict[str, tuple[str, Row]]:
    """Return rows of the table by partition and key, each with its file id."""
    wanted = state.view.partitions() if partitions is None else sorted(set(partitions))
    live = live_groups(state.view, state.config, list(wanted))
    blocks = block_filter(state, None)
    return {
        f"{task.partition}/{key}": (task.file_id, row)
        for task in slice_tasks(state, [group.slice for group in live])
        for key, row in read_toy_slice(state.storage, task, blocks).items()
    }


def new_token(env: Env) -> WriteToken:
    """Return the token of a task that no other has."""
    return WriteToken(task=0, stage=zlib.crc32(env.ids.new().encode()) >> 1, attempt=0)


def write_toy_file(
    env: Env,
    spec: WriteSpec,
    target: GroupTarget,
    changes: Changes,
    *,
    before: Rows | None = None,
    token: WriteToken | None = None,
) -> WriteStat:
    """Write one file of a write as a task does: the marker first, a look at the heartbeat last.

    `before` are the rows of the slice, for a target that is written anew.
    """
    storage = env.storage
    make_partition(storage, target, spec)
    token = token or new_token(env)
    written = token.of_owner(spec.owner).format()
    is_log = target.kind is WriteKind.APPEND
    previous = target.base_instant or NO_PREVIOUS_COMMIT
    inserts = 0
    if is_log:
        instant = spec.instant_time
        if not TableFormat(spec.table_version).has_own_logs:
            instant = target.slice_instant or instant
        previous = target.slice_instant or instant
        name = format_log(
            file_id=target.file_id,
            instant_time=instant,
            version=target.log_version,
            write_token=written,
        )
        kind = MarkerKind.of_log(spec.table_version)
        data = _log_of(changes, spec)
    else:
        rows: Rows = dict(before or {})
        known = frozenset(rows)
        changed(rows, changes)
        inserts = len(rows.keys() - known)
        changes = rows
        name = format_base(
            file_id=target.file_id,
            write_token=written,
            instant_time=spec.instant_time,
            extension="parquet",
        )
        kind = MarkerKind.CREATE if target.base_instant is None else MarkerKind.MERGE
        data = _encoded(changes)
    path = in_partition(target.partition, name)
    marker = marker_path(spec.marker_folder, path, kind)
    storage.put(marker, b"")
    storage.put(path, data)
    if not is_wanted(storage, spec.instant_time, spec.owner):
        delete_unwanted(storage, path, kind, spec.instant_time)
        storage.delete(marker)
        raise InstantLostError(
            f"{spec.instant_time} was ended while {path} was being written", next_step=""
        )
    return WriteStat(
        file_id=target.file_id,
        path=path,
        partition_path=target.partition,
        prev_commit=previous,
        num_writes=len(changes),
        num_inserts=inserts,
        num_update_writes=0 if is_log else len(changes) - inserts,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        log_version=target.log_version if is_log else None,
        column_bounds=_bounds(changes, spec.bounded_columns),
        is_indexed=spec.record_index is not None,
    )


def _log_of(changes: Changes, spec: WriteSpec) -> bytes:
    headers: dict[int, str] = {
        HeaderKey.INSTANT_TIME: spec.instant_time,
        HeaderKey.SCHEMA: spec.schema,
    }
    return encode_block(BlockKind.AVRO_DATA, headers, _encoded(changes))


def _bounds(changes: Changes, columns: Sequence[str]) -> Mapping[str, ColumnBounds] | None:
    """Return what files say of their columns; nobody asks for another one than `a`."""
    if not columns:
        return None
    values = [row[1] for row in changes.values() if row is not None]
    known = [value for value in values if value is not None]
    return {
        name: ColumnBounds(
            kind=ValueKind.LONG,
            minimum=min(known, default=None),
            maximum=max(known, default=None),
            value_count=len(values),
            null_count=len(values) - len(known),
        )
        for name in columns
    }


def toy_keys(storage: Storage, ours: Mapping[str, str], theirs: Mapping[str, str]) -> Sequence[str]:
    """Return the keys that both brought, as `files.written_keys` does for real files."""
    mine, others = (
        {key for path, time in files.items() for key in _keys_of(storage, path, time)}
        for files in (ours, theirs)
    )
    return sorted(mine & others)


def _keys_of(storage: Storage, path: str, instant_time: str) -> Iterator[str]:
    data = storage.read(path)
    contents = [data]
    if not path.endswith(".parquet"):
        contents = [bytes(block.content) for block in decode_blocks(data)]
    for content in contents:
        for key, row in _decoded(content).items():
            if row is None or row[3] == instant_time:
                yield key


def _encoded(changes: Changes) -> bytes:
    return json.dumps(dict(changes)).encode()


def _decoded(data: bytes) -> Changes:
    raw = json.loads(data).items()
    return {key: None if row is None else (row[0], row[1], row[2], row[3]) for key, row in raw}
