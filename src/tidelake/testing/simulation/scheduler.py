"""Actors that take turns: the seed says who runs, what fails, and what time it is.

Every call to the storage is a point where another actor may run instead. Only one runs at a time,
so that a history depends on nothing but its seed; threads are used because the code under test
calls the storage from wherever it is.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded below
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock, Thread, get_ident
from typing import TypeVar

from typing_extensions import override

from tidelake.env import Env
from tidelake.storage import MemoryStorage
from tidelake.testing.faults import Crash, Fault, FaultyStorage
from tidelake.testing.ids import SeededIds

T = TypeVar("T")

_START_MS = 1_794_700_800_000
#: The longest that one call to the storage takes.
_CALL_MS = 5
#: So many calls behind a file that appeared late its process finds out, and takes it back.
_CALLS_BEHIND = 40
#: Modules whose properties wait for nobody any more.
_UNLOCKED: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How likely each fault is at a call to the storage; `most_crashes` end actors for good."""

    crash: float = 0.0
    error: float = 0.0
    lost_reply: float = 0.0
    stall: float = 0.0
    """At a call of any kind but one that publishes a file once and for all."""
    late: float = 0.0
    """The actor stalls in front of such a file, behind the last look at its lock.

    It takes that back when it goes on: nothing happens to it until it has had the time.
    """
    late_listing: float = 0.0
    """What a listing says is old by the time that it arrives."""
    clock_jump: float = 0.0
    longest_stall_ms: int = 400_000
    longest_jump_ms: int = 10_000
    most_crashes: int = 3

    @property
    def in_all(self) -> float:
        """Return how likely it is that a call meets any of them."""
        return (
            self.crash
            + self.error
            + self.lost_reply
            + self.stall
            + self.late
            + self.late_listing
            + self.clock_jump
        )


#: Picks one of the actors that can run.
Choose = Callable[[Sequence["Actor"]], "Actor"]


def _taken() -> Lock:
    made = Lock()
    made.acquire()
    return made


@dataclass(eq=False)
class Actor:
    """One process of the simulated world."""

    name: str
    act: Callable[[Env], None]
    offset_ms: int = 0
    wakes_ms: int = 0
    stalled_until_ms: int = 0
    late_by_ms: int = 0
    spared_calls: int = 0
    """At so many further calls nothing happens to it."""
    next_call: tuple[str, str] = ("", "")
    """Name and path of the call to the storage that it makes when it goes on."""
    is_dead: bool = False
    error: BaseException | None = None
    thread: int = 0
    """Its own thread: whatever else calls the storage for it, as a pool does, takes no turns."""
    turn: Lock = field(default_factory=_taken)
    """Released to let the actor run; a lock wakes a thread at once, and with least ado."""
    ticks: list[_Tick] = field(default_factory=list)


