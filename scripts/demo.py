"""Walk through a merge-on-read table that Apache Hudi wrote: its timeline, files, rows and past."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from tidelake import Table
from tidelake.cli import main as tidelake
from tidelake.spark.java import ensure_java
from tidelake.spark.local import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE = "mor_avro_v8_trips_8i3u1d"
ZIP = Path(__file__).parent.parent / "tests" / "golden" / "tables" / f"{TABLE}.zip"
COLUMNS = ["rider", "driver", "city", "fare"]


def main() -> None:
    """Tell the story of eight trips."""
    with tempfile.TemporaryDirectory(prefix="tidelake-demo-") as scratch:
        with zipfile.ZipFile(ZIP) as packed:
            packed.extractall(scratch)
        walk(Path(scratch) / TABLE.removeprefix("mor_avro_"))


def walk(root: Path) -> None:
    """Show the table at `root`, first without Spark, then with it."""
    say(f"Apache Hudi 1.0 wrote this merge-on-read table of taxi trips; it lies in {root}.")
    command("describe", root)

    say("Its timeline: eight trips were inserted, some updated and deleted, then compacted.")
    command("timeline", root)

    say("What a query reads: base files that the compaction wrote, and one log that came after it.")
    command("slices", root)

    say(f"Starting Spark on {ensure_java()}.")
    started = perf_counter()
    spark = local_session("tidelake demo")
    spark.range(1).count()
    print(f"Spark was ready after {perf_counter() - started:.1f} s.")

    started = perf_counter()
    table = Table.open(spark, str(root))
    writes = [i for i in table.timeline() if i.is_completed]
    first, last = writes[0], writes[-1]

    say("The snapshot, logs merged into base rows:", 'table.read(columns=["rider", ...])')
    show(table.read(columns=COLUMNS))

    say(
        "The base files alone: quicker, and without the newest update.", "table.read_optimized(...)"
    )
    show(table.read_optimized(columns=COLUMNS))

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
    print(f"Four queries took {perf_counter() - started:.1f} s.")
    spark.stop()


def say(text: str, code: str | None = None) -> None:
    """Print a paragraph, and the call that follows it."""
    print(f"\n{text}")
    if code:
        print(f"\n    >>> {code}")


def command(verb: str, root: Path) -> None:
    """Run a command as a person would type it."""
    print(f"\n    $ tidelake {verb} {root.name}", flush=True)
    tidelake([verb, str(root)])


def show(frame: DataFrame) -> None:
    """Print all rows."""
    frame.orderBy("rider").show(truncate=False)


if __name__ == "__main__":
    main()
