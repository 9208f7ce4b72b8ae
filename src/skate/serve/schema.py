"""Config files: what `skate serve run`, `deploy` and `build` read and write.

A file names applications by the import path of their code, and overrides options of deployments:

    http_options: {port: 8000}
    applications:
      - name: translator
        route_prefix: /translate
        import_path: translator:app
        deployments:
          - {name: Translator, num_replicas: 2}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from skate._core import notices
from skate._core.nearest import nearest_names
from skate._core.optional_imports import try_import
from skate._core.public_names import name_publicly
from skate.serve._application.options import check, resolve
from skate.serve._http.routes import check_prefix
from skate.serve._identity import DEFAULT_APP
from skate.serve._status import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatusOverview,
    ProxyStatus,
    ServeStatus,
)
from skate.serve.config import (
    AutoscalingConfig,
    AutoscalingPolicy,
    GangSchedulingConfig,
    HTTPOptions,
    ProxyLocation,
    check_certificate,
    gRPCOptions,
)

if TYPE_CHECKING:
    from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
else:
    _pydantic = try_import("pydantic", "serve")
    BaseModel, ConfigDict, Field = _pydantic.BaseModel, _pydantic.ConfigDict, _pydantic.Field
    field_validator, model_validator = _pydantic.field_validator, _pydantic.model_validator

__all__ = [
    "ApplicationStatus",
    "ApplicationStatusOverview",
    "DeploymentSchema",
    "DeploymentStatusOverview",
    "HTTPOptionsSchema",
    "LoggingConfig",
    "ProxyStatus",
    "RayActorOptionsSchema",
    "ServeApplicationSchema",
    "ServeDeploySchema",
    "ServeStatus",
    "gRPCOptionsSchema",
]


class _Strict(BaseModel):
    """A field that does not exist is a mistake if it looks like one that does.

    All else may be of a later version, or of an earlier one, and is left out with a warning.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", arbitrary_types_allowed=True)
    not_here: ClassVar[tuple[str, ...]] = ()  # fields that belong elsewhere
    is_closed: ClassVar[bool] = False  # whether any field that does not exist is a mistake

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, given: Any) -> Any:
        unknown = [name for name in given if name not in cls.model_fields] if given else ()
        for name in unknown if isinstance(given, Mapping) else ():
            near = nearest_names(str(name), cls.model_fields, 1)
            if near or name in cls.not_here or cls.is_closed:
                hint = f"; did you mean {near[0]!r}?" if near else ""
                hint = ": it belongs to http_options" if name in cls.not_here else hint
                raise ValueError(f"{cls.__name__} has no field {name!r}{hint}")
            notices.once(
                f"{cls.__name__}.{name}", f"{cls.__name__} has no field {name!r}: it is left out"
            )
        return given

    def given(self) -> dict[str, Any]:
        """Return what the file says, without defaults."""
        return {name: getattr(self, name) for name in self.model_fields_set}


_OF_RECORDS = {*vars(logging.makeLogRecord({})), "asctime", "message", "taskName"}


class LoggingConfig(_Strict):
    """How replicas log what comes by the loggers `ray.serve` and `skate.serve`.

    Args:
        encoding: "TEXT", or "JSON" for one object per line.
        log_level: The lowest level that is logged.
        logs_dir: A folder for files, one per replica, besides standard error; None for no files.
        enable_access_log: Whether each request is logged, with its outcome and its time.
        additional_log_standard_attrs: More attributes of a record.
    """

    is_closed: ClassVar[bool] = True

    encoding: Literal["TEXT", "JSON"] = "TEXT"
    log_level: int | str = "INFO"
    logs_dir: str | None = None
    enable_access_log: bool = True
    additional_log_standard_attrs: list[str] = Field(default_factory=list)

    @field_validator("log_level")
    @classmethod
    def _its_name(cls, value: int | str) -> str:
        name = value.upper() if isinstance(value, str) else logging.getLevelName(value)
        if not isinstance(logging.getLevelName(name), int):
            raise ValueError(f"log_level takes a level of the module logging; got {value!r}")
        return name

    @field_validator("additional_log_standard_attrs")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        unknown = [name for name in value if name not in _OF_RECORDS]
        if unknown:
            raise ValueError(
                f"additional_log_standard_attrs takes {', '.join(sorted(_OF_RECORDS))}; "
                f"got {unknown}"
            )
        return list(dict.fromkeys(value))


