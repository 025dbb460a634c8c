"""A metadata table that has lost files, or is taken away meanwhile, shows no smaller table."""

from __future__ import annotations

import pytest

from tidelake.config import ConcurrencyMode
from tidelake.env import Env
from tidelake.errors import CorruptFileError, SnapshotLostError
from tidelake.metadata.keeper import file_records
from tidelake.metadata.names import FILES
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.upkeep import compact
from tidelake.model import TableType
from tidelake.read.snapshot import plan_snapshot
from tidelake.testing.simulation import Faults, History, Simulation, play
from tidelake.testing.simulation.actors import Sharing
from tidelake.testing.simulation.actors.readers import run_toy
from tidelake.txn import FileChanges
from tidelake.txn.concurrency import Concurrency

LISTED = ".hoodie/metadata/files"


def made(table_version: int, table_type: TableType) -> tuple[Env, Sharing]:
    """Return a table that was written to with its metadata table."""
    history = History(
        seed=3,
        mode=ConcurrencyMode.OPTIMISTIC,
        table_type=table_type,
        table_version=table_version,
        metadata=True,
        actors=("upsert 0", "upsert 1"),
        faults=Faults(),
    )
    played = play(history)
    assert not played.wrong
    return Simulation(0, start=played.end.moment).outside(), history.sharing()


def keys(env: Env, sharing: Sharing) -> set[str]:
    state = sharing.state(env, by_metadata=True)
    assert state.is_listed_by_metadata
    return set(run_toy(env.storage, plan_snapshot(state))[0])


kinds = pytest.mark.parametrize(
    ("table_version", "table_type"), [(v, t) for v in (6, 8, 9) for t in TableType]
)


@kinds
@pytest.mark.parametrize("what", [".hfile", ".log.", ""])
def test_a_list_that_lost_files_is_an_error_and_no_smaller_table(
    what: str, table_version: int, table_type: TableType
) -> None:
    env, sharing = made(table_version, table_type)
    assert keys(env, sharing)
    lost = [p for p in env.storage.files_below(LISTED) if what in p and "metadata/files/" in p]
    assert lost
    for path in lost:
        env.storage.delete(path)
    with pytest.raises(CorruptFileError, match="of the metadata table wrote it"):
        keys(env, sharing)


@kinds
def test_what_completes_after_it_was_taken_off_has_lost_nothing(
    table_version: int, table_type: TableType
) -> None:
    env, sharing = made(table_version, table_type)
    before = keys(env, sharing)
    own = OwnTable.load(env.storage)
    assert own is not None
    config = sharing.state(env).config
    times = Concurrency().times(env, config, own.timeline)
    failed = times.next()
    changes = FileChanges(written={"p0": {"never-there.parquet": 1}})
    own.commit(failed, {FILES: file_records(changes, table_version)}, times)
    own = own.reloaded()
    (completed,) = [i for i in own.timeline.writes() if i.requested_time == failed]
    late = f"{own.config.timeline_folder}/{completed.file_name}"
    content = own.storage.read(late)
    own.forget(failed, times)
    own.storage.put(late, content)
    assert keys(env, sharing) == before


@kinds
def test_one_that_is_taken_away_while_it_is_read_is_no_empty_table(
    table_version: int, table_type: TableType
) -> None:
    env, sharing = made(table_version, table_type)
    state = sharing.state(env, by_metadata=True)
    assert state.is_listed_by_metadata
    env.storage.delete_folder(".hoodie/metadata")
    with pytest.raises(SnapshotLostError, match="taken out of use"):
        plan_snapshot(state)


@kinds
def test_no_compaction_hides_what_is_lost(table_version: int, table_type: TableType) -> None:
    env, sharing = made(table_version, table_type)
    for path in env.storage.files_below(LISTED):
        if path.endswith(".hfile"):
            env.storage.delete(path)
    own = OwnTable.load(env.storage)
    assert own is not None
    config = sharing.state(env).config
    times = Concurrency().times(env, config, own.timeline)
    with pytest.raises(CorruptFileError, match="of the metadata table wrote it"):
        compact(own, [FILES], times.next(), times)
