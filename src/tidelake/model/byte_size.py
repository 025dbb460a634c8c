"""Numbers of bytes as people read them."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def byte_size_text(size_bytes: int) -> str:
    """Return a number of bytes in the largest unit that keeps it at one or more."""
    amount = float(size_bytes)
    for unit in _UNITS:
        if abs(amount) < 1024 or unit == _UNITS[-1]:
            return f"{size_bytes} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes every size")
