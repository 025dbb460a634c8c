"""Plans that name what is no write are refused before anything is deleted."""

from __future__ import annotations

import pytest

from tests.unit.services.busy_table import busy
from tests.unit.txn.toy_table import environment
from tidelake.errors import UnsupportedTableError
from tidelake.formats import plans
from tidelake.formats.plans import InstantInfo, RestorePlan, RollbackPlan
from tidelake.model import Action, TableType
from tidelake.services.restore import restore
from tidelake.services.rollback import roll_back_all_failed
from tidelake.services.savepoint import savepoint
from tidelake.timeline import Publisher

bad_targets = pytest.mark.parametrize(
    ("time", "action"),
    [
        ("20261115000000000", "nonsense"),
        ("20261115000000000", ""),
        ("20261115000000000", "savepoint"),
    ],
)


@bad_targets
@pytest.mark.parametrize("table_version", [6, 9])
def test_a_rollback_of_what_is_no_write_is_refused(
    table_version: int, time: str, action: str
) -> None:
    table = busy(table_version, TableType.COPY_ON_WRITE, 2)
    now = table.now
    target = InstantInfo(commit_time=time, action=action)
    plan = RollbackPlan(instant_to_rollback=target, rollback_requests=())
    Publisher(table.storage, now.state.config).request(
        now.times.next(), Action.ROLLBACK, plans.encode(plan)
    )
    before = table.storage.files_below("")
    with pytest.raises(UnsupportedTableError, match="does not say what to roll back"):
        roll_back_all_failed(environment(table.storage))
    assert table.storage.files_below("") == before


@bad_targets
@pytest.mark.parametrize("table_version", [6, 9])
def test_a_restore_of_what_is_no_write_is_refused(
    table_version: int, time: str, action: str
) -> None:
    table = busy(table_version, TableType.COPY_ON_WRITE, 2)
    saved = savepoint(environment(table.storage)).instant
    later = table.write({"a-0": "later"})
    now = table.now
    plan = RestorePlan(
        instants_to_rollback=(
            InstantInfo(commit_time=later, action="commit"),
            InstantInfo(commit_time=time, action=action),
        ),
        version=2,
        savepoint_to_restore_timestamp=saved,
    )
    Publisher(table.storage, now.state.config).request(
        now.times.next(), Action.RESTORE, plans.encode(plan)
    )
    before = table.storage.files_below("")
    with pytest.raises(UnsupportedTableError, match="which is no write"):
        restore(environment(table.storage), saved)
    assert table.storage.files_below("") == before
