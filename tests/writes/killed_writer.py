"""A writer in a process of its own that is killed before a chosen change to the file system.

Python tells audit hooks of every file it is about to create, link or delete, so that no code has to
know of the kill. What libraries in C do in between is seen by the file being there or not.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.writes.cases import Case
from tests.writes.model import Step
from tests.writes.quick_writer import QuickWriter

_CHANGES = frozenset({"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"})
_context = multiprocessing.get_context("forkserver")
# pyarrow imports pandas when it first meets a Python value, which takes longer than the write.
_context.set_forkserver_preload([__name__, "pandas"])


def points(root: Path, case: Case, step: Step) -> list[str]:
    """Do the step without a kill; return what the writer changed, in order."""
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(target=_write, args=(root, case, step, None, theirs))
    process.start()
    theirs.close()
    seen: list[str] = ours.recv()
    process.join()
    if process.exitcode:
        raise AssertionError(f"the writer ended with {process.exitcode}")
    return seen


def kill(root: Path, case: Case, step: Step, point: int) -> bool:
    """Do the step, and kill the writer before its change number `point`, counted from 0.

    Return whether it came to that: threads that make the same folder may save each other a change.
    """
    process = _context.Process(target=_write, args=(root, case, step, point, None))
    process.start()
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise AssertionError(f"the writer ended with {process.exitcode} before change {point}")
    return process.exitcode != 0


def _write(
    root: Path, case: Case, step: Step, point: int | None, result: Connection | None
) -> None:
    seen: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        path = _changed(event, arguments, str(root))
        if path is not None:
            if len(seen) == point:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append(f"{event} {path}")

    sys.addaudithook(hook)
    QuickWriter().write(root, case, step)
    if result is not None:
        result.send(list(seen))


def _changed(event: str, arguments: tuple[Any, ...], root: str) -> str | None:
    """Return the path of what is about to change below `root`, if anything is."""
    if event in _CHANGES:
        path = os.fsdecode(arguments[1 if event in ("os.link", "os.rename") else 0])
        if event == "os.mkdir" and Path(path).exists():
            return None
        # Removing a tree goes by names relative to an open folder.
        return path if path.startswith(root) or "/" not in path else None
    if event != "open" or not isinstance(arguments[0], (str, bytes)):
        return None
    path = os.fsdecode(arguments[0])
    # A data file is opened once more, to be made durable, when it is whole.
    is_data = path.endswith(".parquet") or ".log." in path
    # A file without a name is no change until it is linked.
    is_nameless = arguments[2] & os.O_TMPFILE == os.O_TMPFILE
    is_written = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) and not is_nameless
    return path if path.startswith(root) and (is_data or is_written) else None
