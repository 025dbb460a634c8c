"""Moving instants off the active timeline.

1. The instants appear in the history; see `timeline.archive`. A crash leaves them on both sides,
   where they count once.
2. Their requested and inflight files go, then their completed files, oldest first. A crash leaves
   completed files, which need no others, and no gap between them.
3. What is left of their markers goes, and files of the history are merged and tidied up.

Nobody's answer changes with any of these steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.config import ServiceOptions
from tidelake.env import Env
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.marker_name import MARKER_FOLDER, marker_folder
from tidelake.model import Instant, State
from tidelake.services.archive_plan import plan_archive
from tidelake.services.done_log import log_done
from tidelake.services.service_context import ServiceContext
from tidelake.timeline.archive import LogArchive, LsmArchive
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.conflicts.undone_writes import savepoint_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """Instants that left the active timeline, by requested time."""

    instants: tuple[Instant, ...]


def archive(
    env: Env, options: ServiceOptions, concurrency: Concurrency | None = None
) -> Archived | None:
    """Archive what is due, or return None when nothing is; all of it under the table's lock."""
    shared = concurrency or Concurrency()
    began_ms = env.clock.now_ms()
    with shared.section():
        now = ServiceContext.load(env, concurrency=shared)
        plan = plan_archive(now, options)
        if not plan.instants:
            return None
        storage, config = env.storage, now.state.config
        kind = LogArchive if config.layout_version == LAYOUT_1 else LsmArchive
        history = kind(storage, config, options.archive)
        shared.ensure()
        history.add(now.state.timeline, plan.instants)
        shared.ensure()
        _remove(now, plan.instants)
        shared.ensure()
        history.tidy()
    last = plan.instants[-1].requested_time
    log_done(env, began_ms, "archival up to", last, f"{len(plan.instants)} instants")
    return Archived(instants=plan.instants)


def _remove(now: ServiceContext, instants: Sequence[Instant]) -> None:
    storage, config = now.env.storage, now.state.config
    files = [
        (file_name, name.state)
        for instant in instants
        for file_name, name in now.state.timeline.files_of(instant)
    ]
    pending = [file for file, state in files if state is not State.COMPLETED]
    completed = [file for file, state in files if state is State.COMPLETED]
    storage.delete_all([f"{config.timeline_folder}/{file_name}" for file_name in pending])
    for file_name in completed:
        storage.delete(f"{config.timeline_folder}/{file_name}")
    times = {i.requested_time for i in instants}
    for time in sorted(times - {i.requested_time for i in now.state.savepoints()}):
        # A savepoint that never completed keeps nothing.
        for file_name in savepoint_files(now.state.timeline, time):
            storage.delete(f"{config.timeline_folder}/{file_name}")
    for name in storage.list(MARKER_FOLDER).folders:
        if name in times:
            storage.delete_folder(marker_folder(name))
