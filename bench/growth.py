"""What grows with a table: 1,000 to 10,000 base files, 100 to 100,000 archived commits.

Files are copies of one, put in place with the commit that names them, so that a large table is made
in seconds. A long history is written with the product's own codec and merged by its own archival.
Every measurement goes through the product's own functions.
"""

from __future__ import annotations

import argparse
import io
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.measure import Verdict, show_verdicts
from bench.runs import CORES, Runs, save, setting, show, timed
from tidelake import Table
from tidelake.cli.main import main as tidelake
from tidelake.config import ArchiveOptions
from tidelake.env import Env
from tidelake.formats import commit_metadata, lsm_history, partition_metadata
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.file_name import format_base
from tidelake.formats.lsm_history import HistoryFileName, HistoryInstant, Manifest, ManifestFile
from tidelake.metadata.keeper import KeeperOptions, MetadataTableKeeper
from tidelake.model import Action, TableType
from tidelake.operations.open_table import load_state
from tidelake.storage import LocalStorage
from tidelake.timeline import Publisher, load_table_config, load_timeline
from tidelake.timeline.archive import LsmArchive, current_manifest
from tidelake.txn import TableSpec, begin, create_table, find_commit

FILES = (1_000, 10_000)
PARTITIONS = {1_000: 50, 10_000: 200}
COMMITS = (100, 10_000, 100_000)
_COMMITS_A_FILE = 1_000
_SCHEMA = (
    '{"type":"record","name":"growth","fields":[{"name":"id","type":"string"},'
    '{"name":"n","type":"long"},{"name":"p","type":"string"}]}'
)
_FILES_A_COMMIT = 500
#: One takes a millisecond, too little to be timed by itself.
_LOOK_UPS = 200
_ROUNDS_A_RUN = 3


def main(arguments: Sequence[str]) -> None:
    """Measure, print the ratios of the larger to the smaller, and keep results."""
    parser = argparse.ArgumentParser(prog="python -m bench growth", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="measured rounds of each case")
    args = parser.parse_args(arguments)
    circumstances = setting(runs=args.runs)
    found: dict[str, dict[str, Runs]] = {}
    verdicts: list[Verdict] = []
    folder = Path(tempfile.mkdtemp(prefix="tidelake-growth-"))
    try:
        _measure_history(folder, args.runs, found, verdicts)
        roots = _measure_verbs(folder, found)
        _measure_plans(roots, args.runs, found, verdicts)
    finally:
        shutil.rmtree(folder)
    show_verdicts(verdicts)
    save("growth", circumstances, found, verdicts)


def _measure_verbs(folder: Path, found: dict[str, dict[str, Runs]]) -> dict[int, Path]:
    """Make the tables of files, let the command line look at each, and return where they are."""
    roots = {count: folder / f"files_{count}" for count in FILES}
    for count, root in roots.items():
        table_of_files(root, count, PARTITIONS[count])
    for verb in ("stats", "stats --quick", "check --quick", "check"):
        words = verb.split()
        cases = {
            f"{verb}, {count:,} files": _runs(1, partial(_verb, words, root))
            for count, root in roots.items()
        }
        _keep(verb, cases, found)
    return roots


def _measure_plans(
    roots: dict[int, Path],
    runs: int,
    found: dict[str, dict[str, Runs]],
    verdicts: list[Verdict],
) -> None:
    spark = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    Table.open(spark, str(roots[FILES[0]])).read()
    for count, root in roots.items():
        plain = spark.read.parquet(str(next(root.glob("p=*/*.parquet")))).schema
        ours, theirs = f"full plan, {count:,} files", f"plain Parquet, {count:,} files"
        cases = {
            ours: _runs(runs, partial(_plan, spark, root)),
            theirs: _runs(runs, partial(spark.read.schema(plain).parquet, str(root))),
        }
        _keep(f"full plan at {count:,}", cases, found)
        verdicts.append(_verdict("full plan", ours, theirs, cases, at_most=1.5))
    spark.stop()


