"""Apache Hudi goes on past services of ours that died, with the metadata table on.

Nothing is lost and nothing comes back: its rows, by the metadata table and by listing, are those of
the dictionary, and its own reader of the metadata table lists the files that are there.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tests.interop.relay_table import TIGHT, UNDOING, WITH_METADATA, RelayTable
from tests.interop.shared_table import COW, MOR
from tests.interop.truth import rows
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.model import Action
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.table_services import TableServices
from tidelake.operations.task_runner import Here
from tidelake.storage import LocalStorage, Storage
from tidelake.testing import Crash, Fault, FaultyStorage

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(VERSION != "1.2.0", reason="needs a release that writes version 9"),
]

CHANGES = frozenset({"put", "put_if_absent", "put_if_tagged", "delete", "delete_folder"})
OPTIONS = {**WITH_METADATA, **TIGHT}
GO_ON = {
    **TIGHT,
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
}
COMPACTED = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
#: The turn at whose end a savepoint is made.
SAVED = 2
NEWS = rows([*range(0, 30, 4), 50, 51], ts=20, note="dying")
KINDS = [(9, COW, 3), (9, MOR, 4)]


class Dying(RelayTable):
    """A table on which services of ours die."""

    savepoint = ""
    last = ""
    """The newest write, which may be taken back."""

    def beside(self, path: Path) -> Dying:
        """Return a copy of the table, which goes its own way."""
        shutil.copytree(self.path, path)
        other = copy.copy(self)
        other.path, other.truth, other.differences = path, copy.deepcopy(self.truth), []
        return other

    def table_services(self, storage: Storage) -> TableServices:
        """Return tidelake's services over a storage that fails."""
        given = WriteOptions.from_options(OPTIONS)
        return TableServices(Env(storage), load_state(storage, OPTIONS), given)

    def compactor(self, storage: Storage) -> Compactor:
        """Return tidelake's compaction over a storage that fails."""
        given = WriteOptions.from_options(OPTIONS)
        return Compactor(Env(storage), lambda: load_state(storage, OPTIONS), given, Here())


def made(spark: SparkSession, path: Path, version: int, table_type: str, service: str) -> Dying:
    """Return a table that both have written."""
    table = Dying(spark, path, table_type, version)
    table.we("bulk_insert", rows(range(30), ts=1))
    table.they("upsert", rows(range(0, 30, 3), ts=2, note="theirs"))
    table.we("delete", rows([3, 4], ts=3))
    if service == "restore":
        table.savepoint = table.ours.savepoint().instant
    table.they("upsert", rows(range(0, 40, 5), ts=4, note="theirs"))
    table.we("upsert", rows(range(0, 40, 7), ts=5, note="ours"))
    if service == "archive":
        if table_type == MOR:
            # Instants stay until a compaction, and until one of the metadata table behind it.
            table.ours.compact(options=OPTIONS)
            for ts in range(6, 11):
                table.we("upsert", rows(range(ts), ts=ts, note="ours"))
        table.ours.clean(options=OPTIONS)
    table.last = table.newest()
    return table


#: What dies.
SERVICES: Mapping[str, Callable[[Dying, Storage], object]] = {
    "compact": lambda table, storage: table.compactor(storage).both(),
    "clean": lambda table, storage: table.table_services(storage).clean(),
    "archive": lambda table, storage: table.table_services(storage).archive(),
    "restore": lambda table, storage: table.table_services(storage).restore(table.savepoint),
    "rollback": lambda table, storage: table.table_services(storage).roll_back(table.last),
    "write": lambda table, storage: table.we_through(storage, "upsert", NEWS),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(("version", "table_type", "points"), KINDS)
def test_apache_goes_on_past_a_dead_service(
    version: int,
    table_type: str,
    points: int,
    service: str,
    hudi_spark: SparkSession,
    tmp_path: Path,
) -> None:
    if service == "compact" and table_type == COW:
        pytest.skip("without logs there is nothing to compact")
    origin = made(hudi_spark, tmp_path / "origin", version, table_type, service)
    act = SERVICES[service]
    counted = origin.beside(tmp_path / "counted")
    storage = FaultyStorage(LocalStorage(str(counted.path)))
    act(counted, storage)
    changing = [n for n, (name, _) in enumerate(storage.calls, 1) if name in CHANGES]
    assert changing, "there was nothing to do"
    stories: list[str] = []
    for at in range(points):
        number = changing[at * (len(changing) - 1) // (points - 1)]
        where = f"died after call {number}, {storage.calls[number - 1]}"
        table = origin.beside(tmp_path / f"died{number}")
        faulty = FaultyStorage.failing_at(LocalStorage(str(table.path)), number, Fault.CRASH_AFTER)
        with pytest.raises(Crash):
            act(table, faulty)
        settle(table, service)
        goes_on(table, where)
        stories += table.differences
        shutil.rmtree(table.path)
    assert not stories, "\n".join(stories)


def settle(table: Dying, service: str) -> None:
    """Bring the truth up to what the dead service left, and Apache to the end of a restore."""
    timeline = table.ours.timeline()
    if service == "restore":
        if any(i.action is Action.RESTORE and i.is_completed for i in timeline):
            pass
        elif VERSION != "0.15.0" and table.kind.table_version == 6 and table.kind.table_type == MOR:
            # Apache Hudi 1.x fails to restore such a table, its own as well.
            table.ours.restore(table.savepoint, options=OPTIONS)
        else:
            table.call("rollback_to_savepoint", UNDOING, instant_time=f"'{table.savepoint}'")
        table.rewind(SAVED)
    elif service == "rollback":
        is_there = any(i.requested_time == table.last and i.is_completed for i in timeline)
        is_asked_for = any(i.action is Action.ROLLBACK and not i.is_completed for i in timeline)
        if is_there:
            table.check("after the crash")
        if is_asked_for or not is_there:
            # Whoever writes next carries out a rollback that somebody asked for.
            table.rewind(len(table.truth.states) - 2)
        if is_there:
            return
    elif service == "write" and table.newest() != table.last:
        table.took_effect("upsert", NEWS)
    table.check("after the crash")


def goes_on(table: Dying, where: str) -> None:
    """Let Apache Hudi write with its services, and tidelake after it."""
    services = {**GO_ON, **(COMPACTED if table.kind.table_type == MOR else {})}
    table.they("upsert", rows(range(1, 40, 6), ts=100, note="after"), services)
    table.check_round(f"{where}: they go on")
    table.they("upsert", rows(range(2, 40, 6), ts=101, note="after"), services)
    table.we("upsert", rows(range(3, 40, 6), ts=102, note="after"))
    table.check_round(f"{where}: both go on")
