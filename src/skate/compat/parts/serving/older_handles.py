"""Names of former kinds of handles, which programs have in annotations: one kind does it all."""

from __future__ import annotations

from skate.serve.deployment_graph import GraphHandle
from skate.serve.handle import DeploymentHandle

RayServeHandle = DeploymentHandle
RayServeSyncHandle = DeploymentHandle
RayServeDeploymentHandle = DeploymentHandle
RayServeDAGHandle = GraphHandle
