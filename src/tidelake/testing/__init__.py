from tidelake.testing.clock import ManualClock
from tidelake.testing.faults import Crash, Fault, FaultyStorage
from tidelake.testing.ids import SeededIds

__all__ = ["Crash", "Fault", "FaultyStorage", "ManualClock", "SeededIds"]
