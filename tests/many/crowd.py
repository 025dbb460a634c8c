"""Processes that do to one table whatever can be done to it, and are killed or stopped at times.

Each notes what it is about to do before it tries, and what it was told once it is done. Which of it
counts is asked of the table's own commits, which carry the name of the write: their effects, in the
order of their completion, are the rows that the table owes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random  # noqa: TID251 - seeded below
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.sessions import local_session
from tidelake import Table
from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Env, SystemClock
from tidelake.errors import (
    CommitOutcomeUnknownError,
    TidelakeError,
)
from tidelake.files.write_task import WriteToken
from tidelake.model import WRITE_ACTIONS, Action, Commit, Instant, TableType
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.staged_write import bring_in, stage
from tidelake.operations.staging import StagingArea
from tidelake.operations.table_services import open_table_services
from tidelake.operations.task_runner import Here
from tidelake.operations.write_session import WriteSession
from tidelake.spark.types.to_avro import FrameColumns, avro_schema
from tidelake.storage import open_storage
from tidelake.testing.simulation.actors.sharing import GIVES_WAY
from tidelake.txn import WRITE_ID, create_table
from tidelake.txn.protocol.retry import retry_on_conflict
from tidelake.write.operation import planned_partitions
from tidelake.write.partitions import named_partitions
from tidelake.write.plan import Workload
from tidelake.write.schema_evolution import without_meta_columns
from tidelake.write.table_spec import table_spec

#: Ordering value and value of a key; the key is told with its partition.
Row = tuple[int, int]
#: Key, partition, ordering value, value.
Written = tuple[str, str, int, int]

PARTITIONS = ("a", "b")
_KEYS = 6
STRUCT = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("p", T.StringType()),
        T.StructField("ts", T.LongType()),
        T.StructField("v", T.LongType()),
    ]
)
_ARROW = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
#: What an actor may be told without anything being wrong with the table.
GIVEN_UP = (CommitOutcomeUnknownError, *GIVES_WAY)
_OPERATIONS = {
    "upsert": WriteOperation.UPSERT,
    "overwrite": WriteOperation.INSERT_OVERWRITE,
    "delete": WriteOperation.DELETE,
}


@dataclass(frozen=True, kw_only=True)
class World:
    """How the table is, and how its writers share it."""

    options: Mapping[str, str]
    table_type: TableType
    table_version: int = 9
    roles: tuple[str, ...] = ("writer", "writer", "tender", "undoer")
    retires: bool = True
    """Whether its writers may overwrite and delete partitions, as no non-blocking one may."""


@dataclass(frozen=True)
class Crowd:
    """Everybody who works on one table."""

    root: Path
    world: World
    seed: int = 0
    notes: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", self.root.parent / "notes")
        self.notes.mkdir(exist_ok=True)

    def create(self) -> None:
        """Create the table, with one row."""
        options = WriteOptions.from_options(self.world.options)
        spec = table_spec(
            avro_schema(STRUCT, "shared"),
            options,
            name="shared",
            key=("id",),
            partition_by=("p",),
            ordering=("ts",),
            table_type=self.world.table_type,
            table_version=self.world.table_version,
        )
        create_table(Env(open_storage(str(self.root))), spec)
        with (self.notes / "0000").open("w") as notes:
            _Writer(self, _Staged(self, 0), _Notes(notes), "first").write(
                "upsert", "first", [("k0", "a", 0, 0)]
            )

    def run(self, seconds: float, every: float) -> Counter[str]:
        """Let all act for a while, killing or stopping one now and then; return how often."""
        chance = random.Random(self.seed)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        ends = time.monotonic() + seconds
        born = 0

        def start(number: int) -> BaseProcess:
            nonlocal born
            born += 1
            process = context.Process(target=_live, args=(self, number, born, ends))
            process.start()
            return process

        crew = [start(number) for number in range(len(self.world.roles))]
        expiry = WriteOptions.from_options(self.world.options).concurrency.expires_after_ms / 1000
        stopped: dict[int, float] = {}
        done: Counter[str] = Counter()
        while time.monotonic() < ends:
            _pause(every * chance.uniform(0.5, 1.5))
            now = time.monotonic()
            for number in [n for n, until in stopped.items() if until < now]:
                _signal(crew[number], signal.SIGCONT)
                del stopped[number]
            number = chance.randrange(len(crew))
            _refuse_failure(crew[number])
            if number in stopped or not crew[number].is_alive():
                continue
            if chance.random() < 0.5:
                _signal(crew[number], signal.SIGKILL)
                crew[number].join()
                done["killed"] += 1
                crew[number] = start(number)
            else:
                _signal(crew[number], signal.SIGSTOP)
                stopped[number] = now + expiry * chance.uniform(0.3, 2)
                done["stopped"] += 1
        for number in stopped:
            _signal(crew[number], signal.SIGCONT)
        for process in crew:
            process.join()
            _refuse_failure(process)
        return done

    def settle(self) -> None:
        """Finish a restore that somebody began, and take back what the dead left."""
        options = WriteOptions.from_options(self.world.options).concurrency
        _pause(options.expires_after_ms / 1000)
        _finish_restores(self)
        self.table_services().roll_back_failed()

    def table_services(self) -> Any:
        """Return the services of the table as it is now."""
        return open_table_services(str(self.root), dict(self.world.options))

    def completed(self) -> list[tuple[Instant, str | None]]:
        """Return all writes of the table by completion time, archived ones too, with their ids."""
        state = load_state(open_storage(str(self.root)), {})
        found: dict[str, tuple[Instant, str | None]] = {}
        for instant in state.history.instants():
            if instant.action in WRITE_ACTIONS:
                metadata = state.history.commit_metadata(instant)
                found[instant.requested_time] = instant, metadata.extra_metadata.get(WRITE_ID)
        for instant in state.timeline.writes():
            metadata = state.contents.commit_metadata(instant)
            found[instant.requested_time] = instant, metadata.extra_metadata.get(WRITE_ID)
        return sorted(found.values(), key=lambda pair: pair[0].completion_time or "")

    def owed(self) -> dict[str, set[Row]]:
        """Return the rows that all commits together make, by partition and key.

        A row that came after a delete and is older than what the delete took is the row, or else
        that: on a merge-on-read table a compaction between them decides (docs/decisions/0008).
        """
        about = {note["about"]: note for note in self.noted() if "about" in note}
        rows: dict[str, Row] = {}
        deleted: dict[str, set[Row]] = {}
        for _, write_id in self.completed():
            if write_id is not None:
                _apply(rows, deleted, about[write_id])
        if self.world.table_type is TableType.COPY_ON_WRITE:
            deleted = {}
        return {
            key: {row, *(old for old in deleted.get(key, ()) if old[0] > row[0])}
            for key, row in rows.items()
        }

    def lost(self) -> list[str]:
        """Return writes that were reported as committed, are not there, and were not undone."""
        there = {write_id for _, write_id in self.completed()}
        notes = self.noted()
        undone = {note["rollback"] for note in notes if "rollback" in note}
        saved = [note["restore"] for note in notes if "restore" in note]
        return [
            f"{note['done']} as {note['instant']}"
            for note in notes
            if "done" in note
            and note["done"] not in there
            and note["instant"] not in undone
            and not any(note["completed"] > to for to in saved)
        ]

    def noted(self) -> list[dict[str, Any]]:
        """Return every note, of a process that was killed the whole lines."""
        lines = []
        for path in sorted(self.notes.iterdir()):
            text = path.read_text()
            lines += text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line) for line in lines]


def _apply(rows: dict[str, Row], deleted: dict[str, set[Row]], note: Mapping[str, Any]) -> None:
    """Do to `rows` what a write did to the table; `deleted` are those whose key was deleted."""
    does = note["does"]
    partitions = {p for _, p, _, _ in note["rows"]}
    if does in ("overwrite", "delete partition"):
        for kept in (rows, deleted):
            for key in [k for k in kept if k.partition("/")[0] in partitions]:
                del kept[key]
    for name, partition, ts, value in note["rows"]:
        key = f"{partition}/{name}"
        if does == "delete":
            if key in rows:
                deleted.setdefault(key, set()).add(rows.pop(key))
        elif does != "delete partition" and (key not in rows or rows[key][0] < ts):
            rows[key] = ts, value


def _signal(process: BaseProcess, number: int) -> None:
    if process.pid is not None and process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _refuse_failure(process: BaseProcess) -> None:
    """Raise when a process ended by an error: no other's work is a reason for that."""
    assert process.exitcode in (None, 0, -signal.SIGKILL), "an actor failed; see what it printed"


