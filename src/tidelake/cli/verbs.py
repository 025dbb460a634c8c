"""The verbs: what each is called with, and which report it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from tidelake.cli import (
    check,
    compact,
    describe,
    instants,
    lock,
    log_file,
    rows,
    services,
    slices,
    stats,
)
from tidelake.cli import schema as columns
from tidelake.cli.output import Output
from tidelake.config import WriteOptions
from tidelake.engine import Caretaker, spark_schema, worker_errors
from tidelake.engine.compaction import Compactor
from tidelake.engine.task_runs import Here
from tidelake.env import Env
from tidelake.errors import ConfigError, reading
from tidelake.formats.log_block import decode_blocks
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.model import FileSlice
from tidelake.read.check import check_table
from tidelake.read.counted_rows import count_rows
from tidelake.read.state import TableState
from tidelake.records import arrow_schema
from tidelake.services import Service, TableNow, plan_service
from tidelake.services.compaction import refuse_uncompactable
from tidelake.spark.local import local_session
from tidelake.storage import open_storage
from tidelake.table import Table, load_state, open_caretaker, open_state
from tidelake.timeline import load_table_config, open_history, with_history


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a verb gets: its arguments, where to write, and what time it is."""

    args: argparse.Namespace
    out: Output
    now_ms: int

    @property
    def options(self) -> dict[str, str]:
        """Return the options of the command line."""
        return dict(self.args.option)

    def open(self) -> TableState:
        """Open the table that the command names."""
        return open_state(self.args.table, self.options)


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb of the command line; `run` returns whether all is well."""

    name: str
    summary: str
    example: str
    run: Callable[[Call], bool]
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    actions: tuple[str, ...] = ()
    """Words of which one stands between the verb and its subject."""
    subject: str = "TABLE"
    subject_help: str = "path or URI of the table"
    json_help: str = "print one JSON document and nothing else"


def _describe(call: Call) -> bool:
    state = call.open()
    path, found = state.storage.spec.uri, state.view.latest_slices()
    all_instants = state.timeline.instants
    if call.out.as_json:
        call.out.document(describe.as_json(path, state.config, all_instants, found))
    else:
        now_ms = call.now_ms
        call.out.lines(describe.render(path, state.config, all_instants, found, now_ms=now_ms))
    return True


def _timeline(call: Call) -> bool:
    state = call.open()
    found = state.timeline.instants
    if call.args.history:
        archived = open_history(state.storage, state.config).instants()
        found = with_history(state.timeline, archived)
    if call.out.as_json:
        call.out.records(instants.as_json(instant) for instant in found)
    else:
        call.out.lines(instants.render(found, state.config, now_ms=call.now_ms))
    return True


def _timeline_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--history", action="store_true", help="archived instants too")


def _slices(call: Call) -> bool:
    found = _chosen_slices(call, call.open())
    if call.out.as_json:
        call.out.records(slices.as_json(piece) for piece in found)
    else:
        call.out.lines(slices.render(found, as_of=call.args.as_of))
    return True


def _stats(call: Call) -> bool:
    state = call.open()
    found = _chosen_slices(call, state)
    counts = count_rows(state, found, quick=call.args.quick)
    parts, total = stats.gather(found, counts.rows)
    if call.out.as_json:
        call.out.document(stats.as_json(parts, total, counts))
    else:
        call.out.lines(stats.render(parts, total, counts))
    return True


def _stats_arguments(parser: argparse.ArgumentParser) -> None:
    _slice_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true", help="open no data file, whatever rows stay uncounted"
    )


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quick", action="store_true", help="open no data file: timeline and listings only"
    )


def _slice_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as-of", metavar="TIME", help="the slices as of this time")
    parser.add_argument("--partition", metavar="PATH", help="of this partition only")


def _chosen_slices(call: Call, state: TableState) -> list[FileSlice]:
    at = None if call.args.as_of is None else state.as_of(call.args.as_of)
    partition = call.args.partition
    if partition is not None and partition not in state.view.partitions():
        raise ConfigError(
            f"the table has no partition {partition!r}",
            next_step="see `tidelake stats` for the partitions; they are written as in their path",
        )
    return state.view.latest_slices(None if partition is None else [partition], as_of=at)


def _schema(call: Call) -> bool:
    state = call.open()
    at = None if call.args.as_of is None else state.as_of(call.args.as_of)
    found = spark_schema(arrow_schema(state.schema(at).avro))
    if call.out.as_json:
        call.out.document(found.jsonValue())
    else:
        call.out.lines(columns.render(found, state.config))
    return True


def _schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as-of", metavar="TIME", help="the schema as of this time")


def _log_file(call: Call) -> bool:
    given, inside = call.args.table, call.args.path
    folder, path = (given, inside) if inside else given.rpartition("/")[::2]
    data = open_storage(folder or ("/" if given.startswith("/") else "."), call.options).read(path)
    with reading(path):
        blocks = decode_blocks(data)
    if call.out.as_json:
        call.out.records(log_file.as_json(block) for block in blocks)
    else:
        call.out.lines(log_file.render(path, blocks))
    return True


def _log_file_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", help="the log file inside the table, where FILE names the table"
    )


def _check(call: Call) -> bool:
    state = call.open()
    at = (state.storage, state.config, state.timeline)
    report = check_table(state, MetadataTable.open(*at), unknown_writes(*at), quick=call.args.quick)
    if call.out.as_json:
        call.out.document(check.as_json(report))
    else:
        call.out.lines(check.render(report))
    return report.is_sound


def _read(call: Call) -> bool:
    args = call.args
    _refuse_contradictions(args)
    call.open()  # what is wrong with the table is known before Spark has started
    table = Table.open(local_session("tidelake read"), args.table, call.options)
    chosen = args.columns.split(",") if args.columns else None
    if args.query == "cdc":
        frame = table.changes(start=args.start, end=args.end)
    elif args.query == "incremental":
        frame = table.incremental(
            start=args.start, end=args.end, columns=chosen, where=args.where, meta=args.meta
        )
    else:
        door = table.read_optimized if args.query == "read_optimized" else table.read
        frame = door(columns=chosen, where=args.where, as_of=args.as_of, meta=args.meta)
    with worker_errors():
        if call.out.as_json:
            limited = frame.limit(args.limit) if args.limit else frame
            call.out.lines(rows.json_lines(limited))
        else:
            limit = rows.DEFAULT_LIMIT if args.limit is None else args.limit
            call.out.lines(rows.render(frame, limit))
    return True


def _compact(call: Call) -> bool:
    args = call.args
    options = WriteOptions.from_options(call.options)
    storage = open_storage(args.table, call.options)
    # What is wrong with the table is known before Spark has started.
    refuse_uncompactable(load_table_config(storage))
    if args.dry_run:
        plan = plan_service(TableNow.load(Env(storage)), Service.COMPACT, options.services)
        if call.out.as_json:
            call.out.document(plan.as_json())
        else:
            call.out.lines(plan.lines())
        return True
    if args.schedule:
        # Planning looks at the timeline and at names of files, for which no worker is needed.
        planner = Compactor(
            Env(storage), lambda: load_state(storage, call.options), options, Here()
        )
        instant = planner.schedule()
        if call.out.as_json:
            call.out.document({"instant": instant})
        else:
            call.out.lines(compact.scheduled(instant))
        return True
    door = Table.open(local_session("tidelake compact"), args.table, call.options).compact
    commit = door() if args.run is None else door.run(args.run)
    if call.out.as_json:
        call.out.document(compact.as_json(commit))
    else:
        call.out.lines(compact.render(commit))
    return True


def _compact_arguments(parser: argparse.ArgumentParser) -> None:
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--schedule", action="store_true", help="make a plan and stop")
    step.add_argument("--run", metavar="INSTANT", help="carry out this plan, whoever made it")
    step.add_argument("--dry-run", action="store_true", help="show what would be done")


def _refuse_contradictions(args: argparse.Namespace) -> None:
    is_window = args.query in ("incremental", "cdc")
    if is_window and args.as_of is not None:
        raise ConfigError(
            f"--as-of does not go with --query {args.query}", next_step="use --start and --end"
        )
    if not is_window and (args.start is not None or args.end is not None):
        raise ConfigError(
            "--start and --end need --query incremental or --query cdc",
            next_step="add --query incremental, or use --as-of TIME for the table at that time",
        )
    if args.query == "cdc" and (args.columns or args.where or args.meta):
        raise ConfigError(
            "--columns, --where and --meta do not go with --query cdc",
            next_step="filter the changes where you read them; each row has op, before and after",
        )


def _read_arguments(parser: argparse.ArgumentParser) -> None:
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


def _service(
    run: Callable[[Caretaker, argparse.Namespace, Output], None],
) -> Callable[[Call], bool]:
    def act(call: Call) -> bool:
        run(open_caretaker(call.args.table, call.options), call.args, call.out)
        return True

    return act


def _lock(call: Call) -> bool:
    found = lock.open_lock_of(call.args.table, call.options)
    lock.run_lock(found, call.args, call.out, call.now_ms)
    return True


_RECORDS = "print one JSON object a line and nothing else"

VERBS = (
    Verb(
        name="describe",
        summary="show what kind of table this is, how large, and how it is doing",
        example="tidelake describe s3://lake/trips",
        run=_describe,
    ),
    Verb(
        name="timeline",
        summary="show what happened to the table, newest last",
        example="tidelake timeline lake/trips --history",
        run=_timeline,
        add_arguments=_timeline_arguments,
        json_help=_RECORDS,
    ),
    Verb(
        name="slices",
        summary="show which files a query reads",
        example="tidelake slices lake/trips --partition city=oslo --as-of 20260301101500123",
        run=_slices,
        add_arguments=_slice_arguments,
        json_help=_RECORDS,
    ),
    Verb(
        name="schema",
        summary="show the columns and what they do for the table",
        example="tidelake schema lake/trips --json",
        run=_schema,
        add_arguments=_schema_arguments,
        json_help="print the schema as Spark's StructType.fromJson takes it",
    ),
    Verb(
        name="log-file",
        summary="show the blocks of a log file",
        example="tidelake log-file lake/trips city=oslo/.3f0b-0_20260301101500123.log.1_0-1-1",
        run=_log_file,
        add_arguments=_log_file_arguments,
        subject="FILE",
        subject_help="path or URI of the log file, or of the table when PATH follows",
        json_help=_RECORDS,
    ),
    Verb(
        name="stats",
        summary="show rows, bytes and files of each partition, and what wants attention",
        example="tidelake stats lake/trips",
        run=_stats,
        add_arguments=_stats_arguments,
    ),
    Verb(
        name="read",
        summary="print rows (starts Spark)",
        example="tidelake read lake/trips --where \"city = 'oslo'\" --columns id,fare --limit 5",
        run=_read,
        add_arguments=_read_arguments,
        json_help="print one row a line, as Spark's toJSON does, and nothing else",
    ),
    Verb(
        name="compact",
        summary="fold the logs of a merge-on-read table into base files (starts Spark)",
        example="tidelake compact lake/trips --dry-run",
        run=_compact,
        add_arguments=_compact_arguments,
    ),
    Verb(
        name="clean",
        summary="delete the files that nobody can ask for any more",
        example="tidelake clean lake/trips --option hoodie.clean.commits.retained=20 --dry-run",
        run=_service(services.run_clean),
        add_arguments=services.plan_arguments,
    ),
    Verb(
        name="archive",
        summary="move old instants from the active timeline into the history",
        example="tidelake archive lake/trips --option hoodie.keep.min.commits=30 --dry-run",
        run=_service(services.run_archive),
        add_arguments=services.dry_run_argument,
    ),
    Verb(
        name="rollback",
        summary="take the newest write, or writes that failed, off the table",
        example="tidelake rollback lake/trips 20260301101500123",
        run=_service(services.run_rollback),
        add_arguments=services.rollback_arguments,
    ),
    Verb(
        name="savepoint",
        summary="keep the table as of a write, whatever is cleaned later",
        example="tidelake savepoint lake/trips 20260301101500123 --comment 'before the migration'",
        run=_service(services.run_savepoint),
        add_arguments=services.savepoint_arguments,
    ),
    Verb(
        name="restore",
        summary="take the table back to a savepoint, and forget everything since",
        example="tidelake restore lake/trips 20260301101500123 --dry-run",
        run=_service(services.run_restore),
        add_arguments=services.restore_arguments,
    ),
    Verb(
        name="lock",
        summary="show who holds the table's lock, or free the lock of a writer that is gone",
        example="tidelake lock who lake/trips",
        run=_lock,
        actions=(lock.WHO, lock.RELEASE),
    ),
    Verb(
        name="check",
        summary="check every fact that must hold, and list every violation",
        example="tidelake check lake/trips",
        run=_check,
        add_arguments=_check_arguments,
    ),
)
