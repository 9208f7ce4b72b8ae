"""From options to plans: worked out once per options object, not once per call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cloudpickle

from skate._core import serialization
from skate._core.accelerators import NUMBERED
from skate._core.labels import lacking
from skate._core.requirements import (
    Requirements,
    asked_requirements,
    has_only_names,
    is_here_already,
)
from skate._core.runtime_environments import check_possible_here, merge_runtime_envs
from skate.engine.affinity import elsewhere
from skate.engine.local.archives import Archives
from skate.engine.local.hub.groups import HubGroup
from skate.engine.local.hub.resources import to_units
from skate.engine.local.hub.work import WorkPlan
from skate.engine.local.hub.workers import Environment
from skate.engine.local.messages import WorkSettings, plain_text
from skate.engine.specs import ActorMeta, ActorOptions, CallOptions, TaskOptions
from skate.exceptions import RuntimeEnvSetupError

if TYPE_CHECKING:
    import threading

    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.environments import WantedEnvironment, WhenDone
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.state import SessionFacts

_MOST_PLANS = 4096
_ASYNC_CONCURRENCY = 1000
_SETUP_SECONDS = 600.0  # to set up an environment, where `RuntimeEnvConfig` does not say


class Planner:
    """Plans of one session."""

    def __init__(
        self,
        lock: threading.RLock,
        info: SessionFacts,
        actors: dict[int, HubActor],
        scheduler: Scheduler,
        find_environment: Callable[[WantedEnvironment, WhenDone], None],
        archives: Archives,
    ) -> None:
        self._lock = lock
        self._info = info
        self._actors = actors
        self._scheduler = scheduler
        self._find_environment = find_environment
        self._archives = archives
        # The options are kept with their plan, so that their id cannot be given to others.
        self._plans: dict[Any, tuple[Any, WorkPlan]] = {}
        self._wanted: dict[Any, WantedEnvironment | None] = {}  # by what was asked for

    def prepare_environment(self) -> None:
        """Begin to build the environment of the whole session, unless it says to wait. Its
        archives are unpacked at once: programs remove them when `init` has returned."""
        env = self._info.runtime_env
        for given in (env.get("working_dir"), *(env.get("py_modules") or ())):
            with suppress(ValueError):  # which those tasks are told that need it
                self._archives.folder_of(given)
        wanted = self._wanted_environment(env)
        if wanted is not None and (env.get("config") or {}).get("eager_install", True):
            with self._lock:
                self._find_environment(wanted, lambda outcome: None)

    def task_plan(self, options: TaskOptions) -> WorkPlan:
        known = self._plans.get(id(options))
        if known is not None:
            return known[1]
        with self._lock:
            return self._remember(id(options), options, self._make_task_plan(options))

    def call_plan(self, actor: int, options: CallOptions) -> WorkPlan:
        key = (actor, id(options))
        known = self._plans.get(key)
        if known is not None:
            return known[1]
        with self._lock:
            return self._remember(key, options, self._make_call_plan(actor, options))

    def _remember(self, key: object, options: object, plan: WorkPlan) -> WorkPlan:
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[key] = (options, plan)
        return plan

    # -- tasks ---------------------------------------------------------------------------------

    def _make_task_plan(self, options: TaskOptions) -> WorkPlan:
        demand = self._demand(options, default_cpus=1.0)
        streaming, count = returns(options.num_returns)
        settings = self._settings(options, demand)
        if options.num_returns == "dynamic":
            settings["dynamic"] = True
        if options.backpressure:
            settings["backpressure"] = int(options.backpressure)
        if options.retry_exceptions is not False:
            settings["retry_exceptions"] = _packed_exceptions(options.retry_exceptions)
        if streaming:
            settings["streaming"] = True
        shape = self._scheduler.shape(
            to_units(demand),
            self._environment(options.runtime_env, demand),
            self._group(options, demand),
            options.bundle_index,
        )
        max_calls = options.max_calls
        if max_calls is None and options.num_gpus:
            max_calls = 1  # so that the GPU's memory is free for the next
        retries, listed = options.max_retries, options.listed
        return WorkPlan(shape, count, retries, settings or None, max_calls, streaming, listed)

    def _settings(
        self, options: TaskOptions | ActorOptions, demand: dict[str, float]
    ) -> WorkSettings:
        """Return what a worker cannot take for granted."""
        settings: WorkSettings = {}
        if options.name and isinstance(options, TaskOptions):
            settings["name"] = plain_text(options.name)
        if demand != {"CPU": 1.0}:
            settings["resources"] = demand
        if options.placement_group:
            settings["placement_group"] = serialization.dumps(options.placement_group).packed()
            settings["capture_child_tasks"] = options.capture_child_tasks
        env = self._runtime_env(options.runtime_env)
        if env:
            settings["runtime_env"] = serialization.dumps(env).packed()
        return settings

    # -- actors --------------------------------------------------------------------------------

    def actor_plan(self, options: ActorOptions, meta: ActorMeta) -> WorkPlan:
        demand = self._demand(options, default_cpus=0.0)
        settings = self._settings(options, demand)
        settings["resources"] = demand
        settings["max_concurrency"] = concurrency(options, meta.is_async)
        settings["concurrency_groups"] = {
            str(k): int(n) for k, n in options.concurrency_groups.items()
        }
        settings["is_async"] = meta.is_async
        settings["name"] = plain_text(options.name)
        settings["namespace"] = plain_text(options.namespace or self._info.namespace)
        settings["meta"] = serialization.dumps(meta).packed()
        shape = self._scheduler.shape(
            to_units(demand),
            self._environment(options.runtime_env, demand),
            self._group(options, demand),
            options.bundle_index,
            dedicated=True,
        )
        return WorkPlan(shape, 1, 0, settings, listed=options.listed)

    def _make_call_plan(self, actor_id: int, options: CallOptions) -> WorkPlan:
        streaming, count = returns(options.num_returns)
        retries, listed = options.max_task_retries, options.listed
        actor = self._actors.get(actor_id)
        if retries is None:
            retries = actor.options.max_task_retries if actor is not None else 0
        if listed is None:
            listed = actor is None or actor.options.listed
        settings: WorkSettings = {}
        if streaming:
            settings["streaming"] = True
        if options.num_returns == "dynamic":
            settings["dynamic"] = True
        if options.backpressure:
            settings["backpressure"] = int(options.backpressure)
        if options.name:
            settings["name"] = plain_text(options.name)
        if options.concurrency_group:
            settings["concurrency_group"] = plain_text(options.concurrency_group)
        if options.retry_exceptions is not False:
            settings["retry_exceptions"] = _packed_exceptions(options.retry_exceptions)
        return WorkPlan(None, count, retries, settings or None, None, streaming, listed)

    def _demand(
        self, options: TaskOptions | ActorOptions, default_cpus: float
    ) -> dict[str, float]:
        demand = _demand(options, default_cpus)
        here = self._info
        return {
            **demand,
            **elsewhere(options.strategy, here.node_id),
            **lacking(options.label_selectors, options.strategy, here.labels),
        }

    # -- surroundings --------------------------------------------------------------------------

    def _group(
        self, options: TaskOptions | ActorOptions, demand: Mapping[str, float]
    ) -> HubGroup | None:
        """Return the placement group that is asked for. Raises ValueError if it cannot serve."""
        if not options.placement_group:
            return None
        group = self._scheduler.groups.get(options.placement_group._ref._id)
        if group is None:
            raise ValueError(f"{options.placement_group!r} does not exist any more")
        index = options.bundle_index
        if not -1 <= index < len(group.bundles):
            raise ValueError(
                f"placement_group_bundle_index takes -1 to {len(group.bundles) - 1}, as the group "
                f"has {len(group.bundles)} bundles; bundle index {index} is invalid"
            )
        if group.problem is None and not group.could_ever_fit(to_units(demand), index):
            raise ValueError(
                f"{dict(demand)} cannot fit into any bundles of the placement group: "
                f"{group.bundles}"
            )
        return group

    def _runtime_env(self, own: Mapping[str, object] | None) -> dict[str, Any]:
        """Return the session's environment with the task's own on top; variables are merged."""
        if own:
            check_possible_here(own, installs=True)
        return merge_runtime_envs(self._info.runtime_env, own)

    def _environment(
        self, runtime_env: Mapping[str, object] | None, demand: Mapping[str, float]
    ) -> Environment:
        env = self._runtime_env(runtime_env)
        items: dict[str, Any] = {}
        if env.get("env_vars"):
            pairs = env["env_vars"].items()
            items["env_vars"] = tuple(sorted((plain_text(k), plain_text(v)) for k, v in pairs))
        if env.get("working_dir"):
            items["working_dir"] = self._folder(env["working_dir"])
        if env.get("py_modules"):
            items["py_modules"] = tuple(map(self._parent_of_module, env["py_modules"]))
        if env.get("worker_process_setup_hook"):
            items["setup_hook"] = _packed_hook(env["worker_process_setup_hook"])
        accelerators = tuple(name for name in NUMBERED if demand.get(name))
        if accelerators:  # read once per process: not shared with work that has none
            items["accelerators"] = accelerators
        wanted = self._wanted_environment(env)
        if wanted is not None:
            items["wants"] = wanted
        threads = int(demand.get("CPU", 0))
        if threads > 1:
            items["threads"] = threads
        return tuple(sorted(items.items()))

    def _folder(self, working_dir: str) -> str:
        return self._archives.folder_of(working_dir) or os.path.abspath(working_dir)

    def _parent_of_module(self, module: Any) -> str:
        return self._archives.folder_of(module) or _module_parent(module)

    def _wanted_environment(self, runtime_env: Mapping[str, Any]) -> WantedEnvironment | None:
        """Return the environment of packages that workers need; None: the driver's own will do."""
        asked = asked_requirements(runtime_env)
        if asked is None:
            return None
        directory = self._folder(runtime_env.get("working_dir") or os.getcwd())
        variables = runtime_env.get("env_vars") or {}
        obeyed = [name for name in variables if name.startswith(("PIP_", "UV_", "CONDA_"))]
        given = tuple((str.__str__(name), str.__str__(variables[name])) for name in sorted(obeyed))
        config = runtime_env.get("config") or {}
        timeout = max(0.0, float(config.get("setup_timeout_seconds", _SETUP_SECONDS)))
        if not has_only_names(asked):  # what is in files may be another thing each time
            return find_wanted(asked, given, directory, timeout)
        key = (asked, given, directory, timeout)
        if key not in self._wanted:
            if len(self._wanted) >= _MOST_PLANS:
                self._wanted.clear()
            self._wanted[key] = find_wanted(*key)
        return self._wanted[key]


