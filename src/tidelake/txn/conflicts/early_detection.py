"""A look at others' markers while tasks write, which saves the work of a write that will lose.

It only ever gives up early: whatever it lets pass is compared again when the write commits. Of two
that meet, the one that began later gives up, since the other is nearer to its end; a write that
shows no sign of life stops nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelake.env import Env
from tidelake.errors import WriteConflictError
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.marker_name import MARKER_FOLDER, Marker
from tidelake.formats.table_path import is_instant_time
from tidelake.txn.conflicts.candidates import SlotName
from tidelake.txn.conflicts.judge import Slot
from tidelake.txn.liveness.heartbeat import is_alive, last_beats
from tidelake.txn.liveness.markers import list_markers

_RULE = "an older write, which is still running, changes the same file group"


class Lookout:
    """Looks for older running writes that change what one write changes."""

    def __init__(
        self, env: Env, instant_time: str, slot_name: SlotName, *, expires_ms: int
    ) -> None:
        self._env = env
        self._instant_time = instant_time
        self._slot_name = slot_name
        self._expires_ms = expires_ms
        self._stop: Callable[[], None] | None = None
        self.review: Callable[[], None] = lambda: None
        """Raises `WriteConflictError` when writes that have ended changed what ours will."""
        self.found: WriteConflictError | None = None
        """The reason to give up, once there is one."""

    def look(self, planned: Iterable[Slot] = ()) -> WriteConflictError | None:
        """Compare what our tasks have begun and will begin with what others' have begun."""
        ours = {*planned, *self._begun(self._instant_time)}
        for other in self._older() if ours else ():
            shared = ours.intersection(self._begun(other))
            if shared:
                self.found = self._conflict(other, shared)
                return self.found
        try:
            self.review()
        except WriteConflictError as found:
            self.found = found
        return self.found

    def keep_looking(self, period_ms: int, give_up: Callable[[], None]) -> None:
        """Look again and again until `end`; call `give_up` on the first hit."""

        def act() -> None:
            if self.found is None and self.look() is not None:
                give_up()

        self._stop = self._env.ticker.every(period_ms, act)

    def end(self) -> None:
        """Look no more."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _older(self) -> list[str]:
        beats = last_beats(self._env)
        return sorted(
            name
            for name in self._env.storage.list(MARKER_FOLDER).folders
            # Other things lie there too, such as rows that were laid aside.
            if is_instant_time(name)
            and name < self._instant_time
            and is_alive(beats, name, expires_ms=self._expires_ms)
        )

    def _begun(self, instant_time: str) -> set[Slot]:
        markers = list_markers(self._env.storage, instant_time) or ()
        return {slot for marker in markers if (slot := self._slot(marker)) is not None}

    def _slot(self, marker: Marker) -> Slot | None:
        partition, _, name = marker.path.rpartition("/")
        file = parse_base(partition, name, 0) or parse_log(partition, name, 0)
        return None if file is None else Slot(partition, self._slot_name(file.file_id))

    def _conflict(self, other: str, shared: Iterable[Slot]) -> WriteConflictError:
        return WriteConflictError(
            ours=self._instant_time,
            theirs=other,
            overlap=frozenset(map(str, shared)),
            rule=_RULE,
            facts={
                "our interval": f"{self._instant_time} to now",
                "their interval": f"{other} to some time after now",
                "a retry": "would succeed once the other write has ended",
                "would have avoided it": (
                    "hoodie.write.concurrency.early.conflict.detection.enable=false lets both go "
                    "on, and whoever commits last give way"
                ),
            },
            next_step="run the write again when the other has ended; "
            "hoodie.write.num.retries.on.conflict.failures does so by itself",
        )