def _measure_history(
    folder: Path, runs: int, found: dict[str, dict[str, Runs]], verdicts: list[Verdict]
) -> None:
    cases: dict[str, Runs] = {}
    storages = {}
    for count in COMMITS:
        root = folder / f"commits_{count}"
        table_of_commits(root, count)
        name = f"{_LOOK_UPS} new write_ids, {count:,} archived"
        storages[name] = LocalStorage(str(root))
        _look_up(storages[name], "warm")
        cases[name] = Runs()
    # In turns, so that neighbours on the machine slow all of them down alike.
    for _ in range(runs * _ROUNDS_A_RUN):
        for name, storage in storages.items():
            _add(cases[name], partial(_look_ups, storage))
    names = list(cases)
    _keep("new write_id", cases, found)
    for name in names[1:]:
        verdicts.append(_verdict("new write_id", name, names[0], cases, at_most=1.5))


def _plan(spark: SparkSession, root: Path) -> None:
    Table.open(spark, str(root)).read()


def _look_up(storage: LocalStorage, write_id: str) -> None:
    state = load_state(storage, {})
    assert find_commit(state.timeline, state.contents, state.history, write_id) is None


def _look_ups(storage: LocalStorage) -> None:
    for number in range(_LOOK_UPS):
        _look_up(storage, f"new-{number}")


def _verb(words: Sequence[str], root: Path) -> None:
    with redirect_stdout(io.StringIO()):
        tidelake([words[0], str(root), *words[1:]])


def _runs(count: int, act: Callable[[], object]) -> Runs:
    runs = Runs()
    for _ in range(count):
        _add(runs, act)
    return runs


def _add(runs: Runs, act: Callable[[], object]) -> None:
    seconds, cpu = timed(act)
    runs.seconds.append(seconds)
    runs.cpu.append(cpu)


def _keep(case: str, cases: dict[str, Runs], found: dict[str, dict[str, Runs]]) -> None:
    found[case] = cases
    show(case, cases)
    first, *_, last = cases.values()
    cpu = statistics.median(last.cpu) / statistics.median(first.cpu)
    sys.stdout.write(f"  ratio {last.median / first.median:.2f}, of processor time {cpu:.2f}\n")


def _verdict(case: str, ours: str, than: str, cases: dict[str, Runs], at_most: float) -> Verdict:
    # Neighbours on the machine move processor time less than the wall clock.
    ratio = statistics.median(cases[ours].cpu) / statistics.median(cases[than].cpu)
    return Verdict(case=case, ours=ours, than=than, at_most=at_most, ratio=ratio)


def table_of_files(root: Path, files: int, partitions: int) -> None:
    """Make a table with a metadata table and this many base files, each of ten rows."""
    storage = _created(root)
    env = Env(storage)
    data = _parquet()
    keeper = MetadataTableKeeper(env, KeeperOptions(enabled=True))
    for start in range(0, files, _FILES_A_COMMIT):
        config = load_table_config(storage)
        txn = begin(
            env,
            config,
            load_timeline(storage, config),
            action=Action.COMMIT,
            operation="INSERT",
            keeper=keeper,
        )
        with txn:
            txn.start()
            stats = [
                _file(storage, txn.instant_time, f"p={number % partitions}", number, data)
                for number in range(start, min(start + _FILES_A_COMMIT, files))
            ]
            txn.commit(stats, schema=_SCHEMA)


def table_of_commits(root: Path, commits: int) -> None:
    """Make a table whose history has this many commits, each with a write id of its own."""
    storage = _created(root)
    config = load_table_config(storage)
    publisher = Publisher(storage, config)
    publisher.start(_time(2 * commits), Action.COMMIT)
    path = publisher.completed_path(_time(2 * commits), Action.COMMIT, _time(2 * commits + 1))
    storage.put(path, publisher.encode(_metadata(commits)))
    archive = LsmArchive(storage, config, ArchiveOptions())
    for start in range(0, commits, _COMMITS_A_FILE):
        end = min(start + _COMMITS_A_FILE, commits)
        _add_file(storage, config.history_folder, [_archived(n) for n in range(start, end)])
        archive.tidy()


