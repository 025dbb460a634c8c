"""Writers of different modes beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.scenarios import lake as lake_module
from tests.scenarios.clustering import Clustering
from tests.scenarios.lake import COW, INSERT, MOR, OCC, UPSERT, Lake, row
from tests.scenarios.rules import guards
from tidelake.config import WriteOperation
from tidelake.engine import write_session
from tidelake.errors import SameWriteError, SchemaConflictError, WriteConflictError
from tidelake.model import TableType
from tidelake.txn import concurrency
from tidelake.txn.protocol import Transaction

ALONE = {"hoodie.write.concurrency.mode": "SINGLE_WRITER"}
TYPES_AND_VERSIONS = [(COW, 9), (MOR, 8), (MOR, 9)]


def schemas_are_compared_by_sharers_alone(patch: pytest.MonkeyPatch) -> None:
    real = Transaction._resolved

    def as_it_was(txn: Transaction, *given: object, **named: object) -> str:
        if txn._concurrency.is_shared:
            return real(txn, *given, **named)  # type: ignore[arg-type]  # handed on
        return str(given[-2])

    patch.setattr(Transaction, "_resolved", as_it_was)


@guards(schemas_are_compared_by_sharers_alone)
@pytest.mark.parametrize(("kind", "version"), TYPES_AND_VERSIONS)
@pytest.mark.parametrize("other", [OCC, ALONE], ids=["shared", "alone"])
def test_F_06_a_writer_that_is_told_that_it_is_alone_keeps_the_others_column(
    tmp_path: Path, kind: TableType, version: int, other: dict[str, str]
) -> None:
    """A column that another writer adds meanwhile stays, whatever the mode of ours is."""
    lake = Lake(tmp_path, kind, version, ALONE)
    lake.write([row("a", 1)])
    ours = lake.writing([row("b", 1, p="y")]).begun()
    theirs = lake.writing(
        [row("c", 1, p="z", extra=7)],
        {**other, "hoodie.clean.failed.writes.policy": "LAZY"},
        fields={"extra": T.LongType()},
    )
    theirs.begun().commit()
    ours.commit()
    assert "extra" in lake.columns()
    rows = lake.rows()
    assert (rows["b"]["extra"], rows["c"]["extra"]) == (None, 7)


@guards(schemas_are_compared_by_sharers_alone)
def test_F_08_a_writer_that_is_told_that_it_is_alone_gives_way_to_another_schema(
    tmp_path: Path,
) -> None:
    """Both added a column: the later one is refused, and a second attempt has both."""
    lake = Lake(tmp_path, COW, 9, ALONE)
    lake.write([row("a", 1)])
    fields = {"ours": T.LongType()}
    ours = lake.writing([row("b", 1, p="y", ours=1)], fields=fields).begun()
    lake.write([row("c", 1, p="z", theirs=2)], OCC, fields={"theirs": T.LongType()})
    with pytest.raises(SchemaConflictError):
        ours.commit()
    assert "theirs" in lake.columns()
    assert "ours" not in lake.columns()


def write_ids_are_compared_by_sharers_alone(patch: pytest.MonkeyPatch) -> None:
    real = Transaction._refuse_same

    def as_it_was(txn: Transaction, *given: object) -> None:
        if txn._concurrency.is_shared:
            real(txn, *given)  # type: ignore[arg-type]  # handed on

    patch.setattr(Transaction, "_refuse_same", as_it_was)


@guards(write_ids_are_compared_by_sharers_alone)
@pytest.mark.parametrize("version", [6, 9])
def test_B_20_the_same_write_by_two_that_think_they_are_alone(tmp_path: Path, version: int) -> None:
    """A write under a write_id that has committed meanwhile is not made a second time."""
    lake = Lake(tmp_path, COW, version, ALONE)
    small = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.failed.writes.policy": "LAZY"}
    first = lake.writing([row("a", 1)], small, operation=INSERT, write_id="batch 1").begun()
    second = lake.writing([row("a", 1)], small, operation=INSERT, write_id="batch 1").begun()
    first.commit()
    with pytest.raises(SameWriteError):
        second.commit()
    assert lake.values() == {"a": 1}


ALLOW = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}


@guards(lambda patch: patch.setattr(write_session, "clustered_groups", lambda *_: frozenset()))
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("operation", [INSERT, UPSERT])
@pytest.mark.parametrize("mode", [OCC, ALONE], ids=["shared", "alone"])
def test_B_09_new_keys_keep_out_of_the_small_files_of_a_clustering(
    tmp_path: Path, version: int, operation: WriteOperation, mode: dict[str, str]
) -> None:
    """New keys do not go to a file group whose rows are being moved: they would be refused."""
    lake = Lake(tmp_path, COW, version, mode)
    lake.write([row("a", 1)])
    Clustering(lake, "p=x", OCC)
    lake.write([row("b", 2)], operation=operation)
    assert lake.values() == {"a": 1, "b": 2}


@guards(lambda patch: patch.setattr(write_session, "clustered_groups", lambda *_: frozenset()))
def test_B_10_new_keys_do_not_stop_a_clustering_that_gives_way(tmp_path: Path) -> None:
    """Nor do they stop a clustering that gives way to writes into its file groups."""
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    lake.write([row("b", 2)], operation=INSERT)
    clustering.commit(lake.state().schema().avro)
    assert lake.values() == {"a": 1, "b": 2}


ELSEWHERE = [
    (INSERT, "y"),
    (INSERT, "x"),
    (UPSERT, "y"),
    (WriteOperation.BULK_INSERT, "y"),
    (WriteOperation.INSERT_OVERWRITE, "y"),
]


@guards(lambda patch: patch.setattr(concurrency, "is_silent", lambda found: not found.slots))
@pytest.mark.parametrize(("operation", "partition"), ELSEWHERE)
def test_B_12_a_pending_write_elsewhere_does_not_stop_a_clustering(
    tmp_path: Path, operation: WriteOperation, partition: str
) -> None:
    """A write that has said that it changes no file group of the clustering lets it commit."""
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    running = lake.writing([row("b", 2, p=partition)], operation=operation).begun()
    clustering.commit(lake.state().schema().avro)
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}


def small_files_are_not_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        lake_module, "planned_stats", lambda workload, _: {p: [] for p in workload.partitions}
    )


@guards(small_files_are_not_named)
def test_B_12_a_small_file_that_is_being_filled_stops_its_clustering(tmp_path: Path) -> None:
    """A clustering that was planned after an insert chose its small file gives way to it."""
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    running = lake.writing([row("b", 2)], operation=INSERT).begun()
    clustering = Clustering(lake, "p=x")
    clustering.start()
    with pytest.raises(WriteConflictError):
        clustering.commit(lake.state().schema().avro)
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}
