"""Which rule a scenario guards, and how to take it out of the code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


def guards(*plants: Plant) -> pytest.MarkDecorator:
    """Mark a test that must fail once `plants` have taken its rule away."""
    return pytest.mark.guards.with_args(*plants)
