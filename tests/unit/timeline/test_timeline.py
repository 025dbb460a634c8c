from __future__ import annotations

import pytest

from tidelake.model import Action, Instant, State
from tidelake.timeline import Timeline, with_history


def done(requested: str, completed: str, action: Action = Action.COMMIT) -> Instant:
    return Instant(
        requested_time=requested,
        action=action,
        state=State.COMPLETED,
        completion_time=completed,
    )


def pending(requested: str, action: Action = Action.COMMIT) -> Instant:
    return Instant(requested_time=requested, action=action, state=State.INFLIGHT)


def test_completion_order_differs_from_requested_order() -> None:
    timeline = Timeline(instants=(done("1", "9"), done("2", "4"), pending("3"), done("5", "6")))
    assert [i.requested_time for i in timeline.by_completion_time()] == ["2", "5", "1"]
    assert [i.requested_time for i in timeline.completed] == ["1", "2", "5"]
    assert [i.requested_time for i in timeline.pending] == ["3"]


def test_only_commits_deltacommits_and_replacecommits_write() -> None:
    timeline = Timeline(instants=tuple(done(str(n), "99", a) for n, a in enumerate(Action)))
    assert {i.action for i in timeline.writes()} == {
        Action.COMMIT,
        Action.DELTACOMMIT,
        Action.REPLACECOMMIT,
    }


def test_a_savepoint_does_not_hide_when_its_commit_completed() -> None:
    timeline = Timeline(instants=(done("1", "2"), done("1", "7", Action.SAVEPOINT)))
    assert timeline.completion_time_of("1") == "2"
    assert timeline.completion_time_of("3") is None


def test_a_pending_instant_has_no_completion_time() -> None:
    assert Timeline(instants=(pending("1"),)).completion_time_of("1") is None


def test_what_is_pending_is_an_instant_and_not_a_time() -> None:
    saving = (done("1", "2"), pending("1", Action.SAVEPOINT), pending("3"))
    assert Timeline(instants=saving).pending_times == {"3"}
    # The write that a crashed savepoint was to keep may have left the timeline.
    assert not Timeline(instants=(pending("1", Action.SAVEPOINT), done("5", "6"))).pending_times
    # A savepoint does not say that its time has completed, and another action does.
    kept = (pending("1"), done("1", "2", Action.SAVEPOINT))
    assert Timeline(instants=kept).pending_times == {"1"}
    twice = (done("1", "2"), pending("1", Action.CLEAN))
    assert not Timeline(instants=twice).pending_times


FIRST = [
    ("an empty timeline begins nowhere", (), None),
    ("cleans and rollbacks do not count", (done("1", "2", Action.CLEAN), done("3", "4")), "3"),
    ("a pending write holds archival back", (pending("1"), done("3", "4")), "1"),
    ("so does a planned compaction", (pending("1", Action.COMPACTION), done("3", "4")), "1"),
    (
        "archival may go on behind a savepoint",
        (done("1", "2"), done("1", "3", Action.SAVEPOINT), done("5", "6")),
        "5",
    ),
    (
        "a timeline of nothing but a saved commit begins there",
        (done("1", "2"), done("1", "3", Action.SAVEPOINT)),
        "1",
    ),
]


@pytest.mark.parametrize(
    ("instants", "first"), [row[1:] for row in FIRST], ids=[row[0] for row in FIRST]
)
def test_the_active_timeline_begins(instants: tuple[Instant, ...], first: str | None) -> None:
    assert Timeline(instants=instants).first_active_time == first


def test_what_is_older_than_the_active_timeline_is_archived() -> None:
    saved = (done("2", "3"), done("2", "4", Action.SAVEPOINT), done("6", "7"))
    timeline = Timeline(instants=saved)
    assert timeline.is_archived("1")
    assert timeline.is_archived("5")
    assert not timeline.is_archived("2")
    assert not timeline.is_archived("6")
    assert not timeline.is_archived("8")
    assert not Timeline().is_archived("1")


def test_an_instant_being_archived_counts_once() -> None:
    timeline = Timeline(instants=(done("2", "3"), done("4", "5")))
    merged = with_history(timeline, [done("1", "2", Action.CLEAN), done("2", "3")])
    assert [i.requested_time for i in merged] == ["1", "2", "4"]
