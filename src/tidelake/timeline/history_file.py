"""One Parquet file of the history, of which only that is read which a question needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import BinaryIO

from tidelake.errors import Malformed, reading
from tidelake.formats import history_footer, lsm_history
from tidelake.formats.history_footer import HistoryFooter, Span, may_hold
from tidelake.formats.lsm_history import HistoryFileName, HistoryInstant
from tidelake.model import Action, Instant, State
from tidelake.storage import Storage


class HistoryFile:
    """A file of the history of layout 2; each part of it is read once, when first asked for."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self.path = path

    @property
    def named_span(self) -> Span | None:
        """Return the range of requested times that the name speaks of; see `HistoryFileName`."""
        name = HistoryFileName.parse(self.path.rpartition("/")[2])
        return None if name is None else (min(name.first, name.last), max(name.first, name.last))

    @property
    def requested_span(self) -> Span | None:
        """Return the range of the requested times of all instants, None when it is unknown."""
        return self._footer.requested

    @property
    def completed_span(self) -> Span | None:
        """Return the range of the completion times of all instants, None when it is unknown."""
        return self._footer.completed

    def may_hold_time(self, requested_time: str) -> bool:
        """Return whether an instant of this requested time may be here."""
        return may_hold(self.requested_span, requested_time, requested_time)

    def may_reach(self, time: str) -> bool:
        """Return whether an instant that was requested or completed from `time` on may be here."""
        return may_hold(self.requested_span, time, "~") or may_hold(self.completed_span, time, "~")

    def may_hold_action(self, action: Action) -> bool:
        """Return whether an instant of this action may be here."""
        return may_hold(self._footer.actions, action, action)

    def may_hold_write_id(self, write_id: str) -> bool:
        """Return whether a commit that was made under this write id may be here."""
        with self._open() as source:
            return history_footer.may_hold_write_id(source, write_id)

    def holding(self, text: str) -> list[tuple[str, Action]]:
        """Return requested time and action of the instants in whose metadata `text` occurs."""
        with self._open() as source:
            return lsm_history.instants_holding(source, text)

    @cached_property
    def times(self) -> Mapping[str, str]:
        """Return requested to completion times of the writes."""
        with self._open() as source:
            self._refuse_content_of_another(history_footer.decode(source).requested)
            source.seek(0)
            return lsm_history.decode_times(source)

    @cached_property
    def instants(self) -> tuple[Instant, ...]:
        """Return the instants; their contents are not read."""
        with self._open() as source:
            found = lsm_history.decode_instants(source, with_contents=False)
        return tuple(
            Instant(
                requested_time=archived.requested_time,
                action=archived.action,
                state=State.COMPLETED,
                completion_time=archived.completion_time,
            )
            for archived in found
        )

    @cached_property
    def contents(self) -> Mapping[tuple[str, Action], HistoryInstant]:
        """Return the instants with their contents, by requested time and action."""
        with self._open() as source:
            found = lsm_history.decode_instants(source, with_contents=True)
        return {(archived.requested_time, archived.action): archived for archived in found}

    @cached_property
    def _footer(self) -> HistoryFooter:
        with self._open() as source:
            found = history_footer.decode(source)
            self._refuse_content_of_another(found.requested)
        return found

    def _refuse_content_of_another(self, requested: Span | None) -> None:
        """Raise `Malformed` when the file has no instants of the time that its name speaks of.

        Names that Apache Hudi's upgrade gives are those of any two of the instants.
        """
        if self.named_span is None or requested is None:
            return
        first, last = self.named_span
        if not may_hold(requested, first, last):
            raise Malformed(
                f"it holds instants from {requested[0]} to {requested[1]}, and its name speaks of "
                f"{first} to {last}: it has the content of another file"
            )

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        with self._storage.open(self.path) as source, reading(self.path):
            yield source
