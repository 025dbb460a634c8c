"""How a writer shares the table with others: its lock, and what it checks before it commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

from tidelake.config import ConcurrencyMode, ConflictStrategy, TableConfig
from tidelake.env import Env
from tidelake.errors import (
    InstantLostError,
    TidelakeError,
    WriteConflictError,
)
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.model import WRITE_ACTIONS, Action, Instant
from tidelake.timeline import History, Timeline, TimelineContents
from tidelake.txn.conflicts.candidates import (
    Basis,
    SlotName,
    Start,
    completed_candidates,
    footprint,
    is_clustering,
    is_silent,
    pending_candidates,
    pending_writes,
)
from tidelake.txn.conflicts.judge import (
    Footprint,
    Kind,
    Rule,
    Slot,
    judge,
    judge_added_logs,
    overlap,
)
from tidelake.txn.conflicts.undone_writes import rollback_target
from tidelake.txn.locks import TableLock
from tidelake.txn.protocol.instant_times import InstantTimes

#: Key of a commit's extra metadata that says which process wrote it.
WRITER = "tidelake.writer"

_SHARE = (
    "set hoodie.write.concurrency.mode to what the other writers have, such as "
    "OPTIMISTIC_CONCURRENCY_CONTROL, and run the write again"
)

#: Takes the table's schema as it is now and the instant that made it so; returns the schema to
#: commit.
SchemaResolver = Callable[["str | None", str], str]


#: Takes files of two writes, each with the instant that wrote it; returns some keys that both
#: brought.
SharedKeys = Callable[[Mapping[str, str], Mapping[str, str]], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """The rules by which one writer shares a table, and the lock by which it does.

    Without a lock the writer is alone. `slot_name` says what of a file id two writers must not
    both have: see `txn.conflict.Slot`.
    """

    mode: ConcurrencyMode = ConcurrencyMode.SINGLE_WRITER
    lock: TableLock | None = None
    strategy: ConflictStrategy = ConflictStrategy.SIMPLE
    allows_update: bool = False
    slot_name: SlotName = str
    max_skew_ms: int = 0
    max_future_ms: int | None = None
    heartbeat_ms: int = 60_000
    expires_after_ms: int = 120_000
    writer: str = ""
    shared_keys: SharedKeys = lambda _ours, _theirs: ()
    checks_new_keys: bool = False
    """Whether writes conflict that added the same keys to file groups of their own."""
    keys_span_partitions: bool = False
    """Whether a key of one partition must not be in another."""
    takes_non_blocking: bool = False
    """Whether a writer that does not say its mode may be one that never gives way."""
    early_period_ms: int | None = None
    """How often to look, while tasks write, whether the write will have to give way; None: never"""
    early_commits: bool = False
    """Whether such a look also takes in the writes that have completed since."""

    def __post_init__(self) -> None:
        if self.mode.is_shared and self.lock is None:
            raise ValueError(f"{self.mode} takes a lock")

    @property
    def is_shared(self) -> bool:
        """Return whether others may be writing."""
        return self.mode.is_shared

    @contextmanager
    def section(self) -> Iterator[None]:
        """Keep other writers out: of taking times, and of commits."""
        if self.lock is None:
            yield
            return
        with self.lock.held():
            yield

    def ensure(self) -> None:
        """Raise `LockLostError` when others may have come in since the section began."""
        if self.lock is not None:
            self.lock.ensure()

    def ensure_lasting(self) -> None:
        """Raise `LockLostError` when the lease has run out by this process's own clock.

        In front of what goes again if a look behind it, by `ensure`, finds that the lock was lost.
        """
        if self.lock is not None:
            self.lock.ensure_lasting()

    def extend(self) -> None:
        """Make the lock last, if it is held: for long work that may be done with it or without."""
        if self.lock is not None and self.lock.is_entered:
            self.lock.ensure()

    def times(self, env: Env, config: TableConfig, timeline: Timeline) -> InstantTimes:
        """Return a source of times that goes on from `timeline`."""
        return InstantTimes(
            env.clock,
            config,
            timeline,
            max_skew_ms=self.max_skew_ms,
            max_future_ms=self.max_future_ms,
            fence=self.ensure,
            lease=self.ensure_lasting,
        )

    @property
    def basis(self) -> Basis:
        """Return which time tells whether a write saw the result of another."""
        return Basis.END if self.strategy is ConflictStrategy.END else Basis.START


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """Compares one write with what others did since it began, on the timeline as it is now."""

    concurrency: Concurrency
    start: Start
    timeline: Timeline
    contents: TimelineContents
    table_version: int
    history: History | None = None
    is_alive: Callable[[str], bool] = lambda _: False
    """Whether a pending write gives signs of life."""
    roll_back_dead: Callable[[Instant], None] = lambda _: None
    """Puts the rollback of a dead write on the timeline, where the write finds it if it returns."""
    never_looks: Callable[[str], bool] = lambda _: False
    """Whether a pending write will commit whatever others did meanwhile."""
    late: Sequence[Instant] = ()
    """Writes that did not honour the lock: see `txn.conflicts.unlocked_writers`."""

    def refuse_lost(self, instant_time: str) -> None:
        """Raise `InstantLostError` when somebody has rolled the write back, or begun to."""
        if not any(_is_write_at(i, instant_time) for i in self.timeline.pending):
            raise lost(instant_time, "somebody rolled it back")
        self._refuse_targeted(instant_time, self.timeline.pending)

    def refuse_rolled_back(self, instant_time: str, before: Timeline) -> None:
        """Raise `InstantLostError` when somebody rolled the write back since `before`."""
        known = {i.key for i in before.instants}
        new = [i for i in self.timeline.instants if i.key not in known]
        self._refuse_targeted(instant_time, new)

    def _refuse_targeted(self, instant_time: str, instants: Iterable[Instant]) -> None:
        for rollback in instants:
            if (
                rollback.action is Action.ROLLBACK
                and rollback_target(rollback, self.contents) == instant_time
            ):
                raise lost(
                    instant_time, f"rollback {rollback.requested_time} has begun to take it back"
                )

    def refuse_conflicts(self, ours: Footprint) -> None:
        """Raise `WriteConflictError` when the write has to give way to another."""
        self.refuse(ours, [*self._completed(ours), *self._pending(ours)])

    def refuse_completed(self, ours: Footprint) -> None:
        """Raise `WriteConflictError` when a write has completed to which ours will give way."""
        self.refuse(ours, self._completed(ours))

    def refuse_displaced(self, ours: Footprint, named: Set[Slot]) -> None:
        """Raise `WriteConflictError` when a write of logs would land where nobody reads them.

        `named` are the slots whose file groups were there when the write began: those can only have
        been replaced, while new ones may have been made by another writer under another id.
        """
        makes_new = not ours.slots <= named
        for instant in self._completed(ours):
            if makes_new or instant.action is Action.REPLACECOMMIT:
                theirs = self._footprint(instant)
                rule = Rule.DISJOINT if theirs is None else judge_added_logs(ours, theirs)
                if theirs is not None and rule.refuses:
                    raise self._conflict(ours, instant, theirs, rule)

    def writers_beneath(self, ours: Footprint) -> list[Instant]:
        """Return the pending writes that may be adding to what ours takes off the table."""
        if not _displaces(ours):
            return []
        pending = pending_writes(self.timeline, self.contents, self.start)
        return [i for i in pending if self.never_looks(i.requested_time)]

    def refuse_clustered(self, ours: Footprint) -> None:
        """Raise `WriteConflictError` when a pending clustering moves what the write changes."""
        clusterings = (i for i in self.timeline.pending if is_clustering(i, self.contents))
        self.refuse(ours, clusterings)

    def refuse(self, ours: Footprint, others: Iterable[Instant]) -> None:
        """Raise `WriteConflictError` when the write has to give way to one of these."""
        for instant in others:
            theirs = self._footprint(instant)
            if theirs is None:
                continue
            rule = self._rule(ours, theirs)
            if rule.refuses:
                if self._is_dead_write(theirs):
                    self._pass_over(instant)
                    continue
                raise self._conflict(ours, instant, theirs, rule)
            keys = self._same_new_keys(ours, theirs) if self.concurrency.checks_new_keys else ()
            if keys:
                raise self._conflict(ours, instant, theirs, Rule.SAME_NEW_KEYS, keys)

    def refuse_pending_writes(self, ours: Footprint) -> None:
        """Raise `WriteConflictError` when the commit would hurt a write that is still running."""
        pending = self._pending(ours)
        writes = [i for i in pending if i.planned_as in WRITE_ACTIONS]
        self.refuse(ours, [i for i in writes if not is_clustering(i, self.contents)])

    def _rule(self, ours: Footprint, theirs: Footprint) -> Rule:
        if theirs.is_pending and theirs.kind is Kind.INGESTION and is_silent(theirs):
            is_plan = ours.kind is Kind.CLUSTERING
            return Rule.CLUSTERING_WAITS if is_plan else Rule.WRITERS_PENDING
        return judge(ours, theirs, table_version=self.table_version)

    def _is_dead_write(self, theirs: Footprint) -> bool:
        if not theirs.is_pending or theirs.kind is not Kind.INGESTION:
            return False
        return not self.is_alive(theirs.requested_time)

    def _pass_over(self, dead: Instant) -> None:
        """Commit in spite of a dead write, once its rollback is on the timeline.

        Its process may have been stopped and return: writes that never look at others would then
        commit to file groups that have been retired since.
        """
        rollbacks = (i for i in self.timeline.pending if i.action is Action.ROLLBACK)
        if not any(rollback_target(i, self.contents) == dead.requested_time for i in rollbacks):
            self.roll_back_dead(dead)

    def _footprint(self, instant: Instant) -> Footprint | None:
        return footprint(instant, self.contents, self.concurrency.slot_name, self.history)

    def _same_new_keys(self, ours: Footprint, theirs: Footprint) -> Sequence[str]:
        """Return keys that both added; file groups cannot tell, since each chose its own."""
        if theirs.is_pending or theirs.kind is not Kind.INGESTION:
            return ()
        places = [{s.partition for s in f.filled_slots} for f in (ours, theirs)]
        both = (
            set.union(*places)
            if self.concurrency.keys_span_partitions
            else set.intersection(*places)
        )
        mine, others = (
            {f.files[s]: f.requested_time for s in sorted(f.filled_slots) if s.partition in both}
            for f in (ours, theirs)
        )
        return self.concurrency.shared_keys(mine, others) if mine and others else ()

    def _changed_keys(self, ours: Footprint, theirs: Footprint) -> Sequence[str]:
        """Return keys that both changed in a file group of both."""
        for slot in sorted(overlap(ours, theirs)):
            if slot in ours.files and slot in theirs.files:
                # One file group is enough for a person to know what the two were about.
                return self.concurrency.shared_keys(
                    {ours.files[slot]: ours.requested_time},
                    {theirs.files[slot]: theirs.requested_time},
                )
        return ()

    def _completed(self, ours: Footprint) -> list[Instant]:
        archived: Iterable[Instant] = ()
        if self.history is not None and self.start.may_miss(self.timeline):
            archived = self.history.instants_since(self.start.earliest_unseen)
        # A plan has seen what had completed by its time, whatever was pending then.
        basis = self.concurrency.basis if ours.kind is Kind.INGESTION else Basis.END
        known = completed_candidates(self.timeline, self.start, basis, archived)
        return [*known, *(i for i in self.late if i.is_completed and i not in known)]

    def _pending(self, ours: Footprint) -> list[Instant]:
        plans = pending_candidates(
            self.timeline,
            self.contents,
            self.start,
            ours=ours.kind,
            allows_update=self.concurrency.allows_update,
        )
        return [*plans, *(i for i in self.writers_beneath(ours) if i not in plans)]

    def _conflict(
        self,
        ours: Footprint,
        instant: Instant,
        theirs: Footprint,
        rule: Rule,
        keys: Sequence[str] = (),
    ) -> WriteConflictError:
        shared = ours.filled_slots if rule is Rule.SAME_NEW_KEYS else overlap(ours, theirs)
        told = self._told_keys(ours, theirs) if rule is Rule.OVERLAP else ", ".join(keys)
        return WriteConflictError(
            ours=ours.requested_time,
            theirs=theirs.requested_time,
            overlap=frozenset(map(str, shared)),
            rule=rule.value,
            facts=self._facts(ours, instant, theirs, rule, told),
            next_step=_SHARE if self._is_surprised(theirs) else _next_step(rule, theirs),
        )

    def _facts(
        self, ours: Footprint, instant: Instant, theirs: Footprint, rule: Rule, keys: str
    ) -> dict[str, str]:
        done = theirs.completion_time or "still pending"
        is_known = theirs.completion_time is not None and instant.file_name is not None
        metadata = self.contents.commit_metadata(instant) if is_known else CommitMetadata()
        operation = f" {metadata.operation_type}" if metadata.operation_type else ""
        return {
            "our interval": f"{ours.requested_time} to now{_by(self.concurrency.writer)}",
            "their interval": f"{theirs.requested_time} to {done}{_written_by(metadata)}",
            "they are": f"{theirs.kind}{operation} ({instant.action})",
            "compared by": f"{self.concurrency.strategy} strategy",
            **({"keys of both": keys} if keys else {}),
            **self._unlocked(instant, theirs),
            "a retry": _retry(rule, theirs),
            "would have avoided it": _avoidance(rule),
        }

    def _told_keys(self, ours: Footprint, theirs: Footprint) -> str:
        try:
            return ", ".join(self._changed_keys(ours, theirs)) or "none"
        except TidelakeError as cause:
            # That there is a conflict matters more than an example of it.
            return f"unknown: {cause.problem}"

    def _is_surprised(self, theirs: Footprint) -> bool:
        """Return whether a writer that was told that it is alone meets another that wrote."""
        return not self.concurrency.is_shared and not theirs.is_pending

    def _unlocked(self, instant: Instant, theirs: Footprint) -> dict[str, str]:
        if self._is_surprised(theirs):
            return {"no lock": "this write was told that it is alone"}
        if instant not in self.late:
            return {}
        return {"no lock": f"{instant.requested_time} appeared after its time had passed"}


def _is_write_at(instant: Instant, requested_time: str) -> bool:
    # A service of another process may have the same time, and is not the write.
    is_write = instant.planned_as.completed_as in WRITE_ACTIONS
    return is_write and instant.requested_time == requested_time


def _displaces(ours: Footprint) -> bool:
    return ours.retires or ours.kind is Kind.CLUSTERING


def lost(instant_time: str, how: str) -> InstantLostError:
    """Return the error of a write that others took off the table."""
    return InstantLostError(
        f"instant {instant_time} does not count any more: {how}",
        next_step="run the write again. A writer is rolled back when it gives no sign of life for "
        "hoodie.client.heartbeat.interval_in_ms times "
        "hoodie.client.heartbeat.tolerable.misses, or when another writer thinks it is alone",
    )


def _written_by(metadata: CommitMetadata) -> str:
    return _by(metadata.extra_metadata.get(WRITER))


def _by(writer: str | None) -> str:
    return f", by {writer}" if writer else ""


def _next_step(rule: Rule, theirs: Footprint) -> str:
    if rule is Rule.CLUSTERING_PENDING:
        return "let the clustering finish or roll it back, then run the write again"
    if rule is Rule.TWO_BASES and theirs.is_pending:
        return "run the compaction to its end, then the write again"
    if rule is Rule.CLUSTERING_WAITS:
        return "plan the clustering anew once the pending write has ended: this plan is removed"
    if rule is Rule.WRITERS_PENDING:
        return "run it again once the pending write has ended; nobody else may write meanwhile"
    if rule is Rule.CLUSTERING_YIELDS:
        return "plan the clustering anew; it takes in the rows that were written since"
    if rule is Rule.COMPACTED_PAST:
        return "plan the log compaction anew; the compaction has taken in what this one rewrote"
    return (
        "run the write again: it starts from the table as it is now; "
        "hoodie.write.num.retries.on.conflict.failures does so by itself"
    )


#: What lasts until the pending operation has ended.
_LASTING = frozenset(
    {Rule.CLUSTERING_PENDING, Rule.CLUSTERING_WAITS, Rule.TWO_BASES, Rule.WRITERS_PENDING}
)


def _retry(rule: Rule, theirs: Footprint) -> str:
    if theirs.is_pending and rule in _LASTING:
        return "would meet the same until that is done or rolled back"
    return "would succeed, unless somebody else changes the same meanwhile"


def _avoidance(rule: Rule) -> str:
    if rule is Rule.SAME_NEW_KEYS:
        return "a bucket index, under which a key has one place from the start"
    if rule is Rule.WRITERS_PENDING:
        return "replacing partitions while no non-blocking writer has begun a write"
    if rule in (Rule.CLUSTERING_PENDING, Rule.CLUSTERED_AWAY):
        return "hoodie.clustering.updates.strategy=allow, under which clusterings give way"
    if rule in (Rule.TWO_BASES, Rule.SHARED_LOGS):
        return "table version 8 or later and a bucket index, which adds logs and no base files"
    return (
        "hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL on a merge-on-read table "
        "with a bucket index, or writers that keep to different partitions or buckets"
    )
