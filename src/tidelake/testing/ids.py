"""Ids that come out the same for the same seed."""

from __future__ import annotations

import random  # noqa: TID251 - seeded below
import uuid


class SeededIds:
    """UUIDs drawn from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def new(self) -> str:
        """Return the next id."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
