from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest
from typing_extensions import override

from tests.golden.timelines import UPGRADED, meta_files
from tidelake.errors import Malformed
from tidelake.formats import commit_metadata, history_footer, lsm_history
from tidelake.formats.commit_metadata import WRITE_ID, CommitMetadata
from tidelake.formats.lsm_history import HistoryInstant, Manifest, ManifestFile
from tidelake.model import Action

FOLDER = ".hoodie/timeline/history/"


def history_files(table: str, kind: str) -> list[bytes]:
    found = [
        data
        for path, data in sorted(meta_files(table).items())
        if path.startswith(FOLDER) and kind in path
    ]
    assert found
    return found


@pytest.mark.parametrize("table", ["v9_cow_archived_lsm", "v8_cow_archived_lsm", UPGRADED])
def test_manifests_of_hudi_come_back_byte_for_byte(table: str) -> None:
    for raw in history_files(table, "manifest_"):
        assert lsm_history.encode_manifest(lsm_history.decode_manifest(raw)) == raw


@pytest.mark.parametrize("table", ["v9_cow_archived_lsm", "v8_cow_archived_lsm", UPGRADED])
def test_instants_of_hudi_survive_the_round_trip(table: str) -> None:
    for raw in history_files(table, ".parquet"):
        instants = lsm_history.decode_instants(io.BytesIO(raw), with_contents=True)
        assert instants
        encoded = lsm_history.encode_instants(instants)
        assert lsm_history.decode_instants(io.BytesIO(encoded), with_contents=True) == instants


def test_times_and_instants_agree() -> None:
    raw = history_files("v9_cow_archived_lsm", ".parquet")[0]
    instants = lsm_history.decode_instants(io.BytesIO(raw), with_contents=False)
    assert lsm_history.decode_times(io.BytesIO(raw)) == {
        i.requested_time: i.completion_time for i in instants if i.action is Action.COMMIT
    }
    times = [i.requested_time for i in instants]
    done = [i.completion_time for i in instants]
    for data in (raw, lsm_history.encode_instants(instants)):
        footer = history_footer.decode(io.BytesIO(data))
        assert footer.requested == (min(times), max(times))
        assert footer.completed == (min(done), max(done))
        assert footer.actions == ("clean", "commit")
    assert all(i.metadata is None and i.plan is None for i in instants)
    assert {i.action for i in instants} == {Action.COMMIT, Action.CLEAN}


def test_the_footer_names_the_avro_schema_of_hudi() -> None:
    raw = history_files("v9_cow_archived_lsm", ".parquet")[0]
    instant = HistoryInstant(
        requested_time="20260301101500123", completion_time="20260301101501000", action=Action.CLEAN
    )
    schema = b'{"type":"record","name":"HoodieLSMTimelineInstant"'
    start = raw.index(schema)
    text = raw[start : raw.index(b'"default":1}]}', start) + 14]
    assert text in lsm_history.encode_instants([instant])


@pytest.mark.parametrize(
    ("data", "number"), [(b"8", 8), (b" 12\n", 12), (b"", None), (b"x", None), (b"\xff", None)]
)
def test_a_torn_version_file_says_nothing(data: bytes, number: int | None) -> None:
    assert lsm_history.decode_version(data) == number


def test_manifest_names_are_numbers() -> None:
    assert lsm_history.manifest_number(lsm_history.manifest_name(12)) == 12
    assert lsm_history.manifest_number("manifest_") is None
    assert lsm_history.manifest_number("manifest_1.tmp") is None


def test_a_manifest_without_files_is_written_as_hudi_does() -> None:
    assert lsm_history.decode_manifest(b'{\n  "files" : [ ]\n}') == Manifest(files=())
    one = Manifest(files=(ManifestFile(file_name="a_b_0.parquet", file_len=3),))
    assert lsm_history.encode_manifest(one) == (
        b'{\n  "files" : [ {\n    "fileName" : "a_b_0.parquet",\n    "fileLen" : 3\n  } ]\n}'
    )


@pytest.mark.parametrize("data", [b"", b"{}", b'{"files": [{}]}', b'{"files": [{"fileName": 1}]}'])
def test_a_damaged_manifest_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        lsm_history.decode_manifest(data)


