"""The verbs that tend a table: what each did, for a person and for a program."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.output import Json, Output
from tidelake.errors import ConfigError
from tidelake.operations.table_services import TableServices, open_table_services
from tidelake.services import Archived, Cleaned, Restored, ServicePlan


def _of_table(
    run: Callable[[TableServices, argparse.Namespace, Output], None],
) -> Callable[[Call], bool]:
    """Return a verb that opens its table first."""

    def act(call: Call) -> bool:
        run(open_table_services(call.table, call.options), call.args, call.out)
        return True

    return act


@_of_table
def clean(table: TableServices, args: argparse.Namespace, out: Output) -> None:
    """Clean the table, or take one of the two steps."""
    if args.dry_run:
        show_plan(table.plan("clean"), out)
    elif args.schedule:
        show_scheduled("clean", table.schedule_clean(), out)
    elif args.run is not None:
        _cleaned([table.run_clean(args.run)], out)
    else:
        _cleaned(list(table.clean()), out)


@_of_table
def archive(table: TableServices, args: argparse.Namespace, out: Output) -> None:
    """Move instants into the history."""
    if args.dry_run:
        show_plan(table.plan("archive"), out)
        return
    done = table.archive()
    times = [] if done is None else [i.requested_time for i in done.instants]
    document: Json = {"service": "archive", "instants": times}
    _say(out, document, _archived(done))


@_of_table
def rollback(table: TableServices, args: argparse.Namespace, out: Output) -> None:
    """Roll back one write, or those that failed."""
    if args.failed == (args.instant is not None):
        raise ConfigError(
            "a rollback takes either an instant or --failed",
            next_step="give the requested time of a write, or --failed for all that did not "
            "complete",
        )
    if args.failed:
        if args.dry_run:
            raise ConfigError(
                "--dry-run does not go with --failed",
                next_step="`tidelake timeline TABLE` shows the writes that are pending",
            )
        times = list(table.roll_back_failed())
        document: Json = {"service": "rollback", "instants": times}
        line = f"rolled back {', '.join(times)}" if times else "no write has failed"
        _say(out, document, [line])
        return
    if args.dry_run:
        show_plan(table.plan_roll_back(args.instant), out)
        return
    done = table.roll_back(args.instant, force=args.force)
    document = {
        "service": "rollback",
        "instants": [done.instant],
        "files_deleted": done.files_deleted,
    }
    files = text.count(done.files_deleted, "file")
    _say(out, document, [f"rolled back {done.instant}; {files} deleted"])


@_of_table
def savepoint(table: TableServices, args: argparse.Namespace, out: Output) -> None:
    """Keep the table as of a write, or give that up."""
    if args.delete:
        if args.instant is None:
            raise ConfigError(
                "--delete takes an instant", next_step="name the savepoint that is to go"
            )
        table.delete_savepoint(args.instant)
        document: Json = {"service": "savepoint", "deleted": args.instant}
        _say(out, document, [f"{args.instant} is not kept any more"])
        return
    done = table.savepoint(args.instant, args.comment)
    document = {"service": "savepoint", "instant": done.instant, "files": done.files}
    _say(out, document, [f"{done.instant} is kept, with {text.count(done.files, 'file')}"])


@_of_table
def restore(table: TableServices, args: argparse.Namespace, out: Output) -> None:
    """Take the table back to a savepoint."""
    if args.savepoint is None:
        raise ConfigError(
            "a restore takes a savepoint",
            next_step="give its time; `tidelake timeline TABLE` shows the savepoints",
        )
    if args.dry_run:
        show_plan(table.plan_restore(args.savepoint), out)
        return
    done = table.restore(args.savepoint)
    document: Json = {
        "service": "restore",
        "savepoint": done.savepoint,
        "requested_time": done.requested_time,
        "completion_time": done.completion_time,
        "instants": list(done.instants),
        "files_deleted": done.files_deleted,
    }
    _say(out, document, _restored(done))


def show_plan(plan: ServicePlan, out: Output) -> None:
    """Show what a service would do."""
    if out.as_json:
        out.document(plan.as_json())
    else:
        out.lines(plan.lines())


def show_scheduled(service: str, instant: str | None, out: Output) -> None:
    """Show which plan was put on the timeline, if any."""
    line = "there is nothing to do" if instant is None else f"{service} {instant} is planned"
    _say(out, {"service": service, "scheduled": instant}, [line])


def _cleaned(done: list[Cleaned], out: Output) -> None:
    document: Json = {
        "service": "clean",
        "cleans": [
            {
                "requested_time": found.requested_time,
                "completion_time": found.completion_time,
                "earliest_retained": found.earliest_retained or None,
                "files_deleted": found.files_deleted,
            }
            for found in done
        ],
    }
    lines = [
        f"clean {found.requested_time}: {text.count(found.files_deleted, 'file')} deleted"
        + (
            f", the table can be read back to {found.earliest_retained}"
            if found.earliest_retained
            else ""
        )
        for found in done
    ]
    _say(out, document, lines or ["there is nothing to clean"])


def _archived(done: Archived | None) -> list[str]:
    if done is None:
        return ["there is nothing to archive"]
    first, last = done.instants[0].requested_time, done.instants[-1].requested_time
    return [f"archived {text.count(len(done.instants), 'instant')}, {first} to {last}"]


def _restored(done: Restored) -> list[str]:
    taken = ", ".join(done.instants) or "nothing"
    files = text.count(done.files_deleted, "file")
    return [f"the table is as of {done.savepoint} again", f"taken back: {taken}; {files} deleted"]


def _say(out: Output, document: Json, lines: list[str]) -> None:
    if out.as_json:
        out.document(document)
    else:
        out.lines(lines)
