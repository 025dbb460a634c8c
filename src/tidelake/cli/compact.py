"""The verb `compact`: what a compaction did."""

from __future__ import annotations

from tidelake.cli import services, text
from tidelake.cli.call import Call
from tidelake.cli.output import Json
from tidelake.cli.session import start_session
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.model import Commit
from tidelake.model.byte_size import byte_size_text
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.task_runner import Here
from tidelake.services import Service, ServiceContext, plan_service
from tidelake.services.compaction import refuse_uncompactable
from tidelake.storage import open_storage
from tidelake.table import Table
from tidelake.timeline import load_table_config


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
        f"{text.count(commit.files_written, 'base file')} of "
        f"{byte_size_text(commit.bytes_written)}.",
        f"Logs brought {text.count(commit.inserts, 'new row')}, "
        f"{text.count(commit.updates, 'update')} and {text.count(commit.deletes, 'delete')}.",
    ]


def scheduled(instant: str | None) -> list[str]:
    """Return which plan was made, for a person."""
    if instant is None:
        return render(None)
    return [f"Compaction {instant} is scheduled; `--run {instant}` carries it out."]


def run(call: Call) -> bool:
    """Compact the table, or take one of the two steps, or show what would be done."""
    args = call.args
    options = WriteOptions.from_options(call.options)
    storage = open_storage(call.table, call.options)
    # What is wrong with the table is known before Spark has started.
    refuse_uncompactable(load_table_config(storage))
    if args.dry_run:
        now = ServiceContext.load(Env(storage))
        services.show_plan(plan_service(now, Service.COMPACT, options.services), call.out)
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
            call.out.lines(scheduled(instant))
        return True
    compact = Table.open(start_session("compact"), call.table, call.options).compact
    commit = compact() if args.run is None else compact.run(args.run)
    if call.out.as_json:
        call.out.document(as_json(commit))
    else:
        call.out.lines(render(commit))
    return True
