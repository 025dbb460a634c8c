"""Where a verb's facts go: lines for a person, or JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"


class Output:
    """Standard output in one of two forms."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self._stream = stream
        self.as_json = as_json

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines of text."""
        for line in lines:
            self._stream.write(f"{line}\n")

    def document(self, value: Json) -> None:
        """Write one JSON document over several lines."""
        self._stream.write(f"{json.dumps(value, indent=2, ensure_ascii=False)}\n")

    def records(self, values: Iterable[Json]) -> None:
        """Write one JSON object a line."""
        for value in values:
            self._stream.write(f"{json.dumps(value, ensure_ascii=False)}\n")
