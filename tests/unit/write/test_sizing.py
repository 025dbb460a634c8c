from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.write.tables import options
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.write.sizing import record_size, share_out, small_files

SMALL = options(hoodie__parquet__max__file__size="1000", hoodie__parquet__small__file__limit="800")


def ids() -> list[str]:
    return [f"new-{n}" for n, _ in zip(count(), range(100), strict=False)]


def test_small_files_are_filled_before_new_ones_begin() -> None:
    shares = share_out(30, [("a", 900), ("b", 500)], ids(), SMALL, 50)
    assert [(s.file_id, s.rows) for s in shares] == [("a", 2), ("b", 10), ("new-0", 18)]


def test_new_files_share_evenly() -> None:
    shares = share_out(50, [], ids(), SMALL, 50)
    assert [s.rows for s in shares] == [17, 17, 16]


def test_a_fixed_split_when_sizes_do_not_decide() -> None:
    fixed = options(
        hoodie__copyonwrite__insert__auto__split="false",
        hoodie__copyonwrite__insert__split__size="10",
    )
    assert [s.rows for s in share_out(25, [], ids(), fixed, 50)] == [9, 8, 8]


@given(
    st.integers(0, 5000),
    st.lists(st.integers(0, 1200), max_size=5),
    st.integers(1, 2000),
)
def test_every_row_gets_a_place(rows: int, sizes: list[int], record_bytes: int) -> None:
    small = [(f"s{at}", size) for at, size in enumerate(sizes)]
    endless = (f"new-{n}" for n in count())
    shares = share_out(rows, small, endless, SMALL, record_bytes)
    assert sum(s.rows for s in shares) == rows
    assert all(s.rows > 0 for s in shares)
    assert len({s.file_id for s in shares}) == len(shares)


def test_the_smallest_file_comes_first_and_full_ones_not_at_all() -> None:
    assert small_files([("a", 900), ("b", 300), ("c", 100)], SMALL) == [("c", 100), ("b", 300)]
    none = options(hoodie__parquet__small__file__limit="0")
    assert small_files([("a", 1)], none) == []


def stat(size_bytes: int, rows: int, log_version: int | None = None) -> WriteStat:
    return WriteStat(
        file_id="f",
        path="f",
        total_write_bytes=size_bytes,
        num_writes=rows,
        log_version=log_version,
    )


def commit(*stats: WriteStat) -> CommitMetadata:
    return CommitMetadata(partition_to_write_stats={"": stats})


def test_the_newest_commit_of_some_size_tells_how_large_rows_are() -> None:
    tiny, large = commit(stat(500_000, 1)), commit(stat(64 << 20, 1 << 20))
    logs = commit(stat(64 << 20, 10, log_version=1))
    assert record_size([tiny, logs, large], options()) == 64
    assert record_size([tiny], options()) == 1024