def find_wanted(
    asked: Requirements, variables: tuple[tuple[str, str], ...], directory: str, timeout: float
) -> WantedEnvironment | None:
    """Return the environment that has what was `asked` for; None if this process has it."""
    if is_here_already(asked):
        return None
    from skate.engine.local.environment_folders import fingerprint
    from skate.engine.local.hub.environments import WantedEnvironment

    try:
        name = fingerprint(asked, variables, directory)
    except OSError as error:
        raise RuntimeEnvSetupError(
            f"runtime_env[{asked.tool!r}] names what cannot be read: {error}"
        ) from error
    return WantedEnvironment(name, asked, variables, directory, timeout)


def concurrency(options: ActorOptions, is_async: bool) -> int:
    if options.max_concurrency is not None:
        return int(options.max_concurrency)
    return _ASYNC_CONCURRENCY if is_async else 1


def returns(num_returns: int | str) -> tuple[bool, int]:
    """Return whether a call streams, and its number of references."""
    if num_returns == "streaming":
        return True, 1
    return False, 1 if num_returns == "dynamic" else int(num_returns)


def _demand(options: TaskOptions | ActorOptions, default_cpus: float) -> dict[str, float]:
    demand = {
        "CPU": default_cpus if options.num_cpus is None else options.num_cpus,
        "GPU": options.num_gpus or 0,
        "memory": options.memory or 0,
        **(options.resources or {}),
    }
    return {name: float(amount) for name, amount in demand.items() if amount}


@lru_cache(maxsize=8)
def _packed_hook(hook: object) -> bytes:
    """Return the hook, packed once: the bytes may differ from time to time, and with them the
    workers that fit."""
    packed: bytes = cloudpickle.dumps(hook)
    return packed


def _packed_exceptions(allowed: object) -> Any:
    """Return them as a worker gets them; a worker's own arrive packed, as the driver may not
    know them."""
    if isinstance(allowed, bytes):
        return allowed
    types = (Exception,) if allowed is True else allowed
    return serialization.dumps(types).packed()


def _module_parent(module: Any) -> str:
    """Return the directory to put on sys.path for a py_modules item: a path or an imported
    module."""
    path = os.fspath(module) if isinstance(module, (str, os.PathLike)) else module.__path__[0]
    return os.path.dirname(os.path.abspath(path))
