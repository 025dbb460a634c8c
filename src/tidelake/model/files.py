"""The files of a table: base files, log files, and the groups and slices they form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FileGroupId:
    """A file id is unique only inside its partition."""

    partition: str
    file_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFile:
    """A columnar file that holds every row of a file group as of `instant_time`."""

    partition: str
    name: str
    file_id: str
    write_token: str
    instant_time: str
    extension: str
    size_bytes: int

    @property
    def path(self) -> str:
        """Return the path relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A file of log blocks.

    `instant_time` is what the name says: the base instant of the slice up to table version 7, the
    instant of the writing deltacommit from version 8 on.
    """

    partition: str
    name: str
    file_id: str
    instant_time: str
    version: int
    write_token: str
    suffix: str
    size_bytes: int

    @property
    def path(self) -> str:
        """Return the path relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @property
    def is_cdc(self) -> bool:
        """Return whether the file is a change log, which no file slice contains."""
        return self.suffix == ".cdc"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """One version of a file group: a base file or none, and the logs on top in merge order."""

    group: FileGroupId
    base_instant_time: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all files of the slice."""
        base = self.base_file.size_bytes if self.base_file else 0
        return base + self.log_bytes

    @property
    def log_bytes(self) -> int:
        """Return the bytes of the slice's log files."""
        return sum(log.size_bytes for log in self.log_files)
