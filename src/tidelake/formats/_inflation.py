"""How much packed bytes may unfold to.

Deflate goes to 1:1032, so that a file of a few megabytes may hold more than there is memory. What
Hudi packs shrinks to a tenth or so, and what unfolds to little does no harm at any ratio.
"""

from __future__ import annotations

_RATIO = 32
_HARMLESS_BYTES = 64 * 1024 * 1024


def most_inflated(packed_bytes: int) -> int:
    """Return to how many bytes so many packed ones may unfold."""
    return _HARMLESS_BYTES + packed_bytes * _RATIO
