"""What a write returns."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.model.words import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A write that took effect; the counts are of rows, as Hudi's own commit metadata has them."""

    requested_time: str
    completion_time: str
    action: Action
    operation: str
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    files_written: int = 0
    bytes_written: int = 0
    attempts: int = 1
    """How often the write was begun: more than once where it had to give way to others."""
