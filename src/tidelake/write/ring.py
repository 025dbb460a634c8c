"""The consistent hashing bucket index: rings of partitions, and where keys lie on them."""

from __future__ import annotations

import hashlib
import struct
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import xxhash

from tidelake.env import Ids
from tidelake.errors import ConfigError, UnsupportedTableError, reading
from tidelake.formats import hashing_metadata
from tidelake.formats.hashing_metadata import (
    FIRST_INSTANT,
    FOLDER,
    SUFFIX,
    HashingMetadata,
    HashNode,
)
from tidelake.records.keys import split_record_key
from tidelake.storage import Storage

#: The ring of each partition.
Rings = Mapping[str, HashingMetadata]

_MAX_HASH = 0x7FFFFFFF
_NORMAL = "NORMAL"
_COMMITTED = ".commit"


def first_ring(partition: str, buckets: int) -> HashingMetadata:
    """Return the ring with which a partition begins; every writer makes the same one."""
    step = -(-_MAX_HASH // buckets)
    ends = [min(step * (at + 1), _MAX_HASH) for at in range(buckets)]
    starts = [0, *ends[:-1]]
    return HashingMetadata(
        version=0,
        partition_path=partition,
        instant=FIRST_INSTANT,
        num_buckets=buckets,
        seq_no=0,
        nodes=tuple(
            HashNode(value=end, file_id_prefix=_name_id(start, end, partition), tag=_NORMAL)
            for start, end in zip(starts, ends, strict=True)
        ),
    )


def _name_id(start: int, end: int, partition: str) -> str:
    # Java's UUID.nameUUIDFromBytes has no name space, unlike Python's uuid3.
    name = struct.pack(">qq", start, end) + partition.encode()
    digest = bytearray(hashlib.md5(name, usedforsecurity=False).digest())
    return str(uuid.UUID(bytes=bytes(digest), version=3))


def renewed(ring: HashingMetadata, ids: Ids) -> HashingMetadata:
    """Return the ring with new file groups, for a write that replaces those of the partition.

    Nobody reads what is written to a file group after it was replaced.
    """
    nodes = tuple(replace(node, file_id_prefix=ids.new()) for node in ring.nodes)
    return replace(ring, seq_no=ring.seq_no + 1, nodes=nodes)


def put_ring(storage: Storage, ring: HashingMetadata, instant_time: str) -> None:
    """Write the ring that counts once the instant is completed."""
    content = hashing_metadata.encode(replace(ring, instant=instant_time))
    storage.put_if_absent(f"{_folder(ring.partition_path)}/{instant_time}{SUFFIX}", content)


def confirm_ring(storage: Storage, partition: str, instant_time: str) -> None:
    """Note that the ring counts, for the time when the timeline no longer tells."""
    storage.put_if_absent(f"{_folder(partition)}/{instant_time}{_COMMITTED}", b"")


def load_rings(
    storage: Storage,
    partitions: Sequence[str],
    completed: Sequence[str],
    buckets: int,
    *,
    is_archived: Callable[[str], bool],
) -> dict[str, HashingMetadata]:
    """Return the ring of each partition.

    A partition that has none gets the first one, of `buckets` buckets or, when that is 0, of as
    many as others of the table began with.
    """
    first = f"/{FIRST_INSTANT}{SUFFIX}"
    if not buckets:
        path = next((p for p in storage.files_below(FOLDER) if p.endswith(first)), None)
        if path is not None:
            with reading(path):
                buckets = hashing_metadata.decode(storage.read(path)).num_buckets
    return {
        p: load_ring(storage, p, completed, buckets, is_archived=is_archived) for p in partitions
    }


def load_ring(
    storage: Storage,
    partition: str,
    completed: Iterable[str],
    default_buckets: int,
    *,
    is_archived: Callable[[str], bool],
) -> HashingMetadata:
    """Return the ring of a partition, making the first one for a partition that has none.

    A ring counts when it was confirmed, or its instant is completed; of archived instants, which
    may have been rolled back as well, when there are files of it.
    Raises `UnsupportedTableError` when a resize is under way.
    """
    folder = _folder(partition)
    names = {f.name for f in storage.list(folder).files}
    rings = sorted(n.removesuffix(SUFFIX) for n in names if n.endswith(SUFFIX))
    if not rings:
        if not default_buckets:
            raise ConfigError(
                f"partition {partition!r} is new, and nothing says how many buckets it begins with",
                next_step="set hoodie.bucket.index.num.buckets",
            )
        made = first_ring(partition, default_buckets)
        storage.put_if_absent(f"{folder}/{FIRST_INSTANT}{SUFFIX}", hashing_metadata.encode(made))
        return made
    done = set(completed)
    committed = [
        i
        for i in rings
        if i == FIRST_INSTANT
        or f"{i}{_COMMITTED}" in names
        or i in done
        or (is_archived(i) and _has_files(storage, _read(storage, folder, i)))
    ]
    newest = (committed or rings[:1])[-1]
    if newest in committed and newest != FIRST_INSTANT and f"{newest}{_COMMITTED}" not in names:
        confirm_ring(storage, partition, newest)
    ring = _read(storage, folder, newest)
    if any(node.tag not in (None, _NORMAL) for node in ring.nodes):
        raise UnsupportedTableError(
            f"the buckets of partition {partition or 'of the table'} are being resized",
            next_step="let the clustering that resizes them finish, and write again",
        )
    return ring


def _folder(partition: str) -> str:
    return f"{FOLDER}/{partition}" if partition else FOLDER


def _read(storage: Storage, folder: str, instant_time: str) -> HashingMetadata:
    path = f"{folder}/{instant_time}{SUFFIX}"
    with reading(path):
        return hashing_metadata.decode(storage.read(path))


def _has_files(storage: Storage, ring: HashingMetadata) -> bool:
    prefixes = tuple(node.file_id_prefix for node in ring.nodes)
    names = (f.name.removeprefix(".") for f in storage.list(ring.partition_path).files)
    return any(name.startswith(prefixes) for name in names)


def ring_files(ring: HashingMetadata) -> list[str]:
    """Return the file id of each bucket."""
    return [f"{node.file_id_prefix}-0" for node in ring.nodes]


def file_ids(ring: HashingMetadata, keys: Iterable[str], hash_fields: Sequence[str]) -> list[str]:
    """Return the file group that each key belongs to."""
    nodes = sorted(ring.nodes, key=lambda node: node.value)
    values = [node.value for node in nodes]
    found = []
    for key in keys:
        text = "".join(part or "" for part in split_record_key(key, hash_fields))
        at = bisect_left(values, xxhash.xxh32_intdigest(text.encode()) & _MAX_HASH)
        found.append(f"{nodes[at % len(nodes)].file_id_prefix}-0")
    return found