class RayActorOptionsSchema(_Strict):
    """What each replica takes.

    Args:
        runtime_env: The environment of its process.
        num_cpus: How many CPUs are reserved.
        num_gpus: How many GPUs are reserved.
        memory: How many bytes are reserved.
        resources: Custom resources, by name.
        accelerator_type: Which accelerator it needs.
        label_selector: Labels that its machine has.
    """

    runtime_env: dict[str, Any] = Field(default_factory=dict)
    num_cpus: float | None = Field(default=None, ge=0)
    num_gpus: float | None = Field(default=None, ge=0)
    memory: float | None = Field(default=None, ge=0)
    resources: dict[str, Any] = Field(default_factory=dict)
    accelerator_type: str | None = None
    label_selector: dict[str, str] | None = None


class DeploymentSchema(_Strict):
    """Options of a deployment that take precedence over those in the code.

    All but `name` are those of `serve.deployment`.
    """

    name: str
    num_replicas: int | str | None = None
    max_ongoing_requests: int = Field(default=5, gt=0)
    max_queued_requests: int = Field(default=-1, ge=-1)
    backpressure_config: Any = None
    user_config: Any = None
    autoscaling_config: dict[str, Any] | AutoscalingConfig | None = None
    graceful_shutdown_wait_loop_s: float = Field(default=2.0, ge=0)
    graceful_shutdown_timeout_s: float = Field(default=20.0, ge=0)
    health_check_period_s: float = Field(default=10.0, gt=0)
    health_check_timeout_s: float = Field(default=30.0, gt=0)
    ray_actor_options: RayActorOptionsSchema | None = None
    placement_group_bundles: list[dict[str, float]] | None = None
    placement_group_strategy: str | None = None
    placement_group_bundle_label_selector: list[dict[str, str]] | None = None
    max_replicas_per_node: int | None = None
    rolling_update_percentage: float = Field(default=0.2, gt=0, le=1)
    max_surge_percent: int = Field(default=0, ge=0)
    logging_config: LoggingConfig | None = None
    request_router_config: Any = None
    gang_scheduling_config: Any = None
    deployment_actors: list[Any] | None = None

    @field_validator("gang_scheduling_config")
    @classmethod
    def _gangs(cls, value: object) -> GangSchedulingConfig | None:
        return None if value is None else GangSchedulingConfig.of("gang_scheduling_config", value)

    @field_validator("num_replicas")
    @classmethod
    def _a_number_or_auto(cls, value: object) -> object:
        if value is None or value == "auto" or (isinstance(value, int) and value > 0):
            return value
        raise ValueError(f'num_replicas takes a number of at least 1, or "auto"; got {value!r}')

    @model_validator(mode="after")
    def _as_a_deployment_takes_them(self) -> DeploymentSchema:
        options = self.options()
        # A fraction of more than one GPU is refused when a replica would take it, as in Ray.
        options.get("ray_actor_options", {}).pop("num_gpus", None)
        try:
            resolve(check(options))
        except TypeError as error:  # which pydantic would not collect
            raise ValueError(str(error)) from None
        return self

    def options(self) -> dict[str, Any]:
        """Return the options as `Deployment.options` takes them."""
        options = {name: value for name, value in self.given().items() if name != "name"}
        if self.ray_actor_options is not None:
            options["ray_actor_options"] = self.ray_actor_options.given()
        return options


