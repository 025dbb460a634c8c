"""Whether a folder can be reached from other machines."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

#: File systems on a disk or in the memory of one machine.
_LOCAL = frozenset(
    {"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
)
_MOUNTS = "/proc/self/mountinfo"


@lru_cache(maxsize=64)
def is_of_this_machine(folder: str, mounts: str = _MOUNTS) -> bool:
    """Return whether nobody but this machine reaches a folder; False where that cannot be told.

    All who write there then have one clock.
    """
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    wanted = Path(os.path.realpath(folder))
    found, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point, described = before.split(" ")[4:5], after.split(" ")
        place = _unescaped(point[0]) if point else ""
        # Of two mounts on one place the later one is seen.
        if place and len(place) >= len(found) and wanted.is_relative_to(place):
            found, kind = place, described[0]
    return kind in _LOCAL


def _unescaped(place: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place)