def _add_file(storage: LocalStorage, folder: str, instants: Sequence[HistoryInstant]) -> None:
    name = HistoryFileName(
        first=instants[0].requested_time, last=instants[-1].requested_time, level=0
    ).format()
    data = lsm_history.encode_instants(instants)
    storage.put(f"{folder}/{name}", data)
    current = current_manifest(storage, folder)
    files: tuple[ManifestFile, ...] = ()
    if current is not None:
        manifest = storage.read(f"{folder}/{lsm_history.manifest_name(current)}")
        files = lsm_history.decode_manifest(manifest).files
    number = (current or 0) + 1
    added = Manifest(files=(*files, ManifestFile(file_name=name, file_len=len(data))))
    storage.put(f"{folder}/{lsm_history.manifest_name(number)}", lsm_history.encode_manifest(added))
    storage.put(f"{folder}/{lsm_history.VERSION_FILE}", lsm_history.encode_version(number))


def _archived(number: int) -> HistoryInstant:
    return HistoryInstant(
        requested_time=_time(2 * number),
        completion_time=_time(2 * number + 1),
        action=Action.COMMIT,
        metadata=commit_metadata.encode_avro(_metadata(number)),
    )


def _time(number: int) -> str:
    moment = time.gmtime(1_780_000_000 + number)
    return time.strftime("%Y%m%d%H%M%S", moment) + "000"


def _metadata(number: int) -> CommitMetadata:
    stats = tuple(
        WriteStat(
            file_id=f"{n:08d}-0000-0000-0000-000000000000-0",
            path=f"p={n}/{n:08d}-0000-0000-0000-000000000000-0_0-0-0_{_time(2 * number)}.parquet",
            partition_path=f"p={n}",
            prev_commit="null",
            num_writes=10,
            file_size_in_bytes=1_000,
        )
        for n in range(2)
    )
    return CommitMetadata(
        partition_to_write_stats={stat.partition_path or "": (stat,) for stat in stats},
        extra_metadata={"schema": _SCHEMA, "tidelake.write.id": f"sink-{number}"},
        operation_type="UPSERT",
    )


def _created(root: Path) -> LocalStorage:
    storage = LocalStorage(str(root))
    create_table(
        Env(storage),
        TableSpec(
            name="growth",
            schema=_SCHEMA,
            table_type=TableType.COPY_ON_WRITE,
            table_version=9,
            record_key_fields=("id",),
            partition_fields=("p",),
            hive_style_partitioning=True,
        ),
    )
    return storage


def _file(
    storage: LocalStorage, instant_time: str, partition: str, number: int, data: bytes
) -> WriteStat:
    marker = partition_metadata.PartitionMetadata(commit_time=instant_time, partition_depth=1)
    storage.put_if_absent(
        f"{partition}/{partition_metadata.FILE_NAME}", partition_metadata.encode(marker, "")
    )
    file_id = f"{number:08d}-0000-0000-0000-000000000000-0"
    name = format_base(
        file_id=file_id, write_token="0-0-0", instant_time=instant_time, extension="parquet"
    )
    storage.put(f"{partition}/{name}", data)
    return WriteStat(
        file_id=file_id,
        path=f"{partition}/{name}",
        partition_path=partition,
        prev_commit="null",
        num_writes=10,
        num_inserts=10,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
    )


def _parquet() -> bytes:
    meta = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
    columns: dict[str, Any] = {f"_hoodie_{name}": ["x"] * 10 for name in meta}
    columns |= {"id": [f"k{n}" for n in range(10)], "n": list(range(10)), "p": ["x"] * 10}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()
