from __future__ import annotations

from tidelake.cli import stats
from tidelake.model import BaseFile, FileGroupId, FileSlice, LogFile


def piece(partition: str, file_id: str, base_bytes: int | None, *log_bytes: int) -> FileSlice:
    base = None
    if base_bytes is not None:
        base = BaseFile(
            partition=partition,
            name=f"{file_id}_0-0-0_1.parquet",
            file_id=file_id,
            write_token="0-0-0",
            instant_time="1",
            extension="parquet",
            size_bytes=base_bytes,
        )
    logs = tuple(
        LogFile(
            partition=partition,
            name=f".{file_id}_1.log.{n}",
            file_id=file_id,
            instant_time="1",
            version=n,
            write_token="",
            suffix="",
            size_bytes=size,
        )
        for n, size in enumerate(log_bytes, 1)
    )
    group = FileGroupId(partition, file_id)
    return FileSlice(group=group, base_instant_time="1", base_file=base, log_files=logs)


def test_slices_that_want_attention_are_counted() -> None:
    slices = [
        piece("p", "a", 1000, 600, 600),
        piece("p", "b", 1000, 10),
        piece("q", "c", None, 10),
    ]
    rows = {f"p/{name}_0-0-0_1.parquet": 7 for name in "ab"}
    parts, total = stats.gather(slices, rows)
    assert [(p.partition, p.base_rows) for p in parts] == [("p", 14), ("q", 0)]
    assert (total.heavy_slices, total.slices_without_base, total.small_base_files) == (1, 1, 2)
    advice = "\n".join(stats.render(parts, total))
    assert "1 slice with more bytes in logs than in the base file: compaction is due." in advice
    assert "1 slice with logs only" in advice


def test_a_small_file_alone_in_its_partition_cannot_be_joined() -> None:
    slices = [piece("p", "a", 10), piece("q", "b", 10)]
    total = stats.gather(slices, {"p/a_0-0-0_1.parquet": 1, "q/b_0-0-0_1.parquet": 1})[1]
    assert total.small_base_files == 0


def test_an_empty_table_is_said_to_be_empty() -> None:
    assert stats.render(*stats.gather([], {}))[-1] == "The table has no committed files."
