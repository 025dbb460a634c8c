from __future__ import annotations

import pytest

from tests.unit.write.tables import table
from tidelake.errors import ConfigError
from tidelake.write.partitions import named_partitions

HIVE = table(hive_style_partitioning=True)
PLAIN = table()


@pytest.mark.parametrize("wanted", ["p=a", "p=a/"])
def test_a_path_names_itself(wanted: str) -> None:
    assert named_partitions(HIVE, [wanted], ["p=a", "p=b"]) == ["p=a"]


def test_the_value_names_the_folder_of_a_table_that_spells_it_plainly() -> None:
    assert named_partitions(PLAIN, ["p=a", "b"], ["a", "b", "c"]) == ["a", "b"]


def test_the_value_is_encoded_as_the_table_does() -> None:
    encoded = table(hive_style_partitioning=True, url_encode_partitioning=True)
    assert named_partitions(encoded, ["p=a/b"], ["p=a%2Fb"]) == ["p=a%2Fb"]


def test_stars_stand_for_any_text() -> None:
    known = ["p=2024-01", "p=2024-02", "p=2025-01"]
    assert named_partitions(HIVE, ["p=2024*"], known) == known[:2]
    assert named_partitions(HIVE, ["*-01"], known) == ["p=2024-01", "p=2025-01"]


def test_a_name_that_fits_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="no partition 'p=z'"):
        named_partitions(HIVE, ["p=a", "p=z"], ["p=a"])
