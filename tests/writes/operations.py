"""Everything that changes a table, as one call each, and the rows that a table has after it.

What the operations need of Spark is left out: a merge or a change by condition ends in the writes
that are here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.writes.cases import FIXED_IDS, Case
from tests.writes.model import Do, Model, Row, Step, Values, values
from tests.writes.readers import OurReader
from tests.writes.staged_writer import create, create_in, write_through
from tidelake.config import ReadOptions, WriteOperation, WriteOptions
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    NotATableError,
    TableExistsError,
    TidelakeError,
)
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.table_services import TableServices
from tidelake.operations.task_runner import Here
from tidelake.operations.write_session import WriteSession
from tidelake.read.check import check_table
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.txn.locks import StorageLock
from tidelake.write.operation import planned_partitions
from tidelake.write.plan import Workload
from tidelake.write.schema_evolution import without_meta_columns

_TIGHT = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
_METADATA = {"hoodie.metadata.enable": "true"}
_NO_METADATA = {"hoodie.metadata.enable": "false"}
_INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
_LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock."
    "StorageBasedLockProvider",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
_OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", **_LOCK}
_NON_BLOCKING = {**dict(FIXED_IDS), **_LOCK}


def _kind(version: int, *settings: Mapping[str, str], mor: bool = False, **more: str) -> Case:
    extra = dict(_TIGHT)
    for given in settings:
        extra |= given
    return Case(version=version, mor=mor, extra=tuple(extra.items()), **more)  # type: ignore[arg-type]  # an index is text


#: Tables of every version and type, for one writer and for several, with a metadata table and
#: without it.
KINDS: Mapping[str, Case] = {
    "v9-cow-occ": _kind(9, _METADATA, _OPTIMISTIC),
    "v9-mor-occ": _kind(9, _METADATA, _OPTIMISTIC, mor=True),
    "v9-mor-nbcc": _kind(9, _METADATA, _NON_BLOCKING, mor=True, index="BUCKET"),
    "v8-mor-occ": _kind(8, _METADATA, _OPTIMISTIC, mor=True),
    "v6-mor-occ": _kind(6, _METADATA, _OPTIMISTIC, mor=True),
    "v6-cow-occ": _kind(6, _METADATA, _OPTIMISTIC),
    "v9-cow-single": _kind(9, _METADATA),
    "v9-mor-single": _kind(9, _METADATA, mor=True),
    "v8-cow-single": _kind(8, _METADATA),
    "v6-mor-single": _kind(6, _METADATA, mor=True),
    "v8-mor-nbcc": _kind(8, _METADATA, _NON_BLOCKING, mor=True, index="BUCKET"),
    "v9-cow-occ-listed": _kind(9, _NO_METADATA, _OPTIMISTIC),
    "v9-mor-nbcc-listed": _kind(9, _NO_METADATA, _NON_BLOCKING, mor=True, index="BUCKET"),
    "v6-mor-single-listed": _kind(6, _NO_METADATA, mor=True),
    "v9-cow-occ-indexed": _kind(9, _METADATA, _INDEXES, _OPTIMISTIC),
}


@dataclass
class Silence:
    """The time that has passed since the tests began, as the storage sees it."""

    ms: int = 0

    def now_ms(self) -> int:
        """Return the storage's time."""
        return time.time_ns() // 1_000_000 + self.ms


@dataclass(frozen=True)
class Made:
    """A table that was written to, and what it held after each write."""

    storage: MemoryStorage
    case: Case
    silence: Silence
    states: list[list[Values]] = field(default_factory=list)
    times: list[str] = field(default_factory=list)

    def copied(self) -> MemoryStorage:
        """Return the table in a storage of its own."""
        return self.storage.copied(self.silence.now_ms)


Act = Callable[[Storage, Made], object]


def row(key: str, ts: int) -> Row:
    """Return one row; keys before `c` are in one partition, and all others in another."""
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
    """Return a write of some keys."""
    return Step(do=do, rows=tuple(row(key, ts) for key in keys))


STEPS = (
    step(Do.UPSERT, 1, "a", "b", "c", "d"),
    step(Do.UPSERT, 2, "a", "c", "e"),
    step(Do.DELETE, 3, "b"),
    step(Do.UPSERT, 4, "a", "d", "f"),
    step(Do.UPSERT, 5, "c", "g"),
)
#: What is written by whoever goes on.
NEXT = step(Do.UPSERT, 9, "a", "z")
#: The state that savepoints keep.
SAVED = 2
_GONE = "oslo"