def _pause(seconds: float) -> None:
    SystemClock().sleep_ms(int(seconds * 1000))


@dataclass(frozen=True)
class _Notes:
    file: TextIO

    def write(self, **note: object) -> None:
        self.file.write(json.dumps(note) + "\n")
        self.file.flush()


class _Hands(Protocol):
    """How a process writes."""

    def write(self, operation: WriteOperation, write_id: str, rows: Sequence[Written]) -> Commit:
        """Insert, upsert, overwrite or delete rows."""

    def delete_partition(self, write_id: str, partition: str) -> Commit:
        """Retire a partition."""


class _Staged:
    """Writes without a session of Spark, as the data source does."""

    def __init__(self, crowd: Crowd, birth: int) -> None:
        self._crowd = crowd
        self._birth = birth
        self._storage = open_storage(str(crowd.root))

    def write(self, operation: WriteOperation, write_id: str, rows: Sequence[Written]) -> Commit:
        env = Env(self._storage)
        arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), _ARROW, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
        given = self._crowd.world.options

        def attempt() -> Commit:
            options = WriteOptions.from_options(given)
            session = WriteSession(env, load_state(self._storage, given), options)
            choice = session.choose(operation, FrameColumns(STRUCT), write_id)
            area = StagingArea.of_new_write(env)
            token = WriteToken(task=0, stage=0, attempt=self._birth)
            staged = stage(env, area, iter([batch]), choice, token)
            try:
                return bring_in(session, choice, staged, token)
            finally:
                area.delete(self._storage)

        return retry_on_conflict(env, 3, attempt)

    def delete_partition(self, write_id: str, partition: str) -> Commit:
        """Retire a partition as `Table` does, which needs no session of Spark for it either."""
        env = Env(self._storage)
        given = self._crowd.world.options

        def attempt() -> Commit:
            options = WriteOptions.from_options(given)
            session = WriteSession(env, load_state(self._storage, given), options)
            done = session.done_before(write_id)
            if done is not None:
                return done
            found = session.state.view.partitions()
            chosen = named_partitions(session.config, [partition], found)
            avro = without_meta_columns(session.schemas.table().avro)
            operation = WriteOperation.DELETE_PARTITION
            with session.begin(operation, write_id, looked_up=False) as txn:
                replaced = {**{p: [] for p in chosen}, **session.retire(txn, chosen)}
                txn.start(planned_partitions(Workload(), replaced))
                return session.commit(txn, (), avro, replaced=replaced)

        return retry_on_conflict(env, 3, attempt)


