from __future__ import annotations

import pytest

from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.formats import hashing_metadata
from tidelake.formats.hashing_metadata import FOLDER, HashingMetadata, HashNode
from tidelake.storage import MemoryStorage
from tidelake.write.ring import file_ids, first_ring, load_ring, load_rings, put_ring, renewed


def never(_instant_time: str) -> bool:
    return False


# Rings that a JVM made.
FOUR = [
    (536870912, "b22bbe34-579e-3117-87c9-f67c49c679c2"),
    (1073741824, "3f3239f3-51f7-3571-ae1f-0dda925e171b"),
    (1610612736, "5ca7e228-d197-3fdc-ad89-1b11f864de32"),
    (2147483647, "d637d4b7-a20d-3776-a7df-2cd26b475e88"),
]
TWO = [
    (1073741824, "a9ce6eae-46a4-38bf-9258-2a07d0a9b6bb"),
    (2147483647, "7615f770-1c61-323c-bfc4-d5a37c3f2e39"),
]


@pytest.mark.parametrize(("partition", "nodes"), [("p=1", FOUR), ("", TWO)])
def test_the_first_ring_is_that_of_hudi(partition: str, nodes: list[tuple[int, str]]) -> None:
    ring = first_ring(partition, len(nodes))
    assert [(n.value, n.file_id_prefix) for n in ring.nodes] == nodes


def test_keys_go_to_the_next_node() -> None:
    # Hashes of these keys, masked: 921487538, 852579327, 1219371197.
    found = file_ids(first_ring("p=1", 4), ["1", "abc", "日本語"], ["id"])
    assert found == [f"{FOUR[1][1]}-0", f"{FOUR[1][1]}-0", f"{FOUR[2][1]}-0"]


def test_a_hash_beyond_the_last_node_wraps() -> None:
    ring = HashingMetadata(
        version=0,
        partition_path="",
        instant="0",
        num_buckets=1,
        seq_no=0,
        nodes=(HashNode(value=10, file_id_prefix="a"),),
    )
    assert file_ids(ring, ["1"], ["id"]) == ["a-0"]


def test_a_new_partition_gets_the_ring_that_others_began_with() -> None:
    storage = MemoryStorage()
    load_ring(storage, "p=1", [], 3, is_archived=never)
    rings = load_rings(storage, ["p=1", "p=2"], [], 0, is_archived=never)
    assert [len(r.nodes) for r in rings.values()] == [3, 3]
    assert storage.list(f"{FOLDER}/p=2").files[0].name == "00000000000000.hashing_meta"


def test_nothing_says_how_many_buckets() -> None:
    with pytest.raises(ConfigError, match="how many buckets"):
        load_rings(MemoryStorage(), ["p=1"], [], 0, is_archived=never)


def test_only_a_committed_resize_counts() -> None:
    storage = MemoryStorage()
    load_ring(storage, "p", [], 1, is_archived=never)
    resized = HashingMetadata(
        version=0,
        partition_path="p",
        instant="20260101000000000",
        num_buckets=1,
        seq_no=1,
        nodes=(
            HashNode(value=5, file_id_prefix="a", tag="NORMAL"),
            HashNode(value=2147483647, file_id_prefix="b", tag="NORMAL"),
        ),
    )
    path = f"{FOLDER}/p/20260101000000000.hashing_meta"
    storage.put(path, hashing_metadata.encode(resized))
    assert len(load_ring(storage, "p", [], 1, is_archived=never).nodes) == 1
    assert len(load_ring(storage, "p", ["20260101000000000"], 1, is_archived=never).nodes) == 2
    assert storage.stat(f"{FOLDER}/p/20260101000000000.commit") is not None
    assert len(load_ring(storage, "p", [], 1, is_archived=never).nodes) == 2


def test_a_resize_under_way_is_refused() -> None:
    storage = MemoryStorage()
    node = HashNode(value=2147483647, file_id_prefix="a", tag="REPLACE")
    ring = HashingMetadata(
        version=0, partition_path="p", instant="0", num_buckets=1, seq_no=0, nodes=(node,)
    )
    storage.put(f"{FOLDER}/p/00000000000000.hashing_meta", hashing_metadata.encode(ring))
    with pytest.raises(UnsupportedTableError, match="being resized"):
        load_ring(storage, "p", [], 1, is_archived=never)


class Numbers:
    def __init__(self) -> None:
        self.given = 0

    def new(self) -> str:
        self.given += 1
        return f"new-{self.given}"


def test_a_renewed_ring_has_the_same_buckets_in_other_files() -> None:
    first = first_ring("p", 3)
    ring = renewed(first, Numbers())
    assert [n.value for n in ring.nodes] == [n.value for n in first.nodes]
    assert [n.file_id_prefix for n in ring.nodes] == ["new-1", "new-2", "new-3"]
    assert (ring.seq_no, ring.num_buckets) == (1, 3)


def test_the_ring_of_an_archived_instant_counts_when_it_has_files() -> None:
    storage = MemoryStorage()
    first = load_ring(storage, "p", [], 2, is_archived=never)
    put_ring(storage, renewed(first, Numbers()), "20260101000000000")

    def ring_now() -> list[str]:
        found = load_ring(storage, "p", [], 2, is_archived=lambda _: True)
        return [node.file_id_prefix for node in found.nodes]

    # Whoever archives past a failed overwrite has deleted its files.
    assert ring_now() == [node.file_id_prefix for node in first.nodes]
    storage.put("p/.new-2-0_20260101000000000.log.1_0-1-2", b"")
    assert ring_now() == ["new-1", "new-2"]
