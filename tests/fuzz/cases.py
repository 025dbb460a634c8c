"""Cases of damage, and what becomes of them; run in a process of their own.

A case is a table, one of its files and a seed. A damaged file may take the process down, keep it
busy for ever or fill its memory, so `run` watches it from outside.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz import codecs
from tests.fuzz.mutations import mutate, truncate
from tests.golden import harness
from tidelake.errors import Malformed, TidelakeError

#: A case that takes longer hangs; sound files take a hundredth of it.
TIMEOUT_S = 30
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


def run(cases: Iterable[Case], attempt: Callable[[Case], str]) -> Report:
    """Try every case and report; a process that dies or hangs is a failure of its case."""
    left = list(cases)
    report = Report()
    while left:
        left = left[_run_some(left, attempt, report) :]
    return report


def _run_some(cases: Sequence[Case], attempt: Callable[[Case], str], report: Report) -> int:
    """Run cases in one process until it ends, and return how many are done with."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_work, args=(list(cases), attempt, theirs), daemon=True)
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


def _work(cases: Sequence[Case], attempt: Callable[[Case], str], answers: Connection) -> None:
    for case in cases:
        problem = ""
        try:
            end = attempt(case)
        except (Malformed, TidelakeError):
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
    codecs.CODECS[kind][1](case.path, case.damage(files_of(case.table)[case.path]))
    return "decoded"


def attempt_table(case: Case) -> str:
    """Read the table with one file damaged, and compare the rows with those of the sound table."""
    from tests.fuzz import tables  # only where a table is read: it loads much

    root = _unpacked(case.table)
    path = root / case.path
    sound = path.read_bytes()
    stat = path.stat()
    expected = _sound_rows(case.table)
    try:
        path.write_bytes(case.damage(sound))
        tables.keep_time(path, stat)
        found = tables.read_all(root, harness.load(case.table).options)
    finally:
        path.write_bytes(sound)
        tables.keep_time(path, stat)
    if found == expected:
        return "same rows"
    kind = codecs.kind_of(case.path)
    # A log may end anywhere after a crash; what it loses then was never committed.
    if case.cut and kind != "log":
        raise AssertionError(f"other rows from a {kind} that was cut short")
    return "other rows"


@lru_cache(maxsize=64)
def _unpacked(table: str) -> Path:
    return harness.unpack(harness.load(table), Path(tempfile.mkdtemp(prefix="tidelake-fuzz-")))


@lru_cache(maxsize=64)
def _sound_rows(table: str) -> object:
    from tests.fuzz import tables

    return tables.read_all(_unpacked(table), harness.load(table).options)
