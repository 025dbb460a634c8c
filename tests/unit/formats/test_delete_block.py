"""Delete blocks: every type of ordering value, and the versions that are refused."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest

from tidelake.errors import Malformed
from tidelake.formats import delete_block
from tidelake.formats.delete_block import DeleteRecords, OrderingKind

K1 = "0202046b310206703d31"  # one record with key k1 and partition p=1, up to its ordering value


def block(datum: str, version: int = 3) -> bytes:
    body = bytes.fromhex(datum)
    return struct.pack(">ii", version, len(body)) + body


def one(kind: OrderingKind, value: object) -> DeleteRecords:
    return DeleteRecords(keys=["k1"], partitions=["p=1"], ordering=[value], kinds=[kind])


#: The ordering value, and the Avro datum that Hudi writes for it.
WRITTEN: list[tuple[OrderingKind, object, str]] = [
    (OrderingKind.NULL, None, K1 + "0000"),
    (OrderingKind.INT, 0, K1 + "040000"),
    (OrderingKind.LONG, 7, K1 + "060e00"),
    (OrderingKind.STRING, "z", K1 + "0e027a00"),
    (
        OrderingKind.ARRAY,
        ((OrderingKind.INT, 1), (OrderingKind.STRING, "a")),
        K1 + "18020404020e02610000",
    ),
]


@pytest.mark.parametrize(("kind", "value", "datum"), WRITTEN)
def test_ordering_values_are_read_and_written_as_hudi_does(
    kind: OrderingKind, value: object, datum: str
) -> None:
    assert delete_block.decode(block(datum)) == one(kind, value)
    assert delete_block.encode(one(kind, value)) == block(datum)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (OrderingKind.BOOLEAN, True),
        (OrderingKind.FLOAT, 0.5),
        (OrderingKind.DOUBLE, -2.25),
        (OrderingKind.BYTES, b"\x00\xff"),
        (OrderingKind.DATE, 20_000),
        (OrderingKind.DECIMAL, Decimal("12.345000000000000")),
        (OrderingKind.DECIMAL, Decimal("-0.000000000000001")),
        (OrderingKind.DECIMAL, Decimal("-128.000000000000000")),
        (OrderingKind.TIME_MICROS, 1),
        (OrderingKind.TIMESTAMP_MICROS, -1),
        (OrderingKind.ARRAY, ((OrderingKind.NULL, None), (OrderingKind.DATE, 3))),
    ],
)
def test_every_kind_of_ordering_value_survives_a_round_trip(
    kind: OrderingKind, value: object
) -> None:
    assert delete_block.decode(delete_block.encode(one(kind, value))) == one(kind, value)


def test_a_long_zero_is_not_the_int_zero_that_stands_for_none() -> None:
    assert delete_block.decode(block(K1 + "060000")).kinds == [OrderingKind.LONG]


def test_a_local_date_in_an_array_is_a_date() -> None:
    found = delete_block.decode(block(K1 + "1802021806" + "0000"))
    assert found.ordering == [((OrderingKind.DATE, 3),)]


def test_marker_of_an_empty_file_group_deletes_nothing() -> None:
    assert len(delete_block.decode(block("00"))) == 0


@pytest.mark.parametrize("version", [1, 2])
def test_kryo_blocks_are_refused_with_a_way_out(version: int) -> None:
    with pytest.raises(Malformed, match=r"Kryo.*compact the table"):
        delete_block.decode(block("00", version))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00\x00\x03",
        block("00", version=4),
        struct.pack(">ii", 3, 1000) + b"\x00",
        struct.pack(">ii", 3, -1),
        block(K1 + "04"),
        block(K1 + "1a0000"),
        block("0200" + "00" + "0000"),
        block(K1 + "0400" + "00ff"),
        block("feffffffffffffffff01" + "02"),
        block("02" + "02feffffffffff01" + "6b"),
    ],
)
def test_damaged_content_is_malformed(content: bytes) -> None:
    with pytest.raises(Malformed):
        delete_block.decode(content)
