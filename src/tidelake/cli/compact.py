"""The verb `compact`: what a compaction did."""

from __future__ import annotations

from tidelake.cli import text
from tidelake.cli.output import Json
from tidelake.model import Commit


def as_json(commit: Commit | None) -> Json:
    """Return the facts about a compaction that was carried out, or that there was none."""
    if commit is None:
        return {"instant": None}
    return {
        "instant": commit.requested_time,
        "completion_time": commit.completion_time,
        "operation": commit.operation,
        "files_written": commit.files_written,
        "bytes_written": commit.bytes_written,
        "rows_updated": commit.updates,
        "rows_inserted": commit.inserts,
        "rows_deleted": commit.deletes,
    }


def render(commit: Commit | None) -> list[str]:
    """Return what was done, for a person."""
    if commit is None:
        return ["Nothing to compact: no file slice has logs, or other plans have spoken for them."]
    return [
        f"Compaction {commit.requested_time} completed at {commit.completion_time}: "
        f"{text.count(commit.files_written, 'base file')} of {text.size(commit.bytes_written)}.",
        f"Logs brought {text.count(commit.inserts, 'new row')}, "
        f"{text.count(commit.updates, 'update')} and {text.count(commit.deletes, 'delete')}.",
    ]


def scheduled(instant: str | None) -> list[str]:
    """Return which plan was made, for a person."""
    if instant is None:
        return render(None)
    return [f"Compaction {instant} is scheduled; `--run {instant}` carries it out."]
