"""Who has the table for itself, and does one thing after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from tidelake.env import Env
from tidelake.testing.simulation.actors.sharing import Part


@dataclass(frozen=True, kw_only=True)
class Alone(Part):
    """Does whatever others do, each once, in an order of its own."""

    kinds: Sequence[type[Part]] = ()
    without_buckets: Sequence[type[Part]] = ()
    """What is done, besides, to tables that have no buckets."""

    @override
    def __call__(self, env: Env) -> None:
        kinds = [*self.kinds, *(() if self.sharing.buckets else self.without_buckets)]
        for _ in range(self.times):
            self.chance.choice(kinds)(
                name=self.name,
                sharing=self.sharing,
                journal=self.journal,
                chance=self.chance,
                times=1,
                pause_ms=self.pause_ms,
                slow_ms=self.slow_ms,
            )(env)
