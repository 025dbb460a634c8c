"""A writer that is killed, wherever it was, leaves the table as it was or as it was to be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.writes.cases import CDC, Case
from tests.writes.hudi_rs import HudiRs
from tests.writes.killed_writer import kill, points
from tests.writes.model import Do, Model, Row, Step, Values, values
from tests.writes.quick_writer import QuickWriter
from tests.writes.readers import OurReader
from tidelake.model import Action
from tidelake.operations.open_table import open_state

V6_KEEPS_LOGS = 8


def row(key: str, city: str, ts: int, note: str) -> Row:
    return {
        "id": key,
        "region": "n",
        "city": city,
        "day": 1_794_700_800_000,
        "ts": ts,
        "fare": 1.5,
        "note": note,
    }


FIRST = Step(
    do=Do.UPSERT,
    rows=tuple(row(f"k{at}", city, 1, "first") for at, city in enumerate(("oslo", "rom") * 3)),
)
SECOND = Step(do=Do.UPSERT, rows=(row("k0", "oslo", 2, "second"), row("k1", "rom", 2, "second")))
KILLED = {
    Do.UPSERT: Step(
        do=Do.UPSERT,
        rows=(
            row("k0", "oslo", 3, "killed"),
            row("k2", "oslo", 3, "killed"),
            row("new", "oslo", 3, "killed"),
            row("else", "bern", 3, "killed"),
        ),
    ),
    Do.INSERT_OVERWRITE: Step(
        do=Do.INSERT_OVERWRITE,
        rows=(row("over", "rom", 3, "killed"), row("else", "bern", 3, "killed")),
    ),
}
NEXT = Step(do=Do.UPSERT, rows=(row("k4", "oslo", 4, "next"), row("k5", "rom", 4, "next")))
LAST = Step(do=Do.UPSERT, rows=(row("k0", "oslo", 5, "last"), row("else", "bern", 5, "last")))


def after(steps: list[Step], case: Case) -> list[Values]:
    model = Model(case.identity)
    for step in steps:
        model.apply(step)
    return values(model.rows)


def seen(root: Path) -> list[Values]:
    """Return the rows, on which both readers have to agree."""
    ours = OurReader(root).snapshot()
    assert HudiRs(root).snapshot() == ours
    return ours


def strays(root: Path, case: Case) -> list[str]:
    """Return files that no commit names, and what a dead write left on the timeline."""
    state = open_state(str(root))
    named = {
        path
        for instant in state.timeline.writes()
        for stat in state.contents.commit_metadata(instant).write_stats
        for path in (stat.path, *(stat.cdc_stats or ()))
    }
    # Markers and heartbeats of a write that counts are read by nobody; services remove them.
    times = [i.requested_time for i in state.timeline.writes()]
    landed = (
        *(f".hoodie/.temp/{time}/" for time in times),
        *(f".hoodie/.heartbeat/{dot}{time}" for time in times for dot in ("", ".")),
    )
    found = [f"pending {i.requested_time}" for i in state.timeline.pending]
    for path in state.storage.files_below(""):
        name = path.rpartition("/")[2]
        if path.startswith((".hoodie/.temp/2", ".hoodie/.heartbeat/")):
            if not path.startswith(landed):
                found.append(path)
        elif not path.startswith(".hoodie/") and not name.startswith(".hoodie_partition"):
            # In version 6 a block in a log of its own takes a dead block back; both stay.
            is_kept = case.version < V6_KEEPS_LOGS and ".log." in name
            if path not in named and not is_kept:
                found.append(path)
    return found


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("do", list(KILLED), ids=str)
@pytest.mark.parametrize(
    "case",
    [
        Case(version=9),
        Case(version=9, mor=True),
        Case(version=6, extra=((CDC, "true"),)),
        Case(version=6, mor=True),
        Case(version=8, mor=True, index="BUCKET"),
    ],
    ids=lambda case: case.name,
)
def test_a_killed_writer_leaves_the_state_before_or_after(
    case: Case, do: Do, tmp_path: Path
) -> None:
    step = KILLED[do]
    origin = tmp_path / "origin"
    writer = QuickWriter()
    writer.create(origin, case)
    for earlier in (FIRST, SECOND):
        writer.write(origin, case, earlier)
    before = after([FIRST, SECOND], case)
    assert seen(origin) == before

    shutil.copytree(origin, tmp_path / "counted")
    changes = points(tmp_path / "counted", case, step)
    assert seen(tmp_path / "counted") == after([FIRST, SECOND, step], case)

    landed = killed = 0
    for point, change in enumerate(changes):
        root = tmp_path / f"killed{point}"
        shutil.copytree(origin, root)
        killed += kill(root, case, step, point)
        where = f"killed before change {point} of {len(changes)}: {change}"
        found = seen(root)
        steps = [FIRST, SECOND]
        if found != before:
            steps.append(step)
            landed += 1
        assert found == after(steps, case), where
        for further in (NEXT, LAST):
            writer.write(root, case, further)
            steps.append(further)
            assert seen(root) == after(steps, case), where
        assert strays(root, case) == [], where
        shutil.rmtree(root)
    assert killed >= len(changes) - 2
    assert 0 < landed < killed


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("goes_on", [Do.UPSERT, Do.COMPACT], ids=str)
@pytest.mark.parametrize(
    "case",
    [
        Case(version=9, mor=True),
        Case(version=8, mor=True, index="BUCKET"),
        Case(version=6, mor=True),
    ],
    ids=lambda case: case.name,
)
def test_a_killed_compaction_changes_no_row_and_can_be_run_again(
    case: Case, goes_on: Do, tmp_path: Path
) -> None:
    compaction = Step(do=Do.COMPACT)
    further = [NEXT, compaction, LAST] if goes_on is Do.UPSERT else [compaction, NEXT, LAST]
    origin = tmp_path / "origin"
    writer = QuickWriter()
    writer.create(origin, case)
    for earlier in (FIRST, SECOND):
        writer.write(origin, case, earlier)
    before = after([FIRST, SECOND], case)

    shutil.copytree(origin, tmp_path / "counted")
    changes = points(tmp_path / "counted", case, compaction)
    assert seen(tmp_path / "counted") == before
    assert strays(tmp_path / "counted", case) == []

    killed = 0
    for point, change in enumerate(changes):
        root = tmp_path / f"killed{point}"
        shutil.copytree(origin, root)
        killed += kill(root, case, compaction, point)
        where = f"killed before change {point} of {len(changes)}: {change}"
        assert OurReader(root).snapshot() == before, where
        steps = [FIRST, SECOND]
        for step in further:
            writer.write(root, case, step)
            steps.append(step)
            assert OurReader(root).snapshot() == after(steps, case), where
        assert seen(root) == after(steps, case), where
        assert strays(root, case) == [], where
        done = [i for i in open_state(str(root)).timeline.writes() if i.action is Action.COMMIT]
        assert done, where
        shutil.rmtree(root)
    assert killed >= len(changes) - 2
