"""What tables of one version can do, and how they are laid out."""

from __future__ import annotations

from dataclasses import dataclass

#: With it came completion times in the timeline, and logs of one instant each.
_FIRST_1_X = 8
#: With it came several ordering columns, and settings in the place of payload classes.
_FIRST_1_1 = 9


@dataclass(frozen=True, slots=True)
class TableFormat:
    """One version of the table format, as Hudi numbers them in `hoodie.table.version`."""

    version: int

    @property
    def has_completion_times(self) -> bool:
        """Return whether slices, windows and schemas go by completion times."""
        return self.version >= _FIRST_1_X

    @property
    def has_own_logs(self) -> bool:
        """Return whether a log holds the blocks of one instant, after which it is named.

        In earlier versions it is named after its slice, and several writes add to it.
        """
        return self.version >= _FIRST_1_X

    @property
    def takes_non_blocking(self) -> bool:
        """Return whether non-blocking writers may share a table."""
        return self.version >= _FIRST_1_X

    @property
    def has_partial_blocks(self) -> bool:
        """Return whether log blocks may hold some of the columns."""
        return self.version >= _FIRST_1_X

    @property
    def has_avro_commits(self) -> bool:
        """Return whether commit metadata is Avro; it is JSON in earlier versions."""
        return self.version >= _FIRST_1_X

    @property
    def has_merge_modes(self) -> bool:
        """Return whether a property says how records merge; earlier the payload class does."""
        return self.version >= _FIRST_1_X

    @property
    def keeps_indexes(self) -> bool:
        """Return whether tidelake keeps statistics and the record index of such tables."""
        return self.version >= _FIRST_1_X

    @property
    def builds_indexes_any_time(self) -> bool:
        """Return whether Apache Hudi builds what a metadata table lacks whatever is pending."""
        return self.version >= _FIRST_1_X

    @property
    def has_typed_statistics(self) -> bool:
        """Return whether statistics hold values in the type of their column."""
        return self.version >= _FIRST_1_1

    @property
    def orders_by_several(self) -> bool:
        """Return whether a table may have several ordering columns."""
        return self.version >= _FIRST_1_1

    @property
    def replaces_payloads(self) -> bool:
        """Return whether properties say what payload classes said before."""
        return self.version >= _FIRST_1_1

    @property
    def names_format(self) -> bool:
        """Return whether the properties name the table format."""
        return self.version >= _FIRST_1_1

    @property
    def spells_keys_alike(self) -> bool:
        """Return whether keys of one field are spelled in one way by every key generator."""
        return self.version >= _FIRST_1_1
