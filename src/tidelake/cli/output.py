"""Where a verb's facts go: lines for a person, or JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeAlias

from tidelake.errors import StorageError

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"


class Output:
    """Standard output in one of two forms."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self._stream = stream
        self.as_json = as_json

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines of text."""
        for line in lines:
            self._write(f"{line}\n")

    def document(self, value: Json) -> None:
        """Write one JSON document over several lines."""
        self._write(f"{json.dumps(value, indent=2, ensure_ascii=False)}\n")

    def records(self, values: Iterable[Json]) -> None:
        """Write one JSON object a line."""
        for value in values:
            self._write(f"{json.dumps(value, ensure_ascii=False)}\n")

    def flush(self) -> None:
        """Hand on what was written so far; raise `StorageError` where there is no room for it."""
        with _told():
            self._stream.flush()

    def _write(self, text: str) -> None:
        with _told():
            self._stream.write(text)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as cause:
        raise StorageError(
            "standard output",
            cause.strerror or str(cause),
            next_step="make room for the output, or let it go elsewhere; what the command did is "
            "done",
        ) from cause
