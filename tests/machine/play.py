"""A sequence of steps, each held to the truth by every way to read the table."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random  # noqa: TID251 - every one of them is seeded
from typing import Any

from pyspark.sql import SparkSession

from tests.machine.conditions import columns_of, condition
from tests.machine.doors import Doors
from tests.machine.drawn import Drawing
from tests.machine.kinds import Kind, random_kind
from tests.machine.readers import HereReader, SparkReader, through_data_source
from tests.machine.rows import FIRST, Row, as_values, values
from tests.machine.steps import SERVICES, Do, Step
from tests.machine.truth import Kept, RefusedError, Rows, Truth
from tidelake.errors import (
    ConfigError,
    HorizonError,
    IncrementalRangeError,
    SchemaError,
    TidelakeError,
    TimeTravelError,
)
from tidelake.operations.open_table import open_state
from tidelake.read.check import check_table

STEPS = 16
#: How many conditions a step is read by.
_FILTERS = 3
#: Share of steps after which Spark reads too.
_SPARK_READS = 0.1
#: What a read of the past may say once files of it were deleted.
_PAST_IS_GONE = (HorizonError, TimeTravelError, IncrementalRangeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A write on the timeline, and the table after it."""

    time: str
    """The time by which queries go."""
    requested: str
    step: int
    rows: Rows
    open_keys: frozenset[Any] = frozenset()


@dataclass(slots=True)
class Played:
    """What was done and found, for one seed."""

    seed: int
    kind: Kind
    steps: list[Step] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rows: Rows | None = None
    """What the table owes at the end to every engine; None where they may differ."""

    def told(self) -> str:
        """Return what was done and what was wrong."""
        steps = "\n".join(f"  {at}: {step.told}" for at, step in enumerate(self.steps))
        wrong = "\n".join(f"  {one}" for one in self.wrong)
        return f"seed {self.seed}: {self.kind.told}\n{steps}\nwrong:\n{wrong}"


class WrongError(Exception):
    """An answer is not the truth."""


