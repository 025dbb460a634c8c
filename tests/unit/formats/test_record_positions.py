"""Record positions: Roaring bitmaps in a block header."""

from __future__ import annotations

import base64
from random import Random  # noqa: TID251 - every use is seeded

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.errors import Malformed
from tidelake.formats import record_positions

VECTORS = {
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA": [0],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAIABwA=": [2, 7],
    "AQAAAAAAAAAAAAAAOzAAAAEAAAkAAQAAAAkA": list(range(10)),
}


@pytest.mark.parametrize(("text", "positions"), VECTORS.items())
def test_texts_of_hudi_are_read_and_written(text: str, positions: list[int]) -> None:
    assert record_positions.decode(text, at_most=10).tolist() == positions
    assert record_positions.encode(positions) == text


@given(st.sets(st.integers(0, 2**34)))
def test_any_set_of_rows_survives_a_round_trip(positions: set[int]) -> None:
    text = record_positions.encode(positions)
    assert record_positions.decode(text, at_most=len(positions)).tolist() == sorted(positions)


@pytest.mark.parametrize(
    "positions",
    [
        range(0, 300_000, 3),
        range(70_000),
        [*range(10), *range(100_000, 100_010), *range(200_000, 200_010), *range(300_000, 300_010)],
        [*range(0, 65_536, 5), *range(65_536, 65_600), 2**33, 2**33 + 1],
    ],
    ids=["bitmaps", "runs", "many runs", "mixed"],
)
def test_every_kind_of_container_is_read(positions: range | list[int]) -> None:
    text = record_positions.encode(positions)
    assert record_positions.decode(text, at_most=len(positions)).tolist() == list(positions)


def test_more_positions_than_records_are_refused_before_they_are_unfolded() -> None:
    with pytest.raises(Malformed, match="65536 record positions for at most 3 records"):
        record_positions.decode(record_positions.encode(range(65_536)), at_most=3)


@pytest.mark.parametrize("text", ["", "AA==", "not base64!", "/////////38AAAAA"])
def test_damaged_text_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        record_positions.decode(text, at_most=10)


@pytest.mark.parametrize("seed", range(300))
def test_mutated_bitmaps_give_sorted_rows_or_malformed(seed: int) -> None:
    chance = Random(seed)
    source = [*range(0, 9_000, 2), *range(70_000, 70_100), 2**33]
    data = bytearray(base64.b64decode(record_positions.encode(source)))
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    del data[chance.randint(1, len(data)) :]
    try:
        rows = record_positions.decode(base64.b64encode(data).decode(), at_most=5_000)
    except Malformed:
        return
    assert len(rows) <= 5_000
    assert rows.tolist() == sorted(set(rows.tolist()))
