"""Who keeps the table fast, keeps its past, and undoes what went wrong."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from tidelake.env import Env
from tidelake.errors import CommitOutcomeUnknownError, UnsupportedTableError
from tidelake.model import WRITE_ACTIONS, Action
from tidelake.operations.compaction_run import Compactor
from tidelake.testing.simulation.actors.sharing import Repeats
from tidelake.testing.simulation.toy_runner import ToyRunner

#: Of so many instants one is rolled back.
_NEWEST = 4


@dataclass(frozen=True, kw_only=True)
class Compacts(Repeats):
    """Carries out whatever plan waits, its own or not, and plans compactions."""

    @override
    def act(self, env: Env) -> None:
        runner = ToyRunner(env, lambda: self.linger(env))
        compactor = Compactor(env, lambda: self.sharing.state(env), self.sharing.options, runner)
        try:
            if self.chance.random() < 0.3:
                compactor.schedule()
            else:
                compactor.both()
        except (CommitOutcomeUnknownError, UnsupportedTableError):
            pass  # a log that a dead writer left may stand in the way


@dataclass(frozen=True, kw_only=True)
class Cleans(Repeats):
    """Cleans the table, and rolls back what died on the way."""

    @override
    def act(self, env: Env) -> None:
        self.sharing.table_services(env).clean()


@dataclass(frozen=True, kw_only=True)
class Archives(Repeats):
    """Moves instants off the active timeline."""

    @override
    def act(self, env: Env) -> None:
        self.sharing.table_services(env).archive()


@dataclass(frozen=True, kw_only=True)
class RollsBack(Repeats):
    """Rolls back writes that show no signs of life."""

    @override
    def act(self, env: Env) -> None:
        self.sharing.table_services(env).roll_back_failed()


@dataclass(frozen=True, kw_only=True)
class TakesBack(Repeats):
    """Rolls back the newest write that completed."""

    @override
    def act(self, env: Env) -> None:
        state = self.sharing.state(env)
        writes = state.writes_by_time()
        if not writes:
            return
        time = writes[-1].requested_time
        self.linger(env)
        # Told or not, it may happen from here on.
        self.journal.taken_back.add(time)
        self.sharing.table_services(env).roll_back(time)
        self.journal.refused.append(time)


@dataclass(frozen=True, kw_only=True)
class TakesAnyBack(Repeats):
    """Rolls back one of the newest instants, pending or completed, now and then by force."""

    @override
    def act(self, env: Env) -> None:
        instants = self.sharing.state(env).timeline.instants
        found = [i for i in instants if i.planned_as.completed_as in WRITE_ACTIONS]
        if not found:
            return
        instant = self.chance.choice(found[-_NEWEST:])
        force = self.chance.random() < 0.5
        self.linger(env)
        self.journal.taken_back.add(instant.requested_time)
        self.sharing.table_services(env).roll_back(instant.requested_time, force=force)
        self.journal.refused.append(instant.requested_time)


@dataclass(frozen=True, kw_only=True)
class Saves(Repeats):
    """Keeps the table as of a completed write, the newest or another."""

    @override
    def act(self, env: Env) -> None:
        writes = self.sharing.state(env).writes_by_time()
        time = None
        if writes and self.chance.random() < 0.5:
            time = self.chance.choice(writes).requested_time
        self.sharing.table_services(env).savepoint(time, "")


@dataclass(frozen=True, kw_only=True)
class Forgets(Repeats):
    """Gives up a savepoint."""

    @override
    def act(self, env: Env) -> None:
        found = [
            i for i in self.sharing.state(env).timeline.completed if i.action is Action.SAVEPOINT
        ]
        if found:
            self.sharing.table_services(env).delete_savepoint(
                self.chance.choice(found).requested_time
            )


@dataclass(frozen=True, kw_only=True)
class Restores(Repeats):
    """Takes the table back to a savepoint."""

    @override
    def act(self, env: Env) -> None:
        found = [
            i for i in self.sharing.state(env).timeline.completed if i.action is Action.SAVEPOINT
        ]
        if not found:
            return
        time = self.chance.choice(found).requested_time
        self.journal.restored_to.add(time)
        done = self.sharing.table_services(env).restore(time)
        self.journal.refused += done.instants
