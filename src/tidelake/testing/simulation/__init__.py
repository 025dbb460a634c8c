from tidelake.testing.simulation.actors import (
    ACTORS,
    Cleans,
    Compacts,
    Kind,
    Reads,
    RollsBack,
    Sharing,
    Upserts,
)
from tidelake.testing.simulation.audit import violations
from tidelake.testing.simulation.history import (
    ALL_FAULTS,
    EVERYBODY,
    History,
    Played,
    play,
    shrink,
)
from tidelake.testing.simulation.journal import Journal
from tidelake.testing.simulation.scheduler import Faults, Simulation
from tidelake.testing.simulation.toy_rows import create_toy

__all__ = [
    "ACTORS",
    "ALL_FAULTS",
    "EVERYBODY",
    "Cleans",
    "Compacts",
    "Faults",
    "History",
    "Journal",
    "Kind",
    "Played",
    "Reads",
    "RollsBack",
    "Sharing",
    "Simulation",
    "Upserts",
    "create_toy",
    "play",
    "shrink",
    "violations",
]
