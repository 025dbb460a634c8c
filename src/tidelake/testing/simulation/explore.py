"""Every order in which a few actors can take turns, up to a bound.

Without a switch an actor runs until it waits or ends, and then the first of the others goes on. A
history is known by its switches: at which turn which actor took over although it need not have.
Each history is played from its start, so nothing has to be saved in between. Who begins is any of
them, and no switch.

Two histories of which one is made from the other by exchanging neighbouring calls that do not touch
the same files come to the same. So, if an actor A gives way to B in front of some call, and nothing
that B does until A goes on touches a file of A's next calls, then B may as well come after these:
the first history stands for the others. What times they take may differ; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from random import Random  # noqa: TID251 - seeded by the caller

from tidelake.testing.simulation.scheduler import Actor, Choose

#: Turn, and the name of the actor that takes it.
Switches = tuple[tuple[int, str], ...]
#: Name and path of a call to the storage.
Call = tuple[str, str]

_LOOKS = frozenset({"read", "stat", "list", "exists", "files_below"})
_WHOLE_FOLDER = frozenset({"files_below", "exists", "delete_folder"})


@dataclass(frozen=True, slots=True)
class _Turn:
    by: str
    call: Call
    others: tuple[str, ...]
    """Who else could have gone on."""


@dataclass
class _Order:
    """Picks actors as the switches say, and notes which others could have been picked."""

    switches: dict[int, str]
    turns: list[_Turn] = field(default_factory=list)

    def __call__(self, free: Sequence[Actor]) -> Actor:
        by_name = {actor.name: actor for actor in free}
        last = self.turns[-1].by if self.turns else ""
        wanted = self.switches.get(len(self.turns), last)
        chosen = by_name.get(wanted, free[0])
        others = tuple(name for name in by_name if name != chosen.name)
        self.turns.append(_Turn(chosen.name, chosen.next_call, others))
        return chosen

    def meanwhile(self, at: int, name: str) -> set[Call]:
        """Return what others do from a turn on until `name` goes on."""
        return {turn.call for turn in takewhile(lambda turn: turn.by != name, self.turns[at:])}


def touch(one: Call, other: Call) -> bool:
    """Return whether it can make a difference which of two calls comes first."""
    if not one[0] or not other[0] or (one[0] in _LOOKS and other[0] in _LOOKS):
        return False
    return one[1] == other[1] or _contains(one, other[1]) or _contains(other, one[1])


def _contains(call: Call, path: str) -> bool:
    """Return whether a call is about a folder in which a path lies."""
    name, folder = call
    if name in _WHOLE_FOLDER:
        return not folder or path.startswith(f"{folder}/")
    if name != "list":
        return False
    if folder.startswith(".hoodie"):
        return path.rpartition("/")[0] == folder
    # Partitions are known by the folders that there are.
    return not path.startswith(".hoodie") and (not folder or path.startswith(f"{folder}/"))


def explore(
    play: Callable[[Choose], list[str]], *, most_switches: int
) -> Iterator[tuple[Switches, list[str]]]:
    """Play every history of up to `most_switches` switches; return each with what is wrong."""
    order = _Order({})
    yield (), play(order)
    yield from _further(play, (), order, most_switches)


def explore_some(
    play: Callable[[Choose], list[str]], *, switches: int, descents: int, chance: Random
) -> Iterator[tuple[Switches, list[str]]]:
    """Play histories of up to `switches` switches, each drawn, and return each as `explore` does.

    A descent draws one switch after the other, and plays the history behind each of them.
    """
    first = _Order({})
    yield (), play(first)
    for _ in range(descents):
        order = first
        drawn: Switches = ()
        for _ in range(switches):
            following = _drawn(drawn, order, chance)
            if following is None:
                break
            drawn = following
            order = _Order(dict(drawn))
            yield drawn, play(order)


def _drawn(switches: Switches, before: _Order, chance: Random) -> Switches | None:
    """Return a history with one more switch behind the last, or None where there is none."""
    start = switches[-1][0] + 1 if switches else 0
    found = [
        (at, name) for at in range(start, len(before.turns)) for name in before.turns[at].others
    ]
    return (*switches, chance.choice(found)) if found else None


def _further(
    play: Callable[[Choose], list[str]], switches: Switches, before: _Order, most_switches: int
) -> Iterator[tuple[Switches, list[str]]]:
    """Play what has one more switch than a history that was played, and go on from there."""
    if sum(at > 0 for at, _ in switches) >= most_switches:
        return
    meanwhile: dict[str, set[Call]] = {}
    last = _Turn("", ("", ""), ())
    for at in range(switches[-1][0] + 1 if switches else 0, len(before.turns)):
        turn = before.turns[at]
        # By whom the actor on turn could be replaced since when it makes no difference.
        meanwhile = {
            name: calls
            for name, calls in meanwhile.items()
            if turn.by == last.by
            and name in turn.others
            and not any(touch(last.call, call) for call in calls)
        }
        last = turn
        for name in turn.others:
            if name not in meanwhile:
                more = (*switches, (at, name))
                order = _Order(dict(more))
                yield more, play(order)
                meanwhile[name] = order.meanwhile(at, turn.by)
                yield from _further(play, more, order, most_switches)
