"""Which of two operations gives way: pure decisions of optimistic concurrency control.

A footprint is what an operation touches. `overlap` finds what two of them share, `judge` names the
rule that decides about it. Who is compared with whom is told in `txn.conflicts.candidates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from tidelake.formats.file_name import bucket_number
from tidelake.model import Word
from tidelake.model.table_format import TableFormat

#: Name of the slot that stands for all of a partition.
_ANY = "*"
#: How the names of slots begin that are buckets.
_BUCKET = "bucket "


def slot_name(file_id: str) -> str:
    """Return what two writers must not both change: the bucket where the id names one."""
    number = bucket_number(file_id)
    return file_id if number is None else f"{_BUCKET}{number}"


class Kind(Word):
    """What an operation is, as far as conflicts go."""

    INGESTION = "ingestion"
    COMPACTION = "compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING = "clustering"


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """The place in a partition that two writers must not change behind each other's back.

    `name` is a bucket number where the table has a bucket index, because two first writers of a
    bucket make up different file ids, and the file id otherwise.
    """

    partition: str
    name: str

    @property
    def is_bucket(self) -> bool:
        """Return whether the name is that of a bucket."""
        return self.name.startswith(_BUCKET)

    @override
    def __str__(self) -> str:
        return f"{self.partition}/{self.name}" if self.partition else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """All that conflict resolution may know about one operation."""

    kind: Kind
    requested_time: str
    completion_time: str | None = None
    slots: frozenset[Slot] = frozenset()
    base_slots: frozenset[Slot] = frozenset()
    """Those of `slots` for which a base file was written, or that were retired."""
    partitions: frozenset[str] = field(default=frozenset())
    """Partitions that are replaced whole, whatever lies in them."""
    files: Mapping[Slot, str] = field(default_factory=dict, compare=False)
    """A data file of each of `slots` that the operation wrote, as far as it has."""
    filled_slots: frozenset[Slot] = frozenset()
    """Those of `base_slots` to which the operation added keys."""
    touched: frozenset[str] = frozenset()
    """Every partition in which the operation writes or retires, or said that it will."""
    unnamed: frozenset[str] = frozenset()
    """Those of `touched` of which a pending operation did not say which file groups it changes."""
    replaces_table: bool = False
    """Whether everything is to go that was in the table, in partitions yet to come as well."""
    retired: frozenset[Slot] = frozenset()
    """Those of `slots` whose file groups are taken off the table."""
    retires: bool = False
    """Whether it takes file groups off the table, or whatever lies in whole partitions."""
    file_ids: Mapping[Slot, str] = field(default_factory=dict, compare=False)
    """The file group of each of `slots` that the operation wrote to."""
    mode: str = ""
    """The concurrency mode of who did it; empty where that is not known."""

    @property
    def is_pending(self) -> bool:
        """Return whether the operation has not completed."""
        return self.completion_time is None


class Rule(Word):
    """The rule that decided about two footprints."""

    DISJOINT = "they share no file group"
    COMMITTED_BLOCKS = "a log compaction only rewrites blocks that were committed before"
    COMPACTED_PAST = "a newer compaction has taken in what the log compaction rewrites"
    TWO_BASES = "a base file and a compaction of the same file group come from different inputs"
    PLANNED_FIRST = "the compaction was planned before the write chose its files"
    OWN_LOGS = "the write only added logs, which land in the slice after the compaction"
    SHARED_LOGS = "the write appended to a slice that a compaction behind its back closes"
    CLUSTERED_AWAY = "a clustering has replaced the file group"
    CLUSTERING_PENDING = "a pending clustering is moving the rows of the file group"
    CLUSTERING_YIELDS = "rows of the file group were written since the clustering was planned"
    CLUSTERING_WAITS = "a pending write has not said yet which file groups it will change"
    BUCKET_MOVED = "the bucket has another file group by now, or none"
    WRITERS_PENDING = "a pending write may still add to the file groups that would be retired"
    OVERLAP = "both changed the same file group"
    SAME_NEW_KEYS = "both added the same keys, each to a file group of its own"

    @property
    def refuses(self) -> bool:
        """Return whether the operation that asks has to give way."""
        return self in _REFUSING


_REFUSING = frozenset(
    {
        Rule.COMPACTED_PAST,
        Rule.TWO_BASES,
        Rule.SHARED_LOGS,
        Rule.CLUSTERED_AWAY,
        Rule.CLUSTERING_PENDING,
        Rule.CLUSTERING_YIELDS,
        Rule.CLUSTERING_WAITS,
        Rule.BUCKET_MOVED,
        Rule.WRITERS_PENDING,
        Rule.OVERLAP,
        Rule.SAME_NEW_KEYS,
    }
)


def overlap(ours: Footprint, theirs: Footprint) -> frozenset[Slot]:
    """Return what both touch; a whole partition meets every slot in it, old or new.

    When ours replaces the table, it meets partitions that theirs has added, too. Not the other way
    round: what we add to a partition that theirs did not know of simply comes after it. A pending
    operation may have said no more than the partitions in which it will change file groups.
    """
    others = theirs.touched | theirs.partitions if theirs.is_pending else theirs.partitions
    whole = others if ours.replaces_table else ours.partitions & others
    whole |= theirs.unnamed & {slot.partition for slot in ours.slots}
    return frozenset(
        {
            *(ours.slots & theirs.slots),
            *_covered(theirs.slots, ours),
            *_covered(ours.slots, theirs),
            *(theirs.slots if ours.replaces_table else ()),
            *(Slot(partition, _ANY) for partition in whole),
        }
    )


def judge(ours: Footprint, theirs: Footprint, *, table_version: int) -> Rule:
    """Return the first rule that applies to two footprints."""
    shared = overlap(ours, theirs)
    if not shared:
        return Rule.DISJOINT
    if ours.kind is Kind.LOG_COMPACTION:
        return _judge_log_compaction(ours, theirs)
    if ours.kind is Kind.CLUSTERING and theirs.kind is Kind.INGESTION:
        is_named = any(slot.name != _ANY for slot in shared)
        return Rule.CLUSTERING_YIELDS if is_named else Rule.CLUSTERING_WAITS
    if ours.kind is not Kind.INGESTION:
        return Rule.OVERLAP
    if theirs.kind is Kind.CLUSTERING:
        return Rule.CLUSTERING_PENDING if theirs.is_pending else Rule.CLUSTERED_AWAY
    if theirs.kind in (Kind.COMPACTION, Kind.LOG_COMPACTION):
        return _judge_against_compaction(ours, theirs, shared, table_version)
    return Rule.WRITERS_PENDING if theirs.is_pending else Rule.OVERLAP


def judge_added_logs(ours: Footprint, theirs: Footprint) -> Rule:
    """Return the rule for a write that gives way to nobody, against one that completed meanwhile.

    Its logs stand beside whatever others wrote to the same file group. They must not land in a file
    group that is off the table by now, nor in a second one of a bucket.
    """
    if theirs.retired & ours.slots:
        return Rule.BUCKET_MOVED
    shared = ours.file_ids.keys() & theirs.file_ids.keys()
    if any(ours.file_ids[slot] != theirs.file_ids[slot] for slot in shared):
        return Rule.BUCKET_MOVED
    return Rule.DISJOINT


def _judge_log_compaction(ours: Footprint, theirs: Footprint) -> Rule:
    if theirs.kind is Kind.INGESTION:
        return Rule.COMMITTED_BLOCKS
    if theirs.kind is Kind.COMPACTION and theirs.requested_time > ours.requested_time:
        return Rule.COMPACTED_PAST
    return Rule.OVERLAP


def _judge_against_compaction(
    ours: Footprint, theirs: Footprint, shared: frozenset[Slot], table_version: int
) -> Rule:
    rewritten = ours.base_slots & shared or _covered(shared, ours) or ours.replaces_table
    if rewritten and theirs.kind is Kind.COMPACTION:
        return Rule.TWO_BASES
    if theirs.requested_time < ours.requested_time:
        return Rule.PLANNED_FIRST
    return Rule.OWN_LOGS if TableFormat(table_version).has_own_logs else Rule.SHARED_LOGS


def _covered(slots: Iterable[Slot], by: Footprint) -> frozenset[Slot]:
    return frozenset(slot for slot in slots if slot.partition in by.partitions)
