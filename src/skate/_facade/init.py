"""`init`: which engine, with what, and what a second call means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.argument_checks import mapping, wrong_type, wrong_value
from skate._core.nearest import unknown_parameter
from skate._facade import logging_setup, metrics_port, page, resource_overrides, system_config
from skate._facade.client_context import ClientContext
from skate._facade.engines import HERE, make_engine, worker_of_ray
from skate.engine import changing, install_engine, installed_engine
from skate.engine.base import Engine

if TYPE_CHECKING:
    from skate._facade.tracing import StartTracing

_SPILL_DIRECTORIES = ("object_spilling_directory", "_object_spilling_directory")  # of Ray

# Parameters about the services of a cluster, which do not exist here, with the values that ask
# for nothing. `...` stands for any value.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "configure_logging": (True, False),
    "enable_resource_isolation": (False,),
    "cgroup_path": (None,),
    "system_reserved_cpu": (None,),
    "system_reserved_memory": (None,),
    "proxy_server_url": (None,),
    "_redis_password": (...,),
    "_redis_username": (...,),
    "_node_ip_address": (...,),
    "_node_name": (...,),
    "_metrics_export_port": (...,),
    "_enable_object_reconstruction": (...,),
    "_driver_object_store_memory": (...,),
    "_plasma_directory": (...,),
    "_system_config": (...,),  # tunes Ray's own services; spilling and memory are read from it
    "_skip_env_hook": (...,),
    "webui_host": (...,),
    "include_webui": (...,),
    "redis_password": (...,),
    "lru_evict": (...,),
    "_lru_evict": (...,),
    "include_java": (False, None),
    "java_worker_options": (None,),
    **dict.fromkeys(
        (  # of Ray before 1.0
            "driver_object_store_memory", "enable_object_reconstruction", "huge_pages",
            "_internal_config", "internal_config", "load_code_from_local", "node_ip_address",
            "job_id", "num_redis_shards", "num_workers", "object_id_seed", "plasma_directory",
            "raylet_socket_name", "redirect_output", "redirect_worker_output", "redis_max_clients",
            "redis_max_memory", "redis_shard_ports", "start_ray_local", "use_pickle", "use_raylet",
            "worker_path",
        ),
        (...,),
    ),
}  # fmt: skip

_SMALLEST_STORE_BYTES = 1 << 20  # below, hardly a value would fit that is stored there at all

machine: dict[str, Any] = {}  # what it has, where `init` is not told: for pretended clusters
_running: dict[str, Any] = {}  # what the engine of this process was started with


class UnknownInitParameterError(TypeError, RuntimeError):
    """`init` has no such parameter: a TypeError, as everywhere, and a RuntimeError, as in Ray."""


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    dashboard: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str = "127.0.0.1",
    dashboard_port: int | None = None,
    job_config: object = None,
    configure_logging: bool = True,
    log_level: int | str | None = None,
    logging_level: int | str | None = None,
    logging_format: str | None = None,
    logging_config: object = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    enable_resource_isolation: bool = False,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    engine: str | None = None,
    preload: list[str] | None = None,
    spill_dir: str | None = None,
    **kwargs: object,
) -> ClientContext:
    """Start the engine of this process; without it, the first use starts the default one.

    A second call with nothing new returns the same context. One that asks for something else is an
    error, unless `ignore_reinit_error` says to keep what runs.

    Args:
        address: The Ray cluster to run on, for the engine "ray", such as "auto" or
            "10.0.0.1:6379"; None means this machine, or what the environment variable
            SKATE_ADDRESS says.
        num_cpus: How many CPUs tasks and actors share, a whole number; None takes those of the
            machine.
        num_gpus: How many GPUs they share, a whole number; None takes those of the machine.
        resources: Other resources that the machine has, by names of yours, in whole numbers.
        labels: What `nodes()` says of this machine besides.
        object_store_memory: Bytes of memory for objects; None takes a part of the machine's.
        local_mode: Whether to use the engine "inline", in Ray's words.
        ignore_reinit_error: Whether to keep what runs if it was started with other settings.
        dashboard: Whether to offer a page that shows what runs, at the address in
            `dashboard_url` of what is returned. It is for this machine alone, and costs nothing
            until somebody looks.
        include_dashboard: The same, in Ray's words.
        dashboard_host: Where the page is; always "127.0.0.1".
        dashboard_port: The port of the page; None takes a free one.
        job_config: A `JobConfig`, which may say `namespace`, `runtime_env` and logging.
        configure_logging: Without effect: skate leaves your handlers alone.
        log_level: The level of what skate says by itself, such as "WARNING"; None leaves it as it
            is.
        logging_level: The same, in Ray's words.
        logging_format: The format of skate's own messages; None leaves it as it is.
        logging_config: A `LoggingConfig` for the root logger, here and in workers.
        log_to_driver: Whether what workers print appears here; None: it does, unless the
            environment variable RAY_LOG_TO_DRIVER is 0.
        namespace: Where names of actors count; None gives this session one of its own.
        runtime_env: Environment variables, packages and files of all tasks and actors.
        enable_resource_isolation: False: workers are not put into control groups.
        cgroup_path: None, likewise.
        system_reserved_cpu: None, likewise.
        system_reserved_memory: None, likewise.
        proxy_server_url: None: there is no dashboard to be proxied.
        engine: "local" (processes on this machine, the default), "inline" (everything in this
            process and thread, for debuggers and unit tests) or "ray" (the cluster at `address`);
            the environment variable SKATE_ENGINE sets it as well.
        preload: Modules that workers start with, so that tasks need not import them.
        spill_dir: The folder for objects that do not fit into memory.
        **kwargs: Ray's underscored and former keywords, checked, and without effect where the
            engine has nothing of the kind. `_tracing_startup_hook` is a function, or the path of
            one ("module:function"), that sets OpenTelemetry up in each process; see
            `skate.util.tracing`. `_metrics_export_port` is where Prometheus finds what the
            session's processes have measured, on this machine; 0 takes a free port.

    Returns:
        Facts about the session; used in a `with` statement, it ends the session.

    Raises:
        RuntimeError: If skate runs already, with other settings.
        ValueError: If there is no such parameter, engine or address, or a value is out of range.
        TypeError: If a value is of the wrong type.

    Example:
        >>> with skate.init(num_cpus=2):
        ...     skate.cluster_resources()["CPU"]
        2.0
    """
    harmless = {name: value for name, value in locals().items() if name in _WITHOUT_EFFECT}
    memory, spill_dir = _from_private(kwargs, spill_dir)
    tracing = _tracing(kwargs.pop("_tracing_startup_hook", None))
    _check_without_effect({**harmless, **kwargs})
    logging_setup.configure_own(
        logging_setup.chosen_level(log_level, logging_level), logging_format
    )
    job = _of_job(job_config, logging_config, runtime_env, namespace)
    wanted = {
        "address": _checked_address(address, kwargs.get("_system_config")),
        "engine": _chosen_engine(engine, local_mode),
        **_of_machine(num_cpus, num_gpus, memory, resources, object_store_memory),
        "labels": _labels(labels),
        "namespace": option_table.namespace("namespace", job.namespace),
        "runtime_env": _environment(_with_tracing(job.runtime_env, tracing)),
        "log_to_driver": None if logging_setup.shows_output(log_to_driver) else False,
        "log_prefix": False if job.sets_up_logging else None,
        "preload": _module_names("preload", preload),
        "spill_dir": spill_dir,
        "memory_guard": system_config.of_memory_guard(kwargs.get("_system_config")),
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    offered = page.offered(dashboard or include_dashboard, dashboard_host, dashboard_port)
    collected = metrics_port.offered(kwargs.get("_metrics_export_port"))
    before = installed_engine()
    with offered as show, collected as answer:
        started = _start(wanted, ignore_reinit_error, tracing)
        if _running.get("by") is started:  # else it is a worker's: both are its driver's
            show(started)
            answer(started)
    if (job.sets_up_logging or logging_format) and started is not before:
        logging_setup.say_what_began(started)
    return ClientContext(started)


def _chosen_engine(engine: str | None, local_mode: bool) -> str | None:
    if local_mode and engine not in (None, "inline"):
        raise ValueError(f"local_mode=True means engine='inline'; got engine={engine!r}")
    return "inline" if local_mode else engine


class _OfJob(NamedTuple):
    """What `init` and its `job_config` say together."""

    namespace: str | None
    runtime_env: dict[str, Any] | None
    sets_up_logging: bool


def _of_machine(
    num_cpus: object, num_gpus: object, memory: object, resources: object, store: object
) -> dict[str, object]:
    """Return what tasks, actors and objects share, as it was given or as the environment says."""
    has = resource_overrides.overridden(
        {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "memory": memory,
            "resources": resources,
            "object_store_memory": store,
        }
    )
    return {
        "num_cpus": option_table.quantity_of_machine("num_cpus", has["num_cpus"]),
        "num_gpus": option_table.gpus_of_machine("num_gpus", has["num_gpus"]),
        "memory": has["memory"],
        "resources": option_table.resources_of_machine("resources", has["resources"]),
        "object_store_memory": _store_memory(has["object_store_memory"]),
    }


def _of_job(
    job_config: object,
    logging_config: object,
    runtime_env: dict[str, Any] | None,
    namespace: str | None,
) -> _OfJob:
    """Set logging up, and return the rest; what `init` says itself comes before its job."""
    job = _checked("job_config", job_config, "skate.job_config", "JobConfig")
    said = job._for_init() if job is not None else {}
    logging_config = _checked(
        "logging_config",
        logging_config or said.get("logging_config") or logging_setup.config_of_environment(),
        "skate.logging_config",
        "LoggingConfig",
    )
    runtime_env = logging_setup.apply_config(
        logging_config, runtime_env or said.get("runtime_env")
    )
    namespace = said.get("namespace") if namespace is None else namespace
    return _OfJob(namespace, runtime_env, logging_config is not None)


def _tracing(hook: object) -> StartTracing | None:
    if hook is None:
        return None
    from skate._facade.tracing import checked_hook

    return checked_hook(hook)


def _begin_tracing(tracing: StartTracing) -> None:
    """Set tracing up in the session that has just begun; one where it fails does not stay."""
    try:
        tracing()
    except BaseException:
        from skate._facade.api import shutdown

        shutdown()
        raise


def _with_tracing(
    runtime_env: dict[str, Any] | None, tracing: StartTracing | None
) -> dict[str, Any] | None:
    if tracing is None:
        return runtime_env
    from skate._core.runtime_environments import with_setup_hook

    return with_setup_hook(runtime_env, tracing)


def _environment(given: object) -> Mapping[str, Any] | None:
    env = option_table.runtime_env("runtime_env", given)
    if env and env.get("worker_process_setup_hook"):
        from skate._core.runtime_environments import check_setup_hook

        check_setup_hook(env)
    return env


def _checked_address(address: object, config: object) -> str | None:
    if not isinstance(address, (str, type(None))):
        raise wrong_type("address", address, "a string")
    if address not in (None, "", *HERE) and config is not None:
        raise ValueError(
            f"_system_config is for a session that begins, and address={address!r} asks for one "
            "that runs: leave one of them out"
        )
    return address


def _store_memory(value: object) -> int | None:
    size: int | None = option_table.whole_bytes("object_store_memory", value)
    if size is not None and size < _SMALLEST_STORE_BYTES:
        raise wrong_value(
            "object_store_memory", value, f"at least {_SMALLEST_STORE_BYTES:,} bytes"
        )
    return size


def _start(wanted: dict[str, Any], keep_running: bool, tracing: StartTracing | None) -> Engine:
    """Return the engine that runs, or start one and set tracing up in its session."""
    with changing:
        running = installed_engine()
        is_new = False
        if running is None and (worker := worker_of_ray()) is not None and "engine" not in wanted:
            running = worker  # whatever else it asks for, the cluster is there already
            install_engine(running)
        elif running is None:
            running, is_new = make_engine({**machine, **wanted}), True
            install_engine(running)
            _running.clear()
            _running.update(wanted, by=running)
        elif not keep_running and _running.get("by") is running:
            # Otherwise this is a worker: its engine was there before, and init() asks for nothing.
            _check_same(wanted)
    if is_new and tracing is not None and _engine.tracer is None:  # else a worker has done so
        _begin_tracing(tracing)
    return running


def _check_same(wanted: dict[str, Any]) -> None:
    changed = [name for name, value in wanted.items() if _running.get(name) != value]
    if changed:
        asked = ", ".join(f"{name}={_shown(name, wanted[name])}" for name in changed)
        raise RuntimeError(
            f"init({asked}) was called, but skate runs already, with other settings. If init() "
            "was called twice by accident, leave one out; call it before anything else, or "
            "shutdown() first to start anew, or pass ignore_reinit_error=True to keep what runs"
        )


def _shown(name: str, value: Any) -> str:
    """Return a setting as errors show it: of environment variables the names, because values are
    often secrets, and errors end up in logs."""
    if name == "runtime_env" and value.get("env_vars"):
        value = {**value, "env_vars": dict.fromkeys(value["env_vars"], "...")}
    return repr(value)


def _from_private(kwargs: dict[str, Any], spill_dir: str | None) -> tuple[int | None, str | None]:
    for name in ("memory", "temp_dir"):  # until Ray 1.0
        if name in kwargs:
            kwargs.setdefault(f"_{name}", kwargs.pop(name))
    memory = option_table.whole_bytes("_memory", kwargs.pop("_memory", None))
    temp_dir = kwargs.pop("_temp_dir", None)
    if temp_dir is not None and not os.path.isabs(temp_dir):
        raise wrong_value("_temp_dir", temp_dir, "an absolute path")
    chosen = [spill_dir, *(kwargs.pop(name, None) for name in _SPILL_DIRECTORIES)]
    place = system_config.place_to_spill(kwargs.get("_system_config"))
    return memory, next((one for one in [*chosen, place, temp_dir] if one), None)


def _check_without_effect(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if name not in _WITHOUT_EFFECT:
            if name == "redis_address":  # until Ray 2.0
                raise UnknownInitParameterError(
                    "init() has no parameter 'redis_address': write address="
                )
            known = init.__kwdefaults__ or ()
            error = unknown_parameter("init", name, known, also=_WITHOUT_EFFECT)
            raise UnknownInitParameterError(str(error))
        allowed = _WITHOUT_EFFECT[name]
        if ... not in allowed and value not in allowed:
            raise ValueError(
                f"init({name}={value!r}) asks for a service of a cluster that does not exist on "
                f"one machine; leave it out, or give {' or '.join(map(repr, allowed))}"
            )


def _checked(name: str, value: object, module: str, kind: str) -> Any:
    """Return the value, if it is None or of that class. Neither loads a module that nobody asked
    for."""
    if value is None:
        return None
    from importlib import import_module

    if isinstance(value, getattr(import_module(module), kind)):
        return value
    raise TypeError(f"{name} takes a {kind}; got {type(value).__name__}: {value!r}")


def _module_names(name: str, value: object) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise TypeError(f'{name} takes a list of module names such as ["numpy"]; got {value!r}')
    return list(value)


def _labels(labels: dict[str, str] | None) -> dict[str, str] | None:
    mapping("labels", labels)
    for name, value in (labels or {}).items():
        if not all(isinstance(text, str) for text in (name, value)):
            raise TypeError(f"labels takes strings for names and values; got {name!r}: {value!r}")
    return labels or None
