from __future__ import annotations

import pytest

from tests.conftest import Unpack
from tidelake.errors import ConfigError
from tidelake.operations.table_services import open_table_services
from tidelake.services import Service

TABLE = "v9_mor_compaction_pending"


@pytest.mark.parametrize("service", Service)
def test_every_service_that_is_named_has_a_plan(service: Service, golden_table: Unpack) -> None:
    found = open_table_services(str(golden_table(TABLE)), {}).plan(service)
    assert found.service is service
    assert found.reason


@pytest.mark.parametrize(
    ("word", "service"),
    [
        ("compaction", Service.COMPACT),
        ("COMPACT", Service.COMPACT),
        ("cleaning", Service.CLEAN),
        ("archival", Service.ARCHIVE),
    ],
)
def test_the_words_of_the_timeline_mean_the_same(
    word: str, service: Service, golden_table: Unpack
) -> None:
    assert open_table_services(str(golden_table(TABLE)), {}).plan(word).service is service


def test_a_word_that_means_no_service_is_refused(golden_table: Unpack) -> None:
    with pytest.raises(ConfigError, match="no plan for 'rollback'") as told:
        open_table_services(str(golden_table(TABLE)), {}).plan("rollback")
    assert told.value.next_step == "ask for one of compact, clean, archive"
