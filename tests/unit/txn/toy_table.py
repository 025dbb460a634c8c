"""A table whose files hold one text each, written with the real protocol and read with the view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.unit.txn.hand_ticker import HandTicker
from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.formats import log_block, partition_metadata
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.formats.file_name import format_base, format_log, parse_base, parse_log
from tidelake.formats.log_block import BlockKind, HeaderKey
from tidelake.formats.marker_name import MarkerKind, marker_folder, marker_path
from tidelake.model import Action, Commit, FileSlice, TableType
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import ManualClock, SeededIds
from tidelake.timeline import (
    Timeline,
    TimelineContents,
    load_history_times,
    load_table_config,
    load_timeline,
)
from tidelake.txn import MetadataKeeper, TableSpec, Transaction, begin, create_table
from tidelake.view import Listing, StorageListing, TableView

SCHEMA = '{"type":"record","name":"r","fields":[]}'
PARTITION = "p=1"
Rows = Mapping[str, str]
#: Each kind of table that writes differ for.
KINDS = [(v, t) for v in (6, 8, 9) for t in TableType]


def new_storage(
    table_version: int, table_type: TableType, now_ms: Callable[[], int] | None = None
) -> MemoryStorage:
    storage = MemoryStorage(now_ms=now_ms)
    create_table(
        environment(storage),
        TableSpec(
            name="toy",
            schema=SCHEMA,
            table_type=table_type,
            table_version=table_version,
            record_key_fields=("id",),
            partition_fields=("p",),
            hive_style_partitioning=True,
        ),
    )
    return storage


def environment(storage: Storage) -> Env:
    # Writers that are left behind are dead.
    return Env(storage, ManualClock(), SeededIds(), HandTicker())


class Toy:
    """The table as whoever opens it now finds it."""

    def __init__(self, storage: Storage, keeper: Callable[[Env], MetadataKeeper] | None = None):
        self.env = environment(storage)
        self.keeper = None if keeper is None else keeper(self.env)
        self.storage = storage
        self.config: TableConfig = load_table_config(storage)
        self.timeline: Timeline = load_timeline(storage, self.config)

    def write(self, rows: Rows, *, overwrite: bool = False, write_id: str | None = None) -> Commit:
        """Set the text of file groups; every task runs twice, as speculation makes them."""
        txn = self.begin(overwrite=overwrite, write_id=write_id)
        with txn:
            existing = {} if overwrite else self.slices(txn.timeline)
            retired = tuple(self.slices(txn.timeline)) if overwrite else ()
            txn.start({PARTITION: [WriteStat(file_id="", path=None, prev_commit="null")]})
            stats = [
                self.task(txn, group, text, existing.get(group), token)
                for group, text in rows.items()
                for token in ("0-1-1", "0-1-0")
            ][1::2]
            replaced = {PARTITION: retired} if overwrite else None
            return txn.commit(stats, schema=SCHEMA, replaced=replaced)

    def begin(self, *, overwrite: bool = False, write_id: str | None = None) -> Transaction:
        action = Action.REPLACECOMMIT if overwrite else self.write_action
        operation = "INSERT_OVERWRITE" if overwrite else "UPSERT"
        return begin(
            self.env,
            self.config,
            self.timeline,
            action=action,
            operation=operation,
            write_id=write_id,
            keeper=self.keeper,
        )

    @property
    def write_action(self) -> Action:
        is_mor = self.config.table_type is TableType.MERGE_ON_READ
        return Action.DELTACOMMIT if is_mor else Action.COMMIT

    def task(
        self, txn: Transaction, group: str, text: str, before: FileSlice | None, token: str
    ) -> WriteStat:
        storage, now = self.storage, txn.instant_time
        base = partition_metadata.PartitionMetadata(commit_time=now, partition_depth=1)
        marker = f"{PARTITION}/{partition_metadata.FILE_NAME}"
        storage.put_if_absent(marker, partition_metadata.encode(base, ""))
        previous = before.base_instant_time if before else NO_PREVIOUS_COMMIT
        data = text.encode()
        if before is not None and self.config.table_type is TableType.MERGE_ON_READ:
            own = self.config.table_version >= 8
            name = format_log(
                file_id=group,
                instant_time=now if own else previous,
                version=1 if own else 1 + max((f.version for f in before.log_files), default=0),
                write_token=token,
            )
            kind = MarkerKind.of_log(self.config.table_version)
            headers: dict[int, str] = {HeaderKey.INSTANT_TIME: now, HeaderKey.SCHEMA: SCHEMA}
            data = log_block.encode_block(BlockKind.AVRO_DATA, headers, data)
        else:
            name = format_base(
                file_id=group, write_token=token, instant_time=now, extension="parquet"
            )
            kind = MarkerKind.MERGE if before else MarkerKind.CREATE
        path = f"{PARTITION}/{name}"
        storage.put(marker_path(txn.marker_folder, path, kind), b"")
        storage.put(path, data)
        return WriteStat(
            file_id=group,
            path=path,
            partition_path=PARTITION,
            prev_commit=previous,
            num_inserts=0 if before else 1,
            num_update_writes=1 if before else 0,
            total_write_bytes=len(data),
            file_size_in_bytes=len(data),
        )

    def slices(
        self, timeline: Timeline | None = None, listing: Listing | None = None
    ) -> dict[str, FileSlice]:
        timeline = timeline or self.timeline
        view = TableView(
            table_version=self.config.table_version,
            timeline=timeline,
            contents=TimelineContents(self.storage, self.config),
            listing=listing or StorageListing(self.storage),
            history_times=lambda: load_history_times(self.storage, self.config),
        )
        return {s.group.file_id: s for s in view.latest_slices()}

    def rows(self, listing: Listing | None = None) -> dict[str, str]:
        """Return what a reader sees."""
        committed = {i.requested_time for i in self.timeline.writes()}
        committed.update(load_history_times(self.storage, self.config))
        slices = self.slices(listing=listing)
        return {group: self._text(found, committed) for group, found in slices.items()}

    def rows_once_archived(self) -> dict[str, str]:
        """Return what a reader sees when every instant counts as archived, thus as committed."""
        found: dict[str, list[str]] = {}
        for path in self.data_files():
            partition, _, name = path.rpartition("/")
            parsed = parse_base(partition, name, 0) or parse_log(partition, name, 0)
            assert parsed is not None
            found.setdefault(parsed.file_id, []).append(path)
        return {group: self._archived(paths) for group, paths in found.items()}

    def _archived(self, paths: list[str]) -> str:
        logs = [log for p in paths if (log := parse_log(PARTITION, p.rpartition("/")[2], 0))]
        bases = [b for p in paths if (b := parse_base(PARTITION, p.rpartition("/")[2], 0))]
        newest = max(bases, key=lambda b: b.instant_time)
        order = sorted(logs, key=lambda f: (f.instant_time, f.version, f.write_token))
        blocks = [b for f in order for b in log_block.decode_blocks(self.storage.read(f.path))]
        valid = log_block.valid_blocks(blocks)
        last = bytes(valid[-1].content) if valid else self.storage.read(newest.path)
        return last.decode()

    def _text(self, found: FileSlice, committed: set[str]) -> str:
        blocks = [
            block
            for log in found.log_files
            for block in log_block.decode_blocks(self.storage.read(log.path))
        ]
        valid = log_block.valid_blocks(blocks, is_visible=committed.__contains__)
        if valid:
            return bytes(valid[-1].content).decode()
        assert found.base_file is not None
        return self.storage.read(found.base_file.path).decode()

    def data_files(self) -> Iterator[str]:
        for path in self.storage.files_below(PARTITION):
            if not path.endswith(partition_metadata.FILE_NAME):
                yield path

    def leftovers(self) -> list[str]:
        """Return everything that is neither the table's nor of a completed instant.

        Markers of a completed instant are nobody's: a crash may leave them until it is archived.
        Nor is its heartbeat, which goes last, and which a clean deletes.
        """
        contents = TimelineContents(self.storage, self.config)
        named = {
            stat.path
            for instant in self.timeline.writes()
            for stat in contents.commit_metadata(instant).write_stats
        }
        done = tuple(marker_folder(i.requested_time) for i in self.timeline.writes())
        completed = {i.requested_time for i in self.timeline.completed}

        def ended(path: str) -> bool:
            name = path.rpartition("/")[2]
            return name.strip(".").partition(".")[0] in completed

        blocks = {p: self._is_taken_back(p) for p in self.data_files() if p not in named}
        return [
            *(f"{i.requested_time} {i.action} {i.state}" for i in self.timeline.pending),
            *(p for p in self.storage.files_below(".hoodie/.temp") if not p.startswith(done)),
            *(p for p in self.storage.files_below(".hoodie/.heartbeat") if not ended(p)),
            *(path for path, taken_back in blocks.items() if not taken_back),
        ]

    def _is_taken_back(self, path: str) -> bool:
        """Return whether the file is a rollback block, or stands before one that takes it back."""
        log = parse_log(*path.rpartition("/")[::2], 0)
        if log is None or self.config.table_version >= 8:
            return False
        blocks = log_block.decode_blocks(self.storage.read(path))
        if all(block.is_rollback for block in blocks):
            return True
        wanted = {block.instant_time for block in blocks}
        after = [
            found
            for other in self.data_files()
            if (found := parse_log(*other.rpartition("/")[::2], 0))
            and (found.file_id, found.instant_time) == (log.file_id, log.instant_time)
            and found.version > log.version
        ]
        taken = {
            block.target_instant_time
            for found in after
            for block in log_block.decode_blocks(self.storage.read(found.path))
            if block.is_rollback
        }
        return wanted <= taken