class ServeApplicationSchema(_Strict):
    """An application: where its code is, where it answers, what is overridden.

    Args:
        name: Its name.
        route_prefix: Where it answers HTTP; None for nowhere.
        import_path: "module:app", an application or a function that makes one.
        runtime_env: The environment of all its replicas.
        args: For the function.
        deployments: Options that are overridden.
        logging_config: How replicas log, where their deployments do not say it.
        external_scaler_enabled: False, or it is refused when it is run: nothing outside of the
            program scales deployments.
        autoscaling_policy: The fields of an `AutoscalingPolicy`, whose function decides for all
            deployments that scale: it takes their contexts by `DeploymentID`, and returns numbers
            by the same, and a state for each. Policies of deployments are not asked then.
    """

    name: str = DEFAULT_APP
    route_prefix: str | None = "/"
    import_path: str
    runtime_env: dict[str, Any] = Field(default_factory=dict)
    args: dict[str, Any] = Field(default_factory=dict)
    deployments: list[DeploymentSchema] = Field(default_factory=list)
    logging_config: LoggingConfig | None = None
    external_scaler_enabled: bool = False
    autoscaling_policy: Any = None

    not_here: ClassVar[tuple[str, ...]] = ("host", "port")

    @field_validator("route_prefix")
    @classmethod
    def _a_prefix(cls, value: str | None) -> str | None:
        check_prefix(value)
        return value

    @model_validator(mode="after")
    def _scaled_by_one(self) -> ServeApplicationSchema:
        scaled = [
            each.name
            for each in self.deployments
            if each.autoscaling_config is not None or each.num_replicas == "auto"
        ]
        if self.external_scaler_enabled and scaled:
            raise ValueError(
                "external_scaler_enabled is set to True, and these deployments scale by "
                f"themselves: {', '.join(scaled)}"
            )
        return self

    @field_validator("autoscaling_policy")
    @classmethod
    def _a_policy(cls, value: object) -> AutoscalingPolicy | None:
        try:
            return None if value is None else AutoscalingPolicy.of("autoscaling_policy", value)
        except TypeError as error:  # which pydantic would not collect
            raise ValueError(str(error)) from None

    @field_validator("import_path")
    @classmethod
    def _a_path(cls, value: str) -> str:
        module, _, name = value.rpartition(":" if ":" in value else ".")
        if value.count(":") > 1 or not module or not name:
            raise ValueError(f'an import path looks like "module:app"; got {value!r}')
        return value

    @property
    def deployment_names(self) -> list[str]:
        """The names of the deployments whose options are overridden."""
        return [deployment.name for deployment in self.deployments]


class HTTPOptionsSchema(_Strict):
    """The address. Nobody outside of this machine can reach it unless `host` says so.

    The fields are those of `HTTPOptions`.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    root_path: str = ""
    request_timeout_s: float | None = Field(default=None, ge=0)
    keep_alive_timeout_s: float = Field(default=90, ge=0)
    receive_timeout_s: float = Field(default=60, gt=0)
    show_errors: bool = False
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None
    auth_token: str | None = Field(default=None, repr=False)
    auth_token_file: str | None = None

    @model_validator(mode="after")
    def _certificate(self) -> HTTPOptionsSchema:
        check_certificate(self.ssl_keyfile, self.ssl_certfile)
        return self

    def options(self) -> HTTPOptions:
        """Return the options as `serve.start` takes them."""
        return HTTPOptions(**self.given())


class gRPCOptionsSchema(_Strict):  # noqa: N801 - the name is Ray's
    """Where gRPC is answered, and which methods. The fields are those of `gRPCOptions`."""

    port: int = 9000
    grpc_servicer_functions: list[str] = Field(default_factory=list)
    request_timeout_s: float | None = None
    enable_reflection: bool = False

    def options(self) -> gRPCOptions:
        """Return the options as `serve.start` takes them."""
        return gRPCOptions(**self.given())


class ServeDeploySchema(_Strict):
    """A whole config file.

    Args:
        proxy_location: "Disabled" for no HTTP; all else is this machine.
        http_options: The address.
        grpc_options: Where gRPC is answered, and which methods.
        logging_config: How replicas log, where neither application nor deployment says it.
        applications: What runs, each with a name and a prefix of its own.
        target_capacity: How many of their replicas deployments have, in percent: 50 for half,
            and at least one of each, unless it is 0. None is 100.
    """

    proxy_location: ProxyLocation = ProxyLocation.EveryNode
    http_options: HTTPOptionsSchema = Field(default_factory=HTTPOptionsSchema)
    grpc_options: gRPCOptionsSchema = Field(default_factory=gRPCOptionsSchema)
    logging_config: LoggingConfig | None = None
    applications: list[ServeApplicationSchema]
    target_capacity: float | None = Field(default=None, ge=0, le=100)

    @staticmethod
    def get_empty_schema_dict() -> dict[str, Any]:
        """Return a config without applications."""
        return {"applications": []}

    @model_validator(mode="after")
    def _no_two_alike(self) -> ServeDeploySchema:
        for what in ("name", "route_prefix"):
            values = [getattr(app, what) for app in self.applications]
            twice = {value for value in values if value and values.count(value) > 1}
            if twice:
                raise ValueError(
                    f"applications need different values of {what}; duplicate applications have "
                    f"{', '.join(map(repr, twice))}"
                )
        if not all(app.name for app in self.applications):
            raise ValueError("each application needs a name, which must be nonempty")
        return self


name_publicly(__name__)
