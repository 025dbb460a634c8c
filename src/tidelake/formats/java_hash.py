"""Java's hash code of a text."""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`, a signed 32-bit value over UTF-16 units."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
