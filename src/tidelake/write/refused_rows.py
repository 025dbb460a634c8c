"""What is said of rows that may not be written."""

from __future__ import annotations

from tidelake.errors import SchemaError


def bad_rows(problem: str, count: int) -> SchemaError:
    """Return the error for rows that may not be written."""
    return SchemaError(
        f"{count} row{'s have' if count > 1 else ' has'} {problem}",
        next_step="correct or leave out these rows; nothing was written",
    )


def known_key(key: str) -> SchemaError:
    """Return the error of an insert that brings a key which may be there once."""
    return SchemaError(
        f"key {key!r} is in the table already, or comes twice in the insert",
        next_step="use upsert, or leave such rows out with "
        "hoodie.datasource.insert.dup.policy=drop; nothing was written",
    )
