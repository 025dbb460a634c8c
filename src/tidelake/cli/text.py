"""How facts look to a person: aligned columns, sizes with units, times with ages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone, tzinfo

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_INSTANT_DIGITS = 17


def size(size_bytes: int) -> str:
    """Return a number of bytes in the largest unit that keeps it at one or more."""
    amount = float(size_bytes)
    for unit in _SIZES:
        if abs(amount) < 1024 or unit == _SIZES[-1]:
            return f"{size_bytes} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes every size")


def span(milliseconds: int) -> str:
    """Return a length of time in the one unit that a person would name."""
    for length, unit in _SPANS:
        if abs(milliseconds) >= length:
            amount = milliseconds / length
            return f"{amount:.1f} {unit}" if amount < 10 else f"{amount:.0f} {unit}"
    return f"{milliseconds} ms"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the right form."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def instant_ms(instant_time: str, zone: tzinfo | None = timezone.utc) -> int | None:
    """Return an instant's time as epoch milliseconds, or None when it is no time of a clock.

    `zone` is the time zone in which the table names its instants, None for this machine's. The
    metadata table has instants before all time, and some carry more digits than a time has.
    """
    digits = instant_time[:_INSTANT_DIGITS].ljust(_INSTANT_DIGITS, "0")
    try:
        whole = datetime.strptime(digits[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007 - zone follows
        moment = whole.replace(tzinfo=zone) if zone else whole.astimezone()
        return int(moment.timestamp()) * 1000 + int(digits[14:])
    except (ValueError, OverflowError):
        return None


def moment(epoch_ms: int) -> str:
    """Return a time to the second, in UTC."""
    start = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return f"{start + timedelta(milliseconds=epoch_ms):%Y-%m-%d %H:%M:%S} UTC"


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


def pairs(facts: Sequence[tuple[str, str]], *, indent: int = 0) -> list[str]:
    """Return the lines of a list of names and values, the values aligned."""
    width = max((len(name) for name, _ in facts), default=0)
    return [f"{' ' * indent}{name.ljust(width)}  {value}".rstrip() for name, value in facts]