@dataclass(eq=False)
class _Tick:
    interval_ms: int
    act: Callable[[], None]
    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A world between two histories, of which any number can go on from there."""

    storage: MemoryStorage
    now_ms: int
    actors: int
    """How many actors there have been, so that ids stay unique."""


class Simulation:
    """A world of actors on one storage; `run` plays one history of it."""

    def __init__(
        self,
        seed: int,
        faults: Faults | None = None,
        *,
        spared: Collection[int] = (),
        choose: Choose | None = None,
        start: Moment | None = None,
    ) -> None:
        """Take the seed of a history.

        Of the faults that it draws, counted from 1, the `spared` do not happen. `choose` says who
        runs next; without it the seed does. It goes on from `start`, or from nothing.
        """
        self._random = random.Random(seed)
        self._faults = faults or Faults()
        self._spared = frozenset(spared)
        self._choose = choose or self._random.choice
        self._crashes_left = self._faults.most_crashes
        self._any_fault = self._faults.in_all
        self.faults_drawn = 0
        """How many faults the history has drawn so far."""
        self._now_ms = start.now_ms if start else _START_MS
        self._actors_before = start.actors if start else 0
        self._steps_left = 0
        self._is_over = _taken()
        self._actors: list[Actor] = []
        self._alive: list[Actor] = []
        self._running: Actor | None = None
        self._detail = random.Random(seed)
        self.storage = (start.storage if start else MemoryStorage()).copied(lambda: self._now_ms)
        """What lies on storage, for whoever sets up or looks at the world from outside."""
        self._notes: list[tuple[int, str, str, str]] = []

    @property
    def history(self) -> list[str]:
        """Return what happened, a line a step: same seed, same lines."""
        return [
            f"{at_ms - _START_MS:>8} {name}: {what}{detail}"
            for at_ms, name, what, detail in self._notes
        ]

    @property
    def now_ms(self) -> int:
        """Return the time that no actor knows."""
        return self._now_ms

    def outside(self) -> Env:
        """Return an environment in which nothing fails, with a clock that is right."""
        return Env(self.storage, _OutsideClock(self), SeededIds(0), _NoTicker())

    def add(self, name: str, act: Callable[[Env], None], *, offset_ms: int = 0) -> None:
        """Add an actor whose clock is off by `offset_ms`; `act` is what it does, start to end."""
        self._actors.append(Actor(name, act, offset_ms))

    def moment(self) -> Moment:
        """Return what others can go on from, once the history has ended."""
        actors = self._actors_before + len(self._actors)
        return Moment(storage=self.storage.copied(), now_ms=self._now_ms, actors=actors)

    def chance(self) -> random.Random:
        """Return a source of choices that belong to the history."""
        return random.Random(self._random.getrandbits(64))

    def run(self, most_steps: int = 100_000) -> None:
        """Let all actors run to their end; raise what one of them raised that it should not."""
        _unlock_cached_properties()
        threads = [
            Thread(target=self._live, args=(actor, number), daemon=True)
            for number, actor in enumerate(self._actors)
        ]
        for thread in threads:
            thread.start()
        self._steps_left = most_steps
        self._alive = list(self._actors)
        self._go_on(None)
        self._is_over.acquire()
        if not self._steps_left:
            raise AssertionError(f"not done after {most_steps} steps")
        for actor in self._actors:
            if actor.error is not None:
                raise actor.error

    def _go_on(self, last: Actor | None) -> bool:
        """Let whoever is next run; return whether that is the actor that ran last.

        Whoever has run does this itself, so that an actor that goes on need not wait to be told.
        """
        if last is not None:
            self._running = None
            self._now_ms += int(self._random.random() * (_CALL_MS + 1))
            self._beat()
            self._steps_left -= 1
        following = self._pick() if self._steps_left else None
        if following is None:
            self._is_over.release()
            return False
        self._running = following
        if following is last:
            return True
        following.turn.release()
        return False

    def _live(self, actor: Actor, number: int) -> None:
        actor.turn.acquire()
        actor.thread = get_ident()
        storage = _ActorStorage(self, actor)
        env = Env(
            storage,
            _ActorClock(self, actor),
            SeededIds(self._actors_before + number + 1),
            _ActorTicker(self, actor),
        )
        try:
            actor.act(env)
        except Crash:
            self.note(actor, "is dead")
        except BaseException as error:  # noqa: BLE001 - raised again by whoever runs the world
            actor.error = error
        self._alive.remove(actor)
        self._go_on(actor)

    def _pick(self) -> Actor | None:
        while self._alive:
            now_ms = self._now_ms
            free = [a for a in self._alive if a.wakes_ms <= now_ms and a.stalled_until_ms <= now_ms]
            if free:
                return self._choose(free)
            self._now_ms = min(max(a.wakes_ms, a.stalled_until_ms) for a in self._alive)
        return None

    def _beat(self) -> None:
        """Do what living actors have asked to be done again and again."""
        for actor in self._alive:
            if not actor.ticks or actor.is_dead or actor.stalled_until_ms > self._now_ms:
                continue
            for tick in actor.ticks:
                if tick.due_ms <= self._now_ms and tick in actor.ticks:
                    tick.due_ms = self._now_ms + tick.interval_ms
                    tick.act()

    def wait(self, actor: Actor, until_ms: int = 0) -> None:
        """Let others run; the actor goes on when it is its turn, and not before `until_ms`."""
        actor.wakes_ms = until_ms
        if not self._go_on(actor):
            actor.turn.acquire()

    def is_on_turn(self, actor: Actor) -> bool:
        """Return whether the actor itself is running, and not something it asked for."""
        return self._running is actor and actor.thread == get_ident()

    def fault(self, actor: Actor, name: str, path: str) -> Fault | None:
        """Return what becomes of a call to the storage."""
        self.note(actor, name, f" {path}")
        found = self._faults
        draw = self._random.random()
        if actor.spared_calls:
            actor.spared_calls -= 1
            return None
        if draw >= self._any_fault:
            return None
        for likely, act in (
            (found.crash, self._crash),
            (found.error, lambda _: Fault.ERROR),
            (found.lost_reply, lambda _: Fault.LOST_REPLY),
            (0 if name == "put_if_absent" else found.stall, self._stall),
            (found.late_listing if name == "list" else 0, self._answer_late),
            (found.clock_jump, self._jump),
            (found.late if name == "put_if_absent" else 0, self._come_late),
        ):
            if draw < likely:
                # Drawn whether it happens or not, so that the rest of the history is the same.
                detail = random.Random(self._random.getrandbits(64))
                self.faults_drawn += 1
                if self.faults_drawn in self._spared:
                    return None
                self._detail = detail
                return act(actor)
            draw -= likely
        return None

    def _crash(self, actor: Actor) -> Fault | None:
        if not self._crashes_left:
            return None
        self._crashes_left -= 1
        actor.is_dead = True
        return self._detail.choice([Fault.CRASH_BEFORE, Fault.CRASH_AFTER])

    def _stall(self, actor: Actor) -> None:
        pause_ms = self._detail.randint(1, self._faults.longest_stall_ms)
        self.note(actor, f"stalls for {pause_ms} ms")
        actor.stalled_until_ms = self._now_ms + pause_ms
        self.wait(actor)

    def _come_late(self, actor: Actor) -> None:
        actor.spared_calls = _CALLS_BEHIND
        self._stall(actor)

    def _answer_late(self, actor: Actor) -> None:
        actor.late_by_ms = self._detail.randint(1, self._faults.longest_stall_ms)

    def arrive(self, actor: Actor) -> None:
        """Let the answer to a listing arrive, late if it was to."""
        if actor.late_by_ms:
            self.note(actor, f"has its listing {actor.late_by_ms} ms late")
            actor.stalled_until_ms = self._now_ms + actor.late_by_ms
            actor.late_by_ms = 0
            self.wait(actor)

    def _jump(self, actor: Actor) -> None:
        longest_ms = self._faults.longest_jump_ms
        actor.offset_ms = self._detail.randint(-longest_ms, longest_ms)
        self.note(actor, f"has a clock that is off by {actor.offset_ms} ms")

    def note(self, actor: Actor, what: str, detail: str = "") -> None:
        """Write down what happened; it becomes a line when somebody asks for it."""
        self._notes.append((self._now_ms, actor.name, what, detail))


def _unlock_cached_properties() -> None:
    """Let actors wait for their turn inside a property that is computed once.

    Up to Python 3.11 such a property holds a lock of its class meanwhile, and would keep all others
    out; where one actor runs at a time, nothing needs it.
    """
    modules = [name for name in sys.modules if name.startswith("tidelake.")]
    for module in [sys.modules[name] for name in modules if name not in _UNLOCKED]:
        for kind in vars(module).values():
            for found in vars(kind).values() if isinstance(kind, type) else ():
                if isinstance(found, cached_property) and hasattr(found, "lock"):
                    found.lock = nullcontext()
    _UNLOCKED.update(modules)


class _ActorStorage(FaultyStorage):
    def __init__(self, simulation: Simulation, actor: Actor) -> None:
        self._simulation = simulation
        self._actor = actor
        super().__init__(simulation.storage, self._step)

    def _step(self, _number: int, name: str, path: str) -> Fault | None:
        if not self._simulation.is_on_turn(self._actor):
            return None
        self._actor.next_call = (name, path)
        self._simulation.wait(self._actor)
        return self._simulation.fault(self._actor, name, path)

    @override
    def _call(self, name: str, path: str, act: Callable[[], T]) -> T:
        result = super()._call(name, path, act)
        if self._simulation.is_on_turn(self._actor):
            self._simulation.arrive(self._actor)
        return result


class _ActorClock:
    def __init__(self, simulation: Simulation, actor: Actor) -> None:
        self._simulation = simulation
        self._actor = actor

    def now_ms(self) -> int:
        return self._simulation.now_ms + self._actor.offset_ms

    def sleep_ms(self, delay_ms: int) -> None:
        if self._actor.is_dead:
            raise Crash
        self._actor.next_call = ("", "")
        self._simulation.wait(self._actor, self._simulation.now_ms + max(1, delay_ms))


class _ActorTicker:
    def __init__(self, simulation: Simulation, actor: Actor) -> None:
        self._simulation = simulation
        self._actor = actor

    def every(self, interval_ms: int, act: Callable[[], None]) -> Callable[[], None]:
        tick = _Tick(interval_ms, act, self._simulation.now_ms + interval_ms)
        # A list of its own each time: what a tick does may begin or end others.
        self._actor.ticks = [*self._actor.ticks, tick]

        def stop() -> None:
            self._actor.ticks = [other for other in self._actor.ticks if other is not tick]

        return stop


class _OutsideClock:
    """A clock that is right; who sleeps by it lets time pass for the storage too."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def now_ms(self) -> int:
        return self._simulation.now_ms

    def sleep_ms(self, delay_ms: int) -> None:
        self._simulation._now_ms += delay_ms


class _NoTicker:
    def every(self, interval_ms: int, act: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 - nothing is to be done twice
        return lambda: None
