"""The spellings of a point in time that people may use, brought to the timeline's own."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo

from tidelake.errors import ConfigError
from tidelake.model.instant_digits import instant_digits

#: How many digits a count since the epoch has had since 2001, and its units in a second.
_EPOCH_UNITS = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}
_SECONDS = re.compile(r"\d{14}")
_DIGITS = re.compile(r"\d+")
_DATE_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})"
    r"(?:[ T](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?(Z|[+-]\d{2}:?\d{2})?"
)


def to_instant(time: str | int | datetime, zone: tzinfo | None = timezone.utc) -> str:
    """Return `time` in the digits of an instant.

    Accepted are instants (14 digits mean the whole second), dates, date-times with or without zone,
    `datetime`, and counts of seconds, milliseconds, microseconds or nanoseconds since the epoch.
    `zone` is that of the timeline, None for this machine's, whose offset is that of the moment.
    Digits of any other length pass unchanged: people write `0` and `000` for the beginning.
    """
    if isinstance(time, datetime):
        try:
            return instant_digits(time.astimezone(zone) if time.tzinfo else time)
        except OverflowError:
            raise _unreadable(str(time)) from None
    text = str(time).strip()
    if _SECONDS.fullmatch(text):
        return text + "999"
    if _DIGITS.fullmatch(text) and len(text) in _EPOCH_UNITS:
        return _since_epoch(int(text), _EPOCH_UNITS[len(text)], zone)
    if _DIGITS.fullmatch(text):
        return text
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        raise _unreadable(text)
    day, clock, seconds, fraction, offset = found.groups()
    spelled = f"{day} {clock or '00:00'}:{seconds or '00'}.{(fraction or '0').ljust(6, '0')}"
    try:
        moment = datetime.strptime(spelled, "%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ007
        if offset:
            shift = datetime.strptime(offset.replace("Z", "+0000"), "%z").tzinfo
            moment = moment.replace(tzinfo=shift).astimezone(zone)
    except (ValueError, OverflowError):
        raise _unreadable(text) from None
    return instant_digits(moment)


def _since_epoch(count: int, units: int, zone: tzinfo | None) -> str:
    moment = datetime.fromtimestamp(count // units, timezone.utc)
    moment += timedelta(milliseconds=count % units * 1000 // units)
    return instant_digits(moment.astimezone(zone))


def _unreadable(text: str) -> ConfigError:
    return ConfigError(
        f"{text!r} is not a point in time",
        next_step="give an instant such as 20260301101500123, a date such as 2026-03-01, a time "
        "such as '2026-03-01 10:15:00.123', or seconds or milliseconds since the epoch",
    )
