"""One table on which tidelake and Apache Hudi take turns, and the questions asked of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from tests.interop import apache_hudi
from tests.interop.truth import SCHEMA, Row, Truth
from tidelake import Table
from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Env
from tidelake.files import read_slice
from tidelake.model import Action, Commit
from tidelake.operations.open_table import open_state
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.write.writer import Writer
from tidelake.storage import Storage

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
#: Questions that are asked side by side: planning keeps one core busy, and little else does.
_AT_ONCE = 3


@dataclass(slots=True)
class Tally:
    """What was asked in the whole run."""

    tables: int = 0
    answers: int = 0
    differences: list[str] = field(default_factory=list)


TALLY = Tally()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a table is, and the options under which everybody writes it."""

    table_type: str
    table_version: int = 9
    key: str = "id"
    partition_by: str = "region"
    ordering: str = "ts"
    path: Callable[[Row], str] = lambda row: f"region={row.region}"
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of both writers."""
    apache: Mapping[str, str] = field(default_factory=dict)
    """Options of Apache Hudi alone."""
    unlike: Sequence[str] = ()
    """Columns that Apache does not return as they were written."""


class _Question(NamedTuple):
    what: str
    ask: Callable[[], Counter[Row]]
    owed: Counter[Row]
    also: Counter[Row] | None = None
    """Another answer that passes."""


class SharedTable:
    """The table, the truth about it, and who does what to it."""

    def __init__(self, spark: SparkSession, path: Path, kind: Kind) -> None:
        self.spark = spark
        self.path = path
        self.kind = kind
        self.truth = Truth(path=kind.path, by_event_time=bool(kind.ordering))
        self.differences: list[str] = []
        Table.create(
            spark,
            str(path),
            SCHEMA,
            name="shared",
            key=kind.key,
            partition_by=kind.partition_by or None,
            ordering=kind.ordering or None,
            table_type=kind.table_type,
            table_version=kind.table_version,
            options=dict(kind.options),
        )
        TALLY.tables += 1

    @property
    def ours(self) -> Table:
        """Return the table as tidelake opens it."""
        return Table.open(self.spark, str(self.path))

    def frame(self, rows: Sequence[Row]) -> DataFrame:
        """Return the rows as a DataFrame."""
        return self.spark.createDataFrame(list(rows), SCHEMA)

    def we(self, operation: str, rows: Sequence[Row]) -> Commit:
        """Let tidelake insert, upsert, delete or overwrite."""
        door: Callable[..., Commit] = getattr(self.ours, operation)
        commit = door(self.frame(rows), options=dict(self.kind.options))
        self.took_effect(operation, rows)
        return commit

    def we_through(self, storage: Storage, operation: str, rows: Sequence[Row]) -> None:
        """Let tidelake write through a storage that fails; the truth stays as it is."""
        state = open_state(str(self.path))
        options = WriteOptions.from_options(dict(self.kind.options))
        writer = Writer(self.spark, Env(storage), state, options)
        writer.write(WriteOperation(operation.upper()), self.frame(rows))

    def we_delete_partitions(self, paths: Sequence[str]) -> Commit:
        """Let tidelake drop whole partitions."""
        commit = self.ours.delete_partitions(paths, options=dict(self.kind.options))
        self.truth.delete_partitions(paths)
        self._note_time()
        return commit

    def they(
        self, operation: str, rows: Sequence[Row], options: Mapping[str, str] | None = None
    ) -> None:
        """Let Apache Hudi write."""
        self._apache_write(operation, rows, options or {})
        self.took_effect(operation, rows)

    def they_delete_partitions(self, paths: Sequence[str], rows: Sequence[Row]) -> None:
        """Let Apache Hudi drop whole partitions; it wants some rows for their schema."""
        named = {"hoodie.datasource.write.partitions.to.delete": ",".join(paths)}
        self._apache_write("delete_partition", rows, named)
        self.truth.delete_partitions(paths)
        self._note_time()

    def they_schedule_compaction(self) -> str:
        """Let Apache Hudi plan a compaction; return its instant."""
        self._procedure("schedule")
        return self.pending_compactions()[-1]

    def they_run_compactions(self) -> None:
        """Let Apache Hudi carry out every plan."""
        self._procedure("run")

    def pending_compactions(self) -> list[str]:
        """Return the instants of plans that wait, oldest first."""
        pending = [i for i in self.ours.timeline() if i.planned_as is Action.COMPACTION]
        return [i.requested_time for i in pending if not i.is_completed]

    def _procedure(self, operation: str) -> None:
        always = {
            "hoodie.compact.inline.max.delta.commits": "1",
            # Or else it makes the metadata table of a version 6 table one of version 9.
            "hoodie.write.table.version": str(self.kind.table_version),
            "hoodie.write.auto.upgrade": "false",
        }
        given = ",".join(f"{n}={v}" for n, v in {**self.kind.apache, **always}.items())
        path = f"path => '{self.path}', options => '{given}'"
        self.spark.sql(f"call run_compaction(op => '{operation}', {path})").collect()

    def check(self, what: str) -> None:
        """Ask both readers for the rows as they are now."""
        self._judge(self._now(what))

    def check_last_turn(self, what: str) -> None:
        """Ask both readers for the rows, those of base files, and what the last turn changed."""
        last = len(self.truth.states) - 1
        self._judge(
            [
                *self._now(what),
                _Question(
                    f"{what}: our snapshot in Spark",
                    lambda: self._rows(self.ours.read()),
                    self.truth.at(-1),
                ),
                self._read_optimized(what),
                *self._window(what, last - 1, last),
            ]
        )

    def check_history(self, what: str) -> None:
        """Ask both readers for every state so far, and for the changes of every turn."""
        turns = range(len(self.truth.states))
        windows = [*((turn - 1, turn) for turn in turns), (0, turns[-1])]
        self._judge(
            [
                *(question for turn in turns for question in self._as_of(what, turn)),
                *(question for window in windows for question in self._window(what, *window)),
            ]
        )

    def _now(self, what: str) -> Iterator[_Question]:
        now = self.truth.at(-1)
        yield _Question(f"{what}: apache snapshot", self._apache, now)
        yield _Question(f"{what}: our snapshot", self._snapshot, now)

    def _as_of(self, what: str, turn: int) -> Iterator[_Question]:
        at, owed = self.truth.times[turn], self.truth.at(turn)
        options = {"as.of.instant": at}
        yield _Question(f"{what}: apache as of turn {turn}", lambda: self._apache(options), owed)
        yield _Question(f"{what}: our as of turn {turn}", lambda: self._snapshot(as_of=at), owed)

    def _window(self, what: str, start: int, end: int) -> Iterator[_Question]:
        owed = self.truth.window(start, end)
        begin, until = self.truth.times[start] if start >= 0 else "000", self.truth.times[end]
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": apache_hudi.begin(begin),
            "hoodie.datasource.read.end.instanttime": until,
        }
        # Apache's own tables too give rows from logs that lost the merge.
        losers = self.truth.losers(start, end) if self.kind.table_type == MOR else Counter()
        yield _Question(
            f"{what}: apache incremental {start}..{end}",
            lambda: self._apache(options),
            owed,
            also=owed + losers,
        )
        yield _Question(
            f"{what}: our incremental {start}..{end}", lambda: self._changed(begin, until), owed
        )

    def _read_optimized(self, what: str) -> _Question:
        options = {"hoodie.datasource.query.type": "read_optimized"}
        owed = self.truth.at(-1)
        if self.kind.table_type == MOR:
            owed = self._snapshot(base_only=True)
            strange = owed.keys() - {self._known(row) for row in self.truth.ever()}
            if strange:
                self._differs(f"{what}: base files hold rows of no commit: {sorted(strange)[:2]}")
        return _Question(f"{what}: apache read optimized", lambda: self._apache(options), owed)

    def _judge(self, questions: Iterable[_Question]) -> None:
        asked = list(questions)
        TALLY.answers += len(asked)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for story in filter(None, pool.map(self._story, asked)):
                self._differs(story)

    def _story(self, question: _Question) -> str | None:
        """Return how the answer to a question differs from what is owed."""
        try:
            got = question.ask()
        except Exception as error:  # noqa: BLE001 - any failure is an answer to report
            return f"{question.what}: {type(error).__name__}: {' '.join(str(error).split())[:240]}"
        want = self._all_known(question.owed)
        if got in (want, self._all_known(question.also or question.owed)):
            return None
        missing, extra = want - got, got - want
        return (
            f"{question.what}: {got.total()} rows for {want.total()}; "
            f"missing {sorted(missing, key=str)[:2]}, extra {sorted(extra, key=str)[:2]}"
        )

    def _differs(self, story: str) -> None:
        self.differences.append(story)
        TALLY.differences.append(f"{self.path.parent.name}: {story}")

    def _rows(self, frame: DataFrame) -> Counter[Row]:
        return Counter(self._known(Row(*row)) for row in frame.select(*Row._fields).collect())

    def _all_known(self, rows: Counter[Row]) -> Counter[Row]:
        return Counter({self._known(row): count for row, count in rows.items()})

    def _known(self, row: Row) -> Row:
        blank: dict[str, Any] = dict.fromkeys(self.kind.unlike)
        return row._replace(**blank)

    def _apache(self, options: Mapping[str, str] | None = None) -> Counter[Row]:
        settings = {**self.kind.apache, **(options or {})}
        return self._rows(self.spark.read.format("hudi").options(**settings).load(str(self.path)))

    def _snapshot(self, *, as_of: str | None = None, base_only: bool = False) -> Counter[Row]:
        """Return what tidelake reads, in this process: Spark takes its time for tiny tables."""
        state = open_state(str(self.path))
        return self._planned(plan_snapshot(state, as_of=as_of, base_only=base_only))

    def _changed(self, start: str, end: str) -> Counter[Row]:
        return self._planned(plan_incremental(open_state(str(self.path)), start=start, end=end))

    def _planned(self, plan: ScanPlan) -> Counter[Row]:
        batches = [batch for task in plan.tasks for batch in read_slice(task, plan.spec)]
        found = [
            Row(**{**{name: row[name] for name in Row._fields}, "created": _plain(row["created"])})
            for batch in batches
            for row in batch.to_pylist()
        ]
        return Counter(map(self._known, found))

    def _apache_write(
        self, operation: str, rows: Sequence[Row], options: Mapping[str, str]
    ) -> None:
        kind = self.kind
        settings = {
            **apache_hudi.write_options(
                "shared",
                kind.table_type,
                kind.table_version,
                key=kind.key,
                partition_by=kind.partition_by,
                ordering=kind.ordering,
            ),
            "hoodie.datasource.write.operation": operation,
            **kind.options,
            **kind.apache,
            **options,
        }
        frame = self.frame(rows).coalesce(1)
        frame.write.format("hudi").options(**settings).mode("append").save(str(self.path))

    def took_effect(self, operation: str, rows: Sequence[Row]) -> None:
        """Bring the truth up to a write."""
        truth = self.truth
        if operation == "delete":
            truth.delete(row.id for row in rows)
        elif operation == "insert_overwrite":
            truth.overwrite(rows)
        elif operation == "insert_overwrite_table":
            truth.overwrite_table(rows)
        else:
            truth.upsert(rows)
        self._note_time()

    def _note_time(self) -> None:
        done = [i for i in self.ours.timeline() if i.completion_time and i.action in _WRITES]
        if self.kind.table_version < 8:
            self.truth.times.append(max(i.requested_time for i in done))
        else:
            self.truth.times.append(max(str(i.completion_time) for i in done))


def _plain(time: datetime) -> datetime:
    """Return a time as Spark gives it: of the session's zone, without saying so."""
    return time.replace(tzinfo=None)
