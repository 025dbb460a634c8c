from tidelake.testing.simulation.actors import Compacts, Journal, Reads, Sharing, Upserts
from tidelake.testing.simulation.audit import violations
from tidelake.testing.simulation.scheduler import Faults, Simulation
from tidelake.testing.simulation.toy_rows import create_toy

__all__ = [
    "Compacts",
    "Faults",
    "Journal",
    "Reads",
    "Sharing",
    "Simulation",
    "Upserts",
    "create_toy",
    "violations",
]
