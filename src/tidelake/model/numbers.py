"""Numbers in texts that others wrote."""

from __future__ import annotations

import re

# int() also takes "1_0" and digits of other scripts, and fails on thousands of them.
_WHOLE = re.compile("-?[0-9]{1,19}")


def whole_number(text: str) -> int | None:
    """Return the number that a text is to Java as well, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None
