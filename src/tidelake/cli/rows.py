"""The verb `read`: rows, through Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.session import start_session
from tidelake.errors import ConfigError
from tidelake.files.row_json import row_json
from tidelake.operations.open_table import open_state
from tidelake.spark.workers.worker_errors import worker_errors
from tidelake.table import Table

DEFAULT_LIMIT = 20
WIDEST_CELL = 60


def json_lines(frame: DataFrame) -> Iterator[str]:
    """Return every row as JSON text, as Spark's `toJSON` prints it."""
    names = (name.replace("`", "``") for name in frame.columns)
    texts = frame.select(F.to_json(F.struct(*(F.col(f"`{name}`") for name in names))))
    return (row[0] for row in texts.toLocalIterator(prefetchPartitions=True))


def render(frame: DataFrame, limit: int) -> list[str]:
    """Return up to `limit` rows as a table, and whether there are more; 0 means all."""
    found = frame.collect() if limit == 0 else frame.limit(limit + 1).collect()
    shown = found if limit == 0 else found[:limit]
    lines = text.columns(frame.columns, [[_cell(value) for value in row] for row in shown])
    if len(found) > len(shown):
        end = f"{text.count(len(shown), 'row')} shown, there are more: --limit N shows N, 0 all."
    else:
        end = f"{text.count(len(shown), 'row')}."
    return [*lines, "", end]


def _cell(value: object) -> str:
    shown = " ".join(_text(value).splitlines())
    return shown if len(shown) <= WIDEST_CELL else f"{shown[: WIDEST_CELL - 1]}…"


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes | bytearray):
        return f"0x{value.hex()}"
    return row_json(_plain(value)) if isinstance(value, Row | list | dict) else str(value)


def _plain(value: object) -> object:
    """Return a nested value as mappings and lists, as `row_json` takes it."""
    if isinstance(value, Row):
        return {name: _plain(of) for name, of in value.asDict().items()}
    if isinstance(value, dict):
        return {name: _plain(of) for name, of in value.items()}
    if isinstance(value, list):
        return [_plain(of) for of in value]
    return bytes(value) if isinstance(value, bytearray) else value


def run(call: Call) -> bool:
    """Print the rows that the command asks for."""
    args = call.args
    _refuse_contradictions(args)
    open_state(call.table, call.options)  # what is wrong is known before Spark has started
    table = Table.open(start_session("read"), call.table, call.options)
    chosen = args.columns.split(",") if args.columns else None
    if args.query == "cdc":
        frame = table.changes(start=args.start, end=args.end)
    elif args.query == "incremental":
        frame = table.incremental(
            start=args.start, end=args.end, columns=chosen, where=args.where, meta=args.meta
        )
    else:
        query = table.read_optimized if args.query == "read_optimized" else table.read
        frame = query(columns=chosen, where=args.where, as_of=args.as_of, meta=args.meta)
    with worker_errors():
        if call.out.as_json:
            limited = frame.limit(args.limit) if args.limit else frame
            call.out.lines(json_lines(limited))
        else:
            limit = DEFAULT_LIMIT if args.limit is None else args.limit
            call.out.lines(render(frame, limit))
    return True


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
