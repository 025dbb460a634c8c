"""What a service would do to the table as it is now."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelake.config import ServiceOptions
from tidelake.errors import ConfigError
from tidelake.services.archive_plan import plan_archive
from tidelake.services.clean_plan import plan_clean
from tidelake.services.compaction import show_compaction
from tidelake.services.plan import Service, ServicePlan, service_of
from tidelake.services.service_context import ServiceContext

_PLANNERS: Mapping[Service, Callable[[ServiceContext, ServiceOptions], ServicePlan]] = {
    Service.COMPACT: lambda now, options: show_compaction(now, options.compaction),
    Service.CLEAN: lambda now, options: plan_clean(now, options.clean).shown(),
    Service.ARCHIVE: lambda now, options: plan_archive(now, options).shown(now.state),
}


def plan_service(
    now: ServiceContext, service: Service | str, options: ServiceOptions
) -> ServicePlan:
    """Return the plan that the service would make now; raise `ConfigError` for an unknown one."""
    known = service_of(service)
    if known is not None:
        return _PLANNERS[known](now, options)
    raise ConfigError(
        f"there is no plan for {service!r}",
        next_step=f"ask for one of {', '.join(known.value for known in _PLANNERS)}",
    )
