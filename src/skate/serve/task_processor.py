"""Queues of tasks, as consumers read them and clients fill them; by Celery, or by your own."""

from __future__ import annotations

from skate._core.public_names import name_publicly
from skate.serve._tasks.celery_adapter import CeleryTaskProcessorAdapter
from skate.serve._tasks.contract import (
    CeleryAdapterConfig,
    TaskProcessorAdapter,
    TaskProcessorConfig,
    TaskResult,
)

__all__ = [
    "CeleryAdapterConfig",
    "CeleryTaskProcessorAdapter",
    "TaskProcessorAdapter",
    "TaskProcessorConfig",
    "TaskResult",
]

name_publicly(__name__)
