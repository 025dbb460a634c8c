"""The verb `check`: every fact that must hold, and every violation found."""

from __future__ import annotations

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.output import Json
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.operations.open_table import open_state
from tidelake.read.check import check_table
from tidelake.read.check_report import CheckReport


def as_json(report: CheckReport) -> Json:
    """Return the report as one document."""
    return {
        "sound": report.is_sound,
        "checked": [{"fact": fact, "times": times} for fact, times in report.checked.items()],
        "violations": [
            {"path": v.path, "problem": v.problem, "next_step": v.next_step}
            for v in report.violations
        ],
        "notes": list(report.notes),
    }


def render(report: CheckReport) -> list[str]:
    """Return what was checked, then every violation with its next step."""
    checked = [(f"{times:,}", fact) for fact, times in report.checked.items()]
    lines = text.columns(["CHECKED", "FACT"], checked, right=["CHECKED"])
    for note in report.notes:
        lines += ["", f"note: {note}"]
    for violation in report.violations:
        lines += ["", f"{violation.path}: {violation.problem}", f"  next: {violation.next_step}"]
    found = text.count(len(report.violations), "violation")
    return [*lines, "", "The table is sound." if report.is_sound else f"{found} found."]


def run(call: Call) -> bool:
    """Check the table that the command names, and return whether it is sound."""
    state = open_state(call.table, call.options)
    at = (state.storage, state.config, state.timeline)
    report = check_table(state, MetadataTable.open(*at), unknown_writes(*at), quick=call.args.quick)
    if call.out.as_json:
        call.out.document(as_json(report))
    else:
        call.out.lines(render(report))
    return report.is_sound
