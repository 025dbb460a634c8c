"""A storage that fails half-way, or rows that may not be written, leave the table as it was."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.writes.cases import CDC, Case
from tests.writes.hudi_rs import HudiRs
from tests.writes.model import Do, Step, Values
from tests.writes.quick_writer import QuickWriter
from tests.writes.readers import OurReader
from tests.writes.staged_writer import batches, write_through
from tests.writes.test_kill import FIRST, KILLED, LAST, NEXT, SECOND, after, row, seen, strays
from tidelake.errors import SchemaError, StorageError, TidelakeError
from tidelake.storage import open_storage
from tidelake.testing import Fault, FaultyStorage

CASES = [
    Case(version=9, extra=((CDC, "true"),)),
    Case(version=9, mor=True),
    Case(version=6, mor=True),
]
NOBODY = 65534


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """Return a folder that every user of the machine reaches."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def made(root: Path, case: Case) -> list[Values]:
    writer = QuickWriter()
    writer.create(root, case)
    for step in (FIRST, SECOND):
        writer.write(root, case, step)
    return after([FIRST, SECOND], case)


def goes_on(root: Path, case: Case, steps: list[Step]) -> None:
    """Write on, and see that nothing of the failed write is left."""
    steps = [FIRST, SECOND, *steps]
    for step in (NEXT, LAST):
        QuickWriter().write(root, case, step)
        steps.append(step)
        assert seen(root) == after(steps, case)
    assert strays(root, case) == []
    assert not list((root / ".hoodie" / ".temp").rglob("*.arrow"))


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "do"),
    [(CASES[0], Do.UPSERT), (CASES[1], Do.INSERT_OVERWRITE), (CASES[2], Do.UPSERT)],
    ids=["v9-cow", "v9-mor", "v6-mor"],
)
def test_whatever_call_the_storage_refuses_the_table_is_whole(
    case: Case, do: Do, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    before = made(origin, case)
    shutil.copytree(origin, tmp_path / "counted")
    counted = FaultyStorage(open_storage(str(tmp_path / "counted")))
    write_through(counted, case, KILLED[do])
    changing = [
        number
        for number, (name, _) in enumerate(counted.calls, start=1)
        if name in ("put", "put_if_absent", "delete", "list")
    ]
    refused = 0
    for number in changing:
        root = tmp_path / f"refused{number}"
        shutil.copytree(origin, root)
        storage = FaultyStorage.failing_at(open_storage(str(root)), number, Fault.ERROR)
        steps = [KILLED[do]]
        try:
            write_through(storage, case, KILLED[do])
        except TidelakeError as error:
            assert error.next_step  # noqa: PT017 - some calls may fail without harm
            refused += 1
            if seen(root) == before:
                steps = []
        assert seen(root) == after([FIRST, SECOND, *steps], case), counted.calls[number - 1]
        shutil.rmtree(root / ".hoodie" / ".temp" / ".tidelake", ignore_errors=True)
        goes_on(root, case, steps)
        shutil.rmtree(root)
    assert refused > len(changing) // 2


@contextmanager
def no_more_than(size_bytes: int) -> Iterator[None]:
    """Let the operating system refuse to make a file longer, as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def without_rights() -> Iterator[None]:
    """Let go of the rights of root, to whom no folder is read-only."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(mine)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_disk_that_is_full_half_way(case: Case, tmp_path: Path) -> None:
    root = tmp_path / "t"
    before = made(root, case)
    long = Step(
        do=Do.UPSERT,
        rows=tuple(row(f"k{at}", "oslo", 3, os.urandom(2000).hex()) for at in range(2)),
    )
    rows = list(batches(case, long))
    writer = QuickWriter().writer(root, case, long)
    message = writer.write(iter(rows))
    with no_more_than(4096), pytest.raises(StorageError, match="File too large") as failed:
        writer.commit([message])
    assert "storage" in failed.value.next_step
    assert seen(root) == before
    goes_on(root, case, [])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_folder_that_may_not_be_written(case: Case, shared_folder: Path) -> None:
    root = shared_folder / "t"
    before = made(root, case)
    for path in (root, *root.rglob("*")):
        path.chmod(0o777)
    closed = root / "city=oslo"
    closed.chmod(0o555)
    with without_rights(), pytest.raises(StorageError, match="Permission denied"):
        QuickWriter().write(root, case, KILLED[Do.UPSERT])
    closed.chmod(0o777)
    assert seen(root) == before
    goes_on(root, case, [])


BAD = {
    "key": ({"id": None}, "no value in the record key"),
    "partition": ({"city": None}, "no value in the partition field"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("do", [Do.BULK_INSERT, Do.INSERT, Do.UPSERT, Do.INSERT_OVERWRITE], ids=str)
def test_one_bad_row_among_good_ones(do: Do, bad: str, tmp_path: Path) -> None:
    case = Case(version=9, mor=True)
    root = tmp_path / "t"
    before = made(root, case)
    change, said = BAD[bad]
    good = [row(f"g{at}", "rom", 1, "good") for at in range(5)]
    step = Step(do=do, rows=(*good, {**good[0], **change}))
    writer = QuickWriter().writer(root, case, step)
    with pytest.raises(SchemaError, match=said):
        writer.write(batches(case, step))
    writer.abort([])
    assert OurReader(root).snapshot() == HudiRs(root).snapshot() == before
    goes_on(root, case, [])
