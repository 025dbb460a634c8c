from tidelake.records.keys import KeyRule, partition_values
from tidelake.records.merge_spec import Fill, MergeSpec

__all__ = ["Fill", "KeyRule", "MergeSpec", "partition_values"]
