from __future__ import annotations

import pytest

from tests.golden.timelines import files_ending
from tidelake.errors import Malformed
from tidelake.formats import hashing_metadata


def test_files_of_hudi_come_back_byte_for_byte() -> None:
    for table in ("v6_mor_consistent", "v9_mor_consistent_hashing_resized"):
        for raw in files_ending(table, ".hashing_meta"):
            assert hashing_metadata.encode(hashing_metadata.decode(raw)) == raw


def test_a_resized_ring_has_more_nodes_than_it_says() -> None:
    raw = files_ending("v9_mor_consistent_hashing_resized", "apac/20261115081659358.hashing_meta")[
        0
    ]
    ring = hashing_metadata.decode(raw)
    assert (ring.num_buckets, len(ring.nodes), ring.seq_no) == (2, 4, 1)
    assert ring.nodes[-1].value == 0x7FFFFFFF


def test_the_short_key_of_early_releases_is_read() -> None:
    raw = files_ending("v6_mor_consistent", ".hashing_meta")[0]
    early = raw.replace(b"fileIdPrefix", b"fileIdPfx")
    assert early != raw
    assert hashing_metadata.decode(early) == hashing_metadata.decode(raw)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"nodes": [3]}', b'{"nodes": []}'])
def test_damage_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        hashing_metadata.decode(data)
