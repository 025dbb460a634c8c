"""What the verbs are called with."""

from __future__ import annotations

import argparse


def plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the switches of a service that plans first and runs later."""
    steps = parser.add_mutually_exclusive_group()
    steps.add_argument("--schedule", action="store_true", help="only put a plan on the timeline")
    steps.add_argument("--run", metavar="INSTANT", help="only carry out this plan")
    dry_run_argument(steps)


def dry_run_argument(parser: argparse._ActionsContainer) -> None:
    """Add the switch that shows and does nothing."""
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and do nothing"
    )


def rollback_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `rollback` is called with."""
    parser.add_argument("instant", nargs="?", help="requested time of the write")
    parser.add_argument("--failed", action="store_true", help="every write that did not complete")
    parser.add_argument(
        "--force", action="store_true", help="even if the write gives signs of life; it then fails"
    )
    dry_run_argument(parser)


def savepoint_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `savepoint` is called with."""
    parser.add_argument(
        "instant", nargs="?", help="requested time of the write to keep; the newest without it"
    )
    parser.add_argument("--delete", action="store_true", help="give up the savepoint of INSTANT")
    parser.add_argument("--comment", default="", metavar="TEXT", help="why it is kept")


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `restore` is called with."""
    parser.add_argument(
        "savepoint", nargs="?", help="requested time of a write that has a savepoint"
    )
    dry_run_argument(parser)


def timeline_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `timeline` is called with."""
    parser.add_argument("--history", action="store_true", help="archived instants too")


def stats_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `stats` is called with."""
    slice_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true", help="open no data file, whatever rows stay uncounted"
    )


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `check` is called with."""
    parser.add_argument(
        "--quick", action="store_true", help="open no data file: timeline and listings only"
    )


def slice_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a verb that looks at slices is called with."""
    parser.add_argument("--as-of", metavar="TIME", help="the slices as of this time")
    parser.add_argument("--partition", metavar="PATH", help="of this partition only")


def schema_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `schema` is called with."""
    parser.add_argument("--as-of", metavar="TIME", help="the schema as of this time")


def log_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `log-file` is called with."""
    parser.add_argument(
        "path", nargs="?", help="the log file inside the table, where FILE names the table"
    )


def compact_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `compact` is called with."""
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--schedule", action="store_true", help="make a plan and stop")
    step.add_argument("--run", metavar="INSTANT", help="carry out this plan, whoever made it")
    step.add_argument("--dry-run", action="store_true", help="show what would be done")


def read_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `read` is called with."""
    queries = ["snapshot", "read_optimized", "incremental", "cdc"]
    parser.add_argument("--query", choices=queries, default=queries[0], help="default: snapshot")
    parser.add_argument("--as-of", metavar="TIME", help="the table as of this time")
    parser.add_argument("--start", metavar="TIME", help="start of a window, exclusive")
    parser.add_argument("--end", metavar="TIME", help="end of a window, inclusive")
    parser.add_argument("--columns", metavar="A,B", help="only these columns, in this order")
    parser.add_argument("--where", metavar="SQL", help="only rows that match the condition")
    parser.add_argument("--limit", type=_row_count, metavar="N", help="at most N rows, 0 for all")
    parser.add_argument("--meta", action="store_true", help="Hudi's five columns first")


def _row_count(given: str) -> int:
    if not given.isdecimal():
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of rows")
    return int(given)
