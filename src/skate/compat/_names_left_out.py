"""What Ray has in public places and skate does not, and files import beside what they use.

A file that imports ten names and uses nine of them should run. So these can be imported, and
whoever uses one is told that skate does not have it. All else is an error when it is imported:
programs look in this way for what there is.
"""

from __future__ import annotations

MODULES_LEFT_OUT = (
    "ray.autoscaler.sdk",
    "ray.cross_language",
    "ray.dag.base",
    "ray.dag.collective_node",
    "ray.dag.context",
    "ray.dag.dag_node_operation",
    "ray.dag.dag_operation_future",
    "ray.dag.format_utils",
    "ray.dag.utils",
    "ray.dag.vis_utils",
    "ray.experimental.channel",
    "ray.experimental.collective.collective",
    "ray.experimental.collective.communicator",
    "ray.experimental.collective.operations",
    "ray.experimental.compiled_dag_ref",
    "ray.experimental.dynamic_resources",
    "ray.experimental.rdt",
    "ray.experimental.state.custom_types",
    "ray.experimental.state.state_cli",
    "ray.experimental.state.state_manager",
    "ray.experimental.state.util",
    "ray.experimental.util",
    "ray.scripts",
    "ray.serve.experimental",
    "ray.serve.gang",
    "ray.serve.scripts",
    "ray.util.client.api",
    "ray.util.client.client_app",
    "ray.util.client.client_pickler",
    "ray.util.client.dataclient",
    "ray.util.client.logsclient",
    "ray.util.client.options",
    "ray.util.client.runtime_context",
    "ray.util.client.server",
    "ray.util.client.worker",
    "ray.util.client_connect",
    "ray.util.collective.backend_registry",
    "ray.util.collective.util",
    "ray.util.common",
    "ray.util.dask.common",
    "ray.util.dask.scheduler_utils",
    "ray.util.serialization_addons",
    "ray.util.state.state_cli",
    "ray.util.state.state_manager",
    "ray.util.state.util",
    "ray.util.timer",
    "ray.util.tpu",
    "ray.util.tracing",
    "ray.widgets",
)

NAMES_LEFT_OUT: dict[str, frozenset[str]] = {
    "ray.exceptions": frozenset({"RAY_EXCEPTION_TYPES"}),
    "ray.serve.config": frozenset(
        {
            "GangPlacementStrategy",
            "GangRuntimeFailurePolicy",
            "GangSchedulingConfig",
        }
    ),
    "ray.serve.deployment": frozenset({"deployment_to_schema", "schema_to_deployment"}),
    "ray.serve.exceptions": frozenset({"gRPCStatusError"}),
    "ray.serve.schema": frozenset(
        {
            "AutoscalingMetricsHealth",
            "AutoscalingStatus",
            "CeleryAdapterConfig",
            "ControllerHealthMetrics",
            "DeploymentAutoscalingDetail",
            "DeploymentNode",
            "DeploymentTopology",
            "DurationStats",
            "ScaleDeploymentRequest",
            "ScalingDecision",
            "Target",
            "TargetGroup",
            "TaskProcessorAdapter",
            "TaskProcessorConfig",
            "TaskResult",
            "TracingConfig",
        }
    ),
    "ray.util.actor_group": frozenset({"ActorConfig", "ActorMetadata"}),
    "ray.util.annotations": frozenset({"AnnotationType"}),
    "ray.util.debug": frozenset({"Suspect"}),
    "ray.util.serialization": frozenset({"StandaloneSerializationContext"}),
    "ray.util.state.api": frozenset({"StateApiClient"}),
}