class Machine:
    """One table with its truth."""

    def __init__(
        self, seed: int, root: Path, spark: SparkSession | None, kind: Kind, reads: float
    ) -> None:
        self.found = Played(seed, kind)
        self._random = Random(f"reads {seed}")
        self._reads = reads
        self._kind = kind
        self._root = root
        self._spark = spark
        self._doors = Doors(root, kind, spark)
        self._doors.create(FIRST)
        self.truth = Truth(kind, FIRST)
        self._commits: list[Commit] = []
        self._readable_from = 0
        """The first commit that no clean has put out of reach."""
        self._told_from = -1
        """The last commit that was archived: nobody can tell any more what it changed."""
        self._saved: list[str] = []
        self._is_planned = False
        self._batches: dict[int, Step] = {}

    def do(self, step: Step) -> None:
        """Do a step to the table and to the truth, and compare the two."""
        at = len(self.found.steps)
        self.found.steps.append(step)
        self.found.counts[step.do.value] += 1
        try:
            owed = self.truth.after(step, at)
        except RefusedError as refusal:
            self._refused(step, refusal)
        else:
            self._done(step, owed, at)
        self._check(at)

    def drawn(self, drawing: Drawing) -> Step:
        """Return a step for the table as it is."""
        commits, savepoints = len(self._commits), len(self._saved)
        return drawing.step(self.truth.rows, commits=commits, savepoints=savepoints)

    @property
    def _is_partial(self) -> bool:
        """Return whether rows without all columns were written, of which others merge late ones."""
        return any(step.do is Do.PARTIAL for step in self.found.steps)

    def _refused(self, step: Step, refusal: RefusedError) -> None:
        try:
            self._doors.do(step, self.truth.rows.columns)
        except SchemaError:
            self.found.counts["refused as owed"] += 1
            return
        raise WrongError(f"nothing was refused, although {refusal}")

    def _done(self, step: Step, owed: Rows, at: int) -> None:
        if step.do is Do.COMPACT and self._is_planned:
            # What was written since the plan stays in logs.
            owed = self.truth.rows
        try:
            if step.do is Do.RESTORE:
                self._doors.savepoint = self._saved[-1]
            self._doors.do(step, self.truth.rows.columns)
        except (ConfigError, HorizonError) as error:
            if step.do not in SERVICES:
                raise
            self.found.counts[f"{step.do.value}: {type(error).__name__}"] += 1
            return
        if step.do in (Do.RESTORE, Do.ROLLBACK):
            self._undone()
            return
        if step.do is Do.SAVEPOINT and self._doors.savepoint not in self._saved:
            self._saved.append(self._doors.savepoint)
        if step.do is Do.CLEAN:
            self._readable_from = max(self._readable_from, len(self._commits) - step.number)
        if step.do is Do.ARCHIVE:
            active = {i.requested_time for i in open_state(str(self._root)).timeline.writes()}
            for number, commit in enumerate(self._commits):
                if commit.requested not in active:
                    self._told_from = max(self._told_from, number)
        if step.do is Do.SCHEDULE:
            self._is_planned = bool(self._doors.compactor().pending())
        if step.do is Do.COMPACT:
            if not self._is_planned:
                owed = replace(owed, past={})
            self._is_planned = False
        self.truth.rows = self._settled(owed)
        self._note_commits(at)

    def _settled(self, owed: Rows) -> Rows:
        """Ask the table about keys of which several rows may be there."""
        if not owed.open:
            return owed
        found: dict[Any, Row] = {
            self._kind.identity(row): row for row in HereReader(self._root).snapshot()
        }
        now = dict(owed.now)
        for key, open_key in owed.open.items():
            shown = found.get(key)
            for choice in open_key.choices:
                if shown is not None and choice is not None and self._same(choice.row, shown):
                    now[key] = choice
                    break
        return replace(owed, now=now, open={})

    def _same(self, owed: Row, found: Row) -> bool:
        columns = self.truth.rows.columns
        return as_values(owed, columns) == as_values(found, columns)

    def _note_commits(self, at: int) -> None:
        """Take down what is new on the timeline."""
        known = {commit.requested for commit in self._commits}
        for instant in open_state(str(self._root)).timeline.writes():
            if instant.requested_time in known:
                continue
            time = instant.requested_time
            if self._kind.version >= 8:
                time = instant.completion_time or ""
            rows = self.truth.rows
            self._commits.sort(key=lambda commit: commit.time)
            earlier = [c for c in self._commits if c.time < time]
            if len(earlier) < len(self._commits):
                # A compaction of version 6 stands in the past where it was planned.
                rows = earlier[-1].rows if earlier else Rows(columns=FIRST)
            self._commits.append(
                Commit(time=time, requested=instant.requested_time, step=at, rows=rows)
            )
        self._commits.sort(key=lambda commit: commit.time)

    def _undone(self) -> None:
        """Go back to the newest commit that the timeline still has."""
        state = open_state(str(self._root))
        left = {i.requested_time for i in state.timeline.writes()}
        left |= set(state.history.completion_times())
        self._commits = [c for c in self._commits if c.requested in left]
        self._saved = [one for one in self._saved if one in left]
        # A table keeps its columns, and what it lost may be told of.
        self.truth.rows = self._commits[-1].rows if self._commits else Rows(columns=FIRST)
        self._readable_from = min(self._readable_from, len(self._commits))
        self._told_from = min(self._told_from, len(self._commits) - 1)
        self._is_planned = bool(self._kind.mor and self._doors.compactor().pending())

    def _check(self, at: int) -> None:
        here = HereReader(self._root)
        rows = self.truth.rows
        self._ask("snapshot", rows.plain, here.snapshot)
        random = self._random
        names = columns_of(rows.columns)
        for _ in range(_FILTERS):
            where = condition(random, names)
            owed = [row for row in rows.plain if where.of(row) is True]
            self._ask(
                f"where {where.sql}",
                owed,
                lambda where=where: [  # type: ignore[misc] # a default binds it
                    row for row in here.snapshot(where=where.sql) if where.of(row) is True
                ],
            )
        if self._commits:
            self._ask_past(here, random.randrange(len(self._commits)))
            newest = len(self._commits) - 2, len(self._commits) - 1
            window = newest if random.random() < 0.5 else self._random_window()
            self._ask_window(here, *window)
            if self._kind.cdc is not None:
                self._ask_changes(here, *newest)
                self._ask_changes(here, *self._random_window())
        if random.random() < self._reads:
            self._ask("data source", rows.plain, lambda: through_data_source(self._root, {}))
            if self._spark is not None:
                self._ask_spark(at)

    def _ask_spark(self, at: int) -> None:
        assert self._spark is not None
        rows, random = self.truth.rows, self._random
        reader = SparkReader(self._spark, self._root, self._kind)
        where = condition(random, columns_of(rows.columns))
        owed = [row for row in rows.plain if where.of(row) is True]
        ways: list[Callable[[str], list[Row]]] = [reader.where, reader.by_sql]
        if at % 10 == 0:
            ways.append(reader.by_format)
        for way in ways:
            self._ask(
                f"{way.__name__} {where.sql}",
                owed,
                lambda way=way: way(where.sql),  # type: ignore[misc] # a default binds it
            )

    def _random_window(self) -> tuple[int, int]:
        end = self._random.randrange(len(self._commits))
        return self._random.randint(-1, end - 1) if end else -1, end

    def check_all(self, others: Sequence[Callable[[Path], list[Row]]] = ()) -> None:
        """Ask for every state that the table has had, and for the facts that `check` looks at."""
        here = HereReader(self._root)
        last = len(self._commits) - 1
        for number in range(last + 1):
            self._ask_past(here, number)
            self._ask_window(here, number - 1, number)
        if last >= 0:
            self._ask_window(here, -1, last)
            if self._kind.cdc is not None:
                self._ask_changes(here, -1, last)
        state = open_state(str(self._root))
        report = check_table(state, None)
        for violation in report.violations:
            raise WrongError(f"check: {violation.path}: {violation.problem}")
        if not self._kind.is_for_all or self._is_partial or self._is_planned:
            return
        self.found.rows = self.truth.rows
        for other in others:
            self.found.counts[other.__name__] += 1
            self._ask(other.__name__, self.truth.rows.plain, lambda other=other: other(self._root))  # type: ignore[misc] # a default binds it

    def _ask_past(self, here: HereReader, number: int) -> None:
        commit = self._commits[number]
        self._ask(
            f"as of commit {number} of step {commit.step}",
            commit.rows.plain,
            lambda: here.snapshot(as_of=commit.time),
            columns=commit.rows,
            may_be_gone=number < self._readable_from,
        )

    def _ask_window(self, here: HereReader, start: int, end: int) -> None:
        last = self._commits[end]
        after = None if start < 0 else self._commits[start].time
        inside = {c.step for c in self._commits[start + 1 : end + 1]}
        lost = {key for key, step in last.rows.unsettled.items() if step in inside}
        of = self._kind.identity

        def settled(given: Sequence[Row]) -> list[Row]:
            return [row for row in given if of(row) not in lost and is_settled(row)]

        def is_settled(row: Row) -> bool:
            kept = last.rows.now.get(of(row))
            return kept is None or kept.is_settled

        owed = [kept.row for kept in last.rows.now.values() if self._is_inside(kept, inside)]
        self._ask(
            f"window ({start}, {end}]",
            settled(owed),
            lambda: settled(here.window(after, last.time)),
            columns=last.rows,
            may_be_gone=start < self._readable_from or self._is_planned,
        )

    @staticmethod
    def _is_inside(kept: Kept, inside: set[int]) -> bool:
        return kept.step in inside

    def _ask_changes(self, here: HereReader, start: int, end: int) -> None:
        """Apply the changes of a window to the rows before it."""
        before = [] if start < 0 else self._commits[start].rows.plain
        last = self._commits[end]
        after = None if start < 0 else self._commits[start].time
        names = list(last.rows.columns)

        def applied() -> list[Row]:
            held = Counter(as_values(row, names) for row in before)
            for op, old, new in here.changes(after, last.time):
                if op in ("u", "d"):
                    image = as_values(old or {}, names)
                    if not held[image]:
                        raise WrongError(f"{op} of a row that is not there: {old}, then {new}")
                    held[image] -= 1
                if op in ("u", "i"):
                    held[as_values(new or {}, names)] += 1
            return [dict(zip(names, row, strict=True)) for row in held.elements()]

        self._ask(
            f"changes ({start}, {end}]",
            last.rows.plain,
            applied,
            columns=last.rows,
            may_be_gone=start < max(self._readable_from, self._told_from) or self._is_planned,
        )

    def _ask(
        self,
        question: str,
        owed: Sequence[Row],
        answer: Callable[[], Sequence[Row]],
        *,
        columns: Rows | None = None,
        may_be_gone: bool = False,
    ) -> None:
        self.found.counts["answers"] += 1
        try:
            found = answer()
        except _PAST_IS_GONE:
            if not may_be_gone:
                raise
            self.found.counts["past is gone"] += 1
            return
        names = list((columns or self.truth.rows).columns)
        wanted, got = values(owed, names), values(found, names)
        if wanted != got:
            missing, extra = Counter(wanted), Counter(got)
            missing, extra = missing - extra, extra - missing
            raise WrongError(
                f"{question}: {len(got)} rows for {len(wanted)}\n    columns {names}"
                f"\n    missing {list(missing)[:4]}\n    extra   {list(extra)[:4]}"
            )


