"""Seeded histories of a world as large as the product; `TIDELAKE_SEEDS=88213` replays one."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from tests.sim.planted import planted
from tidelake.config import ConcurrencyMode
from tidelake.model import TableType
from tidelake.testing.simulation import ACTORS, Faults, History, history_of, play
from tidelake.testing.simulation.explore import explore

#: Into so many tests the seeds are dealt out, for as many cores.
SHARES = 16
#: Two writers and one service, of whom every order is played.
SMALL_WORLDS = [
    (ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ, "compact 0"),
    (ConcurrencyMode.NON_BLOCKING, TableType.MERGE_ON_READ, "compact 0"),
    (ConcurrencyMode.OPTIMISTIC, TableType.COPY_ON_WRITE, "clean 0"),
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")


def seeds(default: int) -> Iterable[int]:
    given = os.environ.get("TIDELAKE_SEEDS", "")
    if "-" in given:
        first, last = given.split("-")
        return range(int(first), int(last))
    return [int(seed) for seed in given.split(",") if seed] or range(default)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_history_keeps_what_was_committed(share: int) -> None:
    for seed in list(seeds(200))[share::SHARES]:
        history = history_of(seed)
        played = play(history)
        told = "\n".join([history.to_json(), *played.lines])
        assert not played.wrong, f"TIDELAKE_SEEDS={seed}: {played.wrong}\n{told}"


@pytest.mark.parametrize("seed", [10_063, 10_174, 10_183, 10_232])
def test_a_window_behind_archived_writes_shows_nothing_older(seed: int) -> None:
    """On version 6, when every write before the window has left the active timeline."""
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [753, 2_768, 3_146, 10_012, 10_818])
def test_check_accuses_nobody_who_takes_files_away(seed: int) -> None:
    """A clean or rollback that died on the way: what it took away is gone, and still listed."""
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [2_661])
def test_a_clock_that_is_ahead_hides_nothing_in_the_metadata_table(seed: int) -> None:
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [2_973])
def test_a_rollback_takes_the_logs_of_others_off_the_metadata_table(seed: int) -> None:
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [776, 4_266])
def test_who_lost_the_lock_takes_nothing_off_the_metadata_table(seed: int) -> None:
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [5_887])
def test_a_file_of_a_writer_that_was_rolled_back_is_not_taken_for_archived(seed: int) -> None:
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [34_915])
def test_a_rollback_that_died_on_version_6_is_not_taken_for_an_archival(seed: int) -> None:
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [5_235, 30_099])
def test_a_write_that_lost_its_lock_goes_only_where_nothing_counts_on_it(seed: int) -> None:
    """A savepoint named its file; an instant beside it had its completion time."""
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [2_691])
def test_a_reader_is_owed_no_write_that_was_pending_when_it_looked(seed: int) -> None:
    """On version 6, when the write has completed and was archived before the history is read."""
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [23_733])
def test_who_overwrites_the_table_brings_each_key_in_one_partition(seed: int) -> None:
    """Where keys move between partitions; an overwrite does not look for them."""
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [31_584])
def test_a_write_that_lost_its_lock_gives_way_to_a_plan_that_did_not_see_it(seed: int) -> None:
    """A clustering of the file group that it had written anew."""
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [31_097])
def test_no_compaction_is_rolled_back_whose_logs_were_cleaned(seed: int) -> None:
    assert play(history_of(seed)).wrong == []


@pytest.mark.parametrize("seed", [3, 7])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    history = history_of(seed)
    assert History.from_json(history.to_json()) == history
    assert play(history).lines == play(history).lines


def test_the_seeds_of_ci_cover_the_world() -> None:
    drawn = [history_of(seed) for seed in range(200)]
    kinds = {name.rstrip("0123456789 ") for history in drawn for name in history.actors}
    assert kinds == {*ACTORS, "alone"}
    assert {history.table_version for history in drawn} == {6, 8, 9}
    assert {history.table_type for history in drawn} == set(TableType)
    assert {history.mode for history in drawn} == set(ConcurrencyMode)
    assert any(history.modes for history in drawn)
    for option in (
        *("metadata", "with_stats", "with_index", "buckets", "moves", "fills_small_files"),
        *("inline", "archives_beyond_savepoints"),
    ):
        assert {getattr(history, option) for history in drawn} == {True, False}
    assert {name for history in drawn for _, given in history.options for name, _ in given} >= {
        "hoodie.metadata.enable",
        "tidelake.metadata.rebuild",
    }


def explored(
    mode: ConcurrencyMode, kind: TableType, service: str, *, most_switches: int
) -> tuple[int, list[str]]:
    """Return how many orders there are, and what is wrong with the first that is."""
    history = History(
        seed=12,
        mode=mode,
        table_type=kind,
        table_version=9,
        actors=("upsert 0", "upsert 1", service),
        writes=1,
        faults=Faults(),
        is_dense=True,
    )
    orders = 0
    for switches, wrong in explore(
        lambda choose: play(history, choose).wrong, most_switches=most_switches
    ):
        orders += 1
        if wrong:
            return orders, [f"switches {switches}", *wrong]
    return orders, []


@pytest.mark.parametrize(("mode", "kind", "service"), SMALL_WORLDS)
def test_every_order_with_one_switch(mode: ConcurrencyMode, kind: TableType, service: str) -> None:
    orders, wrong = explored(mode, kind, service, most_switches=1)
    assert not wrong
    assert orders > 20


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("mode", "kind", "service"), SMALL_WORLDS)
def test_every_order_with_two_switches(
    mode: ConcurrencyMode, kind: TableType, service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, wrong = explored(mode, kind, service, most_switches=2)
    assert not wrong
    with capsys.disabled():
        print(f"\n{mode}, {kind}, {service}: {orders} orders")  # noqa: T201 - the result


def test_an_order_without_the_lock_is_found() -> None:
    """An exploration that never finds anything would prove nothing either."""
    with planted("no lock"):
        _, wrong = explored(*SMALL_WORLDS[0], most_switches=2)
    assert wrong


@pytest.mark.parametrize("table_version", [8, 9])
def test_an_index_that_is_built_anew_beneath_a_writer_lacks_no_key(table_version: int) -> None:
    """Its logs are in the index as soon as tasks have written them, and gone with the old one."""
    history = History(
        seed=12,
        mode=ConcurrencyMode.OPTIMISTIC,
        table_type=TableType.MERGE_ON_READ,
        table_version=table_version,
        metadata=True,
        with_index=True,
        buckets=False,
        actors=("upsert 0", "upsert 1"),
        options=(("upsert 1", (("tidelake.metadata.rebuild", "true"),)),),
        writes=1,
        faults=Faults(),
        is_dense=True,
    )
    orders = list(explore(lambda choose: play(history, choose).wrong, most_switches=1))
    assert [wrong for _, wrong in orders if wrong] == []
    assert len(orders) > 20
