"""One history of a simulated world as a value: played, made smaller, kept as a file."""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded by the history
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

from typing_extensions import Self

from tidelake.config import ConcurrencyMode, ConflictStrategy
from tidelake.errors import TidelakeError
from tidelake.model import TableType
from tidelake.services.rollback import roll_back_all_failed
from tidelake.testing.simulation.actors import EXPIRES_MS, Sharing, kind_of
from tidelake.testing.simulation.audit import violations
from tidelake.testing.simulation.journal import Journal
from tidelake.testing.simulation.scheduler import Choose, Faults, Moment, Simulation
from tidelake.testing.simulation.toy_rows import create_toy
from tidelake.timeline import TimelineContents, load_table_config, load_timeline
from tidelake.txn import failed_writes

WRITERS = ("upsert 0", "upsert 1", "upsert 2")
COMPACTORS = ("compact 0", "compact 1")
OTHERS = ("clean 0", "clean 1", "roll back failed 0", "read 0")
EVERYBODY = (*WRITERS, *COMPACTORS, *OTHERS)
#: Every fault there is, each often enough to be met in most histories.
ALL_FAULTS = Faults(
    crash=0.004, error=0.004, lost_reply=0.004, stall=0.004, late_listing=0.01, clock_jump=0.01
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that a history depends on."""

    seed: int
    mode: ConcurrencyMode
    table_type: TableType
    table_version: int
    actors: tuple[str, ...] = EVERYBODY
    writes: int = 3
    faults: Faults = ALL_FAULTS
    is_dense: bool = False
    """Whether services pause for no longer than a call takes, and come once."""
    spared: tuple[int, ...] = ()
    """Faults, counted as they are drawn, that do not happen."""

    def to_json(self) -> str:
        """Return the history as text."""
        return json.dumps({**asdict(self), "mode": self.mode.value}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        return cls(
            seed=raw["seed"],
            mode=ConcurrencyMode(raw["mode"]),
            table_type=TableType(raw["table_type"]),
            table_version=raw["table_version"],
            actors=tuple(raw["actors"]),
            writes=raw["writes"],
            is_dense=raw["is_dense"],
            faults=Faults(**raw["faults"]),
            spared=tuple(raw["spared"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A table with a past from which histories go on."""

    moment: Moment
    journal: Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a history came to."""

    wrong: list[str]
    lines: list[str]
    faults_drawn: int
    end: Start


def play(history: History, choose: Choose | None = None, start: Start | None = None) -> Played:
    """Play a history to its end, let an hour pass, and say what is wrong with the table."""
    world = Simulation(
        history.seed,
        history.faults,
        spared=history.spared,
        choose=choose,
        start=start.moment if start else None,
    )
    if start is None:
        create_toy(world.outside(), history.table_type, history.table_version)
    journal = deepcopy(start.journal) if start else Journal()
    strategy = ConflictStrategy.END if history.seed % 2 else ConflictStrategy.SIMPLE
    sharing = Sharing(mode=history.mode, strategy=strategy)
    is_mor = history.table_type is TableType.MERGE_ON_READ
    for name in history.actors:
        kind = kind_of(name)
        if kind.merge_on_read and not is_mor:
            continue
        # Of its own, so that the rest of the history is the same without one of the others.
        chance = random.Random(f"{history.seed} {name}")
        offset_ms = chance.randint(-10, 10) if kind.writes else 0
        times = history.writes if kind.writes else 2 if history.is_dense else kind.times
        act = kind.make(
            name=name,
            sharing=sharing,
            journal=journal,
            chance=chance,
            times=times,
            pause_ms=1 if history.is_dense and not kind.writes else kind.pause_ms,
        )
        world.add(name, act, offset_ms=offset_ms)
    wrong: list[str] = []
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - whatever an actor did not expect is wrong
        wrong.append(f"{type(error).__name__}: {error}")
    end = Start(moment=world.moment(), journal=journal)
    for look in (_at_once, _once_settled):
        try:
            wrong += [] if wrong else look(world, sharing, journal)
        except TidelakeError as error:
            wrong.append(f"{type(error).__name__}: {error}")
    return Played(wrong=wrong, lines=world.history, faults_drawn=world.faults_drawn, end=end)


def _at_once(world: Simulation, sharing: Sharing, journal: Journal) -> list[str]:
    return violations(world.storage, journal, sharing.mode)


def _once_settled(world: Simulation, sharing: Sharing, journal: Journal) -> list[str]:
    """Let the dead be buried, and look again: nothing may stay pending, nothing may change."""
    env = world.outside()
    env.clock.sleep_ms(3_600_000)
    roll_back_all_failed(
        env, expires_ms=EXPIRES_MS, concurrency=sharing.concurrency(env, "undertaker")
    )
    config = load_table_config(world.storage)
    contents = TimelineContents(world.storage, config)
    left = failed_writes(load_timeline(world.storage, config), contents)
    wrong = [f"{i.requested_time} is still pending an hour later" for i in left]
    return wrong + violations(world.storage, journal, sharing.mode)


def shrink(history: History, is_wrong: Callable[[History], bool]) -> History:
    """Return a smaller history that is wrong as well; `history` must be."""
    while True:
        smaller = next((h for h in _smaller(history) if is_wrong(h)), None)
        if smaller is None:
            return history
        history = smaller


def _smaller(history: History) -> Iterator[History]:
    for name in reversed(history.actors):
        kept = tuple(other for other in history.actors if other != name)
        yield replace(history, actors=kept)
    if history.writes > 1:
        yield replace(history, writes=history.writes - 1)
    odds: Mapping[str, Any] = asdict(history.faults)
    for name in ("crash", "error", "lost_reply", "stall", "late_listing", "clock_jump"):
        if odds[name]:
            yield replace(history, faults=Faults(**{**odds, name: 0.0}))
    drawn = play(history).faults_drawn
    left = [number for number in range(1, drawn + 1) if number not in history.spared]
    size = len(left)
    while size:
        for at in range(0, len(left), size):
            yield replace(history, spared=(*history.spared, *left[at : at + size]))
        size //= 2
