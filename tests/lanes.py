"""Which tests wait for `make deep`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

#: What runs neither in `make test` nor in `make deep`.
_OTHER_LANES = ("fuzz", "long", "interop")


def leave_samples(items: Iterable[pytest.Item]) -> None:
    """Mark all cases of a test that says `sampled(n)` as `deep`, but for `n` of them."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(lane) for lane in _OTHER_LANES):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        sampled = found[0].get_closest_marker("sampled")
        if sampled is not None:
            kept = spread(len(found), sampled.args[0])
            for at, item in enumerate(found):
                if at not in kept:
                    item.add_marker(pytest.mark.deep)


def spread(size: int, chosen: int) -> frozenset[int]:
    """Return `chosen` of the positions below `size`: both ends, and others evenly between them.

    A single one is the last, which in most lists is the newest version with all there is to it.
    """
    most = min(chosen, size)
    if most == 1:
        return frozenset({size - 1})
    return frozenset(round(n * (size - 1) / (most - 1)) for n in range(most))
