from __future__ import annotations

import pytest

from tests.golden.timelines import files_ending, meta_files
from tidelake.errors import Malformed
from tidelake.formats import archived_log
from tidelake.model import Action, State


def archive_files(table: str) -> list[bytes]:
    return [
        data
        for path, data in sorted(meta_files(table).items())
        if path.startswith(".hoodie/archived/.commits_")
    ]


def test_every_state_of_an_instant_is_an_entry() -> None:
    entries = [e for raw in archive_files("v6_cow_archived") for e in archived_log.decode(raw)]
    commits = [e for e in entries if e.action is Action.COMMIT]
    states = {(e.requested_time, e.state) for e in commits}
    times = {time for time, _ in states}
    assert times
    assert states == {(time, state) for time in times for state in State}
    assert all(e.transition_time and e.transition_time > e.requested_time for e in commits)


def test_contents_of_commits_and_cleans_are_kept() -> None:
    files = [*archive_files("v6_mor_archived"), *archive_files("v6_cow_archived")]
    entries = [e for raw in files for e in archived_log.decode(raw)]
    done = [e for e in entries if e.state is State.COMPLETED]
    for entry in done:
        if entry.action is Action.CLEAN:
            clean = entry.clean_metadata()
            assert clean is not None
            assert clean.start_clean_time
        else:
            assert entry.commit_metadata().write_stats
    assert {e.action for e in done} >= {Action.DELTACOMMIT, Action.COMMIT, Action.CLEAN}


def test_replaced_groups_survive_archival() -> None:
    entries = [
        e for raw in archive_files("v6_cow_archived_mixed") for e in archived_log.decode(raw)
    ]
    replaced = [
        e.commit_metadata().partition_to_replace_file_ids
        for e in entries
        if (e.action, e.state) == (Action.REPLACECOMMIT, State.COMPLETED)
    ]
    assert replaced
    assert all(replaced)


def test_a_torn_tail_is_passed_over() -> None:
    raw = archive_files("v6_cow_archived")[0]
    whole = archived_log.decode(raw)
    assert archived_log.decode(raw + raw[: len(raw) // 2]) == whole


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (".commits_.archive.1_1-0-1", 1),
        (".commits_.archive.12_1-0-1", 12),
        (".commits_.archive.0", 0),
        ("mergeArchivePlan", None),
        (".commits_.archive.x_1-0-1", None),
    ],
)
def test_archive_files_are_numbered(name: str, version: int | None) -> None:
    assert archived_log.version_of(name) == version


def test_garbage_is_malformed() -> None:
    raw = archive_files("v6_cow_archived")[0]
    with pytest.raises(Malformed):
        archived_log.decode(b"garbage" * 100)
    with pytest.raises(Malformed):
        archived_log.decode(
            raw.replace(b'"name":"HoodieWriteStat"', b'"name":"HoodieWriteStau"', 1)
        )


def test_an_unknown_action_is_malformed() -> None:
    raw = archive_files("v6_cow_archived")[0]
    with pytest.raises(Malformed, match="action 'comm1t'"):
        archived_log.decode(raw.replace(b"\x0ccommit", b"\x0ccomm1t"))


def test_the_upgraded_table_keeps_its_archive() -> None:
    assert archived_log.decode(files_ending("upgraded_history", "archive.1_1-0-1")[0])
