"""Services that end at any change to the storage, on tables whose metadata table is kept.

Whoever goes on finds every row, by the metadata table and without it, and brings the service to its
end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.heartbeats import expire
from tests.writes.cases import Case
from tests.writes.model import Do, Row, Step, Values
from tests.writes.quick_writer import QuickWriter
from tests.writes.readers import OurReader
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.metadata import MetadataTable
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state, open_state
from tidelake.operations.table_services import TableServices
from tidelake.operations.task_runner import Here
from tidelake.storage import Storage, open_storage
from tidelake.testing import Crash, Fault, FaultyStorage

CHANGES = frozenset({"put", "put_if_absent", "put_if_tagged", "delete", "delete_folder"})
TIGHT = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def case(version: int, mor: bool) -> Case:
    """Return a kind of table with all of the metadata table that its version has."""
    settings = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": str(version >= 8).lower(),
        "hoodie.metadata.record.index.enable": str(version >= 9).lower(),
        "hoodie.metadata.compact.max.delta.commits": "4",
        "hoodie.archive.automatic": "false",
        **TIGHT,
    }
    return Case(version=version, mor=mor, extra=tuple(settings.items()))


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


def upsert(ts: int, *keys: str) -> Step:
    return Step(do=Do.UPSERT, rows=tuple(row(key, ts) for key in keys))


STEPS = (
    upsert(1, "a", "b", "c", "d"),
    upsert(2, "a", "c", "e"),
    Step(do=Do.DELETE, rows=(row("b", 3),)),
    upsert(4, "a", "d", "f"),
    upsert(5, "c", "g"),
    upsert(6, "a", "b"),
)
#: The step at whose end a savepoint is made.
SAVED = 2


@dataclass(frozen=True, slots=True)
class Made:
    """A table that was written to, and what it holds."""

    root: Path
    case: Case
    now: list[Values]
    saved: list[Values]
    before_last: list[Values]
    savepoint: str
    newest: str


Act = Callable[[Storage, Made], object]


def table_services(storage: Storage, made: Made) -> TableServices:
    given = WriteOptions.from_options(made.case.options)
    return TableServices(Env(storage), load_state(storage, made.case.options), given)


def compact(storage: Storage, made: Made) -> None:
    given = WriteOptions.from_options(made.case.options)
    Compactor(Env(storage), lambda: load_state(storage, made.case.options), given, Here()).both()


#: Each service, and the rows that a table has after it.
SERVICES: Mapping[str, tuple[Act, Callable[[Made], list[Values]]]] = {
    "compact": (compact, lambda made: made.now),
    "clean": (lambda s, made: table_services(s, made).clean(), lambda made: made.now),
    "archive": (lambda s, made: table_services(s, made).archive(), lambda made: made.now),
    "restore": (
        lambda s, made: table_services(s, made).restore(made.savepoint),
        lambda made: made.saved,
    ),
    "rollback": (
        lambda s, made: table_services(s, made).roll_back(made.newest),
        lambda made: made.before_last,
    ),
}


def make(root: Path, kind: Case, service: str) -> Made:
    writer = QuickWriter()
    writer.create(root, kind)
    states, times = [], []
    for number, step in enumerate(STEPS):
        writer.write(root, kind, step)
        states.append(seen(root))
        times.append(open_state(str(root)).timeline.writes()[-1].requested_time)
        if number == SAVED and service == "restore":
            open_table_services(root, kind).savepoint(times[-1], "")
        if number == 3 and kind.mor and service in ("clean", "archive"):
            writer.write(root, kind, Step(do=Do.COMPACT))
    if service == "archive":
        open_table_services(root, kind).clean()
    return Made(root, kind, states[-1], states[SAVED], states[-2], times[SAVED], times[-1])


def open_table_services(root: Path, kind: Case) -> TableServices:
    storage = open_storage(str(root))
    given = WriteOptions.from_options(kind.options)
    return TableServices(Env(storage), load_state(storage, kind.options), given)


def seen(root: Path) -> list[Values]:
    """Return the rows, which are the same whoever lists the files."""
    found = OurReader(root).snapshot()
    assert found == OurReader(root, {"hoodie.metadata.enable": "false"}).snapshot()
    return found


def data_files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for folder in root.iterdir()
        if folder.is_dir() and folder.name != ".hoodie"
        for path in folder.iterdir()
        if not path.name.startswith(".hoodie_partition")
    }


def listed_files(root: Path) -> set[str]:
    """Return the files that the metadata table lists."""
    state = open_state(str(root))
    found = MetadataTable.open(state.storage, state.config, state.timeline)
    assert found is not None
    return {f"{at}/{info.name}" for at in found.partitions() for info in found.files(at)}


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    ("version", "mor"),
    [
        (9, False),
        (9, True),
        *(pytest.param(version, True, marks=pytest.mark.long) for version in (8, 6)),
    ],
)
def test_a_service_that_dies_is_gone_on_from(
    version: int, mor: bool, service: str, tmp_path: Path
) -> None:
    if service == "compact" and not mor:
        pytest.skip("without logs there is nothing to compact")
    made = make(tmp_path / "origin", case(version, mor), service)
    act, owed = SERVICES[service]
    shutil.copytree(made.root, tmp_path / "counted")
    counted = FaultyStorage(open_storage(str(tmp_path / "counted")))
    act(counted, made)
    assert seen(tmp_path / "counted") == owed(made)
    changing = [n for n, (name, _) in enumerate(counted.calls, 1) if name in CHANGES]
    assert len(changing) > 3
    for number in changing:
        root = tmp_path / f"died{number}"
        shutil.copytree(made.root, root)
        storage = FaultyStorage.failing_at(open_storage(str(root)), number, Fault.CRASH_AFTER)
        with pytest.raises(Crash):
            act(storage, made)
        where = f"{service} died after {counted.calls[number - 1]}"
        left = seen(root)
        assert service in ("restore", "rollback") or left == made.now, where
        expire(root)
        goes_on(root, made, service, left, where)
        shutil.rmtree(root)


def goes_on(root: Path, made: Made, service: str, left: list[Values], where: str) -> None:
    act, owed = SERVICES[service]
    if service != "rollback" or left == made.now:
        act(open_storage(str(root)), made)
    assert seen(root) == owed(made), where
    QuickWriter().write(root, made.case, upsert(9, "a", "z"))
    after = [values for values in owed(made) if values[0] not in ("a", "z")]
    assert len(seen(root)) == len(after) + 2, where
    assert [values for values in seen(root) if values[0] not in ("a", "z")] == after, where
    assert not open_state(str(root)).timeline.pending, where
    assert listed_files(root) == data_files(root), where
