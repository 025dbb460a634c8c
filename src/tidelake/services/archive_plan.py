"""Which instants may leave the active timeline.

The oldest writes, down to as many as are to stay, and the cleans and rollbacks between them; but
nothing that somebody still has to find there. What is left begins at one moment and has no holes:
whatever is older than that counts as archived, and thus as completed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelake.config import CleanPolicy, ServiceOptions
from tidelake.config.keys import read_keys as keys
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.model import WRITE_ACTIONS, Action, Instant, TableType
from tidelake.services.clean_plan import earliest_to_retain, files_beside_cleans
from tidelake.services.plan import PlannedFile, Service, ServicePlan
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.storage.sub import SubStorage
from tidelake.timeline import load_table_config, load_timeline
from tidelake.txn.conflicts.undone_writes import going

_METADATA_TABLE = ".hoodie/metadata"
#: Operations whose commits do not count when the table's schema is looked for.
_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})
_WRITE_TIMELINE = WRITE_ACTIONS | {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlan:
    """The instants that leave the active timeline, by requested time, and why no more do."""

    instants: tuple[Instant, ...] = ()
    reason: str = ""

    def shown(self, state: TableState) -> ServicePlan:
        """Return the plan as people look at it."""
        folder = state.config.timeline_folder
        files = (
            PlannedFile(path=f"{folder}/{file_name}")
            for instant in self.instants
            for file_name, _ in state.timeline.files_of(instant)
        )
        facts: dict[str, str | int] = {
            "instants archived": len(self.instants),
            "writes that stay active": len(state.timeline.writes())
            - sum(i.action in WRITE_ACTIONS for i in self.instants),
        }
        if self.instants:
            facts["from"] = self.instants[0].requested_time
            facts["to"] = self.instants[-1].requested_time
        return ServicePlan(
            service=Service.ARCHIVE, reason=self.reason, files_deleted=tuple(files), facts=facts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    """An instant from which on everything stays, and who needs it."""

    requested_time: str
    reason: str


def plan_archive(now: ServiceContext, options: ServiceOptions) -> ArchivePlan:
    """Return which instants to archive under `options` from the timeline as it is."""
    state = now.state
    writes = state.timeline.writes()
    bounds = options.archive
    if len(writes) <= bounds.max_commits:
        return ArchivePlan(
            reason=f"{len(writes)} writes are active, and up to {bounds.max_commits} may be"
        )
    saved = {i.requested_time for i in state.savepoints()}
    holds = list(_holds(now, options, saved))
    limit = min(holds, key=lambda hold: hold.requested_time, default=None)
    wanted = [i for i in writes if i.requested_time not in saved or not bounds.beyond_savepoint]
    chosen: list[Instant] = []
    reason = f"{len(writes)} writes are active, and {bounds.min_commits} are to stay"
    for instant in wanted[: len(writes) - bounds.min_commits]:
        if limit is not None and instant.requested_time >= limit.requested_time:
            reason = f"{reason}; {limit.reason}"
            break
        if _is_still_replacing(state, instant):
            reason = (
                f"{reason}; files that {instant.requested_time} replaced are not cleaned away yet"
            )
            break
        chosen.append(instant)
    if not chosen:
        return ArchivePlan(reason=reason)
    chosen += _between(state, chosen[-1])
    return ArchivePlan(
        instants=tuple(sorted(chosen, key=lambda i: (i.requested_time, i.action))), reason=reason
    )


def _between(state: TableState, last: Instant) -> Iterator[Instant]:
    """Return the cleans and rollbacks that go with writes up to `last`."""
    cleans = [i for i in state.timeline.completed if i.action is Action.CLEAN]
    for instant in state.timeline.completed:
        if instant.action not in (Action.CLEAN, Action.ROLLBACK):
            continue
        # The next clean begins where the newest one ended, and readers ask it for the horizon.
        if instant.requested_time < last.requested_time and instant not in cleans[-1:]:
            yield instant


def _holds(now: ServiceContext, options: ServiceOptions, saved: set[str]) -> Iterator[_Hold]:
    state = now.state
    writes = state.timeline.writes()
    pending = next((i for i in state.timeline.pending if i.planned_as in _WRITE_TIMELINE), None)
    if pending is not None:
        first = pending.requested_time
        # What completed while it was under way matters to it, and so does what came just before.
        before = [i for i in writes if i.requested_time < first]
        overlapping = [
            i.requested_time
            for i in before
            if state.by_completion_time and (i.completion_time or "") > first
        ]
        last = before[-1].requested_time if before else first
        yield _Hold(
            requested_time=min([last, *overlapping]),
            reason=f"{pending.planned_as} {first} is still {pending.state}",
        )
    for instant, rollback in going(state.timeline, state.contents).items():
        yield _Hold(
            requested_time=instant.requested_time,
            reason=f"rollback {rollback.requested_time} takes {instant.requested_time} back",
        )
    if saved and not options.archive.beyond_savepoint:
        kept = [i for i in writes if i.requested_time in saved]
        # A restore takes back what completed after the saved write, whenever it was requested, or
        # has to find it where requested times count.
        later = [i.requested_time for write in kept for i in state.completed_after(write)]
        later += [i.requested_time for s in state.savepoints() for i in state.late_beneath(s)]
        first = min([*saved, *later])
        yield _Hold(requested_time=first, reason=f"{min(saved)} is saved by a savepoint")
    if options.clean.policy is not CleanPolicy.FILE_VERSIONS:
        retained = earliest_to_retain(now, options.clean)
        first = retained.requested_time if retained else writes[0].requested_time
        yield _Hold(requested_time=first, reason=f"cleans keep the table readable from {first} on")
    for instant in reversed(writes):
        metadata = state.contents.commit_metadata(instant)
        if metadata.schema and metadata.operation_type not in _SERVICES:
            yield _Hold(
                requested_time=instant.requested_time,
                reason=f"{instant.requested_time} is the newest that says the table's schema",
            )
            break
    yield from _compaction_holds(state, options.compaction.max_delta_commits)
    yield from _metadata_table_holds(now, writes)


def _compaction_holds(state: TableState, max_delta_commits: int) -> Iterator[_Hold]:
    """Return what says when the next compaction is due: the last one, or enough deltacommits."""
    if state.config.table_type is not TableType.MERGE_ON_READ:
        return
    last = next((i for i in reversed(state.timeline.writes()) if i.action is Action.COMMIT), None)
    since = "" if last is None else last.requested_time
    deltas = [
        i
        for i in state.timeline.writes()
        if i.action is Action.DELTACOMMIT
        and ((i.completion_time or "") if state.by_completion_time else i.requested_time) > since
    ]
    first = deltas[-max_delta_commits] if len(deltas) >= max_delta_commits else last
    if first is None:
        first = state.timeline.writes()[0]
    yield _Hold(
        requested_time=first.requested_time,
        reason=f"the next compaction is counted from {first.requested_time} on",
    )


def _metadata_table_holds(now: ServiceContext, writes: Sequence[Instant]) -> Iterator[_Hold]:
    """Return what the metadata table holds back.

    Its readers ask the active timeline which of its own instants since its last compaction count.
    """
    if not keys.METADATA_PARTITIONS.items(now.state.config.properties):
        return
    storage = SubStorage(now.env.storage, _METADATA_TABLE)
    timeline = load_timeline(storage, load_table_config(storage))
    compactions = [i for i in timeline.completed if i.action is Action.COMMIT]
    if not compactions:
        yield _Hold(
            requested_time=writes[0].requested_time,
            reason="the metadata table was not compacted yet",
        )
        return
    newest = compactions[-1].requested_time
    for instant in writes:
        done = instant.completion_time if now.state.by_completion_time else instant.requested_time
        if done is not None and done >= newest:
            yield _Hold(
                requested_time=instant.requested_time,
                reason=f"the metadata table was last compacted at {newest}",
            )
            return


def _is_still_replacing(state: TableState, instant: Instant) -> bool:
    """Return whether file groups are left that only this replacecommit keeps out of sight."""
    if instant.action is not Action.REPLACECOMMIT:
        return False
    metadata = state.contents.commit_metadata(instant)
    replaced = {p: ids for p, ids in metadata.partition_to_replace_file_ids.items() if ids}
    # What a clean deletes counts until it has completed: the metadata table lists it up to then.
    files = files_beside_cleans(state, sorted(replaced))
    for partition, file_ids in replaced.items():
        names = (file.name for file in files[partition])
        found = (parse_base(partition, n, 0) or parse_log(partition, n, 0) for n in names)
        if any(
            file is not None
            and file.file_id in file_ids
            and file.instant_time < instant.requested_time
            for file in found
        ):
            return True
    return False
