"""The active timeline as one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tidelake.formats.instant_name import LAYOUT_2, InstantName
from tidelake.model import WRITE_ACTIONS, Action, Instant, State

#: Actions that write data files, under the words they are planned and completed as.
_WRITE_TIMELINE = WRITE_ACTIONS | {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING}


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Every instant that is not archived, each in the furthest state it has reached.

    `instants` ascend by requested time; a savepoint follows the commit that it saves and whose time
    it has. `file_names` are the timeline files that stand behind them. `late_files` are completed
    ones that stand behind none: their writes had been rolled back when they arrived.
    """

    instants: tuple[Instant, ...] = ()
    file_names: frozenset[str] = field(default=frozenset(), repr=False)
    late_files: frozenset[str] = frozenset()
    meta_names: frozenset[str] | None = field(default=None, repr=False, compare=False)
    """The names of what lay in `.hoodie` at that moment, None when nobody looked."""

    @cached_property
    def completed(self) -> tuple[Instant, ...]:
        """Return the instants that took effect, by requested time."""
        return tuple(i for i in self.instants if i.is_completed)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Return the instants that are requested or inflight, by requested time."""
        return tuple(i for i in self.instants if not i.is_completed)

    @cached_property
    def pending_times(self) -> frozenset[str]:
        """Return the requested times at which a change of the table's files is pending.

        What is pending is an instant, time and action, and not a time: a savepoint has the time of
        the completed write that it keeps, and no file of that write is pending with it.
        """
        return frozenset(
            i.requested_time
            for i in self.pending
            if i.action is not Action.SAVEPOINT and i.requested_time not in self._completion_times
        )

    def writes(self) -> tuple[Instant, ...]:
        """Return the completed commits, deltacommits and replacecommits, by requested time."""
        return self._writes

    def by_completion_time(self) -> tuple[Instant, ...]:
        """Return the completed instants in the order in which they took effect."""
        return tuple(sorted(self.completed, key=_completion_order))

    def completion_time_of(self, requested_time: str) -> str | None:
        """Return when the instant completed, or None when it is pending, archived or unknown.

        A savepoint, which has the time of another instant, does not count.
        """
        return self._completion_times.get(requested_time)

    @cached_property
    def first_active_time(self) -> str | None:
        """Return the requested time at which the active timeline begins; None when it is empty.

        Instants before it are archived. Commits that only a savepoint keeps active do not count
        when there are others, because archival may have gone on behind them. Once the savepoint is
        deleted they do, so later instants may be archived too: the history tells.
        """
        return self._first(self.instants)

    @cached_property
    def first_completed_time(self) -> str | None:
        """Return the same of the completed instants alone.

        Archival goes past no pending one; but a writer that was rolled back and did not notice may
        put its instant there afterwards, and what is archived then lies behind that.
        """
        return self._first(self.completed)

    @cached_property
    def last_requested_time(self) -> str:
        """Return the newest requested time of all instants, or "" when there are none.

        Whatever the history has from before it had left the timeline when this one was loaded.
        """
        return max((i.requested_time for i in self.instants), default="")

    @cached_property
    def saved_times(self) -> frozenset[str]:
        """Return the requested times of writes that a savepoint keeps, be it pending or not."""
        return frozenset(i.requested_time for i in self.instants if i.action is Action.SAVEPOINT)

    def _first(self, instants: Sequence[Instant]) -> str | None:
        times = [i.requested_time for i in instants if i.action in _WRITE_TIMELINE]
        return min(
            (t for t in times if t not in self.saved_times), default=min(times, default=None)
        )

    def is_archived(self, requested_time: str) -> bool:
        """Return whether the instant is older than all active ones, so only completed ones are.

        Others may be archived as well; see `view.CommitTimes`, which asks the history.
        """
        first = self.first_active_time
        return first is not None and requested_time < first and requested_time not in self._times

    def may_have(self, path: str) -> bool:
        """Return whether a file or folder in `.hoodie`, or something below, may have been there."""
        name = path.removeprefix(".hoodie/").partition("/")[0]
        return self.meta_names is None or name in self.meta_names

    def has_file(self, instant: Instant, state: State) -> bool:
        """Return whether the file is there that `instant` had in the pending `state`."""
        return pending_file(instant, state) in self.file_names

    def files_of(self, instant: Instant) -> Sequence[tuple[str, InstantName]]:
        """Return the timeline files of an instant, in the order of its states."""
        return self._files.get((instant.requested_time, instant.action.completed_as), ())

    @cached_property
    def _files(self) -> Mapping[tuple[str, Action], Sequence[tuple[str, InstantName]]]:
        found: dict[tuple[str, Action], list[tuple[str, InstantName]]] = {}
        for file_name in self.file_names:
            # Names that do not fit the table's layout are not among them.
            name = InstantName.parse(file_name, LAYOUT_2)
            if name is not None:
                key = (name.requested_time, name.action.completed_as)
                found.setdefault(key, []).append((file_name, name))
        return {key: sorted(files, key=lambda at: at[1].state.rank) for key, files in found.items()}

    @cached_property
    def _writes(self) -> tuple[Instant, ...]:
        return tuple(i for i in self.completed if i.action in WRITE_ACTIONS)

    @cached_property
    def _times(self) -> frozenset[str]:
        return frozenset(i.requested_time for i in self.instants)

    @cached_property
    def _completion_times(self) -> Mapping[str, str]:
        others = [i for i in self.completed if i.action not in WRITE_ACTIONS | {Action.SAVEPOINT}]
        return {
            i.requested_time: i.completion_time
            for i in (*others, *self._writes)
            if i.completion_time is not None
        }


def pending_file(instant: Instant, state: State) -> str:
    """Return the name of the file that `instant` has or had in the pending `state`."""
    return InstantName(
        requested_time=instant.requested_time, action=instant.planned_as, state=state
    ).format()


def with_history(timeline: Timeline, archived: Iterable[Instant]) -> tuple[Instant, ...]:
    """Return archived and active instants by requested time.

    An instant that archival has copied and not yet removed is on both sides and counts once.
    """
    active = {(i.requested_time, i.action) for i in timeline.instants}
    older = (i for i in archived if (i.requested_time, i.action) not in active)
    return tuple(sorted((*older, *timeline.instants), key=requested_order))


def requested_order(instant: Instant) -> tuple[str, bool]:
    """Return the key that sorts instants by requested time, savepoints behind what they save."""
    return instant.requested_time, instant.action is Action.SAVEPOINT


def _completion_order(instant: Instant) -> tuple[str, str, bool]:
    return instant.completion_time or "", *requested_order(instant)
