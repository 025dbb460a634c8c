"""Facts as tables that people read, in a terminal and in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from typing import TypeVar

from typing_extensions import override

from tidelake.model.byte_size import byte_size_text
from tidelake.model.files import FileSlice
from tidelake.model.instant import Instant

T = TypeVar("T")

#: Rows of a long list that are shown, its newest.
_MOST_ROWS = 60


def columns(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> list[str]:
    """Return the lines of a table; columns named in `right` are aligned to the right."""
    table = [list(headers), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(headers))]
    return [
        "  ".join(
            cell.rjust(width) if header in right else cell.ljust(width)
            for cell, width, header in zip(row, widths, headers, strict=True)
        ).rstrip()
        for row in table
    ]


def html_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """Return a table for a notebook."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    shown = f"<caption>{escape(caption)}</caption>" if caption else ""
    top = f"<thead><tr>{head}</tr></thead>" if headers else ""
    return f"<table>{shown}{top}<tbody>{body}</tbody></table>"


class PrintedList(list[T], ABC):
    """A list that prints as a table; of a long one the last rows are shown."""

    headers: Sequence[str] = ()
    right: Sequence[str] = ()

    @abstractmethod
    def cells(self, item: T) -> Sequence[str]:
        """Return the row of one item."""

    @override
    def __repr__(self) -> str:
        if not self:
            return "[]"
        lines = columns(self.headers, self._rows(), right=self.right)
        return "\n".join([*self._left_out(), *lines])

    def _repr_html_(self) -> str:
        return html_table(self.headers, self._rows(), caption=" ".join(self._left_out()))

    def _rows(self) -> list[Sequence[str]]:
        return [self.cells(item) for item in self[-_MOST_ROWS:]]

    def _left_out(self) -> list[str]:
        more = len(self) - _MOST_ROWS
        return [f"the last {_MOST_ROWS} of {len(self):,}"] if more > 0 else []


class InstantList(PrintedList[Instant]):
    """Instants of a timeline, which print as a table."""

    headers = ("REQUESTED", "ACTION", "STATE", "COMPLETED")

    @override
    def cells(self, item: Instant) -> Sequence[str]:
        """Return when an instant was requested, what it is, its state, and when it completed."""
        state = item.state.value + ("" if item.file_name else ", archived")
        return (item.requested_time, item.planned_as.value, state, item.completion_time or "-")


class FileSliceList(PrintedList[FileSlice]):
    """File slices of a table, which print as a table."""

    headers = ("PARTITION", "FILE GROUP", "BASE INSTANT", "BASE FILE", "LOGS", "LOG SIZE")
    right = ("BASE FILE", "LOGS", "LOG SIZE")

    @override
    def cells(self, item: FileSlice) -> Sequence[str]:
        """Return where a slice is, its base file, and how much lies on top of it."""
        return (
            item.group.partition or "(whole table)",
            item.group.file_id,
            item.base_instant_time,
            byte_size_text(item.base_file.size_bytes) if item.base_file else "none",
            str(len(item.log_files)),
            byte_size_text(item.log_bytes),
        )