def drawn(
    seed: int, played: Machine, share: float | None, often: Mapping[Do, int]
) -> Iterator[Step]:
    """Yield the steps of a seed; each is drawn with an eye on the rows that are there."""
    drawing = Drawing(played.found.kind, Random(f"steps {seed}"), share, often)
    for _ in range(STEPS):
        yield played.drawn(drawing)


def kind_of(seed: int, *, has_spark: bool = True) -> Kind:
    """Return the kind of table of a seed; some take Spark."""
    random = Random(f"kind {seed}")
    kind = random_kind(random)
    while not has_spark and kind.has_spark_doors_only:
        kind = random_kind(random)
    return kind


def play(
    seed: int,
    root: Path,
    spark: SparkSession | None,
    *,
    share: float = 0.2,
    steps: Sequence[Step] | None = None,
    kind: Kind | None = None,
    others: Sequence[Callable[[Path], list[Row]]] = (),
    often: Mapping[Do, int] = {},
    reads: float = _SPARK_READS,
) -> Played:
    """Play the steps of a seed, or those given, and return what was found.

    `share` of the writes that could do without go through Spark, and `often` says how often some
    operations are drawn.
    """
    own = kind or kind_of(seed, has_spark=spark is not None)
    played = Machine(seed, root, spark, own, reads)
    found = played.found
    try:
        through_spark = None if spark is None else share
        given = drawn(seed, played, through_spark, often) if steps is None else steps
        for step in given:
            played.do(step)
        played.check_all(others)
    except WrongError as wrong:
        found.wrong.append(f"after step {len(found.steps) - 1}: {wrong}")
    except Exception as error:  # noqa: BLE001 - whatever the table says is its answer
        problem = str(error) if isinstance(error, TidelakeError) else repr(error)
        found.wrong.append(f"after step {len(found.steps) - 1}: {type(error).__name__}: {problem}")
    return found


