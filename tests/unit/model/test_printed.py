from __future__ import annotations

from tidelake.model import Action, BaseFile, FileGroupId, FileSlice, Instant, LogFile, State
from tidelake.model.printed import FileSliceList, InstantList, html_table

DONE = Instant(
    requested_time="20260301101500123",
    completion_time="20260301101501456",
    action=Action.DELTACOMMIT,
    state=State.COMPLETED,
)
PLANNED = Instant(
    requested_time="20260301101600000",
    action=Action.COMPACTION,
    state=State.REQUESTED,
    file_name="20260301101600000.compaction.requested",
)


def test_a_timeline_prints_as_a_table() -> None:
    assert repr(InstantList([DONE, PLANNED])).splitlines() == [
        "REQUESTED          ACTION       STATE                COMPLETED",
        "20260301101500123  deltacommit  completed, archived  20260301101501456",
        "20260301101600000  compaction   requested            -",
    ]
    assert repr(InstantList()) == "[]"


def test_such_a_list_is_a_list() -> None:
    found = InstantList([DONE, PLANNED])
    assert found == [DONE, PLANNED]
    assert found[-1] is PLANNED


def test_of_a_long_timeline_the_newest_are_shown() -> None:
    lines = repr(InstantList([DONE] * 1_500 + [PLANNED])).splitlines()
    assert lines[0] == "the last 60 of 1,501"
    assert len(lines) == 62
    assert lines[-1].startswith("20260301101600000")


def test_file_slices_print_with_their_sizes() -> None:
    names = {"partition": "city=oslo", "file_id": "f1", "write_token": "0-1-1"}
    base = BaseFile(
        name="b.parquet", instant_time="1", extension="parquet", size_bytes=2048, **names
    )
    log = LogFile(name=".l", instant_time="2", version=1, suffix="", size_bytes=100, **names)
    group = FileGroupId("city=oslo", "f1")
    found = FileSliceList(
        [
            FileSlice(group=group, base_instant_time="1", base_file=base, log_files=(log, log)),
            FileSlice(group=FileGroupId("", "f2"), base_instant_time="1", base_file=None),
        ]
    )
    assert repr(found).splitlines() == [
        "PARTITION      FILE GROUP  BASE INSTANT  BASE FILE  LOGS  LOG SIZE",
        "city=oslo      f1          1               2.0 KiB     2     200 B",
        "(whole table)  f2          1                  none     0       0 B",
    ]
    assert found._repr_html_().count("<tr>") == 3


def test_what_a_notebook_shows_is_text_and_no_markup() -> None:
    shown = html_table(["A"], [["<b>"]], caption="x & y")
    assert "&lt;b&gt;" in shown
    assert "<caption>x &amp; y</caption>" in shown
