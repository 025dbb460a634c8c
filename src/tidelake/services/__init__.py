from tidelake.services.plan import PlannedFile, Service, ServicePlan

__all__ = ["PlannedFile", "Service", "ServicePlan"]