def shrink(found: Played, root: Path, spark: SparkSession | None, most: int = 120) -> Played:
    """Drop steps, and rows of them, while the sequence still ends badly."""
    best, tries = found, 0

    def still(steps: Sequence[Step]) -> Played | None:
        nonlocal tries
        tries += 1
        folder = root / f"shrink-{tries}"
        made = play(found.seed, folder, spark, steps=steps, kind=found.kind)
        shutil.rmtree(folder, ignore_errors=True)
        same = made.wrong and made.wrong[0].split(":")[1][:12] == found.wrong[0].split(":")[1][:12]
        return made if same else None

    at = len(best.steps) - 2
    while at >= 0 and tries < most:
        made = still([s for number, s in enumerate(best.steps) if number != at])
        if made is not None:
            best = made
        at = min(at - 1, len(best.steps) - 2)
    for number in range(len(best.steps)):
        row = len(best.steps[number].rows) - 1 if number < len(best.steps) else -1
        while row >= 0 and tries < most:
            step = best.steps[number]
            fewer = replace(step, rows=(*step.rows[:row], *step.rows[row + 1 :]))
            made = still([*best.steps[:number], fewer, *best.steps[number + 1 :]])
            if made is not None and len(made.steps) > number:
                best = made
            row -= 1
    with suppress(OSError):
        shutil.rmtree(root / "shrink-1", ignore_errors=True)
    return best
