"""What a service is about to do, as a value that people and programs can look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from typing_extensions import override

from tidelake.model import Word
from tidelake.model.byte_size import byte_size_text

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"

_SHOWN_FILES = 20


class Service(Word):
    """The services that make plans."""

    COMPACT = "compact"
    CLEAN = "clean"
    ARCHIVE = "archive"


class Undoing(Word):
    """What takes instants off the table, by a plan of its own."""

    ROLLBACK = "rollback"
    RESTORE = "restore"


#: What the timeline calls the services.
_SYNONYMS: Mapping[str, Service] = {
    "compaction": Service.COMPACT,
    "cleaning": Service.CLEAN,
    "archival": Service.ARCHIVE,
}


def service_of(word: Service | str) -> Service | None:
    """Return the service that a word means, None when there is no such service."""
    given = str(word).lower()
    return _SYNONYMS.get(given) or next((s for s in Service if s.value == given), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file that a plan names; the size is None where nobody knows it yet."""

    path: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What a service would do to the table as it is now; printed, it is a page for a person.

    `files_in` are read, `files_out` written (their sizes are estimates), `files_deleted` gone
    afterwards. `horizon` is the instant to which time travel reaches back after the plan was
    carried out, None where the plan does not touch the past. `facts` are whatever else there is to
    say, by name; `reason` says why the service would run now, or why it would not.
    """

    service: Service | Undoing
    reason: str
    files_in: tuple[PlannedFile, ...] = ()
    files_out: tuple[PlannedFile, ...] = ()
    files_deleted: tuple[PlannedFile, ...] = ()
    horizon: str | None = None
    facts: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.files_in or self.files_out or self.files_deleted)

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        pairs = [("service", self.service.value), ("why", self.reason)]
        for name, files in self._files():
            if files:
                pairs.append((name, _summed(files)))
        if self.horizon is not None:
            pairs.append(("time travel back to", self.horizon))
        pairs += [(name, str(value)) for name, value in self.facts.items()]
        width = max(len(name) for name, _ in pairs)
        lines = [f"{name.ljust(width)}  {value}" for name, value in pairs]
        for name, files in self._files():
            if files:
                lines += ["", f"{name}:", *_listed(files)]
        return lines

    def as_json(self) -> Json:
        """Return the plan as plain values."""
        return {
            "service": self.service.value,
            "is_empty": self.is_empty,
            "reason": self.reason,
            **{
                name.replace(" ", "_"): {
                    "files": len(files),
                    "bytes": _size(files),
                    "paths": [file.path for file in files],
                }
                for name, files in self._files()
            },
            "horizon": self.horizon,
            "facts": dict(self.facts),
        }

    @override
    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _files(self) -> Sequence[tuple[str, Sequence[PlannedFile]]]:
        return (
            ("files in", self.files_in),
            ("files out", self.files_out),
            ("files deleted", self.files_deleted),
        )


def _size(files: Sequence[PlannedFile]) -> int:
    return sum(file.size_bytes or 0 for file in files)


def _summed(files: Sequence[PlannedFile]) -> str:
    is_known = all(file.size_bytes is not None for file in files)
    return f"{len(files):,}, {byte_size_text(_size(files))}{'' if is_known else ' at least'}"


def _listed(files: Sequence[PlannedFile]) -> list[str]:
    lines = [
        f"  {file.path}  {'?' if file.size_bytes is None else byte_size_text(file.size_bytes)}"
        for file in files[:_SHOWN_FILES]
    ]
    if len(files) > _SHOWN_FILES:
        lines.append(f"  and {len(files) - _SHOWN_FILES:,} more")
    return lines
