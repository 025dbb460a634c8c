"""The digits of an instant, `yyyyMMddHHmmssSSS`, and the moment that they stand for."""

from __future__ import annotations

from datetime import datetime, timedelta

_SECONDS = "%Y%m%d%H%M%S"
#: How many digits a time has; older tables count whole seconds.
INSTANT_DIGITS = 17
_SECOND_DIGITS = 14


def instant_digits(moment: datetime) -> str:
    """Return the digits of a moment as its own clock shows them."""
    return f"{moment.strftime(_SECONDS)}{moment.microsecond // 1000:03d}"


def shown_moment(digits: str) -> datetime:
    """Return the moment that the digits of an instant show, without a time zone.

    Digits that are not there count as zeros, and those behind the milliseconds not at all. Raises
    `ValueError` when no clock shows such digits.
    """
    padded = digits[:INSTANT_DIGITS].ljust(INSTANT_DIGITS, "0")
    seconds = datetime.strptime(padded[:_SECOND_DIGITS], _SECONDS)  # noqa: DTZ007 - without a zone
    return seconds + timedelta(milliseconds=int(padded[_SECOND_DIGITS:]))
