"""The services of one table, for whoever asks: under its lock, and with its metadata table kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.operations.open_table import load_state
from tidelake.operations.write_session import WriteSession
from tidelake.services import (
    Archived,
    Cleaned,
    Restored,
    RolledBack,
    Savepoint,
    Service,
    ServiceContext,
    ServicePlan,
    archive,
    clean,
    delete_savepoint,
    plan_roll_back,
    plan_service,
    restore,
    roll_back,
    roll_back_all_failed,
    run_clean,
    savepoint,
    schedule_clean,
    show_restore,
)
from tidelake.state.table_state import TableState
from tidelake.storage import open_storage


def open_table_services(path: str, options: Mapping[str, str]) -> TableServices:
    """Return what runs the services of a table that need no Spark.

    Raises `TableNotFoundError`, `NotATableError`, `UnsupportedTableError` or `CorruptFileError`.
    """
    storage = open_storage(path, options)
    return TableServices(
        Env(storage), load_state(storage, options), WriteOptions.from_options(options)
    )


class TableServices:
    """Runs services that need no Spark on one table, by the options of a write to it."""

    def __init__(self, env: Env, state: TableState, options: WriteOptions) -> None:
        """Raise `UnsupportedTableError` or `ConfigError` where a write would."""
        self._env = env
        self._options = options.services
        self._session = WriteSession(env, state, options)

    def plan(self, service: Service | str) -> ServicePlan:
        """Return what a service would do now."""
        return plan_service(self._now(), service, self._options)

    def clean(self) -> Sequence[Cleaned]:
        """Finish cleans that were begun, then clean; return what was done."""
        session = self._session
        return clean(
            self._env,
            self._options.clean,
            session.keeper,
            expires_ms=session.expires_ms,
            concurrency=session.concurrency,
        )

    def schedule_clean(self) -> str | None:
        """Put the plan of a clean on the timeline and return its time, or None without work."""
        with self._session.concurrency.section():
            return schedule_clean(self._now(), self._options.clean)

    def run_clean(self, requested_time: str) -> Cleaned:
        """Carry out a clean that waits."""
        return run_clean(self._now(), requested_time)

    def archive(self) -> Archived | None:
        """Archive what is due, or return None."""
        return archive(self._env, self._options, self._session.concurrency)

    def roll_back(self, requested_time: str, *, force: bool = False) -> RolledBack:
        """Roll back one write; one that is running by `force` alone."""
        session = self._session
        return roll_back(
            self._env,
            requested_time,
            session.keeper,
            concurrency=session.concurrency,
            force=force,
        )

    def plan_roll_back(self, requested_time: str) -> ServicePlan:
        """Return what rolling back one write would delete."""
        return plan_roll_back(self._now(), requested_time)

    def roll_back_failed(self) -> Sequence[str]:
        """Roll back every write that failed; with several writers those that show no life."""
        session = self._session
        shared = session.concurrency.is_shared
        return roll_back_all_failed(
            self._env,
            session.keeper,
            expires_ms=session.concurrency.expires_after_ms if shared else None,
            concurrency=session.concurrency,
        )

    def savepoint(self, requested_time: str | None, comment: str) -> Savepoint:
        """Keep the table as of a completed write."""
        shared = self._session.concurrency
        return savepoint(self._env, requested_time, comment=comment, concurrency=shared)

    def delete_savepoint(self, requested_time: str) -> None:
        """Give up a savepoint."""
        delete_savepoint(self._env, requested_time, concurrency=self._session.concurrency)

    def restore(self, requested_time: str) -> Restored:
        """Take the table back to a savepoint."""
        session = self._session
        return restore(self._env, requested_time, session.keeper, concurrency=session.concurrency)

    def plan_restore(self, requested_time: str) -> ServicePlan:
        """Return what a restore would take off the table."""
        return show_restore(self._now().state, requested_time)

    def _now(self) -> ServiceContext:
        return ServiceContext.load(self._env, self._session.keeper, self._session.concurrency)


class CleanSteps:
    """The steps of a clean, in the form that all services have."""

    def __init__(self, table_services: TableServices) -> None:
        self._table_services = table_services

    def schedule(self) -> str | None:
        """Put a plan on the timeline and return its time, None when there is nothing to do."""
        return self._table_services.schedule_clean()

    def run(self, requested_time: str) -> Cleaned:
        """Carry out a plan."""
        return self._table_services.run_clean(requested_time)

    def both(self) -> list[Cleaned]:
        """Finish cleans that were begun, then clean; return what was done."""
        return list(self._table_services.clean())
