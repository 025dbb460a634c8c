"""Names of timeline files, in both timeline layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from tidelake.model import Action, State

#: Layout 1 (table versions up to 7) keeps completion times in the files' modification times.
LAYOUT_1 = 1
#: Layout 2 (table version 8 and up) writes the completion time into the name.
LAYOUT_2 = 2

#: Actions that exist only while pending: they complete under another word.
_NEVER_COMPLETED = {action for action in Action if action.completed_as is not action}

#: Every (action, state) for which Hudi writes a file.
ON_TIMELINE = frozenset(
    (action, state)
    for action, state in product(Action, State)
    if not (state is State.COMPLETED and action in _NEVER_COMPLETED)
    and (action, state) != (Action.SAVEPOINT, State.REQUESTED)
)


def _suffix(action: Action, state: State) -> str:
    if (action, state) == (Action.COMMIT, State.INFLIGHT):
        return "inflight"  # The short form Hudi keeps so that old readers still see it.
    return action.value if state is State.COMPLETED else f"{action}.{state}"


_BY_SUFFIX = {_suffix(*pair): pair for pair in ON_TIMELINE}
_NAME = re.compile(r"([0-9]+)(?:_([0-9]+))?\.([a-z.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantName:
    """A timeline file name, such as `20260301101500123.deltacommit.inflight`.

    `completion_time` is None for pending instants, for everything in layout 1, and for completed
    files that an upgrade left in layout 2 under their old name.
    """

    requested_time: str
    action: Action
    state: State
    completion_time: str | None = None

    def __post_init__(self) -> None:
        if (self.action, self.state) not in ON_TIMELINE:
            raise ValueError(f"Hudi writes no such file: {self!r}")
        if self.completion_time is not None and self.state is not State.COMPLETED:
            raise ValueError(f"completion_time goes with COMPLETED only: {self!r}")

    def format(self) -> str:
        """Return the name as written inside the timeline folder."""
        times = filter(None, (self.requested_time, self.completion_time))
        return f"{'_'.join(times)}.{_suffix(self.action, self.state)}"

    @classmethod
    def parse(cls, name: str, layout: int) -> InstantName | None:
        """Take `name` apart, the inverse of `format`; return None for a file of some other kind."""
        return _parsed(name, layout)


@lru_cache(maxsize=65_536)  # every look at a timeline finds mostly the names of the look before
def _parsed(name: str, layout: int) -> InstantName | None:
    found = _NAME.fullmatch(name)
    if found is None or found[3] not in _BY_SUFFIX:
        return None
    action, state = _BY_SUFFIX[found[3]]
    if found[2] is not None and (layout == LAYOUT_1 or state is not State.COMPLETED):
        return None
    return InstantName(
        requested_time=found[1], action=action, state=state, completion_time=found[2]
    )
