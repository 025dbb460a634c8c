"""Where the rows of a write go: from counted rows and live file groups to one target each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.config import ConcurrencyMode, TableConfig, WriteOperation, WriteOptions
from tidelake.env import Ids
from tidelake.files.write_task import GroupTarget, WriteKind
from tidelake.formats.file_name import bucket_number
from tidelake.model import FileGroupId, TableType
from tidelake.write.groups import LiveGroup, refuse_split_buckets
from tidelake.write.index import Index, bucket_file_id, renewed_file_id
from tidelake.write.sizing import Share, share_out, small_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The rows of a write, counted by partition and group.

    The group is a file id, or the number of a bucket as eight digits, or None for rows whose group
    is still to be chosen. `checksum` is over the keys: a second evaluation of the same rows must
    give the same. The bucket of `oddly_hashed` rows is still to be found.
    """

    counts: Mapping[tuple[str, str | None], int] = field(default_factory=dict)
    checksum: int = 0
    oddly_hashed: int = 0

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return sum(self.counts.values())

    @property
    def content(self) -> str:
        """Return how many rows there are and their checksum, as a commit keeps them."""
        return f"{self.rows}:{self.checksum}"

    @property
    def partitions(self) -> list[str]:
        """Return the partitions that the rows belong to, sorted."""
        return sorted({partition for partition, _ in self.counts})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGroups:
    """How a task names the file groups of buckets that have none yet.

    `kind` is None when rows for such a bucket are left out: a delete finds nothing there. `renewed`
    are the ids of buckets, by partition and number, whose fixed ids were used up.
    """

    kind: WriteKind | None
    fixed_ids: bool = False
    renewed: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """Where every row of a write goes; plain values all through.

    `targets` are by partition and group, as `Workload` has them. `shares` say for each partition
    where its rows without a group go. `new_buckets` is set for the bucket index alone.
    """

    targets: Mapping[tuple[str, str], GroupTarget]
    shares: Mapping[str, tuple[Share, ...]] = field(default_factory=dict)
    new_buckets: NewGroups | None = None
    known_partitions: frozenset[str] = frozenset()
    rewritten_bytes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Sizes of the base files that the write reads and writes anew, by partition and group."""

    @property
    def base_bytes(self) -> int:
        """Return the bytes of all base files that are written anew."""
        return sum(self.rewritten_bytes.values())

    def weights(self, workload: Workload, record_bytes: int) -> dict[tuple[str, str], int]:
        """Return how much work each group is: its rows, and the base file to write anew."""
        found = {
            (partition, group): rows * record_bytes
            for (partition, group), rows in workload.counts.items()
            if group is not None
        }
        for partition, shares in self.shares.items():
            for share in shares:
                at = (partition, share.file_id)
                found[at] = found.get(at, 0) + share.rows * record_bytes
        for at, size_bytes in self.rewritten_bytes.items():
            found[at] = found.get(at, 0) + size_bytes
        return found

    def left_out(self, workload: Workload) -> list[FileGroupId]:
        """Return the buckets without a file group from which the write was to delete rows.

        The ids name the bucket: the one that it would have if ids were fixed.
        """
        if self.new_buckets is None or self.new_buckets.kind is not None:
            return []
        return [
            FileGroupId(
                partition,
                bucket_file_id(int(group), "", fixed=True) if group.isdigit() else group,
            )
            for partition, group in workload.counts
            if group is not None and (partition, group) not in self.targets
        ]

    def touched(self) -> list[FileGroupId]:
        """Return the file groups, of those that exist, that the write changes."""
        return [
            FileGroupId(t.partition, t.file_id)
            for t in self.targets.values()
            if t.kind is not WriteKind.CREATE
        ]


def plan_write(
    operation: WriteOperation,
    config: TableConfig,
    index: Index,
    options: WriteOptions,
    workload: Workload,
    live: Sequence[LiveGroup],
    *,
    by_file_id: bool,
    record_bytes: int,
    ids: Ids,
    replaced: Mapping[FileGroupId, str],
) -> WritePlan:
    """Return the plan of an insert, upsert or delete.

    `live` are the file groups of the workload's partitions, and `replaced` those of the whole table
    that gave way to others, with the requested time of the last instant that did it, needed where
    ids of buckets are fixed. With `by_file_id` groups are file ids even where buckets
    rule: the rows were read from these groups.
    """
    known = frozenset(g.id.partition for g in live)
    word = _bucket_word if index.is_simple_bucket and not by_file_id else _file_id
    groups = {(g.id.partition, word(g)): g for g in live}
    refuse_split_buckets(live, {at for at in workload.counts if word is _bucket_word})
    planner = _Planner(operation, config, index, options)
    wanted = [(p, group) for p, group in workload.counts if group is not None]
    targets = {at: planner.existing(groups[at]) for at in wanted if at in groups}
    shares: dict[str, tuple[Share, ...]] = {}
    for (partition, group), rows in workload.counts.items():
        if group is not None:
            continue
        own = [g for g in live if g.id.partition == partition]
        small = small_files(planner.takes_inserts(own), options)
        found = share_out(rows, small, _fresh(ids), options, record_bytes)
        shares[partition] = tuple(found)
        for share in found:
            at = (partition, share.file_id)
            if share.is_new:
                targets[at] = _created(partition, share.file_id, known)
            else:
                targets[at] = planner.filled(groups[at])
    new_buckets = None
    if index.is_bucket and not by_file_id:
        new_buckets = planner.new_buckets(replaced)
    sizes = {g.id: g.slice.base_file.size_bytes for g in live if g.slice.base_file is not None}
    rewritten = {
        at: sizes[FileGroupId(t.partition, t.file_id)]
        for at, t in targets.items()
        if t.kind in (WriteKind.MERGE, WriteKind.CONCAT)
    }
    return WritePlan(
        targets=targets,
        shares=shares,
        new_buckets=new_buckets,
        known_partitions=known,
        rewritten_bytes=rewritten,
    )


def plan_new_files(
    workload: Workload, options: WriteOptions, known: frozenset[str], record_bytes: int, ids: Ids
) -> WritePlan:
    """Return the plan of rows that all go to new file groups, as in an overwrite."""
    shares = {
        partition: tuple(share_out(rows, (), _fresh(ids), options, record_bytes))
        for (partition, _), rows in workload.counts.items()
    }
    targets = {
        (partition, share.file_id): _created(partition, share.file_id, known)
        for partition, found in shares.items()
        for share in found
    }
    return WritePlan(targets=targets, shares=shares, known_partitions=known)


@dataclass(frozen=True, slots=True)
class _Planner:
    operation: WriteOperation
    config: TableConfig
    index: Index
    options: WriteOptions

    def existing(self, group: LiveGroup) -> GroupTarget:
        """Return the target of rows whose key may be in the group."""
        if self._is_merge_on_read or group.slice.base_file is None:
            return _appended(group)
        return _rewritten(group, WriteKind.MERGE)

    def filled(self, group: LiveGroup) -> GroupTarget:
        """Return the target of a group that takes new rows besides."""
        inserts = self.operation is WriteOperation.INSERT
        kind = WriteKind.CONCAT if inserts and self.options.keep_duplicates else WriteKind.MERGE
        return _rewritten(group, kind)

    def takes_inserts(self, groups: Sequence[LiveGroup]) -> Iterator[tuple[str, int]]:
        """Return the groups that may take new rows, with the size of their base files.

        A base file with logs is left to compaction, and one that is planned for must stay.
        """
        for group in groups:
            base = group.slice.base_file
            if base is not None and not group.slice.log_files and not group.is_reserved:
                yield group.id.file_id, base.size_bytes

    def new_buckets(self, replaced: Mapping[FileGroupId, str]) -> NewGroups:
        others_fill = self.options.concurrency.mode is ConcurrencyMode.NON_BLOCKING
        if self.operation is WriteOperation.DELETE and not others_fill:
            return NewGroups(kind=None)
        # Logs stand beside whatever other writers put into the file group meanwhile.
        kind = WriteKind.APPEND if others_fill else WriteKind.CREATE
        if not self.index.fixed_ids:
            return NewGroups(kind=kind)
        return NewGroups(kind=kind, fixed_ids=True, renewed=dict(_renewed(replaced)))

    @property
    def _is_merge_on_read(self) -> bool:
        return self.config.table_type is TableType.MERGE_ON_READ


def _renewed(replaced: Mapping[FileGroupId, str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield an id for each bucket of which a file group was replaced, by the last time of it."""
    for group, instant_time in sorted(replaced.items(), key=lambda item: item[1]):
        bucket = bucket_number(group.file_id)
        if bucket is not None:
            yield (group.partition, f"{bucket:08d}"), renewed_file_id(bucket, instant_time)


