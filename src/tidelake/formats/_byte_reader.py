"""A bounds-checked walk over bytes; running off the end is `Malformed`, never a slice cut short."""

from __future__ import annotations

import struct

from tidelake.errors import Malformed

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class ByteReader:
    """Reads big-endian values from `data` between `at` and `end`."""

    __slots__ = ("at", "data", "end", "what")

    def __init__(
        self, data: bytes | memoryview, what: str, *, at: int = 0, end: int | None = None
    ) -> None:
        self.data = memoryview(data)
        self.what = what
        self.at = at
        self.end = len(self.data) if end is None else min(end, len(self.data))

    @property
    def left(self) -> int:
        """Return the number of bytes not yet read."""
        return self.end - self.at

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes without copying them."""
        if size < 0 or size > self.left:
            raise Malformed(
                f"{self.what} wants {size} bytes at offset {self.at}, but {self.left} are left"
            )
        start = self.at
        self.at = start + size
        return self.data[start : self.at]

    def uint8(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def int16(self) -> int:
        """Return the next two bytes as a signed integer."""
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        """Return the next four bytes as a signed integer."""
        return int(_INT32.unpack(self.take(4))[0])

    def int64(self) -> int:
        """Return the next eight bytes as a signed integer."""
        return int(_INT64.unpack(self.take(8))[0])

    def text(self, size: int) -> str:
        """Return the next `size` bytes as UTF-8 text."""
        start = self.at
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as cause:
            raise Malformed(f"{self.what} holds no UTF-8 text at offset {start}") from cause
