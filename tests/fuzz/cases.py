"""Cases of damage, and what becomes of them; run in a process of their own.

A case is a table, one of its files and a seed. A damaged file may take the process down, keep it
busy for ever or fill its memory, so `run` watches it from outside.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz import codecs
from tests.fuzz.mutations import mutate, truncate
from tests.golden import harness
from tidelake.errors import Malformed, TidelakeError

if TYPE_CHECKING:
    from tests.fuzz.tables import Rows

#: A case that takes longer hangs; sound files take a hundredth of it.
TIMEOUT_S = 20
#: What a process may hold at its peak, libraries included.
MEMORY_BYTES = 1_500_000_000
#: Larger files only make the same damage rarer.
LARGEST_FILE = 400_000


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """Damage to `path` of the golden table `table`, done as `seed` says."""

    table: str
    path: str
    seed: int
    cut: bool = False
    whole: bool = False
    """Whether the whole table is read, rather than the one file."""

    def damage(self, data: bytes) -> bytes:
        """Return what becomes of the file's content."""
        seed = f"{self.path}/{self.seed}"
        return truncate(data, seed) if self.cut else mutate(data, seed)


@dataclass(slots=True)
class Report:
    """How the cases ended."""

    ends: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    peak_bytes: int = 0


@lru_cache(maxsize=256)
def files_of(table: str) -> dict[str, bytes]:
    """Return the small files of a golden table by their path."""
    with zipfile.ZipFile(harness.TABLES / f"{table}.zip") as packed:
        names = [n for n in packed.namelist() if not n.endswith("/") and "__MACOSX" not in n]
        marker = "/.hoodie/hoodie.properties"
        root = min((n for n in names if n.endswith(marker)), key=len).removesuffix(marker) + "/"
        return {
            name[len(root) :]: packed.read(name)
            for name in names
            if name.startswith(root) and packed.getinfo(name).file_size <= LARGEST_FILE
        }


def run(cases: Sequence[Case], attempt: Callable[[Case], str]) -> Report:
    """Try every case and report; a process that dies or hangs is a failure of its case.

    Each core takes a share; those of one table stay together, since it is unpacked for them.
    """
    cores = os.cpu_count() or 1
    each = -(-len(cases) // cores)
    shares = [cases[start : start + each] for start in range(0, len(cases), each)]
    total = Report()
    with ThreadPoolExecutor(cores) as pool:
        for report in pool.map(lambda share: _run_share(share, attempt), shares):
            total.ends += report.ends
            total.failures += report.failures
            total.peak_bytes = max(total.peak_bytes, report.peak_bytes)
    return total


def _run_share(cases: Sequence[Case], attempt: Callable[[Case], str]) -> Report:
    left = cases
    report = Report()
    while left:
        # The process may be killed, so what it unpacks is removed from here.
        with tempfile.TemporaryDirectory(prefix="tidelake-fuzz-") as scratch:
            left = left[_run_some(left, attempt, report, scratch) :]
    return report


def _run_some(
    cases: Sequence[Case], attempt: Callable[[Case], str], report: Report, scratch: str
) -> int:
    """Run cases in one process until it ends, and return how many are done with."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_work, args=(list(cases), attempt, scratch, theirs), daemon=True)
    process.start()
    theirs.close()
    done = 0
    try:
        while done < len(cases):
            # The first case also waits for the process to start.
            if not ours.poll(TIMEOUT_S * (3 if done == 0 else 1)):
                report.failures.append(f"{cases[done]}: still busy after {TIMEOUT_S} s")
                return done + 1
            end, problem, peak_bytes = ours.recv()
            report.ends[end] += 1
            report.peak_bytes = max(report.peak_bytes, peak_bytes)
            if problem:
                report.failures.append(f"{cases[done]}: {problem}")
            done += 1
    except EOFError:
        process.join(10)
        report.failures.append(f"{cases[done]}: the process died, exit code {process.exitcode}")
        return done + 1
    finally:
        ours.close()
        process.kill()
        process.join()
    return done


def _work(
    cases: Sequence[Case], attempt: Callable[[Case], str], scratch: str, answers: Connection
) -> None:
    tempfile.tempdir = scratch
    for case in cases:
        problem = ""
        try:
            end = attempt(case)
        except TidelakeError:
            end = "refused"
        except BaseException:  # noqa: BLE001 - anything else is what is looked for
            end = "failed"
            problem = traceback.format_exc()
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if peak_bytes > MEMORY_BYTES and not problem:
            problem = f"the process holds {peak_bytes:,} bytes"
        answers.send((end, problem, peak_bytes))


def attempt_file(case: Case) -> str:
    """Take the damaged file apart."""
    kind = codecs.kind_of(case.path)
    assert kind is not None
    try:
        codecs.CODECS[kind][1](case.path, case.damage(files_of(case.table)[case.path]))
    except Malformed:
        return "refused"  # whoever reads the file knows its path, and says so
    return "decoded"


def attempt_table(case: Case) -> str:
    """Ask the table everything with one file damaged, and compare with the sound table's answers.

    Damage that no checksum covers may change rows. A file cut short may not, logs apart: what a log
    loses at its end, a crash has lost. And all ways to list files and to merge must agree.
    """
    from tests.fuzz import tables  # only where a table is read: it loads much

    root, options, middle, sound_answers = sound_table(case.table)
    path = root / case.path
    sound = path.read_bytes()
    stat = path.stat()
    try:
        path.write_bytes(case.damage(sound))
        tables.keep_time(path, stat)
        answers = tables.ask_all(root, options, middle)
    finally:
        path.write_bytes(sound)
        tables.keep_time(path, stat)
    snapshots = [rows for name, rows in answers.items() if name.startswith("snapshot")]
    if any(rows != other for rows in snapshots for other in snapshots if None not in (rows, other)):
        raise AssertionError("two ways to read the snapshot give different rows")
    rows_of = {name: rows for name, rows in answers.items() if name != "check"}
    changed = [n for n, rows in rows_of.items() if rows is not None and rows != sound_answers[n]]
    kind = codecs.kind_of(case.path)
    if changed and case.cut and kind != "log":
        raise AssertionError(f"other rows of {changed} from a {kind} that was cut short")
    if changed:
        return "other rows"
    return "same rows" if rows_of == {n: sound_answers[n] for n in rows_of} else "refused"


@lru_cache(maxsize=64)
def sound_table(table: str) -> tuple[Path, Mapping[str, str], str | None, Mapping[str, Rows]]:
    """Return where a table lies, how to read it, a time in its past, and what it answers."""
    from tests.fuzz import own_tables, tables

    options: Mapping[str, str]
    folder = Path(tempfile.mkdtemp())
    if table in own_tables.OWN:
        root, options = own_tables.make(table, folder)
    else:
        golden = harness.load(table)
        root, options = harness.unpack(golden, folder), golden.options
    middle = tables.middle_time(root, options)
    return root, options, middle, tables.ask_all(root, options, middle)