def _bucket_word(group: LiveGroup) -> str:
    number = bucket_number(group.id.file_id)
    return group.id.file_id if number is None else f"{number:08d}"


def _file_id(group: LiveGroup) -> str:
    return group.id.file_id


def _fresh(ids: Ids) -> Iterator[str]:
    while True:
        yield f"{ids.new()}-0"


def _created(partition: str, file_id: str, known: frozenset[str]) -> GroupTarget:
    return GroupTarget(
        partition=partition,
        file_id=file_id,
        kind=WriteKind.CREATE,
        rolls=True,
        partition_known=partition in known,
    )


def _rewritten(group: LiveGroup, kind: WriteKind) -> GroupTarget:
    base = group.slice.base_file
    if base is None:
        raise ValueError(f"{group.id} has no base file to rewrite")
    return GroupTarget(
        partition=group.id.partition,
        file_id=group.id.file_id,
        kind=kind,
        base_path=base.path,
        base_instant=base.instant_time,
        partition_known=True,
    )


def _appended(group: LiveGroup) -> GroupTarget:
    base = group.slice.base_file
    return GroupTarget(
        partition=group.id.partition,
        file_id=group.id.file_id,
        kind=WriteKind.APPEND,
        base_path=None if base is None else base.path,
        base_instant=None if base is None else base.instant_time,
        slice_instant=group.log_instant,
        log_names=group.log_names,
        log_version=group.log_version,
        partition_known=True,
    )
