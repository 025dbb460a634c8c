"""An instant: one action on the timeline."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.model.words import Action, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """One action in the furthest state it has reached.

    `action` is the word of the file that shows the furthest state, so a completed compaction is a
    `commit`. `file_name` is that file's name inside the timeline folder, or None for an instant
    from the archive. `completion_time` is set exactly for completed instants; on layout 1 it is the
    file's modification time.
    """

    requested_time: str
    action: Action
    state: State
    completion_time: str | None = None
    file_name: str | None = None
    pending_action: Action | None = None
    """The action as requested, where it differs: `compaction` for a `commit` that came from one."""

    def __post_init__(self) -> None:
        if (self.completion_time is None) == (self.state is State.COMPLETED):
            raise ValueError(f"completion_time goes with COMPLETED and only with it: {self!r}")

    @property
    def is_completed(self) -> bool:
        """Return whether the instant has taken effect."""
        return self.state is State.COMPLETED

    @property
    def key(self) -> tuple[str, Action]:
        """Return what tells the instant from every other: its requested time and its action.

        The action is the one it completes as, so it is the same in every state.
        """
        return self.requested_time, self.action.completed_as

    @property
    def planned_as(self) -> Action:
        """Return the action under which the instant was requested."""
        return self.pending_action or self.action
