from tidelake.services.archive import Archived, archive
from tidelake.services.clean import Cleaned, clean, run_clean, schedule_clean
from tidelake.services.dry_run import plan_service
from tidelake.services.plan import PlannedFile, Service, ServicePlan, Undoing
from tidelake.services.restore import Restored, restore, show_restore
from tidelake.services.rollback import (
    RolledBack,
    plan_roll_back,
    roll_back,
    roll_back_all_failed,
)
from tidelake.services.savepoint import Savepoint, delete_savepoint, savepoint
from tidelake.services.service_context import ServiceContext

__all__ = [
    "Archived",
    "Cleaned",
    "PlannedFile",
    "Restored",
    "RolledBack",
    "Savepoint",
    "Service",
    "ServiceContext",
    "ServicePlan",
    "Undoing",
    "archive",
    "clean",
    "delete_savepoint",
    "plan_roll_back",
    "plan_service",
    "restore",
    "roll_back",
    "roll_back_all_failed",
    "run_clean",
    "savepoint",
    "schedule_clean",
    "show_restore",
]