class _OnSpark:
    """Writes through `Table`."""

    def __init__(self, crowd: Crowd) -> None:
        self._spark = local_session("local[1]", {"spark.driver.memory": "1g"})
        options = {**crowd.world.options, "hoodie.write.num.retries.on.conflict.failures": "3"}
        self.table = Table.open(self._spark, str(crowd.root), options=options)

    def write(self, operation: WriteOperation, write_id: str, rows: Sequence[Written]) -> Commit:
        frame = self._spark.createDataFrame(list(rows), STRUCT)
        act = {
            WriteOperation.UPSERT: self.table.upsert,
            WriteOperation.INSERT_OVERWRITE: self.table.insert_overwrite,
            WriteOperation.DELETE: self.table.delete,
        }[operation]
        return act(frame, write_id=write_id)

    def delete_partition(self, write_id: str, partition: str) -> Commit:
        return self.table.delete_partitions([partition], write_id=write_id)


@dataclass(frozen=True)
class _Writer:
    crowd: Crowd
    hands: _Hands
    notes: _Notes
    name: str

    def act(self, count: int, chance: random.Random) -> None:
        """Write something."""
        does = self._choice(chance)
        names = chance.sample([f"k{n}" for n in range(_KEYS)], chance.randint(1, 3))
        partition = chance.choice(PARTITIONS)
        if does == "delete partition":
            names = names[:1]
        # No two rows of a key have the same ordering value, so the outcome is one.
        rows = [(name, partition, time.time_ns(), chance.randrange(100)) for name in names]
        self.write(does, f"{self.name}, write {count}", rows)

    def _choice(self, chance: random.Random) -> str:
        draw = chance.random()
        if not self.crowd.world.retires or draw < 0.7:
            return "upsert" if draw < 0.6 else "delete"
        return "overwrite" if draw < 0.85 else "delete partition"

    def write(self, does: str, write_id: str, rows: Sequence[Written]) -> None:
        """Write, and note it before and after."""
        self.notes.write(about=write_id, does=does, rows=rows)
        if does == "delete partition":
            commit = self.hands.delete_partition(write_id, rows[0][1])
        else:
            commit = self.hands.write(_OPERATIONS[does], write_id, rows)
        self.notes.write(
            done=write_id,
            instant=commit.requested_time,
            completed=commit.completion_time or commit.requested_time,
        )


