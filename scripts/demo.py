"""Read a table that Apache Hudi wrote, then write one of our own and let hudi-rs read it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from hudi import HudiTableBuilder

from tidelake import Table
from tidelake.cli import main as tidelake
from tidelake.model import Commit
from tidelake.spark.session.java import ensure_java
from tidelake.spark.session.local_session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "mor_avro_v8_trips_8i3u1d"
ZIP = Path(__file__).parent.parent / "tests" / "golden" / "tables" / f"{TABLE}.zip"
RIDES = "ride string, city string, ts bigint, fare double"
WRITERS = ("web", "app", "backfill")
UPSERTS = 3
PAGES = 200
SHARED = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
COLUMNS = ["rider", "driver", "city", "fare"]


def main() -> None:
    """Tell the story of eight trips, and of a table that begins here."""
    with tempfile.TemporaryDirectory(prefix="tidelake-demo-") as scratch:
        with zipfile.ZipFile(ZIP) as packed:
            packed.extractall(scratch)
        root = Path(scratch) / TABLE.removeprefix("mor_avro_")
        look(root)
        say(f"Starting Spark on {ensure_java()}.")
        started = perf_counter()
        spark = local_session("tidelake demo")
        spark.range(1).count()
        print(f"Spark was ready after {perf_counter() - started:.1f} s.")
        read(spark, root)
        write(spark, Path(scratch) / "rides")
        share(spark, Path(scratch) / "pages")
        spark.stop()


def look(root: Path) -> None:
    """Show the table at `root` without Spark."""
    say(f"Apache Hudi 1.0 wrote this merge-on-read table of taxi trips; it lies in {root}.")
    command("describe", root)

    say("Its timeline: eight trips were inserted, some updated and deleted, then compacted.")
    command("timeline", root)

    say("What a query reads: base files that the compaction wrote, and one log that came after it.")
    command("slices", root)


def read(spark: SparkSession, root: Path) -> None:
    """Read the table at `root`, as it is and as it was."""
    started = perf_counter()
    table = Table.open(spark, str(root))
    writes = [i for i in table.timeline() if i.is_completed]
    first, last = writes[0], writes[-1]

    say("The snapshot, logs merged into base rows:", 'table.read(columns=["rider", ...])')
    show(table.read(columns=COLUMNS))

    say(
        "The same table after its first commit, before any update or delete:",
        f'table.read(as_of="{first.completion_time}")',
    )
    show(table.read(columns=COLUMNS, as_of=first.completion_time))

    window = (writes[-2].completion_time, last.completion_time)
    say(
        "Only what changed in the last commit:",
        f'table.incremental(start="{window[0]}", end="{window[1]}")',
    )
    show(table.incremental(start=window[0], end=window[1], columns=COLUMNS))
    print(f"Three queries took {perf_counter() - started:.1f} s.")


def write(spark: SparkSession, root: Path) -> None:
    """Create a merge-on-read table at `root`, change it, and ask hudi-rs what it holds."""
    say(
        "Now a table of our own, merge-on-read:",
        'table = Table.create(spark, path, RIDES, key="ride", partition_by="city", ...)',
    )
    table = Table.create(
        spark,
        str(root),
        RIDES,
        key="ride",
        partition_by="city",
        ordering="ts",
        table_type="MERGE_ON_READ",
        options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    )
    say("A thousand rides are loaded, a hundred of them get another fare, and ten are deleted:")
    rides = spark.range(1000).selectExpr(
        "concat('ride-', id) AS ride",
        "element_at(array('oslo', 'rome', 'lima'), CAST(id % 3 + 1 AS INT)) AS city",
        "1L AS ts",
        "CAST(10 + id % 50 AS DOUBLE) AS fare",
    )
    loaded = told("table.bulk_insert(rides)", table.bulk_insert(rides))
    dearer = rides.limit(100).selectExpr("ride", "city", "2L AS ts", "fare * 2 AS fare")
    told("table.upsert(dearer)", table.upsert(dearer))
    told("table.delete(rides.limit(10))", table.delete(rides.limit(10)))
    merge(table, rides)
    command("timeline", root)

    say(
        "The table as it is, and as it was once it had been loaded:",
        f'table.read(), table.read(as_of="{loaded.completion_time}")',
    )
    summary = ["city", "count(*) AS rides", "sum(fare) AS fares"]
    for frame in (table.read(), table.read(as_of=loaded.completion_time)):
        frame.createOrReplaceTempView("rides")
        spark.sql(f"SELECT {', '.join(summary)} FROM rides GROUP BY city ORDER BY city").show()

    say("Compaction folds the logs into base files; rows and their past stay as they are:")
    command("compact", root, "--dry-run")
    before = sizes(table)
    commit = table.compact()
    assert commit is not None
    told("table.compact()", commit)
    print(f"    before: {before}\n    after:  {sizes(table)}")
    clean(table, root)

    say("hudi-rs reads the same files:")
    ours = table.read().count()
    theirs = HudiTableBuilder.from_base_uri(str(root)).build()
    print(f"    tidelake {ours} rows, hudi-rs {sum(map(len, theirs.read()))} rows")


def share(spark: SparkSession, root: Path) -> None:
    """Let three processes write one table while a fourth, this one, compacts it."""
    say(
        "Three processes, each with a Spark of its own, upsert the same pages at the same time, "
        "while this one compacts. Nobody waits for data to be written, and nobody aborts:",
        '{"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}',
    )
    table = Table.create(
        spark,
        str(root),
        "page string, ts bigint, seen_by string",
        key="page",
        ordering="ts",
        table_type="MERGE_ON_READ",
        options=SHARED,
    )
    writers = {name: start_writer(root, name) for name in WRITERS}
    for writer in writers.values():
        hear(writer)
    for writer in writers.values():
        tell(writer)
    told = [(name, json.loads(hear(writer))) for name, writer in writers.items()]
    commit = table.compact(options={**SHARED, "hoodie.compact.inline.max.delta.commits": "1"})
    if commit is not None:
        times = {"began": commit.requested_time, "ended": commit.completion_time}
        told.append(("demo", {**times, "what": f"compaction into {commit.files_written} files"}))
    for name, writer in writers.items():
        told += [(name, json.loads(line)) for line in iter(partial(hear, writer), "")]
        writer.wait()
    print(f"\n    {'who':<8}  {'began':<14}{'completed':<14}what")
    for name, event in sorted(told, key=lambda each: each[1]["began"]):
        began, ended = clock(event["began"]), clock(event["ended"])
        print(f"    {name:<8}  {began:<14}{ended:<14}{event['what']}")
    newest = table.read().where(f"ts = {UPSERTS}").count()
    print(f"\n    {len(told)} commits, and {newest} of {PAGES} pages have the newest ts")


def start_writer(root: Path, name: str) -> subprocess.Popen[str]:
    """Start a process that will write the table."""
    return subprocess.Popen(
        [sys.executable, __file__, str(root), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def write_shared(root: str, name: str) -> None:
    """Be one of the writers: upsert the same pages as everybody else, each time with a later `ts`.

    Says `ready`, waits for a line, and then tells of every commit in a line of JSON.
    """
    spark = local_session(f"tidelake demo {name}", master="local[1]")
    spark.range(1).count()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(1, UPSERTS + 1):
        rows = spark.range(PAGES).selectExpr(
            "concat('page-', id) AS page", f"{number}L AS ts", f"'{name}' AS seen_by"
        )
        commit = Table.open(spark, root, options=SHARED).upsert(rows)
        told = {"began": commit.requested_time, "ended": commit.completion_time}
        print(json.dumps({**told, "what": f"upsert of {PAGES} pages, ts {number}"}), flush=True)
    spark.stop()


def hear(writer: subprocess.Popen[str]) -> str:
    """Return the next line of a writer."""
    assert writer.stdout is not None
    return writer.stdout.readline()


def tell(writer: subprocess.Popen[str]) -> None:
    """Let a writer go on."""
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()


def clock(instant_time: str) -> str:
    """Return the time of day of an instant, to the millisecond."""
    return f"{instant_time[8:10]}:{instant_time[10:12]}:{instant_time[12:14]}.{instant_time[14:]}"


def clean(table: Table, root: Path) -> None:
    """Delete what only the table's past needs."""
    say(
        "A clean deletes what only the past needs. By default ten commits stay readable; here none:"
    )
    option = ("hoodie.clean.fileversions.retained", "1")
    command("clean", root, "--option", "=".join(option), "--dry-run")
    before = on_storage(root)
    done = table.clean(options=dict([option]))
    print(f'    >>> table.clean(options={{"{option[0]}": "{option[1]}"}})')
    print(f"    {sum(found.files_deleted for found in done)} files deleted")
    print(f"    before: {before}\n    after:  {on_storage(root)}")


