"""Rows of a simulated table: real files, slices and instants, with a little JSON inside the files.

What is simulated is the control plane, all of which is real; the rows only show what it did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import InstantLostError, MissingFileError
from tidelake.files.write_task import WriteToken
from tidelake.formats import partition_metadata
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.formats.file_name import format_base, format_log
from tidelake.formats.marker_name import MarkerKind, marker_path
from tidelake.model import FileSlice, Instant, TableType
from tidelake.storage import Storage
from tidelake.timeline import (
    History,
    Timeline,
    TimelineContents,
    load_table_config,
    load_timeline,
    open_history,
)
from tidelake.timeline.table_schema import commit_with_schema, writes_in_order
from tidelake.txn import TableSpec, Transaction, create_table
from tidelake.view import StorageListing, TableView

PARTITION = "p"
SCHEMA = '{"type":"record","name":"r","fields":[]}'
#: Ordering value and value of a key.
Row = tuple[int, int]
Rows = Mapping[str, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The table as one look at its timeline shows it."""

    config: TableConfig
    timeline: Timeline
    contents: TimelineContents
    view: TableView
    history: History

    @classmethod
    def load(cls, storage: Storage, timeline: Timeline | None = None) -> Snapshot:
        """Look at the table now, or as `timeline` has it."""
        config = load_table_config(storage)
        timeline = timeline or load_timeline(storage, config)
        history = open_history(storage, config)
        contents = TimelineContents(storage, config)
        view = TableView(
            table_version=config.table_version,
            timeline=timeline,
            contents=contents,
            listing=StorageListing(storage),
            history_times=history.completion_times,
            timeline_now=lambda: load_timeline(storage, config),
        )
        return cls(config=config, timeline=timeline, contents=contents, view=view, history=history)

    def completed(self) -> list[Instant]:
        """Return every instant that had completed, archived or not, by completion time."""
        active = self.timeline.completed
        latest = max((i.completion_time or "" for i in active), default="")
        archived = {i.requested_time: i for i in self.history.instants()}
        known = {i.requested_time: i for i in active}
        # What was archived after the look at the timeline may have completed after it, too.
        found = {t: i for t, i in archived.items() if (i.completion_time or "") <= latest} | known
        return sorted(found.values(), key=lambda i: i.completion_time or "")

    def schema(self) -> str | None:
        """Return the table's schema."""
        found = commit_with_schema(writes_in_order(self.config, self.timeline), self.contents)
        return self.config.create_schema if found is None else found[1]

    def slices(self) -> dict[str, FileSlice]:
        """Return the latest slice of every file group by its file id."""
        return {s.group.file_id: s for s in self.view.latest_slices([PARTITION])}


def create_toy(env: Env, table_type: TableType, table_version: int) -> None:
    """Create an empty table."""
    create_table(
        env,
        TableSpec(
            name="toy",
            schema=SCHEMA,
            table_type=table_type,
            table_version=table_version,
            record_key_fields=("key",),
            partition_fields=("p",),
        ),
    )


def file_id_of(key: str, buckets: int) -> str:
    """Return the file group of a key; every writer knows it by itself."""
    return f"{sum(key.encode()) % buckets:08d}-0000-0000-0000-000000000000-0"


def merged(layers: Iterable[Rows]) -> dict[str, Row]:
    """Return the rows of layers in merge order: a greater ordering value wins, and a later tie."""
    found: dict[str, Row] = {}
    for layer in layers:
        for key, row in layer.items():
            if key not in found or row[0] >= found[key][0]:
                found[key] = row
    return found


def read_toy_slice(storage: Storage, piece: FileSlice) -> dict[str, Row]:
    """Return the rows of one slice."""
    paths = [file.path for file in piece.log_files]
    if piece.base_file is not None:
        paths.insert(0, piece.base_file.path)
    return merged(_decoded(storage.read(path)) for path in paths)


def read_toy(storage: Storage, snapshot: Snapshot) -> dict[str, Row]:
    """Return the rows of the table."""
    return merged(read_toy_slice(storage, piece) for piece in snapshot.slices().values())


def write_toy_file(
    env: Env,
    config: TableConfig,
    txn: Transaction,
    file_id: str,
    rows: Rows,
    *,
    before: FileSlice | None,
    as_base: bool,
) -> WriteStat:
    """Write rows to one file of a write, the marker first, as tasks do."""
    storage = env.storage
    now = txn.instant_time
    folder = partition_metadata.PartitionMetadata(commit_time=now, partition_depth=1)
    storage.put_if_absent(
        f"{PARTITION}/{partition_metadata.FILE_NAME}", partition_metadata.encode(folder, "")
    )
    token = WriteToken(task=0, stage=0, attempt=0).of_owner(txn.owner).format()
    if as_base:
        name = format_base(
            file_id=file_id, write_token=token, instant_time=now, extension="parquet"
        )
        kind = MarkerKind.MERGE if before else MarkerKind.CREATE
    else:
        name = format_log(file_id=file_id, instant_time=now, version=1, write_token=token)
        kind = MarkerKind.of_log(config.table_version)
    path = f"{PARTITION}/{name}"
    data = json.dumps({key: list(row) for key, row in rows.items()}).encode()
    storage.put(marker_path(txn.marker_folder, path, kind), b"")
    storage.put(path, data)
    if not _is_alive(storage, txn):
        storage.delete(path)
        raise InstantLostError(f"{now} was ended while {path} was being written", next_step="")
    return WriteStat(
        file_id=file_id,
        path=path,
        partition_path=PARTITION,
        prev_commit=before.base_instant_time if before else NO_PREVIOUS_COMMIT,
        num_writes=len(rows),
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
    )


def _is_alive(storage: Storage, txn: Transaction) -> bool:
    """Look at the heartbeat, as tasks do once they have written a file."""
    try:
        found = storage.read(txn.heartbeat_path)
    except MissingFileError:
        return False
    return txn.owner is None or found == txn.owner.encode()


def _decoded(data: bytes) -> dict[str, Row]:
    return {key: (row[0], row[1]) for key, row in json.loads(data).items()}
