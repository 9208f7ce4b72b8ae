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
    "ray.experimental.state.state_manager",
    "ray.experimental.state.util",
    "ray.experimental.util",
    "ray.serve.experimental.",
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
    "ray.util.collective.util",
    "ray.util.common",
    "ray.util.dask.common",
    "ray.util.dask.scheduler_utils",
    "ray.util.serialization_addons",
    "ray.util.state.state_manager",
    "ray.util.state.util",
    "ray.util.timer",
    "ray.util.tpu",
    "ray.util.tracing",
    "ray.widgets",
)

NAMES_LEFT_OUT: dict[str, frozenset[str]] = {
    "ray.dag": frozenset(
        {
            "BIND_INDEX_KEY",
            "COLLECTIVE_OPERATION_KEY",
            "CollectiveOutputNode",
            "DAGNODE_TYPE_KEY",
            "DAGOperationFuture",
            "GPUFuture",
            "IS_CLASS_METHOD_OUTPUT_KEY",
            "plot",
        }
    ),
    "ray.exceptions": frozenset({"RAY_EXCEPTION_TYPES"}),
    "ray.serve.api": frozenset({"build", "get_deployment_statuses"}),
    "ray.serve.config": frozenset(
        {
            "DeploymentConfig",
            "ReplicaConfig",
        }
    ),
    "ray.serve.deployment_graph": frozenset({"ClassNode"}),
    "ray.serve.drivers": frozenset({"DefaultgRPCDriver", "gRPCIngress"}),
    "ray.serve.schema": frozenset(
        {
            "AutoscalingMetricsHealth",
            "AutoscalingStatus",
            "ControllerHealthMetrics",
            "DeploymentAutoscalingDetail",
            "DeploymentNode",
            "DeploymentStatusSchema",
            "DeploymentTopology",
            "DurationStats",
            "ScaleDeploymentRequest",
            "ScalingDecision",
            "ServeApplicationStatusSchema",
            "ServeStatusSchema",
            "Target",
            "TargetGroup",
            "TracingConfig",
            "serve_application_status_to_schema",
            "serve_status_to_schema",
            "status_info_to_schema",
        }
    ),
    "ray.util.actor_group": frozenset({"ActorConfig", "ActorMetadata"}),
    "ray.util.annotations": frozenset({"AnnotationType"}),
    "ray.util.debug": frozenset({"Suspect"}),
    "ray.util.serialization": frozenset({"StandaloneSerializationContext"}),
}
