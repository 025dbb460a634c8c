"""Files in the place of others: readers refuse what they can tell, and check names all of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.unit.read.test_check import checked, unpacked
from tidelake.errors import CorruptFileError
from tidelake.files import read_slice
from tidelake.operations.open_table import open_state
from tidelake.read.snapshot import plan_snapshot

_BASE = re.compile(r"(?P<group>[0-9a-f-]+-0)_[0-9-]+_(?P<time>[0-9]+)\.parquet")


def bases(root: Path) -> list[Path]:
    """Return the base files, the oldest first."""
    found = [(m["time"], p) for p in root.rglob("*.parquet") if (m := _BASE.fullmatch(p.name))]
    return [path for _, path in sorted(found)]


def logs(root: Path) -> list[Path]:
    found = [p for p in root.rglob(".*.log.*") if ".hoodie" not in p.parts]
    return sorted(p for p in found if not p.name.endswith((".crc", ".cdc")))


def put_in_place(source: Path, target: Path) -> None:
    """Make `target` hold what `source` does, as a copy that went wrong leaves it."""
    stat = target.stat()
    target.write_bytes(source.read_bytes())
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def read_all(root: Path) -> int:
    plan = plan_snapshot(open_state(str(root), {}))
    return sum(b.num_rows for task in plan.tasks for b in read_slice(task, plan.spec))


def problems(root: Path, path: Path) -> list[str]:
    name = str(path.relative_to(root))
    return [v.problem for v in checked(root).violations if v.path == name]


@pytest.mark.parametrize("table", ["v6_cow_insert_overwrite", "v9_cow_insert_overwrite"])
def test_check_names_an_old_base_file_in_the_place_of_another(table: str, tmp_path: Path) -> None:
    root = unpacked(table, tmp_path)
    live = {t.base_path for t in plan_snapshot(open_state(str(root), {})).tasks}
    old = [p for p in bases(root) if str(p.relative_to(root)) not in live]
    source = next(p for p in bases(root) if p.name != old[0].name)
    put_in_place(source, old[0])
    assert any("put in the other's place" in problem for problem in problems(root, old[0]))


def test_a_log_in_the_place_of_another_instants_is_refused(tmp_path: Path) -> None:
    root = unpacked("v9_mor_two_ordering_fields", tmp_path)
    found = logs(root)
    target = found[-1]
    source = next(p for p in found if p.name.split("_")[1] != target.name.split("_")[1])
    read_all(root)
    put_in_place(source, target)
    with pytest.raises(CorruptFileError, match="put in another's place"):
        read_all(root)
    assert any("put in another's place" in problem for problem in problems(root, target))


def test_check_names_a_log_of_another_file_group_of_the_same_instant(tmp_path: Path) -> None:
    root = unpacked("v9_mor_two_ordering_fields", tmp_path)
    by_time: dict[str, list[Path]] = {}
    for path in logs(root):
        by_time.setdefault(path.name.split("_")[1], []).append(path)
    source, target = next(found for found in by_time.values() if len(found) > 1)[:2]
    put_in_place(source, target)
    assert any("which is another's log" in problem for problem in problems(root, target))


def test_check_names_a_log_of_version_6_without_a_block_of_its_write(tmp_path: Path) -> None:
    root = unpacked("v6_mor_compaction_pending", tmp_path)
    by_slice: dict[str, list[Path]] = {}
    for path in logs(root):
        by_slice.setdefault(path.name.partition(".log.")[0], []).append(path)
    source, target = next(found for found in by_slice.values() if len(found) > 1)[:2]
    put_in_place(source, target)
    assert any("holds no block of instant" in problem for problem in problems(root, target))


@pytest.mark.parametrize("table", ["v8_cow_archived_lsm", "v9_cow_archived_lsm"])
def test_check_names_a_file_group_that_is_gone_and_was_archived(table: str, tmp_path: Path) -> None:
    root = unpacked(table, tmp_path)
    sound = checked(root).violations
    active = {i.requested_time for i in open_state(str(root), {}).timeline.writes()}
    gone = next(p for p in bases(root) if p.stem.rpartition("_")[2] not in active)
    group = gone.name.split("_")[0]
    for path in bases(root):
        if path.name.startswith(group):
            path.unlink()
    found = [v.problem for v in checked(root).violations if v not in sound]
    assert any(f"no file of file group {group} is left" in problem for problem in found)


def test_check_names_an_old_manifest_in_the_place_of_the_current_one(tmp_path: Path) -> None:
    root = unpacked("v9_cow_archived_lsm", tmp_path)
    folder = root / ".hoodie/timeline/history"
    number = int((folder / "_version_").read_text())
    put_in_place(folder / f"manifest_{number - 1}", folder / f"manifest_{number}")
    assert any("nothing else tells" in v.problem for v in checked(root).violations)


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        ("v6_cow_bucket", "lima/*_20261115081153879.parquet"),
        ("v6_mor_rollback_direct", "lima/.*.log.1_*"),
        ("v6_mor_rollback_direct", "lima/.*.log.4_*"),
        ("v9_cow_types", "*/*.parquet"),
        ("v9_mor_types_full_mdt", "*/.*.log.*"),
    ],
)
def test_check_names_a_copy_in_another_partition(table: str, pattern: str, tmp_path: Path) -> None:
    root = unpacked(table, tmp_path)
    source = max(p for p in root.glob(pattern) if not p.name.endswith(".crc"))
    partitions = sorted(p.parent for p in root.glob("*/.hoodie_partition_metadata"))
    target = next(p for p in partitions if p != source.parent) / source.name
    target.write_bytes(source.read_bytes())
    assert any("is read as a file of" in problem for problem in problems(root, target))
    assert not any("no query" in note and target.name in note for note in checked(root).notes)


def test_a_copy_that_a_retried_task_left_is_no_violation(tmp_path: Path) -> None:
    root = unpacked("v6_cow_bucket", tmp_path)
    source = bases(root)[-1]
    group, token, rest = source.name.split("_")
    (source.parent / f"{group}_9{token}_{rest}").write_bytes(source.read_bytes())
    report = checked(root)
    assert report.is_sound
    assert any("a task that nobody waited for" in note for note in report.notes)
