"""Tables of ours in random states, and what the next action makes of them.

The tables are those that seeded histories leave: every action, mode and version, with whatever died
on the way. A few of their files are damaged, and somebody acts. It ends in the right rows, in an
error of ours, or `check` names what is wrong. Whoever is refused has destroyed nothing: with the
damage undone, all rows are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random  # noqa: TID251 - every instance is seeded

from tests.fuzz import codecs
from tests.fuzz.cases import Case
from tests.fuzz.states import PENDING_NAME, STRANGERS, Step, are_untellable, new_content
from tidelake.env import Env
from tidelake.errors import (
    CommitOutcomeUnknownError,
    CorruptFileError,
    SchemaError,
    TidelakeError,
)
from tidelake.model import Action, Instant, State
from tidelake.model.table_format import TableFormat
from tidelake.read.snapshot import plan_snapshot
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage
from tidelake.testing.simulation import ACTORS, History, Journal, Sharing, Simulation, history_of
from tidelake.testing.simulation.actors.readers import checked, run_toy
from tidelake.testing.simulation.actors.sharing import Repeats
from tidelake.testing.simulation.actors.writers import Writes
from tidelake.testing.simulation.history import Start, finish_restore, play
from tidelake.testing.simulation.journal import completed_writes
from tidelake.testing.simulation.toy_rows import Rows
from tidelake.txn import Transaction
from tidelake.txn.conflicts.undone_writes import going

#: So many cases share one table.
_PER_TABLE = 10
#: The insides of data files are toys: these may only go.
_OF_DATA = ("remove",)
_OF_OTHERS = ("empty", "stub", "remove", "foreign", "pending", "flip", "cut", "swap")
_AN_HOUR_MS = 3_600_000
#: Content before and after the damage, by path.
Kept = dict[str, tuple["bytes | None", "bytes | None"]]
#: What changes nothing, and a clustering of others.
_LEFT_OUT = ("read", "check", "cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A table before it is damaged."""

    history: History
    start: Start
    writes: Sequence[Instant]
    is_sound: bool
    """Whether it is settled what the table holds."""

    @property
    def sharing(self) -> Sharing:
        """Return how it is opened."""
        return self.history.sharing()


@lru_cache(maxsize=4)
def sound(seed: int) -> Sound:
    """Return the table that a history leaves."""
    history = history_of(seed)
    played = play(history)
    world = Simulation(seed, start=played.end.moment)
    state = history.sharing().state(world.outside(), by_metadata=False)
    return Sound(
        history=history,
        start=played.end,
        writes=completed_writes(state),
        is_sound=not played.wrong and _is_settled(state),
    )


def _is_settled(state: TableState) -> bool:
    """Return whether nobody is about to take completed writes back."""
    restoring = any(i.action is Action.RESTORE for i in state.timeline.pending)
    return not restoring and not going(state.timeline, state.contents)


@dataclass(slots=True)
class Acted:
    """What came of an action."""

    error: TidelakeError | None = None
    instant_time: str | None = None
    landed: bool = False


