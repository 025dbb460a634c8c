"""Requests that the storage loses, or carries out late, cost no row and double none.

Every change that an operation makes to the storage is lost once: on its way there, on its way
back, and so that it arrives when the operation has been told of the failure, or when the next is
done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.writes.cases import Case
from tests.writes.model import Do, Model, Row, Step, Values, values
from tests.writes.readers import OurReader
from tests.writes.staged_writer import create, write_through
from tidelake.config import ReadOptions, WriteOptions
from tidelake.env import Env
from tidelake.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    StorageError,
    TidelakeError,
)
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.model import Action
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.table_services import TableServices
from tidelake.operations.task_runner import Here
from tidelake.read.check import check_table
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Fault, FaultyStorage
from tidelake.testing.faults import CHANGES

TIGHT = {
    "hoodie.metadata.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock."
    "StorageBasedLockProvider",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
SILENT_MS = 3_600_000


@dataclass
class Silence:
    """The time that has passed since the tests began, as the storage sees it."""

    ms: int = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ms


def row(key: str, ts: int) -> Row:
    return {
        "id": key,
        "region": "n",
        "city": "oslo" if key < "c" else "rom",
        "day": 1_794_700_800_000,
        "ts": ts,
        "fare": ts / 4,
        "note": None,
    }


def step(do: Do, ts: int, *keys: str) -> Step:
    return Step(do=do, rows=tuple(row(key, ts) for key in keys))


STEPS = (
    step(Do.UPSERT, 1, "a", "b", "c", "d"),
    step(Do.UPSERT, 2, "a", "c", "e"),
    step(Do.DELETE, 3, "b"),
    step(Do.UPSERT, 4, "a", "d", "f"),
    step(Do.UPSERT, 5, "c", "g"),
)
NEXT = step(Do.UPSERT, 9, "a", "z")


@dataclass(frozen=True)
class Made:
    """A table that was written to, and what it holds."""

    storage: MemoryStorage
    case: Case
    silence: Silence
    states: list[list[Values]] = field(default_factory=list)
    times: list[str] = field(default_factory=list)

    def copied(self) -> MemoryStorage:
        return self.storage.copied(self.silence.now_ms)


Act = Callable[[Storage, Made], object]


def table_services(storage: Storage, made: Made) -> TableServices:
    given = WriteOptions.from_options(made.case.options)
    return TableServices(Env(storage), load_state(storage, made.case.options), given)


def compact(storage: Storage, made: Made) -> None:
    given = WriteOptions.from_options(made.case.options)
    Compactor(Env(storage), lambda: load_state(storage, made.case.options), given, Here()).both()


WRITES = {
    "upsert": step(Do.UPSERT, 7, "a", "e", "new"),
    "insert": step(Do.INSERT, 7, "new", "newer"),
    "delete": step(Do.DELETE, 7, "a", "g"),
}


def writes(name: str) -> Act:
    return lambda storage, made: write_through(storage, made.case, WRITES[name])


#: What each operation does, and which states of the table it may leave, by their place from the
#: end of `Made.states`.
ACTS: Mapping[str, Act] = {
    **{name: writes(name) for name in WRITES},
    "compact": compact,
    "clean": lambda storage, made: table_services(storage, made).clean(),
    "archive": lambda storage, made: table_services(storage, made).archive(),
    "savepoint": lambda storage, made: table_services(storage, made).savepoint(made.times[-1], ""),
    "restore": lambda storage, made: table_services(storage, made).restore(made.times[2]),
    "rollback": lambda storage, made: table_services(storage, made).roll_back(made.times[-1]),
}


def made_for(name: str, case: Case, folder: Path) -> Made:
    silence = Silence()
    storage = MemoryStorage(now_ms=silence.now_ms)
    made = Made(storage, case, silence)
    root = folder / "origin"
    create(root, case)
    for path in sorted(found for found in root.rglob("*") if found.is_file()):
        storage.put(str(path.relative_to(root)), path.read_bytes())
    for number, done in enumerate(STEPS):
        write_through(storage, case, done)
        made.states.append(seen(storage, folder))
        made.times.append(load_state(storage, {}).timeline.writes()[-1].requested_time)
        if number == 2 and name == "restore":
            table_services(storage, made).savepoint(made.times[-1], "")
    if name == "archive":
        table_services(storage, made).clean()
    return made


def owed(name: str, made: Made) -> list[Values]:
    """Return the rows of the table once the operation is done."""
    if name == "restore":
        return made.states[2]
    if name == "rollback":
        return made.states[-2]
    done = [*STEPS, WRITES[name]] if name in WRITES else STEPS
    model = Model(made.case.identity)
    for each in done:
        model.apply(each)
    return values(model.rows)


def seen(storage: MemoryStorage, folder: Path) -> list[Values]:
    """Return the rows, which are the same whoever lists the files."""
    root = folder / f"seen{time.monotonic_ns()}"
    for path in storage.files_below(""):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(storage.read(path))
    found = OurReader(root).snapshot()
    assert found == OurReader(root, {"hoodie.metadata.enable": "false"}).snapshot()
    return found


def problems(storage: Storage) -> list[str]:
    state = TableState.load(storage, ReadOptions())
    at = (state.storage, state.config, state.timeline)
    report = check_table(state, MetadataTable.open(*at), unknown_writes(*at), quick=True)
    return [found.problem for found in report.violations]


LOST = (
    (Fault.LOST_CALL, "never"),
    (Fault.LOST_REPLY, "never"),
    (Fault.LATE, "before the next"),
    (Fault.LATE, "after the next"),
)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize(
    ("version", "mor", "shared"),
    [(9, False, False), (9, False, True), (8, True, True), (9, True, True), (9, True, False)],
)
def test_no_request_that_gets_lost_costs_a_row(
    version: int, mor: bool, shared: bool, name: str, tmp_path: Path
) -> None:
    if name == "compact" and not mor:
        pytest.skip("without logs there is nothing to compact")
    if name == "archive" and mor:
        pytest.skip("what the next compaction is counted from stays")
    settings = TIGHT | (SHARED if shared else {})
    case = Case(version=version, mor=mor, extra=tuple(settings.items()))
    made = made_for(name, case, tmp_path)
    before, after = made.states[-1], owed(name, made)
    counted = FaultyStorage(made.copied())
    ACTS[name](counted, made)
    changing = [n for n, (call, _) in enumerate(counted.calls, 1) if call in CHANGES]
    assert changing
    for number in changing:
        for fault, arrives in LOST:
            where = f"{name}: {fault} {arrives} of {counted.calls[number - 1]}"
            play(made, name, number, fault, arrives, where, before, after, tmp_path)


def play(
    made: Made,
    name: str,
    number: int,
    fault: Fault,
    arrives: str,
    where: str,
    before: list[Values],
    after: list[Values],
    folder: Path,
) -> None:
    storage = made.copied()
    faulty = FaultyStorage.failing_at(storage, number, fault)
    allowed = [after]
    is_done = True
    try:
        ACTS[name](faulty, made)
    except CommitOutcomeUnknownError:
        allowed = [before, after]
    except StorageError:
        allowed = [before] if name in WRITES else [before, after]
        # A restore takes one write off after the other, and is asked for again until it is done.
        allowed += made.states[2:] if name == "restore" else []
        is_done = False
    found = seen(storage, folder)
    assert found in allowed, where
    made.silence.ms += SILENT_MS
    if arrives == "before the next":
        faulty.deliver()
        made.silence.ms += SILENT_MS  # a heartbeat may have come
        allowed += [] if name in WRITES else [before, after]
        found = seen(storage, folder)
        assert found in allowed, where
    if not is_done and name not in WRITES and (name != "rollback" or found == before):
        # What began is brought to its end by whoever asks for it again.
        with suppress(ConfigError):  # the savepoint is there already
            ACTS[name](storage, made)
        found = seen(storage, folder)
        assert found == after, where
    write_on(storage, made, where)
    if arrives == "after the next":
        faulty.deliver()
    expected = merged(found)
    assert seen(storage, folder) == expected, where
    if any(i.action is Action.RESTORE for i in load_state(storage, {}).timeline.pending):
        # Its plan names what is off the table already; nobody writes until it has ended.
        ACTS[name](storage, made)
        assert seen(storage, folder) == expected, where
    write_on(storage, made, where)
    assert seen(storage, folder) == expected, where
    left = problems(storage)
    if name == "compact" and fault is Fault.LATE:
        # The file of an attempt that was rolled back holds the rows of the one that completed.
        left = [problem for problem in left if "does not list it" not in problem]
    assert left == [], where


def write_on(storage: Storage, made: Made, where: str) -> None:
    """Write as a person would who finds that something began and did not end."""
    try:
        write_through(storage, made.case, NEXT)
    except TidelakeError as error:
        pending = list(load_state(storage, {}).timeline.pending)
        raise AssertionError(f"{where}: {error}; pending {pending}") from error


def merged(rows: list[Values]) -> list[Values]:
    """Return what a table with these rows holds after `NEXT`."""
    new = {r["id"] for r in NEXT.rows}
    kept = [found for found in rows if found[0] not in new]
    return sorted([*kept, *values(NEXT.rows)], key=repr)
