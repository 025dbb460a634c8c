"""Every order in which a few actors can take turns, up to a bound.

Without a switch an actor runs until it waits or ends, and then the first of the others goes on. A
history is known by its switches: at which turn which actor took over although it need not have.
Each history is played from its start, so nothing has to be saved in between. A switch makes a
difference only in front of a call that others notice or are noticed by: on the lock, the timeline,
heartbeats, or the data files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tidelake.testing.simulation.scheduler import Actor, Choose

#: Turn, and the name of the actor that takes it.
Switches = tuple[tuple[int, str], ...]


@dataclass
class _Order:
    """Picks actors as the switches say, and notes which others could have been picked."""

    switches: dict[int, str]
    turn: int = 0
    last: str = ""
    others: list[tuple[int, str]] = field(default_factory=list)

    def __call__(self, free: Sequence[Actor]) -> Actor:
        by_name = {actor.name: actor for actor in free}
        usual = by_name.get(self.last, free[0])
        chosen = by_name.get(self.switches.get(self.turn, ""), usual)
        if _is_noticed(*usual.next_call):
            self.others += [(self.turn, name) for name in by_name if name != chosen.name]
        self.turn += 1
        self.last = chosen.name
        return chosen


def _is_noticed(name: str, path: str) -> bool:
    if not name or path.endswith((".properties", "partition_metadata")):
        return False
    # A file that is put under a name of its own is noticed by whoever lists it, at any time.
    is_own = name == "put" and not path.startswith(".hoodie/.heartbeat")
    return not is_own and not path.startswith(".hoodie/.temp") and path != ".hoodie"


def explore(
    play: Callable[[Choose], list[str]], *, most_switches: int
) -> Iterator[tuple[Switches, list[str]]]:
    """Play every history of up to `most_switches` switches; return each with what is wrong."""
    waiting: list[Switches] = [()]
    while waiting:
        switches = waiting.pop()
        order = _Order(dict(switches))
        yield switches, play(order)
        if len(switches) < most_switches:
            first = switches[-1][0] + 1 if switches else 0
            waiting += [(*switches, at) for at in order.others if at[0] >= first]
