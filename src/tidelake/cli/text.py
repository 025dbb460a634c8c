"""How facts look to a person: aligned columns, sizes with units, times with ages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone, tzinfo

from tidelake.model.instant_digits import shown_moment
from tidelake.model.printed import columns

__all__ = ["columns", "count", "instant_ms", "moment", "pairs", "span"]

_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


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
    try:
        shown = shown_moment(instant_time)
        moment = shown.replace(tzinfo=zone) if zone else shown.astimezone()
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def moment(epoch_ms: int) -> str:
    """Return a time to the second, in UTC."""
    return f"{_EPOCH + timedelta(milliseconds=epoch_ms):%Y-%m-%d %H:%M:%S} UTC"


def pairs(facts: Sequence[tuple[str, str]], *, indent: int = 0) -> list[str]:
    """Return the lines of a list of names and values, the values aligned."""
    width = max((len(name) for name, _ in facts), default=0)
    return [f"{' ' * indent}{name.ljust(width)}  {value}".rstrip() for name, value in facts]
