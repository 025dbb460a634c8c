"""What must hold once a history has ended; it knows the journal and the files, not the engine."""

from __future__ import annotations

from collections import Counter

from tidelake.config import ConcurrencyMode
from tidelake.storage import Storage
from tidelake.testing.simulation.actors import Journal
from tidelake.testing.simulation.toy_rows import Snapshot, read_toy


def violations(storage: Storage, journal: Journal, mode: ConcurrencyMode) -> list[str]:
    """Return everything that is wrong with the table, in words."""
    snapshot = Snapshot.load(storage)
    completed = {i.requested_time for i in snapshot.timeline.writes()}
    found = read_toy(storage, snapshot)
    owed = journal.rows(snapshot.timeline)
    wrong = list(journal.wrong)
    if found != owed:
        wrong.append(f"the table holds {found}, and all commits together make {owed}")
    wrong += [
        f"{commit.requested_time} was reported as committed and is not on the timeline"
        for commit in journal.landed
        if commit.requested_time not in completed
    ]
    wrong += [
        f"{time} was reported as refused and completed all the same"
        for time in journal.refused
        if time in completed
    ]
    wrong += _bad_times(snapshot)
    if mode is ConcurrencyMode.OPTIMISTIC:
        wrong += _lost_updates(journal, completed, found)
    return wrong


def _lost_updates(
    journal: Journal, completed: set[str], found: dict[str, tuple[int, int]]
) -> list[str]:
    counts = Counter(key for time in completed for key in journal.written.get(time, ()))
    return [
        f"{key} was counted up {count} times and stands at {found.get(key, (0, 0))[0]}"
        for key, count in sorted(counts.items())
        if found.get(key, (0, 0))[0] != count
    ]


def _bad_times(snapshot: Snapshot) -> list[str]:
    instants = snapshot.timeline.instants
    requested = [i.requested_time for i in instants]
    completed = [i.completion_time for i in instants if i.completion_time]
    wrong = []
    if len({*requested, *completed}) < len(requested) + len(completed):
        wrong.append("two times on the timeline are the same")
    wrong += [
        f"{i.requested_time} completed at {i.completion_time}, before it was requested"
        for i in instants
        if i.completion_time is not None and i.completion_time <= i.requested_time
    ]
    return wrong
