"""A table that is written step by step, and held to its model after every commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tests.writes.cases import Case
from tests.writes.hudi_rs import HudiRs
from tests.writes.model import COLUMNS, Do, Kept, Model, Row, Step, Values, told, values
from tests.writes.readers import OurReader, Reader
from tidelake.operations.open_table import open_state

Answer = Callable[[], list[Values]]


@dataclass(frozen=True, slots=True)
class Difference:
    """An answer that is not the model's."""

    case: str
    question: str
    story: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with the rows that answer it; those of `unsettled` keys are left out."""

    kind: str
    start: str | None = None
    end: str | None = None
    rows: Sequence[Values]
    unsettled: Sequence[Values] = ()


class Writer(Protocol):
    """A way to write to a table."""

    def create(self, root: Path, case: Case) -> None:
        """Create the table."""

    def write(self, root: Path, case: Case, step: Step) -> None:
        """Do one step."""


class Services(Protocol):
    """A way to compact a table."""

    def schedule(self, root: Path, case: Case) -> str | None:
        """Plan a compaction; None: there is nothing to do."""

    def run_pending(self, root: Path, case: Case) -> int:
        """Carry out every plan; return how many there were."""


class WrittenTable:
    """Writes with us, and asks our reader and `others`."""

    def __init__(
        self, writer: Writer, root: Path, case: Case, others: Sequence[Callable[[Path], Reader]]
    ) -> None:
        self._writer = writer
        self._others = others
        self.root = root
        self.case = case
        self.model = Model(case.identity)
        self.steps: list[Step] = []
        self.answers = 0
        self.differences: list[Difference] = []
        self._is_planned = False
        writer.create(root, case)

    def write(self, step: Step, writer: Writer | None = None) -> None:
        """Do the step to the table, with our writer or another, and to the model."""
        self.steps.append(step)
        (writer or self._writer).write(self.root, self.case, step)
        self.model.apply(step)

    def schedule(self, services: Services) -> None:
        """Plan a compaction, if there is anything to compact."""
        if services.schedule(self.root, self.case):
            self._is_planned = True
            if self.case.version < 8:
                # It stands in the past where it was planned, whenever it is carried out.
                self._compacted()

    def run_pending(self, services: Services) -> None:
        """Carry out every plan."""
        for _ in range(services.run_pending(self.root, self.case)):
            self._is_planned = False
            if self.case.version >= 8:
                self._compacted()

    def _compacted(self) -> None:
        step = Step(do=Do.COMPACT)
        self.steps.append(step)
        self.model.apply(step)

    def check_now(self) -> None:
        """Ask every reader for the newest rows."""
        wanted = values(self.model.rows)
        for reader in self._readers():
            self._ask(f"{reader.name} snapshot", wanted, reader.snapshot)

    def check(self, question: str, rows: Sequence[Row]) -> None:
        """Hold rows that somebody else read to the model."""
        found = values([{**row, "day": int(row["day"])} for row in rows])
        self._ask(question, values(self.model.rows), lambda: found)

    def check_past(self) -> None:
        """Ask every reader for each state and each change since the table was made."""
        times = self._times()
        self._ask("commits", [(len(self.steps),)], lambda: [(len(times),)])
        ours, *others = self._readers()
        for reader in (ours, *others):
            for at, time in enumerate(times):
                self._ask(
                    f"{reader.name} as of commit {at}",
                    values(kept.row for kept in self.model.states[at]),
                    partial(reader.snapshot, time),
                )
            for start, end in self._windows(len(times)):
                changed = values(_changed(self.model.states[end], start))
                after = "000" if start < 0 else times[start]
                self._ask(
                    f"{reader.name} incremental ({start}, {end}]",
                    self._settled(changed, start),
                    partial(self._window, reader, after, times[end], start),
                )
        if self.case.logs_changes:
            self._check_changes(times)
        # With logs, base files hold some state of each row, and the same for every reader.
        wanted = ours.base_files() if self.case.mor else values(self.model.rows)
        for reader in others if self.case.mor else (ours, *others):
            self._ask(f"{reader.name} base files", wanted, reader.base_files)

    def questions(self) -> Iterator[Question]:
        """Yield what somebody else may ask, with the answers that the table owes."""
        times = self._times()
        yield Question(kind="snapshot", rows=values(self.model.rows))
        base_rows = OurReader(self.root).base_files() if self.case.mor else values(self.model.rows)
        yield Question(kind="base files", rows=base_rows)
        for at, time in enumerate(times[:-1]):
            rows = values(kept.row for kept in self.model.states[at])
            yield Question(kind="as of", end=time, rows=rows)
        for start, end in dict.fromkeys(((-1, len(times) - 1), (len(times) - 2, len(times) - 1))):
            changed = values(_changed(self.model.states[end], start))
            yield Question(
                kind="incremental",
                start="000" if start < 0 else times[start],
                end=times[end],
                rows=self._settled(changed, start),
                unsettled=[key for key, at in self.model.losers.items() if at > start]
                if self.case.mor
                else [],
            )

    def _readers(self) -> list[Reader]:
        others: Sequence[Callable[[Path], Reader]] = self._others
        if self._is_planned and self.case.version < 8:
            # Of version 6 hudi-rs does not read the logs behind a pending compaction.
            others = [reader for reader in others if reader is not HudiRs]
        return [OurReader(self.root), *(reader(self.root) for reader in others)]

    def _check_changes(self, times: Sequence[str]) -> None:
        reader = OurReader(self.root)
        for start, end in self._windows(len(times)):
            owed = [change for made in self.model.changes[start + 1 : end + 1] for change in made]
            self._ask(
                f"{reader.name} changes ({start}, {end}]",
                sorted(owed, key=repr),
                partial(reader.changes, "000" if start < 0 else times[start], times[end]),
            )

    def _settled(self, rows: Sequence[Values], start: int) -> list[Values]:
        """Return the rows of a window on which readers of logs have to agree.

        Apache merges the files of the window alone, so that an upsert which lost against an older
        row comes back; hudi-rs shows it for some tables and not for others.
        """
        if not self.case.mor:
            return list(rows)
        of = self.model.identity.of
        losers = {key for key, commit in self.model.losers.items() if commit > start}
        return [row for row in rows if of(dict(zip(COLUMNS, row, strict=True))) not in losers]

    def _window(self, reader: Reader, after: str, end: str, start: int) -> list[Values]:
        return self._settled(reader.incremental(after, end), start)

    @staticmethod
    def _windows(count: int) -> Iterator[tuple[int, int]]:
        yield -1, count - 1
        for end in range(count):
            yield end - 1, end

    def _times(self) -> list[str]:
        writes = open_state(str(self.root)).timeline.writes()
        if self.case.version < 8:
            return [instant.requested_time for instant in writes]
        return sorted(instant.completion_time or "" for instant in writes)

    def _ask(self, question: str, wanted: Sequence[Values], answer: Answer) -> None:
        self.answers += 1
        try:
            found = answer()
        except Exception as error:  # noqa: BLE001 - whatever a reader says is its answer
            self._differs(question, f"{type(error).__name__}: {error}")
            return
        if found != wanted:
            missing = [row for row in wanted if row not in found]
            extra = [row for row in found if row not in wanted]
            self._differs(
                question,
                f"{len(found)} rows for {len(wanted)}; missing {missing[:5]}; extra {extra[:5]}",
            )

    def _differs(self, question: str, story: str) -> None:
        at = len(self.steps) - 1
        self.differences.append(
            Difference(self.case.name, f"{question} after step {at} at {self.root}", story)
        )

    def told(self) -> str:
        """Return what was done and what was wrong."""
        wrong = "\n".join(f"  {d.question}: {d.story}" for d in self.differences)
        return f"{self.case.name}\n{told(self.steps)}\n{wrong}"


def _changed(state: Sequence[Kept], start: int) -> list[Row]:
    return [kept.row for kept in state if kept.commit > start]


def counted(tables: Sequence[WrittenTable]) -> Mapping[str, Any]:
    """Return the figures of several tables."""
    return {
        "tables": len(tables),
        "answers": sum(t.answers for t in tables),
        "differences": sum(len(t.differences) for t in tables),
    }
