"""Every pair of actions in every order, on a table with a past, without faults.

With one switch each of the two runs to its end in front of any call of the other. With two, for
pairs of which one deletes, retires or undoes, each is interrupted in turn. `make sim` plays all of
it and prints the pairs with their counts, or with `TIDELAKE_SHARE=2/8` the second of eight parts;
the daily run plays a sample.
"""

from __future__ import annotations

import os
import random  # noqa: TID251 - seeded below
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations_with_replacement, islice

import pytest

from tidelake.config import ConcurrencyMode
from tidelake.env import Env
from tidelake.model import TableType
from tidelake.testing.simulation import ACTORS, Faults, History, Simulation, play
from tidelake.testing.simulation.actors import EXPIRES_MS
from tidelake.testing.simulation.explore import Switches, explore, explore_some
from tidelake.testing.simulation.history import Start
from tidelake.testing.simulation.scheduler import Choose
from tidelake.timeline import load_table_config, load_timeline

OCC, NBCC = ConcurrencyMode.OPTIMISTIC, ConcurrencyMode.NON_BLOCKING
COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


def world(mode: ConcurrencyMode, table_type: TableType, version: int, **more: object) -> History:
    made = History(
        seed=12,
        mode=mode,
        table_type=table_type,
        table_version=version,
        writes=1,
        faults=Faults(),
        offset_ms=0,
        is_dense=True,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # the fields of a history


WORLDS = {
    "OCC, MOR 9, metadata table": world(OCC, MOR, 9, metadata=True),
    "OCC, COW 9": world(OCC, COW, 9),
    "OCC, COW 6, metadata table": world(OCC, COW, 6, metadata=True),
    "NBCC, MOR 9": world(NBCC, MOR, 9),
    "OCC, MOR 8": world(OCC, MOR, 8),
    "OCC, MOR 6": world(OCC, MOR, 6),
    "OCC, COW 9, record index": world(OCC, COW, 9, metadata=True, with_index=True, buckets=False),
}
#: What has happened before: there are logs and base files, old slices, a savepoint, and history.
PAST = (
    *("upsert 90", "upsert 91", "compact 90", "upsert 92", "savepoint 90", "upsert 93"),
    *("clean 90", "upsert 94", "archive 90", "upsert 95"),
)
#: Then somebody died in the middle of a write, long enough ago to count as dead.
DIES = "upsert 96"
#: So many orders the daily run plays.
SAMPLE = 250


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two actions in one world."""

    world: str
    one: str
    other: str

    @property
    def most_switches(self) -> int:
        return 2 if ACTORS[self.one].takes_away or ACTORS[self.other].takes_away else 1

    def play(self, most_switches: int) -> Iterator[tuple[Switches, list[str]]]:
        """Play every order of the two."""
        return explore(self._played(), most_switches=most_switches)

    def play_some(self, descents: int, seed: int) -> Iterator[tuple[Switches, list[str]]]:
        """Play some orders of the two, drawn from a seed."""
        chance = random.Random(f"{seed} {self}")
        return explore_some(
            self._played(), switches=self.most_switches, descents=descents, chance=chance
        )

    def _played(self) -> Callable[[Choose], list[str]]:
        start = past(self.world)
        actors = {f"{self.one} 0": ACTORS[self.one], f"{self.other} 1": ACTORS[self.other]}
        # What replaces file groups is not for non-blocking writers.
        modes = tuple((name, OCC) for name, k in actors.items() if k.writes and k.takes_away)
        history = replace(WORLDS[self.world], actors=tuple(actors), modes=modes)
        return lambda choose: play(history, choose, start).wrong


@cache
def past(name: str) -> Start:
    """Return a table to which a few things have happened, one after the other."""
    start = None
    for actor in PAST:
        played = play(replace(WORLDS[name], actors=(actor,)), start=start)
        assert played.wrong == []
        start = played.end
    assert start is not None
    for seed in range(1_000):
        dying = replace(WORLDS[name], seed=seed, actors=(DIES,), faults=Faults(crash=0.03))
        end = play(dying, start=start).end
        if _is_pending(end):
            moment = replace(end.moment, now_ms=end.moment.now_ms + 2 * EXPIRES_MS)
            return replace(end, moment=moment)
    raise AssertionError("nobody died in the middle of a write")


def _is_pending(start: Start) -> bool:
    """Return whether the newest write has put data files, and no more."""
    storage = start.moment.storage
    config = load_table_config(storage)
    pending = load_timeline(storage, config).pending
    return any(storage.files_below(f".hoodie/.temp/{i.requested_time}") for i in pending)


def pairs(name: str) -> list[Pair]:
    is_mor = WORLDS[name].table_type is MOR
    kinds = [
        kind
        for kind, made in ACTORS.items()
        if (is_mor or not made.merge_on_read) and not (WORLDS[name].buckets and made.looks_up)
    ]
    return [Pair(name, *two) for two in combinations_with_replacement(kinds, 2)]


def test_each_of_two_gives_way_in_front_of_any_of_its_calls() -> None:
    found = []

    def play_two(choose: Choose) -> list[str]:
        world = Simulation(0, choose=choose)
        calls: list[str] = []

        def act(name: str, env: Env) -> None:
            for _ in range(2):
                env.storage.put("same", b"")
                calls.append(name)

        for name in "ab":
            world.add(name, partial(act, name))
        world.run()
        found.append("".join(calls))
        return []

    assert all(not wrong for _, wrong in explore(play_two, most_switches=1))
    assert {*found} == {"aabb", "abba", "baab", "bbaa"}


@pytest.mark.deep
def test_orders_of_some_pairs() -> None:
    every = [pair for name in WORLDS for pair in pairs(name)]
    random.Random(int(os.environ.get("TIDELAKE_SEED", "0"))).shuffle(every)
    orders = ((pair, *order) for pair in every for order in pair.play_some(descents=1, seed=0))
    for pair, switches, wrong in islice(orders, SAMPLE):
        assert not wrong, f"{pair}, switches {switches}: {wrong}"


def share(every: list[Pair]) -> list[Pair]:
    """Return the pairs that this run plays: all, or with `TIDELAKE_SHARE=2/8` every eighth one."""
    number, count = map(int, os.environ.get("TIDELAKE_SHARE", "1/1").split("/"))
    return every[number - 1 :: count]


def test_shares_of_the_pairs_are_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    every = pairs("OCC, COW 9")
    found = []
    for number in (1, 2, 3):
        monkeypatch.setenv("TIDELAKE_SHARE", f"{number}/3")
        found += share(every)
    assert sorted(map(repr, found)) == sorted(map(repr, every))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", WORLDS)
def test_every_order_of_every_pair(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    orders = 0
    told, wrongs = [], []
    for pair in share(pairs(name)):
        count = 0
        for switches, wrong in pair.play(pair.most_switches):
            count += 1
            if wrong:
                wrongs.append(f"{pair}, switches {switches}: {wrong}")
        orders += count
        told.append(f"{pair.one} | {pair.other}: {count} orders, {pair.most_switches} switches")
    told.append(f"{len(told)} pairs, {orders} orders, {len(wrongs)} wrong")
    with capsys.disabled():
        print("".join(f"\n{name}: {line}" for line in told))  # noqa: T201 - the result
    assert not wrongs, "\n".join(wrongs[:20])