WRITES: Mapping[str, Step] = {
    "upsert": step(Do.UPSERT, 7, "a", "e", "new"),
    "insert": step(Do.INSERT, 7, "new", "newer"),
    "bulk insert": step(Do.BULK_INSERT, 7, "new", "newer"),
    "delete": step(Do.DELETE, 7, "a", "g"),
    "insert overwrite": step(Do.INSERT_OVERWRITE, 7, "e", "new"),
    "insert overwrite table": step(Do.INSERT_OVERWRITE_TABLE, 7, "e", "new"),
    "delete partitions": Step(do=Do.DELETE_PARTITIONS, partitions=((_GONE,),)),
    "upsert with services": step(Do.UPSERT, 7, "a", "e", "new"),
    "build of the metadata table": step(Do.UPSERT, 7, "a", "e", "new"),
    "upsert over a dead write": step(Do.UPSERT, 7, "a", "e", "new"),
}


def table_services(storage: Storage, case: Case) -> TableServices:
    """Return what runs the services of a table."""
    given = WriteOptions.from_options(case.options)
    return TableServices(Env(storage), load_state(storage, case.options), given)


def session(storage: Storage, case: Case) -> WriteSession:
    """Return what every write begins with."""
    given = WriteOptions.from_options(case.options)
    return WriteSession(Env(storage), load_state(storage, case.options), given)


def compact(storage: Storage, case: Case) -> None:
    """Plan a compaction, and carry it out."""
    given = WriteOptions.from_options(case.options)
    Compactor(Env(storage), lambda: load_state(storage, case.options), given, Here()).both()


def delete_partition(storage: Storage, case: Case) -> None:
    """Take a partition off the table, as `Table.delete_partitions` does."""
    own = session(storage, case)
    avro = without_meta_columns(own.schemas.table().avro)
    with own.begin(WriteOperation.DELETE_PARTITION, None, looked_up=False) as txn:
        replaced = own.retire(txn, [f"city={_GONE}"])
        txn.start(planned_partitions(Workload(), replaced))
        own.commit(txn, (), avro, replaced=replaced)


def hold_lock(storage: Storage, case: Case) -> None:
    """Take the table's lock, look whether it is held, and give it back."""
    concurrency = session(storage, case).concurrency
    with concurrency.section():
        concurrency.ensure()


def _with(case: Case, **settings: str) -> Case:
    return replace(case, extra=tuple({**dict(case.extra), **settings}.items()))


def _write(name: str) -> Act:
    def act(storage: Storage, made: Made) -> None:
        case = made.case
        if name == "upsert with services":
            case = _with(
                case, **{"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"}
            )
        if name == "build of the metadata table":
            case = _with(case, **_METADATA, **{"tidelake.metadata.rebuild": "true"})
        write_through(storage, case, WRITES[name])

    return act


#: What each operation does.
ACTS: Mapping[str, Act] = {
    **{name: _write(name) for name in WRITES},
    "delete partitions": lambda storage, made: delete_partition(storage, made.case),
    "compact": lambda storage, made: compact(storage, made.case),
    "clean": lambda storage, made: table_services(storage, made.case).clean(),
    "archive": lambda storage, made: table_services(storage, made.case).archive(),
    "savepoint": lambda storage, made: table_services(storage, made.case).savepoint(
        made.times[-1], ""
    ),
    "delete savepoint": lambda storage, made: table_services(storage, made.case).delete_savepoint(
        made.times[SAVED]
    ),
    "restore": lambda storage, made: table_services(storage, made.case).restore(made.times[SAVED]),
    "rollback": lambda storage, made: table_services(storage, made.case).roll_back(made.times[-1]),
    "rollback of dead writes": lambda storage, made: table_services(
        storage, made.case
    ).roll_back_failed(),
    "create": lambda storage, made: create_in(storage, made.case),
    "lock": lambda storage, made: hold_lock(storage, made.case),
}
#: What an operation says that is asked for again although it was done.
DONE = (ConfigError, TableExistsError)
_DEAD = ("upsert over a dead write", "rollback of dead writes")
_SAVEPOINTS = ("restore", "delete savepoint")


