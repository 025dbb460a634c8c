from tidelake.timeline.archived_times import ArchivedTimes
from tidelake.timeline.contents import TimelineContents
from tidelake.timeline.history import History, load_history_times, open_history
from tidelake.timeline.load import load_timeline, reload_timeline
from tidelake.timeline.publish import Publisher
from tidelake.timeline.schema_history import load_schema_history
from tidelake.timeline.table_properties import load_table_config, update_table_config
from tidelake.timeline.timeline import Timeline, with_history

__all__ = [
    "ArchivedTimes",
    "History",
    "Publisher",
    "Timeline",
    "TimelineContents",
    "load_history_times",
    "load_schema_history",
    "load_table_config",
    "load_timeline",
    "open_history",
    "reload_timeline",
    "update_table_config",
    "with_history",
]
