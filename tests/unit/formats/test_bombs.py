"""Small files that would take all memory or all time."""

from __future__ import annotations

import io
import json
import time
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelake.errors import Malformed
from tidelake.formats import avro_file, hfile, log_block, lsm_history
from tidelake.formats._inflation import most_inflated


def container(schema: object, payload: bytes, codec: bytes | None = None) -> bytes:
    """Return an Avro file with one record, which `payload` claims to be."""
    entries = {b"avro.schema": json.dumps(schema).encode()}
    if codec is not None:
        entries[b"avro.codec"] = codec
    sync = b"s" * 16
    return b"".join(
        (
            avro_file.MAGIC,
            avro_file._long(len(entries)),
            *(avro_file._long(len(x)) + x for pair in entries.items() for x in pair),
            avro_file._long(0),
            sync,
            avro_file._long(1),
            avro_file._long(len(payload)),
            payload,
            sync,
        )
    )


def record(name: str, *types: object) -> dict[str, object]:
    fields = [{"name": f"f{i}", "type": kind} for i, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    "schema",
    [
        record("R", array("null")),
        record("R", array(record("E", "null", "null"))),
        record("R", record("E", "null"), array("E")),
        record("R", array(record("E", record("F", record("G"))))),
        record("R", array({"type": "fixed", "name": "F", "size": 0})),
    ],
)
def test_an_array_of_values_without_bytes_is_refused(schema: object) -> None:
    count = avro_file._long(2**40)
    with pytest.raises(Malformed, match="array of nothing"):
        avro_file.decode(container(schema, count + b"\0"))


def test_records_that_double_are_refused() -> None:
    inner: object = "null"
    for depth in range(40):
        inner = record(f"R{depth}", inner, f"R{depth - 1}" if depth else "null")
    began = time.monotonic()
    with pytest.raises(Malformed, match="empty values"):
        avro_file.decode(container(inner, b""))
    assert time.monotonic() - began < 10


def test_a_record_inside_itself_is_refused() -> None:
    with pytest.raises(Malformed, match="inside itself"):
        avro_file.decode(container(record("R", ["null", record("S", ["null", "R"])]), b"\2\2"))


def test_arrays_of_arrays_and_optional_fields_decode() -> None:
    schema = record("R", array(array("int")), array(["null", "int"]), array(record("E", "int")))
    assert avro_file.decode(container(schema, bytes([0, 2, 0, 0, 2, 2, 0])))[1] == {
        "f0": [],
        "f1": [None],
        "f2": [{"f0": 1}],
    }


def test_what_inflates_to_more_than_memory_is_refused() -> None:
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    zeros = bytes(1 << 20)
    body = b"".join(packer.compress(zeros) for _ in range(200)) + packer.flush()
    assert most_inflated(len(body)) < 80 << 20
    with pytest.raises(Malformed, match="inflates to more"):
        avro_file.decode(container(record("R", "int"), body, b"deflate"))
    with pytest.raises(Malformed, match="unfold"):
        hfile._gunzip(memoryview(body), 200 << 20)


@pytest.mark.parametrize("tail", [b"", b"\0" * 8])
def test_no_log_has_a_million_blocks(tail: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_block, "_MOST_BLOCKS", 1000)
    with pytest.raises(Malformed, match="more than 1000 blocks"):
        log_block.decode_blocks((log_block.MAGIC + tail) * 2000)


def history(rows: int, **columns: bytes | str | int) -> io.BytesIO:
    """Return a history file of so many rows that all have the same values."""
    values = {"instantTime": "1", "completionTime": "2", "action": "commit", "version": 1}
    zeros = pa.array([0] * rows, pa.int32())
    table = {
        name: pa.DictionaryArray.from_arrays(zeros, pa.array([value]))
        for name, value in {**values, "metadata": b"", "plan": b"", **columns}.items()
    }
    sink = io.BytesIO()
    limit = 1 << 30
    pq.write_table(pa.table(table), sink, compression="zstd", dictionary_pagesize_limit=limit)
    return sink


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["metadata", "instantTime"])
def test_one_value_for_many_rows_of_a_history_is_held_once(name: str) -> None:
    length = 4 << 20
    value = bytes(length) if name == "metadata" else "1" * length
    source = history(2_000, **{name: value})
    assert len(source.getvalue()) < 1 << 20
    found = lsm_history.decode_instants(source, with_contents=True)
    contents = {id(i.metadata if name == "metadata" else i.requested_time) for i in found}
    assert (len(found), len(contents)) == (2_000, 1)
    assert len(lsm_history.decode_times(source)) == 1
    assert lsm_history.instants_holding(source, "nowhere") == []


def test_a_history_that_unfolds_to_more_than_memory_is_refused() -> None:
    with pytest.raises(Malformed, match="unfolds to"):
        lsm_history.decode_instants(history(1, metadata=bytes(70 << 20)), with_contents=True)


def test_contents_of_a_history_are_bytes() -> None:
    with pytest.raises(Malformed, match="no content of an instant"):
        lsm_history.decode_instants(history(1, plan="text"), with_contents=True)