def made_for(name: str, case: Case, folder: Path) -> Made:
    """Return a table on which an operation has something to do."""
    silence = Silence()
    storage = MemoryStorage(now_ms=silence.now_ms)
    made = Made(storage, case, silence)
    if name == "create":
        made.states.append([])
        return made
    root = folder / "origin"
    create(root, case)
    for path in sorted(found for found in root.rglob("*") if found.is_file()):
        storage.put(str(path.relative_to(root)), path.read_bytes())
    # Only what lies before a clean, and before a compaction, is old enough for the archive.
    more = [step(Do.UPSERT, 6, "a")] * 4 if name == "archive" else []
    for number, done in enumerate([*STEPS, *more]):
        write_through(storage, case, done)
        made.states.append(seen(storage))
        made.times.append(load_state(storage, {}).timeline.writes()[-1].requested_time)
        if number == SAVED and name in _SAVEPOINTS:
            table_services(storage, case).savepoint(made.times[-1], "")
        if number == len(STEPS) - 2 and case.mor and name in ("clean", "archive"):
            compact(storage, case)
    if name == "archive":
        if case.mor:
            compact(storage, case)
        table_services(storage, case).clean()
    if name in _DEAD:
        leave_a_dead_write(storage, made)
    return made


def leave_a_dead_write(storage: MemoryStorage, made: Made) -> None:
    """Have a process end in front of the file that would have completed its write."""

    def completes(_number: int, call: str, path: str) -> Fault | None:
        is_completed = "/timeline/" in path or path.count("/") == 1
        name = path.rpartition("/")[2]
        is_commit = name.endswith(("commit", "replacecommit"))
        if is_completed and is_commit and call == "put_if_absent" and "metadata" not in path:
            return Fault.CRASH_BEFORE
        return None

    with suppress(Crash):
        write_through(FaultyStorage(storage, completes), made.case, step(Do.UPSERT, 6, "a", "dead"))
    assert load_state(storage, {}).timeline.pending
    lock = session(storage, made.case).concurrency.lock
    if lock is not None:
        # This process lives, and so does the lease of its dead writer.
        StorageLock(Env(storage), validity_ms=1, skew_ms=0).break_lock()
    made.silence.ms += SILENT_MS


#: After this time without a sign of life a writer is dead, and a lease is over.
SILENT_MS = 3_600_000


def can(name: str, case: Case) -> bool:
    """Return whether there is such an operation on a table of that kind."""
    mode = dict(case.extra).get("hoodie.write.concurrency.mode", "SINGLE")
    if name == "lock":
        return mode != "SINGLE"
    if name == "compact":
        return case.mor
    if mode.startswith("NON_BLOCKING"):
        return name not in ("insert overwrite", "insert overwrite table", "delete partitions")
    return True


def owed(name: str, made: Made) -> list[Values]:
    """Return the rows of the table once the operation is done."""
    if name == "create":
        return []
    if name == "restore":
        return made.states[SAVED]
    if name == "archive":
        return made.states[-1]
    if name == "rollback":
        return made.states[-2]
    done = [*STEPS, WRITES[name]] if name in WRITES else STEPS
    model = Model(made.case.identity)
    for each in done:
        model.apply(each)
    return values(model.rows)


def seen(storage: MemoryStorage) -> list[Values]:
    """Return the rows, which are the same whoever lists the files."""
    try:
        found = OurReader.of(storage).snapshot()
    except NotATableError:
        return []  # it is about to be created
    assert found == OurReader.of(storage, {"hoodie.metadata.enable": "false"}).snapshot()
    return found


def problems(storage: Storage) -> list[str]:
    """Return what `check` finds wrong."""
    state = TableState.load(storage, ReadOptions())
    at = (state.storage, state.config, state.timeline)
    report = check_table(state, MetadataTable.open(*at), unknown_writes(*at), quick=True)
    return [found.problem for found in report.violations]


def write_on(storage: Storage, case: Case, where: str) -> None:
    """Write as a person would who finds that something began and did not end."""
    try:
        write_through(storage, case, NEXT)
    except TidelakeError as error:
        pending = list(load_state(storage, {}).timeline.pending)
        raise AssertionError(f"{where}: {error}; pending {pending}") from error


def merged(rows: list[Values]) -> list[Values]:
    """Return what a table with these rows holds after `NEXT`."""
    new = {r["id"] for r in NEXT.rows}
    kept = [found for found in rows if found[0] not in new]
    return sorted([*kept, *values(NEXT.rows)], key=repr)
