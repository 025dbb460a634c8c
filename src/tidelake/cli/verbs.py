"""The verbs: what each is called with, and where it is carried out.

A verb's module is imported when the verb is run, so that no verb waits for what others need.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from tidelake.cli import arguments
from tidelake.cli.call import Call


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb of the command line."""

    name: str
    summary: str
    example: str
    home: str
    """The module inside `tidelake.cli` and the function there that carries the verb out."""
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    actions: tuple[str, ...] = ()
    """Words of which one stands between the verb and its subject."""
    subject: str = "TABLE"
    subject_help: str = "path or URI of the table"
    json_help: str = "print one JSON document and nothing else"

    @property
    def run(self) -> Callable[[Call], bool]:
        """Return what carries the verb out, which returns whether all is well."""
        module, _, function = self.home.rpartition(".")
        found: Callable[[Call], bool] = getattr(import_module(f"tidelake.cli.{module}"), function)
        return found


_RECORDS = "print one JSON object a line and nothing else"

VERBS = (
    Verb(
        name="describe",
        summary="show what kind of table this is, how large, and how it is doing",
        example="tidelake describe s3://lake/trips",
        home="describe.run",
    ),
    Verb(
        name="timeline",
        summary="show what happened to the table, newest last",
        example="tidelake timeline lake/trips --history",
        home="instants.run",
        add_arguments=arguments.timeline_arguments,
        json_help=_RECORDS,
    ),
    Verb(
        name="slices",
        summary="show which files a query reads",
        example="tidelake slices lake/trips --partition city=oslo --as-of 20260301101500123",
        home="slices.run",
        add_arguments=arguments.slice_arguments,
        json_help=_RECORDS,
    ),
    Verb(
        name="schema",
        summary="show the columns and what they do for the table",
        example="tidelake schema lake/trips --json",
        home="schema.run",
        add_arguments=arguments.schema_arguments,
        json_help="print the schema as Spark's StructType.fromJson takes it",
    ),
    Verb(
        name="log-file",
        summary="show the blocks of a log file",
        example="tidelake log-file lake/trips city=oslo/.3f0b-0_20260301101500123.log.1_0-1-1",
        home="log_file.run",
        add_arguments=arguments.log_file_arguments,
        subject="FILE",
        subject_help="path or URI of the log file, or of the table when PATH follows",
        json_help=_RECORDS,
    ),
    Verb(
        name="stats",
        summary="show rows, bytes and files of each partition, and what wants attention",
        example="tidelake stats lake/trips",
        home="stats.run",
        add_arguments=arguments.stats_arguments,
    ),
    Verb(
        name="read",
        summary="print rows (starts Spark)",
        example="tidelake read lake/trips --where \"city = 'oslo'\" --columns id,fare --limit 5",
        home="rows.run",
        add_arguments=arguments.read_arguments,
        json_help="print one row a line, as Spark's toJSON does, and nothing else",
    ),
    Verb(
        name="compact",
        summary="fold the logs of a merge-on-read table into base files (starts Spark)",
        example="tidelake compact lake/trips --dry-run",
        home="compact.run",
        add_arguments=arguments.compact_arguments,
    ),
    Verb(
        name="clean",
        summary="delete the files that nobody can ask for any more",
        example="tidelake clean lake/trips --option hoodie.clean.commits.retained=20 --dry-run",
        home="services.clean",
        add_arguments=arguments.plan_arguments,
    ),
    Verb(
        name="archive",
        summary="move old instants from the active timeline into the history",
        example="tidelake archive lake/trips --option hoodie.keep.min.commits=30 --dry-run",
        home="services.archive",
        add_arguments=arguments.dry_run_argument,
    ),
    Verb(
        name="rollback",
        summary="take the newest write, or writes that failed, off the table",
        example="tidelake rollback lake/trips 20260301101500123",
        home="services.rollback",
        add_arguments=arguments.rollback_arguments,
    ),
    Verb(
        name="savepoint",
        summary="keep the table as of a write, whatever is cleaned later",
        example="tidelake savepoint lake/trips 20260301101500123 --comment 'before the migration'",
        home="services.savepoint",
        add_arguments=arguments.savepoint_arguments,
    ),
    Verb(
        name="restore",
        summary="take the table back to a savepoint, and forget everything since",
        example="tidelake restore lake/trips 20260301101500123 --dry-run",
        home="services.restore",
        add_arguments=arguments.restore_arguments,
    ),
    Verb(
        name="lock",
        summary="show who holds the table's lock, or free the lock of a writer that is gone",
        example="tidelake lock who lake/trips",
        home="lock.run",
        actions=("who", "release"),
    ),
    Verb(
        name="check",
        summary="check every fact that must hold, and list every violation",
        example="tidelake check lake/trips",
        home="check.run",
        add_arguments=arguments.check_arguments,
    ),
)