def merge(table: Table, rides: DataFrame) -> None:
    """Merge tips and cancellations into the table, twice: as changed columns, and as whole rows."""
    say(
        "A merge adds tips to fares and drops rides that were cancelled. Only the changed columns "
        "are logged; the same again with whole rows, for comparison:"
    )
    tips = rides.limit(300).selectExpr("ride", "city", "IF(ride = 'ride-42', -1D, 1D) AS tip")
    asked = (
        table.merge(tips)
        .when_matched_delete("source.tip < 0")
        .when_matched_update({"fare": "target.fare + source.tip"})
    )
    code = 'table.merge(tips)...when_matched_update({"fare": "target.fare + source.tip"}).execute()'
    columns = told(code, asked.execute())
    whole = asked.execute({"hoodie.spark.sql.merge.into.partial.updates": "false"})
    print(f"    {columns.bytes_written:,} bytes, against {whole.bytes_written:,} as whole rows")


def sizes(table: Table) -> str:
    """Return how many files a query of the table reads, and their bytes."""
    slices = table.slices()
    bases = [piece.base_file.size_bytes for piece in slices if piece.base_file]
    logs = [log.size_bytes for piece in slices for log in piece.log_files]
    return (
        f"{len(bases)} base files of {sum(bases):,} bytes, {len(logs)} logs of {sum(logs):,} bytes"
    )


def on_storage(root: Path) -> str:
    """Return how many data files lie in the partitions of the table, and their bytes."""
    files = [p for p in root.glob("[!.]*/*") if p.is_file() and "metadata" not in p.name]
    return f"{len(files)} data files of {sum(p.stat().st_size for p in files):,} bytes"


def told(code: str, commit: Commit) -> Commit:
    """Print a write and what it did; return the commit."""
    counts = f"{commit.inserts} inserts, {commit.updates} updates, {commit.deletes} deletes"
    print(f"    >>> {code}\n    {counts} in {commit.files_written} files")
    return commit


def say(text: str, code: str | None = None) -> None:
    """Print a paragraph, and the call that follows it."""
    print(f"\n{text}")
    if code:
        print(f"\n    >>> {code}")


def command(verb: str, root: Path, *arguments: str) -> None:
    """Run a command as a person would type it."""
    print(f"\n    $ tidelake {' '.join((verb, root.name, *arguments))}", flush=True)
    tidelake([verb, str(root), *arguments])


def show(frame: DataFrame) -> None:
    """Print all rows."""
    frame.orderBy("rider").show(truncate=False)


if __name__ == "__main__":
    if sys.argv[1:]:
        write_shared(*sys.argv[1:])
    else:
        main()
