"""Odd partition values: refused before a file exists, or found again by every reader."""

from __future__ import annotations

import posixpath
import random  # noqa: TID251 - seeded, and never the clock
from types import SimpleNamespace
from typing import cast
from urllib.parse import unquote

import pyarrow as pa
from typing_extensions import override

from tests.unit.write.tables import options, table
from tidelake.errors import SchemaError
from tidelake.files.new_file import make_partition
from tidelake.files.write_task import GroupTarget, WriteSpec
from tidelake.records import path_values
from tidelake.storage import FileInfo, Folder, MemoryStorage
from tidelake.view import StorageListing
from tidelake.write.arrow_keys import partition_paths
from tidelake.write.key_spec import key_spec

_PIECES = [
    "a", "b", "B", "0", "x" * 200, "é" * 130, "/", "//", ".", "..", "./", "/.", ".hoodie", "_",
    ".hoodie/timeline", "=", "p=", "/q=", "%", "%2F", "%00", "\\", "\n", "\0", "\x7f", " ", ":",
    "default", "__HIVE_DEFAULT_PARTITION__", "__null__", "'", "{", "2024/01/02",
]  # fmt: skip
_FIELDS = ("p", "q", "r")


class _FileSystem(MemoryStorage):
    """Takes paths as file systems do: `a//b`, `a/./b` and `a/b/` are all `a/b`."""

    @override
    def put_if_absent(self, path: str, data: bytes) -> bool:
        return super().put_if_absent(_normal(path), data)

    @override
    def stat(self, path: str) -> FileInfo | None:
        return super().stat(_normal(path))

    @override
    def list(self, path: str) -> Folder:
        return super().list(_normal(path))


def _normal(path: str) -> str:
    if any(len(name.encode()) > 255 for name in path.split("/")) or "\0" in path:
        raise OSError(path)
    made = posixpath.normpath(f"/table/{path}")
    if made == "/table":
        return ""
    return made.removeprefix("/table/") if made.startswith("/table/") else f"OUTSIDE{made}"


def wrong(seed: int) -> list[str]:
    """Return what is wrong with the partitions that one random write makes."""
    chance = random.Random(seed)
    fields = _FIELDS[: chance.choice([1, 1, 2, 3])]
    config = table(
        partition_fields=fields,
        hive_style_partitioning=chance.random() < 0.5,
        url_encode_partitioning=chance.random() < 0.3,
    )
    storage = _FileSystem()
    storage.put_if_absent(".hoodie/hoodie.properties", b"")
    storage.put_if_absent(".hoodie/timeline/1.commit", b"")
    written: dict[str, dict[str, str | None]] = {}
    for _ in range(chance.randint(1, 3)):
        values: dict[str, str | None] = {name: _value(chance) for name in fields}
        rows = pa.table({name: pa.array([value], pa.string()) for name, value in values.items()})
        spec = key_spec(config, options(), named_single=None)
        before = set(storage.files_below(""))
        try:
            path = partition_paths(spec, rows)[0].as_py()
            target = cast(GroupTarget, SimpleNamespace(partition=path, partition_known=False))
            make_partition(
                storage, target, cast(WriteSpec, SimpleNamespace(instant_time="20260101000000000"))
            )
        except SchemaError:
            if set(storage.files_below("")) != before:
                return [f"{values} was refused after a file was there"]
            continue
        except OSError:
            return [f"{values} is no path of a file system"]
        written[path] = {name: value or None for name, value in values.items()}
    found = set(StorageListing(storage).partitions())
    problems = [f"{path!r} is not among {found}" for path in written if path not in found]
    for path, values in written.items():
        read = path_values(config, path)
        if read and not _is_default(read) and read != values:
            problems.append(f"{path!r} reads {read} instead of {values}")
        if None not in values.values() and None in read.values() and not _is_default(read, values):
            problems.append(f"{path!r} reads a null instead of {values}")
        if not config.url_encode_partitioning and unquote(path) != path:
            problems.append(f"{path!r} is {unquote(path)!r} for readers that always decode")
    return problems


def _is_default(read: dict[str, str | None], values: dict[str, str | None] | None = None) -> bool:
    """Return whether a null may be the value `default`, which nothing prunes by."""
    return None in read.values() and (values is None or "default" in values.values())


def _value(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return chance.choice(["oslo", "oslo/2024", "a b", "bergen"])
    return "".join(chance.choice(_PIECES) for _ in range(chance.randint(0, 3)))
