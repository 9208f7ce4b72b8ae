"""`ray.serve.get_deployment` and `list_deployments`, which Ray had until 2.9."""

from __future__ import annotations

from skate.serve._application.single_deployments import get_deployment, list_deployments

__all__ = ["get_deployment", "list_deployments"]