def _finish_restores(crowd: Crowd) -> None:
    """Call those restores again that somebody did not get to their end."""
    state = load_state(open_storage(str(crowd.root)), {})
    for instant in state.timeline.pending:
        if instant.action is Action.RESTORE:
            saved = state.contents.restore_plan(instant).savepoint_to_restore_timestamp
            assert saved is not None
            crowd.table_services().restore(saved)


def _undo(crowd: Crowd, notes: _Notes, chance: random.Random) -> None:
    """Set or delete a savepoint, or undo something."""
    state = load_state(open_storage(str(crowd.root)), {})
    saved = [i.requested_time for i in state.timeline.completed if i.action is Action.SAVEPOINT]
    draw = chance.random()
    if draw < 0.4 or not saved:
        crowd.table_services().savepoint(None, "")
    elif draw < 0.6:
        crowd.table_services().delete_savepoint(chance.choice(saved))
    elif draw < 0.8:
        newest = max(state.timeline.writes(), key=lambda i: i.completion_time or "")
        notes.write(rollback=newest.requested_time)
        crowd.table_services().roll_back(newest.requested_time)
    else:
        notes.write(restore=max(saved))
        crowd.table_services().restore(max(saved))


def _tend(crowd: Crowd, birth: int) -> None:
    """Do what keeps the table fast."""
    given = crowd.world.options
    storage = open_storage(str(crowd.root))
    if crowd.world.table_type is TableType.MERGE_ON_READ:
        options = WriteOptions.from_options(given)
        Compactor(
            Env(storage), lambda: load_state(storage, given), options, Here(attempt=birth)
        ).both()
    crowd.table_services().roll_back_failed()
    crowd.table_services().clean()
    crowd.table_services().archive()


def _live(crowd: Crowd, number: int, birth: int, ends: float) -> None:
    chance = random.Random(crowd.seed * 1_000_003 + birth)
    role = crowd.world.roles[number]
    with (crowd.notes / f"{birth:04d}").open("w") as file:
        notes = _Notes(file)
        act: Callable[[int], None]
        if role in ("writer", "spark"):
            hands = _OnSpark(crowd) if role == "spark" else _Staged(crowd, birth)
            writer = _Writer(crowd, hands, notes, f"{role} {number}, life {birth}")
            act = lambda count: writer.act(count, chance)  # noqa: E731 - as the others
        elif role == "tender":
            act = lambda _: _tend(crowd, birth)  # noqa: E731
        else:
            act = lambda _: _undo(crowd, notes, chance)  # noqa: E731
        for count in range(1_000_000):
            if time.monotonic() > ends:
                return
            try:
                if role == "undoer":
                    _finish_restores(crowd)
                act(count)
                notes.write(acted=role)
            except GIVEN_UP as error:
                notes.write(refused=type(error).__name__, why=error.problem)
            except TidelakeError as error:
                notes.write(failed=type(error).__name__, why=error.problem)
                raise
            if role in ("tender", "undoer"):
                _pause(chance.uniform(0.2, 1.5))
