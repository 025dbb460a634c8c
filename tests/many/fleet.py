"""Processes that write one table at the same time and are killed without warning.

What each was about to write is noted before it tries; which of it counts is asked of the table's
own commits, which carry the name of the write. So nobody has to trust a process that died.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random  # noqa: TID251 - seeded below
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Env, SystemClock
from tidelake.errors import TidelakeError, WriteConflictError
from tidelake.files.write_task import WriteToken
from tidelake.model import WRITE_ACTIONS, Commit, TableType
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.staged_write import bring_in, stage
from tidelake.operations.staging import StagingArea
from tidelake.operations.table_services import open_table_services
from tidelake.operations.task_runner import Here
from tidelake.operations.write_session import WriteSession
from tidelake.spark.types.to_avro import FrameColumns, avro_schema
from tidelake.storage import open_storage
from tidelake.txn import WRITE_ID, create_table
from tidelake.txn.protocol.retry import retry_on_conflict
from tidelake.write.table_spec import table_spec

#: Ordering value and value of a key.
Row = tuple[int, int]

STRUCT = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("ts", T.LongType()),
        T.StructField("v", T.LongType()),
    ]
)
_ARROW = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
_KEYS = 12


@dataclass(frozen=True)
class Fleet:
    """Writers of one table, and what they are told."""

    root: Path
    options: Mapping[str, str]
    writers: int = 3
    seed: int = 0
    notes: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", self.root.parent / "notes")
        self.notes.mkdir(exist_ok=True)

    def create(self) -> None:
        """Create the table, with one row."""
        spec = table_spec(
            avro_schema(STRUCT, "shared"),
            WriteOptions.from_options(self.options),
            name="shared",
            key=("id",),
            ordering=("ts",),
            table_type=TableType.MERGE_ON_READ,
            table_version=9,
        )
        create_table(Env(open_storage(str(self.root))), spec)
        first = ("k0", 0, 0)
        (self.notes / "0000").write_text(json.dumps({"write_id": "first", "rows": [first]}) + "\n")
        _upsert(self, "first", [first], 0)

    def run(self, seconds: float, kill_every: float) -> int:
        """Let all write for a while, killing one now and then; return how many were killed."""
        chance = random.Random(self.seed)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        ends = time.monotonic() + seconds
        born = 0

        def start(number: int) -> BaseProcess:
            nonlocal born
            born += 1
            act = _write if number < self.writers else _tend
            process = context.Process(target=act, args=(self, number, born, ends))
            process.start()
            return process

        crew = [start(number) for number in range(self.writers + 1)]
        killed = 0
        while time.monotonic() < ends:
            _pause(kill_every * chance.uniform(0.5, 1.5))
            number = chance.randrange(len(crew))
            process = crew[number]
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGKILL)
                process.join()
                killed += 1
            _refuse_failure(process)
            if time.monotonic() < ends:
                crew[number] = start(number)
        for process in crew:
            process.join()
            _refuse_failure(process)
        return killed

    def settle(self) -> None:
        """Take back what the dead left, once they count as dead."""
        options = WriteOptions.from_options(self.options).concurrency
        _pause(options.expires_after_ms / 1000)
        open_table_services(str(self.root), dict(self.options)).roll_back_failed()

    def landed(self) -> set[str | None]:
        """Return the names of all writes that the table knows, archived ones too."""
        state = load_state(open_storage(str(self.root)), {})
        done = set()
        for instant in state.timeline.writes():
            done.add(state.contents.commit_metadata(instant).extra_metadata.get(WRITE_ID))
        for instant in state.history.instants():
            if instant.action not in WRITE_ACTIONS:
                continue
            done.add(state.history.commit_metadata(instant).extra_metadata.get(WRITE_ID))
        return done

    def owed(self) -> dict[str, Row]:
        """Return the rows that all commits together make."""
        done = self.landed()
        rows: dict[str, Row] = {}
        for note in self.noted():
            if note["write_id"] in done:
                for key, ts, value in note["rows"]:
                    if key not in rows or rows[key][0] < ts:
                        rows[key] = (ts, value)
        return rows

    def noted(self) -> list[dict[str, Any]]:
        """Return every write that somebody was about to make."""
        lines = [line for path in sorted(self.notes.iterdir()) for line in _whole_lines(path)]
        return [json.loads(line) for line in lines]


def _refuse_failure(process: BaseProcess) -> None:
    """Raise when a process ended by an error: no other's work is a reason for that."""
    assert process.exitcode in (None, 0, -signal.SIGKILL), "a writer failed; see what it printed"


def _pause(seconds: float) -> None:
    SystemClock().sleep_ms(int(seconds * 1000))


def _whole_lines(path: Path) -> list[str]:
    text = path.read_text()
    return text[: text.rfind("\n") + 1].splitlines()


def _write(fleet: Fleet, number: int, birth: int, ends: float) -> None:
    chance = random.Random(fleet.seed * 1_000_003 + birth)
    with (fleet.notes / f"{birth:04d}").open("w") as notes:
        for count in range(1_000_000):
            if time.monotonic() > ends:
                return
            write_id = f"writer {number}, life {birth}, write {count}"
            # No two rows of a key have the same ordering value, so the outcome is one.
            made = {
                f"k{chance.randrange(_KEYS)}": (time.time_ns(), chance.randrange(100))
                for _ in range(chance.randint(1, 3))
            }
            rows = [(key, ts, value) for key, (ts, value) in made.items()]
            notes.write(json.dumps({"write_id": write_id, "rows": rows}) + "\n")
            notes.flush()
            try:
                _upsert(fleet, write_id, rows, birth)
            except WriteConflictError:
                continue


def _upsert(fleet: Fleet, write_id: str, rows: list[tuple[str, int, int]], birth: int) -> Commit:
    storage = open_storage(str(fleet.root))
    env = Env(storage)
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=_ARROW)

    def attempt() -> Commit:
        options = WriteOptions.from_options(fleet.options)
        session = WriteSession(env, load_state(storage, fleet.options), options)
        choice = session.choose(WriteOperation.UPSERT, FrameColumns(STRUCT), write_id)
        area = StagingArea.of_new_write(env)
        token = WriteToken(task=0, stage=0, attempt=birth)
        staged = stage(env, area, iter([batch]), choice, token)
        try:
            return bring_in(session, choice, staged, token)
        finally:
            area.delete(storage)

    return retry_on_conflict(env, 3, attempt)


def _tend(fleet: Fleet, _: int, birth: int, ends: float) -> None:
    chance = random.Random(fleet.seed * 1_000_003 + birth)
    storage = open_storage(str(fleet.root))
    options = WriteOptions.from_options(fleet.options)
    while time.monotonic() < ends:
        compactor = Compactor(
            Env(storage), lambda: load_state(storage, fleet.options), options, Here(attempt=birth)
        )
        try:
            compactor.both()
            open_table_services(str(fleet.root), dict(fleet.options)).roll_back_failed()
        except TidelakeError as cause:
            # Plans of the dead can be run once they count as dead; nothing else may go wrong.
            if "being carried out" not in str(cause):
                raise
        _pause(chance.uniform(0.1, 0.6))
