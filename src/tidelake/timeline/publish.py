"""Putting instants on the timeline and taking them off."""

from __future__ import annotations

from collections.abc import Iterable

from tidelake.config import TableConfig
from tidelake.formats import commit_metadata, plans
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.formats.instant_name import LAYOUT_1, InstantName
from tidelake.model import Action, State
from tidelake.storage import Storage


class Publisher:
    """The timeline folder of one table, for whoever changes it; nothing is ever overwritten."""

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self._storage = storage
        self._config = config

    def path(self, name: InstantName) -> str:
        """Return where the timeline file lies."""
        return f"{self._config.timeline_folder}/{name.format()}"

    def pending_path(self, requested_time: str, action: Action, state: State) -> str:
        """Return where the file of a requested or inflight instant lies."""
        return self.path(InstantName(requested_time=requested_time, action=action, state=state))

    def completed_path(self, requested_time: str, action: Action, completion_time: str) -> str:
        """Return where the file of a completed instant lies; layout 1 does not name the time."""
        in_name = None if self._config.layout_version == LAYOUT_1 else completion_time
        return self.path(
            InstantName(
                requested_time=requested_time,
                action=action,
                state=State.COMPLETED,
                completion_time=in_name,
            )
        )

    def request(self, requested_time: str, action: Action, content: bytes | None = None) -> bool:
        """Put an instant on the timeline, or return False when somebody took its time.

        Without `content` the file is what Hudi writes for a write: a plan without content for a
        replacecommit, and nothing for other actions.
        """
        if content is None:
            content = _requested_content(action)
        path = self.pending_path(requested_time, action, State.REQUESTED)
        return self._storage.put_if_absent(path, content)

    def start(self, requested_time: str, action: Action, content: bytes = b"") -> bool:
        """Move an instant on to inflight, or return False when it is there already."""
        path = self.pending_path(requested_time, action, State.INFLIGHT)
        return self._storage.put_if_absent(path, content)

    def is_pending(self, requested_time: str, action: Action, state: State) -> bool:
        """Return whether the file of the pending state is still there."""
        return self._storage.stat(self.pending_path(requested_time, action, state)) is not None

    def encode(self, metadata: CommitMetadata, *, is_replace: bool = False) -> bytes:
        """Return commit metadata as tables of this version keep it."""
        if self._config.format.has_avro_commits:
            return commit_metadata.encode_avro(metadata, is_replace=is_replace)
        return commit_metadata.encode_json(metadata, is_replace=is_replace)

    def remove(self, file_names: Iterable[str]) -> None:
        """Delete timeline files: completed ones first, requested ones last.

        In this order a crash leaves an instant that is still pending and has to be rolled back, and
        never one that looks completed.
        """
        for name in sorted(file_names, key=self._removal_order):
            self._storage.delete(f"{self._config.timeline_folder}/{name}")

    def _removal_order(self, file_name: str) -> int:
        name = InstantName.parse(file_name, self._config.layout_version)
        if name is None:
            raise ValueError(f"{file_name} is no timeline file")
        return -name.state.rank


def _requested_content(action: Action) -> bytes:
    if action is Action.REPLACECOMMIT:
        return plans.encode(plans.RequestedReplaceMetadata())
    return b""
