from tidelake.services.archive import Archived, archive
from tidelake.services.clean import Cleaned, clean
from tidelake.services.dry_run import plan_service
from tidelake.services.plan import PlannedFile, Service, ServicePlan
from tidelake.services.table_now import TableNow

__all__ = [
    "Archived",
    "Cleaned",
    "PlannedFile",
    "Service",
    "ServicePlan",
    "TableNow",
    "archive",
    "clean",
    "plan_service",
]
