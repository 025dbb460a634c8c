"""Three streams fill one wide table at the same time, and every query finds whole rows.

`TIDELAKE_SEEDS=100-400` chooses other interleavings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pytest
from typing_extensions import override

from tests.partial_model import Event, State, merged
from tests.writes.stream_join import COLUMNS, GROUPS, PARTIAL, STREAMS, Held, Row, WideTable
from tidelake.cli.main import main
from tidelake.config import WriteOperation
from tidelake.errors import ConfigError, SchemaError
from tidelake.files import read_slice
from tidelake.model import Commit, TableType
from tidelake.operations.open_table import open_state
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot

KEYS = tuple("abcdefgh")
ROUNDS = 10
GROUPED = {"hoodie.table.partial.update.ordering": GROUPS}
#: What a write brings of each key: values, or None for a delete; of one commit or several.
Batch = dict[str, Row | None]


# --- what the table is to hold ------------------------------------------------------------------


def by_arrival(row: Row, new: Row) -> Row:
    return {**row, **new}


def by_group(row: Row, new: Row) -> Row:
    for names in STREAMS:
        at, was = new.get(names[0]), row[names[0]]
        if names[0] in new and (was is None or (at is not None and at >= was)):
            row = {**row, **{name: new[name] for name in names}}
    return row


def replayed(batches: Sequence[Batch], merge: Callable[[Row, Row], Row]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for batch in batches:
        for key, new in batch.items():
            if new is None:
                rows.pop(key, None)
            else:
                row = rows.get(key, {**dict.fromkeys(COLUMNS), "id": key})
                rows[key] = merge(row, new)
    return rows


def _event(row: Row | None) -> Event:
    return Event(None, is_delete=True) if row is None else Event(row["ts"], row)


class ByRecord:
    """One ordering for whole records: the log, and the base row that a compaction makes of it."""

    def __init__(self) -> None:
        self.base: dict[str, Row] = {}
        self.log: list[Batch] = []

    def rows(self, upto: int | None = None) -> dict[str, Row]:
        log = self.log[:upto]
        found = {}
        for key in dict.fromkeys((*self.base, *(key for batch in log for key in batch))):
            base = self.base.get(key)
            state = merged(
                None if base is None else State(base["ts"], base),
                [_event(batch[key]) for batch in log if key in batch],
            )
            if state is not None and state.deleted_by is None:
                found[key] = {**dict.fromkeys(COLUMNS), **state.values}
        return found

    def compact(self, planned: int) -> None:
        self.base, self.log = self.rows(planned), self.log[planned:]


# --- one interleaving ---------------------------------------------------------------------------


class Join:
    """Three streams, deletes and a compactor, each of which does its next step when it is told."""

    def __init__(self, table: WideTable, random: Random, *, with_ts: bool = False) -> None:
        self.table = table
        self.random = random
        self.with_ts = with_ts
        self.commits: list[tuple[Commit, Batch]] = []
        self._rounds = dict.fromkeys(range(len(STREAMS)), 0)
        self._open: list[tuple[int | None, Held, Batch]] = []
        self._planned: tuple[str, int] | None = None

    @property
    def is_done(self) -> bool:
        return not self._open and all(done == ROUNDS for done in self._rounds.values())

    def step(self) -> None:
        """Let somebody do something."""
        random = self.random
        free = [s for s, done in self._rounds.items() if done < ROUNDS and not self._is_open(s)]
        if self._open and (not free or random.random() < 0.5):
            self._finish(self._open.pop(random.randrange(len(self._open))))
        elif random.random() < 0.06 and not self._is_open(None):
            gone: Batch = {random.choice(KEYS): None}
            rows = [{"id": key} for key in gone]
            held = self.table.begin(rows, ["id"], operation=WriteOperation.DELETE, options={})
            self._open.append((None, held, gone))
        elif free:
            self._begin(random.choice(free))
        if random.random() < 0.25:
            self._compact()

    def _is_open(self, stream: int | None) -> bool:
        return any(each == stream for each, _, _ in self._open)

    def _begin(self, stream: int) -> None:
        """Begin a round of a stream, whose events are late now and then."""
        random = self.random
        self._rounds[stream] += 1
        names = ("id", *(["ts"] if self.with_ts else []), *STREAMS[stream])
        batch: Batch = {}
        # The last key is one that the first stream alone knows.
        for key in random.sample(KEYS if stream == 0 else KEYS[:-1], 4):
            at = max(0, self._rounds[stream] - random.choice([0, 0, 0, 2, 5]))
            text = random.choice([None, f"{stream} at {at}", "x" * random.randrange(9)])
            values = {"id": key, "ts": 10 * at + random.randrange(10)}
            values |= dict(zip(STREAMS[stream], (at, random.choice([None, at]), text), strict=True))
            batch[key] = {name: values[name] for name in names}
        rows = [row for row in batch.values() if row is not None]
        self._open.append((stream, self.table.begin(rows, names), batch))

    def _finish(self, write: tuple[int | None, Held, Batch]) -> None:
        _, held, batch = write
        self.commits.append((held.finish(), batch))

    def _compact(self) -> None:
        """Plan a compaction, or run the one that is planned."""
        compactor = self.table.compactor
        if self._planned is None:
            planned = compactor.schedule()
            if planned is not None:
                self._planned = planned, len(self.commits)
        else:
            instant, seen = self._planned
            compactor.run(instant)
            self.compacted(seen)
            self._planned = None

    def compacted(self, seen: int) -> None:
        """Take note that a compaction folded the first `seen` commits."""


class RecordJoin(Join):
    """The same with one ordering for all streams."""

    def __init__(self, table: WideTable, random: Random) -> None:
        super().__init__(table, random, with_ts=True)
        self._model = ByRecord()
        self._folded = 0

    def expected(self) -> dict[str, Row]:
        self._model.log = [batch for _, batch in self.commits[self._folded :]]
        return self._model.rows()

    @override
    def compacted(self, seen: int) -> None:
        self.expected()
        self._model.compact(seen - self._folded)
        self._folded = seen


def seeds(few: int) -> range:
    first, _, last = os.environ.get("TIDELAKE_SEEDS", f"0-{few}").partition("-")
    return range(int(first), int(last))


FEW_AND_MANY = pytest.mark.parametrize("few", [1, pytest.param(40, marks=pytest.mark.long)])


# --- tests --------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.slow
@FEW_AND_MANY
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    ("settings", "merge"),
    [({}, by_arrival), (GROUPED, by_group)],
    ids=["by arrival", "each by its own ordering"],
)
def test_every_query_finds_whole_rows(
    tmp_path: Path,
    version: int,
    settings: dict[str, str],
    merge: Callable[[Row, Row], Row],
    few: int,
) -> None:
    for seed in seeds(few):
        table = WideTable(tmp_path / str(seed), version=version, settings=settings)
        join = Join(table, Random(seed))
        while not join.is_done:
            join.step()
        batches = [batch for _, batch in join.commits]
        state = open_state(str(table.root))
        assert table.rows(plan_snapshot(state)) == replayed(batches, merge), f"seed {seed}"
        for number in range(1, len(batches) + 1):
            check_one_time(table, join, number, merge)
        table.close()


def check_one_time(
    table: WideTable, join: Join, number: int, merge: Callable[[Row, Row], Row]
) -> None:
    """Compare the table as of a commit, and the three commits up to it, with the model."""
    state = open_state(str(table.root))
    batches = [batch for _, batch in join.commits]
    times = [commit.completion_time for commit, _ in join.commits]
    then = replayed(batches[:number], merge)
    assert table.rows(plan_snapshot(state, as_of=times[number - 1])) == then, number
    first = max(0, number - 3)
    start = times[first - 1] if first else "000"
    plan = plan_incremental(state, start=start, end=times[number - 1])
    touched = {key for batch in batches[first:number] for key in batch}
    assert table.rows(plan) == {key: row for key, row in then.items() if key in touched}, number


@pytest.mark.sampled(1)
@pytest.mark.slow
@FEW_AND_MANY
@pytest.mark.parametrize("version", [8, 9])
def test_one_ordering_for_all_streams_goes_by_hudis_rule(
    tmp_path: Path, version: int, few: int
) -> None:
    for seed in seeds(few):
        table = WideTable(tmp_path / str(seed), version=version, ordering=["ts"])
        join = RecordJoin(table, Random(seed))
        while not join.is_done:
            join.step()
            found = table.rows(plan_snapshot(open_state(str(table.root)))) if join.commits else {}
            assert found == join.expected(), f"seed {seed}, {len(join.commits)} commits"
        table.close()


@pytest.mark.slow
def test_a_stream_writes_at_most_half_of_what_whole_rows_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(1)
    rows: list[Row] = [
        {
            "id": f"trip-{key:06}",
            **{n: random.randrange(1 << 40) for s in STREAMS for n in s[:2]},
            **{s[2]: f"text {random.randrange(1 << 30):x}" for s in STREAMS},
        }
        for key in range(2_000)
    ]
    table = WideTable(tmp_path, settings=GROUPED)
    whole = ("id", *(name for stream in STREAMS for name in stream))
    table.upsert(rows, whole, {})
    sizes: list[int] = []
    for names in (whole, *(("id", *stream) for stream in STREAMS)):
        brought = [{name: row[name] for name in names} for row in rows]
        commit = table.upsert(brought, names, {} if names is whole else PARTIAL)
        sizes.append(log_bytes(table, commit))
    shares = [size / sizes[0] for size in sizes[1:]]
    figures = ", ".join(f"{share:.0%}" for share in shares)
    with capsys.disabled():
        print(f"\nbytes of 3 of 9 columns: {figures} of whole rows")  # noqa: T201
    assert max(shares) <= 0.5
    table.close()


def log_bytes(table: WideTable, commit: Commit) -> int:
    found = [p for p in table.root.rglob(f".*_{commit.requested_time}.log.*") if p.is_file()]
    assert found
    return sum(path.stat().st_size for path in found)


@pytest.mark.parametrize("kind", TableType)
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_one_writer_after_the_other_may_be_late_too(
    tmp_path: Path, kind: TableType, index: str
) -> None:
    alone = {"hoodie.write.concurrency.mode": "SINGLE_WRITER", "hoodie.index.type": index}
    table = WideTable(tmp_path, kind=kind, settings={**GROUPED, **alone})
    random = Random(7)
    batches: list[Batch] = []
    for number in range(8):
        stream = random.randrange(len(STREAMS))
        names = ("id", *STREAMS[stream])
        rows: list[Row] = []
        for key in random.choices(KEYS[:4], k=5):
            values = (random.choice([None, 1, 2, 3, 4]), random.choice([None, number]), f"{number}")
            rows.append({"id": key, **dict(zip(STREAMS[stream], values, strict=True))})
        table.upsert(rows, names)
        # Rows of one key in one write are merged in the order in which they come.
        batches += [{row["id"]: row} for row in rows]
        found = table.rows(plan_snapshot(open_state(str(tmp_path))))
        assert found == replayed(batches, by_group), number
    table.close()


def test_a_delete_counts_that_began_before_there_was_anything(tmp_path: Path) -> None:
    table = WideTable(tmp_path, settings=GROUPED)
    row = {"id": "a", **dict(zip(STREAMS[0], (1, 2, "x"), strict=True))}
    delete = table.begin([{"id": "a"}], ["id"], operation=WriteOperation.DELETE, options={})
    late = table.begin([row], ("id", *STREAMS[0]))
    table.upsert([row, {**row, "id": "b"}], ("id", *STREAMS[0]))
    delete.finish()
    assert set(table.rows(plan_snapshot(open_state(str(tmp_path))))) == {"b"}
    planned = table.compactor.schedule()
    assert planned is not None
    table.compactor.run(planned)
    assert set(table.rows(plan_snapshot(open_state(str(tmp_path))))) == {"b"}
    late.finish()
    assert set(table.rows(plan_snapshot(open_state(str(tmp_path))))) == {"a", "b"}
    table.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_a_row_that_one_stream_alone_knows_says_where_it_is(
    tmp_path: Path, compacted: bool
) -> None:
    table = WideTable(tmp_path, settings=GROUPED)
    row = {"id": "a", **dict(zip(STREAMS[0], (1, 2, "x"), strict=True))}
    commit = table.upsert([row], ("id", *STREAMS[0]))
    if compacted:
        planned = table.compactor.schedule()
        assert planned is not None
        table.compactor.run(planned)
    plan = plan_snapshot(open_state(str(tmp_path)), Selection(meta=True))
    (found,) = (r for t in plan.tasks for b in read_slice(t, plan.spec) for r in b.to_pylist())
    assert {name: found[name] for name in row} == row
    time = commit.requested_time
    assert found["_hoodie_commit_time"] == time
    assert found["_hoodie_commit_seqno"] == f"{time}_a"
    assert found["_hoodie_partition_path"] == ""
    assert found["_hoodie_file_name"].endswith(".parquet" if compacted else "-0")
    table.close()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("id", "ride_ts", "ride_number"), "no column ride_text, which goes by ride_ts"),
        (("id", "ride_number", "ride_text"), "no column ride_ts, which goes by ride_ts"),
    ],
)
def test_half_of_a_group_is_refused(tmp_path: Path, names: Sequence[str], words: str) -> None:
    table = WideTable(tmp_path, settings=GROUPED)
    for options in ({}, PARTIAL):
        with pytest.raises(SchemaError, match=words):
            table.begin([], names, options=options)
    table.close()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ordering": ["ts"]}, "ordering of whole records"),
    ({"version": 6}, "table version 6"),
    ({"settings": {"hoodie.table.partial.update.ordering": "id:ts"}}, "key or partition column"),
    ({"settings": {"hoodie.table.partial.update.ordering": "nope:ts"}}, "nope"),
    (
        {"settings": {**GROUPED, "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}},
        "partial update mode",
    ),
]


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_tables_that_contradict_their_groups_are_not_made(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises((ConfigError, SchemaError), match=words):
        WideTable(tmp_path, **{"settings": GROUPED, **given})


def test_describe_names_the_orderings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = WideTable(tmp_path, settings=GROUPED)
    table.upsert([dict.fromkeys(COLUMNS, None) | {"id": "a"}], COLUMNS, {})
    assert main(["describe", str(tmp_path)]) == 0
    assert "ride_ts for ride_number, ride_text; fare_ts for" in capsys.readouterr().out
    table.close()


def test_a_writer_cannot_say_other_groups_than_the_table(tmp_path: Path) -> None:
    table = WideTable(tmp_path, settings=GROUPED)
    other = {"hoodie.table.partial.update.ordering": "ride_ts:ride_number"}
    with pytest.raises(ConfigError, match="ride_ts:ride_number,ride_text;fare_ts"):
        table.begin([], ("id", *STREAMS[0]), options=other)
    table.close()
