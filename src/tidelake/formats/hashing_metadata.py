"""Ring of a partition in the consistent hashing bucket index: `*.hashing_meta` files."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.errors import Malformed
from tidelake.formats import jackson
from tidelake.formats._wire_record import from_wire, to_wire

#: Folder of the files, one folder for each partition inside it.
FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
SUFFIX = ".hashing_meta"
#: Instant of the ring that exists before any resize.
FIRST_INSTANT = "00000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class HashNode:
    """A bucket, which holds the hashes up to `value` and above the value of the node before it."""

    value: int
    file_id_prefix: str
    tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HashingMetadata:
    """The buckets of one partition, ordered by value.

    Count the nodes: `num_buckets` keeps its first value through resizes.
    """

    version: int
    partition_path: str
    instant: str
    num_buckets: int
    seq_no: int
    nodes: tuple[HashNode, ...]


def decode(data: bytes) -> HashingMetadata:
    """Return the content of a hashing metadata file."""
    raw = jackson.decode(data)
    nodes = raw.get("nodes")
    if isinstance(nodes, list):
        # Early releases spelled the key of the prefix shorter.
        raw["nodes"] = [
            {**node, "fileIdPrefix": node.get("fileIdPrefix", node.get("fileIdPfx"))}
            if isinstance(node, dict)
            else node
            for node in nodes
        ]
    ring = from_wire(HashingMetadata, raw)
    if not ring.nodes:
        raise Malformed("the ring has no nodes")
    return ring


def encode(metadata: HashingMetadata) -> bytes:
    """Return the file as Hudi lays it out."""
    return jackson.encode(to_wire(metadata))
