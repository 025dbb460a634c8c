"""The verb `timeline`: what happened to the table, and what is still under way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone, tzinfo

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.output import Json
from tidelake.config import TableConfig
from tidelake.model import Action, Instant, State
from tidelake.operations.open_table import open_state
from tidelake.timeline import open_history, with_history

STATES = {
    State.REQUESTED: "planned, not started; nothing of it is read",
    State.INFLIGHT: "started, not completed; its files are never read",
    State.COMPLETED: "took effect at its completion time",
}

ACTIONS = {
    Action.COMMIT: "wrote base files",
    Action.DELTACOMMIT: "wrote log files, and base files for new file groups",
    Action.REPLACECOMMIT: "put file groups in place of others (overwrite, drop, clustering)",
    Action.CLUSTERING: "rewrites file groups into better sorted or sized ones",
    Action.COMPACTION: "merges logs into new base files; completes as a commit",
    Action.LOGCOMPACTION: "merges logs into fewer logs; completes as a deltacommit",
    Action.CLEAN: "deleted old file slices; time travel ends where it reached",
    Action.ROLLBACK: "took back a write that failed",
    Action.RESTORE: "took the table back to a savepoint",
    Action.SAVEPOINT: "keeps the files of its commit from being cleaned",
    Action.INDEXING: "builds a partition of the metadata table",
    Action.SCHEMACOMMIT: "changed the schema",
}


def zone(config: TableConfig) -> tzinfo | None:
    """Return the time zone in which the table names its instants, None for this machine's."""
    return timezone.utc if config.timeline_timezone_utc else None


def took_ms(instant: Instant) -> int | None:
    """Return the time between request and completion."""
    start = text.instant_ms(instant.requested_time)
    end = text.instant_ms(instant.completion_time) if instant.completion_time else None
    return None if start is None or end is None else end - start


def as_json(instant: Instant) -> Json:
    """Return the facts about one instant."""
    return {
        "requested_time": instant.requested_time,
        "completion_time": instant.completion_time,
        "action": instant.action.value,
        "planned_as": instant.planned_as.value,
        "state": instant.state.value,
        "archived": instant.file_name is None,
        "took_ms": took_ms(instant),
    }


def render(instants: Sequence[Instant], config: TableConfig, *, now_ms: int) -> list[str]:
    """Return the timeline as a table, newest last, and what its words mean."""
    if not instants:
        return ["The timeline is empty: nothing has been written to this table yet."]
    rows = [
        (
            instant.requested_time,
            _action(instant),
            instant.state.value + ("" if instant.file_name else ", archived"),
            instant.completion_time or "-",
            _span(took_ms(instant)),
            _age(instant, config, now_ms),
        )
        for instant in instants
    ]
    lines = text.columns(
        ["REQUESTED", "ACTION", "STATE", "COMPLETED", "TOOK", "AGE"], rows, right=["TOOK", "AGE"]
    )
    states = [s for s in State if any(i.state is s for i in instants)]
    actions = [a for a in Action if any(a in (i.action, i.planned_as) for i in instants)]
    meanings = [(s.value, STATES[s]) for s in states] + [(a.value, ACTIONS[a]) for a in actions]
    return [*lines, "", *text.pairs(meanings)]


def _action(instant: Instant) -> str:
    if instant.planned_as is instant.action:
        return instant.action.value
    return f"{instant.action} (from {instant.planned_as})"


def _span(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else text.span(milliseconds)


def _age(instant: Instant, config: TableConfig, now_ms: int) -> str:
    at = text.instant_ms(instant.completion_time or instant.requested_time, zone(config))
    return "-" if at is None else text.span(max(0, now_ms - at))


def run(call: Call) -> bool:
    """Show the timeline, with `--history` the archived instants too."""
    state = open_state(call.table, call.options)
    found = state.timeline.instants
    if call.args.history:
        archived = open_history(state.storage, state.config).instants()
        found = with_history(state.timeline, archived)
    if call.out.as_json:
        call.out.records(as_json(instant) for instant in found)
    else:
        call.out.lines(render(found, state.config, now_ms=call.now_ms))
    return True
