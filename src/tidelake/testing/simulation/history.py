"""One history of a simulated world as a value: played, made smaller, kept as a file."""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded by the history
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from typing_extensions import Self

from tidelake.config import ConcurrencyMode, ConflictStrategy
from tidelake.env import Env
from tidelake.errors import CorruptFileError, TidelakeError
from tidelake.model import Action, TableType
from tidelake.model.table_format import TableFormat
from tidelake.testing.simulation.actors import Sharing, kind_of
from tidelake.testing.simulation.actors.sharing import BUCKETS, refuse_real_damage
from tidelake.testing.simulation.audit import violations
from tidelake.testing.simulation.journal import Journal
from tidelake.testing.simulation.scheduler import Choose, Faults, Moment, Simulation
from tidelake.testing.simulation.toy_rows import create_toy
from tidelake.txn import failed_writes
from tidelake.write.index import BUCKET_COUNT_PROPERTY

_LACKS_COMMITS = "the metadata table does not know"
#: Of so many commits the past is read again once the dead are buried.
_TIMES_AGAIN = 2
#: So many orders of a smaller world are tried before it is given up.
_ORDERS = 4

#: The actors of a world in which nothing is overwritten, kept or undone.
EVERYBODY = (
    *("upsert 0", "upsert 1", "merge 0"),
    *("compact 0", "compact 1", "clean 0", "archive 0", "roll back failed 0", "read 0"),
)
#: Every fault there is, each often enough to be met in most histories.
ALL_FAULTS = Faults(
    crash=0.004,
    error=0.004,
    lost_reply=0.004,
    stall=0.004,
    late_listing=0.01,
    clock_jump=0.01,
    late=0.02,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that a history depends on."""

    seed: int
    mode: ConcurrencyMode
    table_type: TableType
    table_version: int
    actors: tuple[str, ...] = EVERYBODY
    modes: tuple[tuple[str, ConcurrencyMode], ...] = ()
    """The actors that share the table in another way than the rest."""
    options: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """What else some actors set, by name: option and value."""
    metadata: bool = False
    with_stats: bool = False
    with_index: bool = False
    """Whether the metadata table has an index of record keys, by which they are looked up."""
    buckets: bool = True
    """Whether the key says the bucket of a row, or file groups are looked up."""
    moves: bool = False
    """Whether upserts and deletes find their keys in every partition, and move them."""
    fills_small_files: bool = True
    """Whether new keys go to files that are small, which all are, or to new ones."""
    evolves: float = 0.1
    """How likely it is that an upsert brings a column that may be new."""
    partitions: int = 1
    slow_ms: int = 0
    """The longest that an actor takes between two steps of its own."""
    slow: tuple[str, ...] = ()
    """The actors that take so long; all of them, where none is named."""
    offset_ms: int = 10
    """The most that a clock is off at the start."""
    archives_beyond_savepoints: bool = False
    commits_retained: int = 2
    """As of how many of the newest commits cleans leave the table readable."""
    inline: bool = False
    """Whether services run after writes, too."""
    writes: int = 3
    faults: Faults = ALL_FAULTS
    is_dense: bool = False
    """Whether services come twice, and without a pause."""
    spared: tuple[int, ...] = ()
    """Faults, counted as they are drawn, that do not happen."""

    def to_json(self) -> str:
        """Return the history as text."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        return cls(
            **{
                **raw,
                "mode": ConcurrencyMode(raw["mode"]),
                "table_type": TableType(raw["table_type"]),
                "actors": tuple(raw["actors"]),
                "modes": tuple((n, ConcurrencyMode(mode)) for n, mode in raw.get("modes", ())),
                "faults": Faults(**raw["faults"]),
                "slow": tuple(raw.get("slow", ())),
                "options": tuple(
                    (name, tuple((key, value) for key, value in found))
                    for name, found in raw.get("options", ())
                ),
                "spared": tuple(raw["spared"]),
            }
        )

    def sharing(self, name: str = "") -> Sharing:
        """Return how an actor opens the table."""
        more = {
            "hoodie.archive.beyond.savepoint": str(self.archives_beyond_savepoints).lower(),
            "hoodie.clean.commits.retained": str(self.commits_retained),
            "hoodie.parquet.small.file.limit": "104857600" if self.fills_small_files else "0",
            **dict(dict(self.options).get(name, ())),
        }
        # By modification times nobody can tell what completed first.
        by_end = self.seed % 2 and TableFormat(self.table_version).has_completion_times
        return Sharing(
            mode=dict(self.modes).get(name, self.mode),
            strategy=ConflictStrategy.END if by_end else ConflictStrategy.SIMPLE,
            metadata=self.metadata,
            with_stats=self.with_stats,
            with_index=self.with_index,
            buckets=self.buckets,
            moves=self.moves,
            partitions=self.partitions,
            evolves=self.evolves,
            inline=self.inline,
            more=more,
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
        properties = {BUCKET_COUNT_PROPERTY: str(BUCKETS)} if history.buckets else {}
        create_toy(world.outside(), history.table_type, history.table_version, properties)
    journal = start.journal.copied() if start else Journal()
    is_mor = history.table_type is TableType.MERGE_ON_READ
    for name in history.actors:
        kind = kind_of(name)
        if (kind.merge_on_read and not is_mor) or (kind.looks_up and history.buckets):
            continue
        # Of its own, so that the rest of the history is the same without one of the others.
        chance = random.Random(f"{history.seed} {name}")
        offset_ms = chance.randint(-history.offset_ms, history.offset_ms)
        act = kind.make(
            name=name,
            sharing=history.sharing(name),
            journal=journal,
            chance=chance,
            times=history.writes if kind.writes else 2 if history.is_dense else kind.times,
            pause_ms=0 if history.is_dense and not kind.writes else kind.pause_ms,
            slow_ms=history.slow_ms if name in (history.slow or history.actors) else 0,
        )
        world.add(name, act, offset_ms=offset_ms)
    wrong: list[str] = []
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - whatever an actor did not expect is wrong
        wrong.append(f"{type(error).__name__}: {error}")
    end = Start(moment=world.moment(), journal=journal.copied())
    for look in (_at_once, _once_settled):
        try:
            wrong += [] if wrong else _owed(history, look(world, history, journal))
        except TidelakeError as error:
            wrong.append(f"{type(error).__name__}: {error}")
    return Played(wrong=wrong, lines=world.history, faults_drawn=world.faults_drawn, end=end)


def _owed(history: History, wrong: list[str]) -> list[str]:
    """Return what is wrong, whatever a process may do that was stopped while it deleted files.

    One that builds a metadata table anew may delete files of another that was built meanwhile. It
    then lacks commits, of which check tells; readers list storage, and the next write repairs it.
    """
    if not (history.faults.stall or history.faults.late_listing or history.faults.late):
        return wrong
    return [told for told in wrong if _LACKS_COMMITS not in told]


def _at_once(world: Simulation, history: History, journal: Journal) -> list[str]:
    return violations(world.outside(), journal, history.sharing())


def _once_settled(world: Simulation, history: History, journal: Journal) -> list[str]:
    """Let the dead be buried, and look again: nothing may stay pending, nothing may change.

    Where nobody was dead there is nothing new to see.
    """
    env = world.outside()
    before = list(world.storage.files_below(""))
    env.clock.sleep_ms(3_600_000)
    sharing = history.sharing()
    finish_restore(env, sharing, journal)
    try:
        sharing.table_services(env).roll_back_failed()
    except CorruptFileError as error:
        refuse_real_damage(error)
        replace(sharing, with_stats=False).table_services(env).roll_back_failed()
    state = sharing.state(env)
    left = failed_writes(state.timeline, state.contents)
    wrong = [f"{i.requested_time} is still pending an hour later" for i in left]
    if world.storage.files_below("") == before:
        return wrong
    return wrong + violations(env, journal, sharing, times=_TIMES_AGAIN)


def finish_restore(env: Env, sharing: Sharing, journal: Journal) -> None:
    """Carry out a restore that somebody began."""
    state = sharing.state(env)
    for instant in state.timeline.pending:
        if instant.action is Action.RESTORE:
            to = state.contents.restore_plan(instant).savepoint_to_restore_timestamp or ""
            journal.refused += sharing.table_services(env).restore(to).instants


def shrink(history: History, is_wrong: Callable[[History], bool]) -> History:
    """Return a smaller history that is wrong as well; `history` must be."""
    while True:
        smaller = next((h for h in _smaller(history) if is_wrong(h)), None)
        if smaller is None:
            return history
        history = smaller


def _smaller(history: History) -> Iterator[History]:
    # Two or three are often enough, and one by one the others are hard to get rid of.
    sizes = [n for n in (2, 3, len(history.actors) - 1) if 0 < n < len(history.actors)]
    for kept in (found for n in dict.fromkeys(sizes) for found in combinations(history.actors, n)):
        # Whose turn it is depends on who is there: a smaller world has orders of its own.
        for seed in range(history.seed, history.seed + _ORDERS):
            yield replace(history, actors=kept, seed=seed, spared=())
    if history.writes > 1:
        yield replace(history, writes=history.writes - 1)
    odds: Mapping[str, Any] = asdict(history.faults)
    for name in ("crash", "error", "lost_reply", "stall", "late_listing", "clock_jump", "late"):
        if odds[name]:
            yield replace(history, faults=Faults(**{**odds, name: 0.0}))
    drawn = play(history).faults_drawn
    left = [number for number in range(1, drawn + 1) if number not in history.spared]
    size = len(left)
    while size:
        for at in range(0, len(left), size):
            yield replace(history, spared=(*history.spared, *left[at : at + size]))
        size //= 2
