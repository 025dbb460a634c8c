"""Files that are gone: no write takes their place, so that nobody could see it any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.lake import BUCKETS, COW, MOR, Lake, row
from tests.scenarios.rules import guards
from tidelake.config import WriteOperation
from tidelake.errors import MissingFileError
from tidelake.metadata import build
from tidelake.model import TableType
from tidelake.operations import write_session
from tidelake.services import compaction
from tidelake.view import listing

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
INDEXES = pytest.mark.parametrize("index", [{"hoodie.index.type": "SIMPLE"}, BUCKETS])


def hidden_by_writes(patch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (write_session, "refuse_hiding"),
        (write_session, "refuse_missing_files"),
        (compaction, "refuse_missing_files"),
    ):
        patch.setattr(module, name, lambda *_, **__: None)


def newest_file(lake: Lake, pattern: str) -> Path:
    return max(lake.root.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def refused(lake: Lake, lost: Path, *acts: object) -> None:
    """Lose a file, see that each of the acts is refused, and that all is there once it is back."""
    rows, data = lake.rows(), lost.read_bytes()
    before = sorted(lake.root.glob("p=*/*.*"))
    lost.unlink()
    for act in acts:
        assert callable(act)
        with pytest.raises(MissingFileError, match=lost.name):
            act()
    lost.write_bytes(data)
    assert sorted(lake.root.glob("p=*/*.*")) == before
    assert lake.rows() == rows


@guards(hidden_by_writes)
@INDEXES
@VERSIONS
def test_C_09_a_base_file_that_is_gone_is_not_written_over(
    tmp_path: Path, version: int, index: dict[str, str]
) -> None:
    """An upsert would go on from the file before it, as if the last write had never been."""
    lake = Lake(tmp_path, COW, version, index)
    for ts in (1, 2, 3):
        lake.write([row("a", ts), row("b", ts)])
    lost = newest_file(lake, "p=x/*.parquet")
    known = "b" if index is BUCKETS else "a"
    refused(
        lake,
        lost,
        lambda: lake.write([row("a", 4), row(known, 4)]),
        lambda: lake.write([row("c", 4)], operation=WriteOperation.INSERT_OVERWRITE),
    )


@guards(hidden_by_writes)
@VERSIONS
@pytest.mark.parametrize("kind", TableType)
def test_C_09_a_bucket_whose_only_file_is_gone_gets_no_other(
    tmp_path: Path, version: int, kind: TableType
) -> None:
    lake = Lake(tmp_path, kind, version, {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"})
    lake.write([row("a", 1), row("b", 1)])
    refused(lake, newest_file(lake, "p=x/*.parquet"), lambda: lake.write([row("a", 2)]))


@guards(hidden_by_writes)
@VERSIONS
def test_C_09_a_log_that_is_gone_is_not_compacted_away(tmp_path: Path, version: int) -> None:
    lake = Lake(tmp_path, MOR, version, BUCKETS)
    for ts in (1, 2, 3):
        lake.write([row("a", ts), row("b", ts)])
    lost = max(lake.root.glob("p=x/.*log*"))
    refused(lake, lost, lambda: lake.compactor().both())


def lists_what_is_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(build, "refuse_missing_files", lambda *_, **__: None)


@guards(lists_what_is_left)
@VERSIONS
@pytest.mark.parametrize("kind", TableType)
def test_C_09_no_metadata_table_is_made_of_what_is_left(
    tmp_path: Path, version: int, kind: TableType
) -> None:
    """Its list would not have the file, and nobody would miss the rows once that is back."""
    lake = Lake(tmp_path, kind, version, BUCKETS)
    lake.write([row("a", 1, p="x"), row("a", 1, p="y")])
    lost = newest_file(lake, "p=x/*.parquet")
    data = lost.read_bytes()
    lost.unlink()
    lake.write([row("a", 2, p="y")], {"hoodie.metadata.enable": "true"})
    lost.write_bytes(data)
    options = {"hoodie.metadata.enable": "true"}
    assert not lake.state(options).is_listed_by_metadata
    lake.write([row("a", 3, p="y")], options)
    state = lake.state(options)
    assert state.is_listed_by_metadata
    assert {s.group.partition for s in state.view.latest_slices()} == {"p=x", "p=y"}


def only_by_its_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listing, "parse_base", lambda *_: None)
    patch.setattr(listing, "parse_log", lambda *_: None)


@guards(only_by_its_marker)
@VERSIONS
def test_C_09_a_partition_that_lost_its_marker_is_overwritten(tmp_path: Path, version: int) -> None:
    """Its rows came back once the next write had put the marker there again."""
    lake = Lake(tmp_path, COW, version, {"hoodie.index.type": "SIMPLE"})
    lake.write([row("a", 1), row("b", 1)])
    (marker,) = lake.root.glob("p=x/.hoodie_partition_metadata*")
    marker.unlink()
    assert set(lake.rows()) == {"a", "b"}
    lake.write([row("c", 2)], operation=WriteOperation.INSERT_OVERWRITE_TABLE)
    assert set(lake.rows()) == {"c"}


@VERSIONS
def test_a_copy_that_a_task_left_hides_no_log(tmp_path: Path, version: int) -> None:
    """A retried task leaves a second base file of its instant; up to version 7 logs name that."""
    lake = Lake(tmp_path, MOR, version, {"hoodie.index.type": "SIMPLE"})
    lake.write([row("a", 1), row("b", 1)])
    base = newest_file(lake, "p=x/*.parquet")
    lake.write([row("a", 2)])
    group, token, instant = base.name.split("_")
    for other in (f"9{token}", token.replace("0", "1", 1)):
        (base.parent / f"{group}_{other}_{instant}").write_bytes(base.read_bytes())
    assert lake.values() == {"a": 2, "b": 1}
    lake.write([row("b", 3)])
    assert lake.values() == {"a": 2, "b": 3}
