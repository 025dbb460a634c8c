"""What a process leaves in a lock, so that a person and other processes know it again.

`host:pid:machine-start`, where `machine` stands for one boot of one machine, as far as processes
see each other there, and `start` for when the process began. Whoever finds such a name of its own
machine can tell for sure that the process is gone; of others nobody can tell.
"""

from __future__ import annotations

import os
import re
import socket
from functools import cache
from hashlib import sha256
from pathlib import Path

_PROC = Path("/proc")
_NAME = re.compile(r"(?P<shown>[^:]+:(?P<pid>[0-9]{1,9})):(?P<machine>[0-9a-f]+)-(?P<start>[0-9]+)")
_GONE_STATES = ("Z", "X")
_STATE, _START = 0, 19
"""Places in `/proc/PID/stat`, counted from behind the program's name."""


class ThisProcess:
    """The process that made this object; a forked child, which inherits it, is another one."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Return whether this runs in a child that was forked since."""
        return os.getpid() != self._pid

    @property
    def pid(self) -> int:
        """Return the number of the process that made this object."""
        return self._pid


def process_name() -> str:
    """Return what tells a person which process holds a lock."""
    return f"{socket.gethostname()}:{os.getpid()}"


def process_mark() -> str:
    """Return the name of this process by which others can tell whether it is gone."""
    return _mark_of(process_name(), os.getpid())


def shown_name(mark: str) -> str:
    """Return the part of a mark that a person reads; a text that is no mark stays as it is."""
    found = _NAME.match(mark)
    return found["shown"] if found else mark


def is_gone(mark: str) -> bool:
    """Return whether it is sure that the process which left this mark has ended."""
    found = _NAME.match(mark)
    if found is None or found["machine"] != _machine() or found[0] == process_mark():
        return False
    facts = _facts(int(found["pid"]))
    if facts is None:
        return not _exists(int(found["pid"]))
    return facts[_STATE] in _GONE_STATES or facts[_START] != found["start"]


def runs_beside(mark: str) -> bool:
    """Return whether the process which left this mark is sure to run here, and is another one."""
    found = _NAME.match(mark)
    if found is None or found["machine"] != _machine():
        return False
    return int(found["pid"]) != os.getpid() and not is_gone(mark)


@cache
def _mark_of(name: str, pid: int) -> str:
    machine, facts = _machine(), _facts(pid)
    return name if machine is None or facts is None else f"{name}:{machine}-{facts[_START]}"


@cache
def _machine() -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        processes = os.readlink(_PROC / "self/ns/pid")  # noqa: PTH115 - it names no path
    except OSError:
        return None
    return sha256(f"{boot} {processes}".encode()).hexdigest()[:8]


def _facts(pid: int) -> list[str] | None:
    """Return what the system says of a process, or None when it says nothing."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _exists(pid: int) -> bool:
    """Return whether there is such a process; `/proc` may hide those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