def attempt_next_action(case: Case) -> str:
    """Damage the table, let somebody act on it, and hold what it holds to the journal."""
    before = sound(case.seed // _PER_TABLE)
    if not before.is_sound:
        return "not settled"
    random = Random(f"damage {case.seed}")
    world = Simulation(case.seed, start=before.start.moment)
    kept, steps = _damage(world.storage, random)
    if random.random() < 0.5:
        world.outside().clock.sleep_ms(_AN_HOUR_MS)
    # What others set out to undo before is either done or given up.
    journal = replace(deepcopy(before.start.journal), taken_back=set(), restored_to=set())
    name = random.choice(_actions(before.history))
    acted = _act(world, name, before, journal, random)
    told = f"{name} after {steps}: {acted}"
    if acted.error is not None and acted.instant_time is None:
        _mend(world.storage, kept)
        return _undone(world, before, journal, steps, told)
    return _compared(world, before, _owed(before, journal, acted), steps, told)


def _actions(history: History) -> list[str]:
    return [
        name
        for name, kind in ACTORS.items()
        if name not in _LEFT_OUT
        and not (kind.merge_on_read and history.table_type.value == "COPY_ON_WRITE")
        and not (kind.looks_up and history.buckets)
    ]


def _act(world: Simulation, name: str, before: Sound, journal: Journal, random: Random) -> Acted:
    """Let one actor act once."""
    kind = ACTORS[name]
    actor_name = f"{name} 77"
    actor = kind.make(
        name=actor_name,
        sharing=before.sharing,
        journal=journal,
        chance=Random(random.random()),
    )
    acted = Acted()

    def act(env: Env) -> None:
        begun: list[Transaction] = []
        try:
            if isinstance(actor, Writes):
                actor.write(env, begun)
            elif isinstance(actor, Repeats):
                actor.act(env)
            acted.landed = True
        except CommitOutcomeUnknownError:
            acted.landed = _is_completed(before.sharing, env, begun)
        except TidelakeError as error:
            acted.error = error
        if begun and (acted.landed or _is_completed(before.sharing, env, begun)):
            acted.instant_time = begun[0].instant_time

    world.add(actor_name, act)
    world.run()
    return acted


def _is_completed(sharing: Sharing, env: Env, begun: Sequence[Transaction]) -> bool:
    try:
        done = {i.requested_time for i in sharing.state(env, by_metadata=False).timeline.writes()}
    except TidelakeError:
        return False
    return any(txn.instant_time in done for txn in begun)


def _owed(before: Sound, journal: Journal, acted: Acted) -> Rows:
    saved = [_place(before, i) for i in before.writes if i.requested_time in journal.restored_to]
    writes = [
        i
        for i in before.writes
        if i.requested_time not in journal.taken_back
        and all(_place(before, i) <= at for at in saved)
    ]
    if acted.instant_time is not None:
        writes.append(
            Instant(
                requested_time=acted.instant_time,
                action=Action.COMMIT,
                state=State.INFLIGHT,
            )
        )
    return journal.rows(writes)


def _place(before: Sound, write: Instant) -> str:
    """Return the time by which writes of the table come one after the other."""
    by_completion = TableFormat(before.history.table_version).has_completion_times
    return (write.completion_time if by_completion else None) or write.requested_time


def _mend(storage: MemoryStorage, kept: Kept) -> None:
    """Take the damage back where nobody has."""
    for path, (sound_data, damaged) in kept.items():
        now = storage.read(path) if storage.stat(path) else None
        if now == damaged:
            if sound_data is None:
                storage.delete(path)
            else:
                storage.damage(path, sound_data)


def _undone(
    world: Simulation, before: Sound, journal: Journal, steps: Sequence[Step], told: str
) -> str:
    """Hold the rows to those there were, or to what is left once an undoing has come to its end."""
    owed = before.start.journal.rows(before.writes)
    if journal.taken_back or journal.restored_to:
        env = world.outside()
        env.clock.sleep_ms(_AN_HOUR_MS)
        try:
            finish_restore(env, before.sharing, journal)
            before.sharing.table_services(env).roll_back_failed()
            owed = journal.rows(completed_writes(before.sharing.state(env, by_metadata=False)))
        except TidelakeError as error:
            is_of_toys = isinstance(error, CorruptFileError) and error.path.endswith(".parquet")
            if is_of_toys or are_untellable(steps):
                return "refused"
            raise AssertionError(f"{told}, and it cannot be finished: {error}") from error
    for by_metadata in (False, True):
        found: Rows | TidelakeError
        try:
            found = _read(world, before, by_metadata=by_metadata)
        except TidelakeError as error:
            found = error
        if found != owed and not are_untellable(steps):
            raise AssertionError(f"{told}, and with the damage undone {found} instead of {owed}")
    return "refused"


def _compared(
    world: Simulation, before: Sound, owed: Rows, steps: Sequence[Step], told: str
) -> str:
    ends = set()
    for by_metadata in (False, True):
        try:
            found: Rows | None = _read(world, before, by_metadata=by_metadata)
        except TidelakeError:
            ends.add("landed, reads refused")
            continue
        if found == owed:
            ends.add("landed, right rows")
        elif _is_told(world, before):
            ends.add("other rows, told")
        elif are_untellable(steps):
            ends.add("other rows, untellable")
        else:
            raise AssertionError(f"{told}: {found} instead of {owed}, by_metadata={by_metadata}")
    return min(ends, key=_ENDS.index)


_ENDS = (
    "other rows, untellable",
    "other rows, told",
    "landed, reads refused",
    "landed, right rows",
)


def _read(world: Simulation, before: Sound, *, by_metadata: bool) -> Rows:
    env = world.outside()
    state = before.sharing.state(env, by_metadata=by_metadata)
    try:
        found, twice = run_toy(env.storage, plan_snapshot(state))
    except SchemaError:
        if state.timeline.writes():
            raise
        return {}
    if twice:
        return {**found, **dict.fromkeys((f"{key} again" for key in twice), (0, 0, 0, ""))}
    return found


def _is_told(world: Simulation, before: Sound) -> bool:
    try:
        return bool(checked(before.sharing.state(world.outside(), by_metadata=False)))
    except TidelakeError:
        return True


def _damage(storage: MemoryStorage, random: Random) -> tuple[Kept, list[Step]]:
    """Change files of a table; return each with its content before and after, and what was done."""
    kept: Kept = {}
    steps: list[Step] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        by_kind = _kinds(storage.files_below(""))
        if not by_kind:
            break
        names = by_kind[random.choice(sorted(by_kind))]
        path = random.choice(names)
        is_toy = not path.startswith(".hoodie") and not path.endswith("_partition_metadata")
        what = random.choice(_OF_DATA if is_toy else _OF_OTHERS)
        if what == "foreign":
            path = f"{path.rpartition('/')[0]}/{random.choice(STRANGERS)}"
        if what == "pending":
            path = f"{_timeline_folder(storage)}/{PENDING_NAME}"
        data = storage.read(path) if storage.stat(path) else None
        if what in ("foreign", "pending"):
            if data is not None:
                continue
            changed: bytes | None = random.randbytes(20) if what == "foreign" else b""
        elif what == "remove":
            changed = None
        else:
            alike = [storage.read(name) for name in names]
            changed = new_content(what, data or b"", random, alike)
        if changed == data:
            continue
        kept[path] = (kept.get(path, (data,))[0], changed)
        if changed is None:
            storage.delete(path)
        else:
            storage.damage(path, changed)
        steps.append(Step(what, path))
    return kept, steps


def _kinds(paths: Sequence[str]) -> dict[str, list[str]]:
    """Return the files by kind; those that only writers read, such as heartbeats, are one more."""
    found = codecs.kinds(paths)
    known = {path for of in found.values() for path in of}
    others = [path for path in paths if path not in known]
    return {**found, "others": others} if others else found


def _timeline_folder(storage: MemoryStorage) -> str:
    return ".hoodie/timeline" if storage.exists(".hoodie/timeline") else ".hoodie"
