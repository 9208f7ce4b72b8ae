"""What Ray has in public places and skate does not, and files import beside what they use.

A file that imports ten names and uses nine of them should run. So these can be imported, and
whoever uses one is told that skate does not have it. All else is an error when it is imported:
programs look in this way for what there is.
"""

from __future__ import annotations

MODULES_LEFT_OUT = (
    "ray.autoscaler.v2",
    "ray.cross_language",
    "ray.dag.base",
    "ray.dag.collective_node",
    "ray.dag.dag_node_operation",
    "ray.dag.dag_operation_future",
    "ray.dag.format_utils",
    "ray.dag.utils",
    "ray.dag.vis_utils",
    "ray.dashboard.consts",
    "ray.dashboard.datacenter",
    "ray.dashboard.memory_utils",
    "ray.dashboard.modules.",
    "ray.dashboard.optional_utils",
    "ray.dashboard.state_aggregator",
    "ray.dashboard.state_api_utils",
    "ray.dashboard.utils",
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
    "ray.serve.scripts",
    "ray.util.accelerators.tpu",
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
    "ray.util.tracing.tracing_helper",
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
    "ray.experimental.collective": frozenset({"allgather", "allreduce", "reducescatter"}),
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
    "ray.air.config": frozenset({"MAX", "MIN", "SampleRange"}),
    "ray.air.constants": frozenset({"AIR_ENV_VARS"}),
    "ray.tune.constants": frozenset({"TUNE_ENV_VARS"}),
    "ray.tune.experiment.trial": frozenset({"DEBUG_PRINT_INTERVAL", "TRIAL_STATE_FILENAME"}),
    "ray.tune.progress_reporter": frozenset(
        {"IS_NOTEBOOK", "RemoteReporterMixin", "SKIP_RESULTS_IN_REPORT", "TrialProgressCallback"}
    ),
    "ray.tune.resources": frozenset({"json_to_resources", "resources_to_json"}),
    "ray.tune.schedulers": frozenset({"SCHEDULER_IMPORT"}),
    "ray.tune.schedulers.pb2": frozenset({"has_sklearn", "import_pb2_dependencies"}),
    "ray.tune.search": frozenset({"SEARCH_ALG_IMPORT"}),
    "ray.tune.search.basic_variant": frozenset({"SERIALIZATION_THRESHOLD"}),
    "ray.tune.search.hebo.hebo_search": frozenset({"SPACE_ERROR_MESSAGE"}),
    "ray.tune.search.hyperopt.hyperopt_search": frozenset({"HYPEROPT_UNDEFINED_DETAILS"}),
    "ray.tune.search.optuna.optuna_search": frozenset({"DEFINE_BY_RUN_WARN_THRESHOLD_S"}),
    "ray.tune.search.sample": frozenset({"RandomState"}),
    "ray.tune.trainable.function_trainable": frozenset({"NULL_MARKER", "TEMP_MARKER"}),
    "ray.tune.trainable.trainable": frozenset({"SETUP_TIME_THRESHOLD"}),
    "ray.util.actor_group": frozenset({"ActorConfig", "ActorMetadata"}),
    "ray.util.annotations": frozenset({"AnnotationType"}),
    "ray.util.client.common": frozenset(
        {
            "ClientActorClass",
            "ClientRemoteFunc",
            "ClientStub",
            "OBJECT_TRANSFER_CHUNK_SIZE",
            "OrderedResponseCache",
            "ResponseCache",
        }
    ),
    "ray.util.debug": frozenset({"Suspect"}),
    "ray.util.multiprocessing.pool": frozenset({"PoolTaskError"}),
    "ray.util.serialization": frozenset({"StandaloneSerializationContext"}),
}