def test_a_damaged_history_file_is_malformed() -> None:
    raw = history_files("v9_cow_archived_lsm", ".parquet")[0]
    for data in (b"", b"PAR1", raw[:-1], raw[: len(raw) // 2], raw.replace(b"action", b"akshun")):
        with pytest.raises(Malformed):
            lsm_history.decode_instants(io.BytesIO(data), with_contents=False)


def committed(number: int, write_id: str | None) -> HistoryInstant:
    extra = {} if write_id is None else {WRITE_ID: write_id}
    return HistoryInstant(
        requested_time=str(number),
        completion_time=str(number + 1),
        action=Action.COMMIT,
        metadata=commit_metadata.encode_avro(CommitMetadata(extra_metadata=extra)),
    )


def test_hashes_before_the_footer_rule_write_ids_out() -> None:
    written = [committed(n, f"batch {n}" if n % 2 else None) for n in range(40)]
    data = lsm_history.encode_instants(written)
    held = [
        n for n in range(60) if history_footer.may_hold_write_id(io.BytesIO(data), f"batch {n}")
    ]
    assert held == list(range(1, 40, 2))
    empty = lsm_history.encode_instants([committed(1, None)])
    assert not history_footer.may_hold_write_id(io.BytesIO(empty), "batch 1")


@pytest.mark.parametrize("table", ["v8_cow_archived_lsm", "v9_cow_archived_lsm"])
def test_a_file_of_apache_hudi_does_not_say_which_write_ids_it_holds(table: str) -> None:
    for raw in history_files(table, ".parquet"):
        assert history_footer.may_hold_write_id(io.BytesIO(raw), "batch 1")


def test_every_write_id_of_many_is_found() -> None:
    ids = [f"batch {n}" for n in range(5000)]
    data = with_ids(ids)
    assert all(history_footer.may_hold_write_id(io.BytesIO(data), i) for i in ids)
    absent = [f"other {n}" for n in range(2000)]
    assert not any(history_footer.may_hold_write_id(io.BytesIO(data), i) for i in absent)


def test_hashes_that_are_not_spread_evenly_are_found_all_the_same() -> None:
    ids = sorted((f"batch {n}" for n in range(9000)), key=first_byte)[-3000:]
    data = with_ids(ids)
    assert all(history_footer.may_hold_write_id(io.BytesIO(data), i) for i in ids)
    absent = [f"other {n}" for n in range(2000)]
    assert not any(history_footer.may_hold_write_id(io.BytesIO(data), i) for i in absent)


def test_a_look_up_reads_as_much_of_a_hundred_thousand_write_ids_as_of_a_thousand() -> None:
    read = {}
    for count in (1_000, 100_000):
        source = CountingReader(with_ids([f"batch {n}" for n in range(count)]))
        assert not history_footer.may_hold_write_id(source, "other")
        read[count] = source.bytes_read
    # Parquet readers take the last 64 KiB at once, in the hope that the footer is not longer.
    assert read[100_000] <= (64 + 4 + 1) * 1024
    assert read[1_000] > 4_000


class CountingReader(io.BytesIO):
    bytes_read = 0

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


def test_damaged_hashes_rule_nothing_out() -> None:
    data = with_ids([f"batch {n}" for n in range(9)])
    hashes = history_footer.sorted_hashes(f"batch {n}" for n in range(9))
    swapped = hashes[4:8] + hashes[:4] + hashes[8:]
    assert history_footer.may_hold_write_id(io.BytesIO(data.replace(hashes, swapped)), "other")


@pytest.mark.parametrize("count", [b"-1", b"99", b"9z"])
def test_a_footer_with_a_false_count_is_malformed(count: bytes) -> None:
    data = with_ids([f"batch {n}" for n in range(10)])
    key = history_footer.WRITE_IDS.encode()
    at = data.index(key) + len(key)
    damaged = data[:at] + data[at:].replace(b"10", count, 1)
    with pytest.raises(Malformed):
        history_footer.may_hold_write_id(io.BytesIO(damaged), "batch 1")


def with_ids(ids: list[str]) -> bytes:
    """Return a history file that says these write ids, and has no instant."""
    hashes = history_footer.sorted_hashes(ids)
    plain = lsm_history.encode_instants([])
    table = pq.read_table(io.BytesIO(plain))
    told = {history_footer.WRITE_IDS: history_footer.hash_count(hashes)}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(told), sink)
    return history_footer.with_hashes(sink.getvalue(), hashes)


def first_byte(write_id: str) -> bytes:
    return history_footer.sorted_hashes([write_id])
