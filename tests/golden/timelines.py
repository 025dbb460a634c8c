"""The `.hoodie` folders of the golden tables, without unpacking them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tidelake.storage import MemoryStorage

HERE = Path(__file__).parent
#: Migrated from version 6 by Hudi 1.0.2, which keeps archived metadata as Avro without a container.
UPGRADED = "upgraded_history"


@cache
def meta_files(table: str) -> Mapping[str, bytes]:
    """Return path, relative to the table, and content of every file below `.hoodie`."""
    folder = HERE if table == UPGRADED else HERE / "tables"
    with zipfile.ZipFile(folder / f"{table}.zip") as archive:
        return {
            ".hoodie/" + name.partition(".hoodie/")[2]: archive.read(name)
            for name in archive.namelist()
            if ".hoodie/" in name and not name.endswith("/") and "__MACOSX" not in name
        }


def files_ending(table: str, suffix: str) -> list[bytes]:
    """Return the timeline files of a table, its metadata table left out, by the end of the name."""
    found = [
        data
        for path, data in sorted(meta_files(table).items())
        if path.endswith(suffix) and ".hoodie/metadata/" not in path
    ]
    assert found, f"{table} has no {suffix}"
    return found


def memory_table(table: str) -> MemoryStorage:
    """Return a storage that holds the `.hoodie` folder of a table and no data."""
    return MemoryStorage(meta_files(table))
