from tidelake.testing.simulation.actors import ACTORS, Kind, Part, Sharing, kind_of
from tidelake.testing.simulation.audit import violations
from tidelake.testing.simulation.history import (
    ALL_FAULTS,
    EVERYBODY,
    History,
    Played,
    play,
    shrink,
)
from tidelake.testing.simulation.journal import Effect, Journal
from tidelake.testing.simulation.scheduler import Faults, Simulation
from tidelake.testing.simulation.toy_rows import create_toy
from tidelake.testing.simulation.world import history_of

__all__ = [
    "ACTORS",
    "ALL_FAULTS",
    "EVERYBODY",
    "Effect",
    "Faults",
    "History",
    "Journal",
    "Kind",
    "Part",
    "Played",
    "Sharing",
    "Simulation",
    "create_toy",
    "history_of",
    "kind_of",
    "play",
    "shrink",
    "violations",
]
