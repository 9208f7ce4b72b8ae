"""What engines do with a `runtime_env`: one inside another, what is possible here, its hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._core.requirements import TOOLS, requirements_of

LOCAL = "file://"  # addresses of this machine
ARCHIVES = (".zip", ".whl")
SETUP_HOOK = "worker_process_setup_hook"
CONTAINERS = ("container", "image_uri", "java_jars")
PROCESS = ("nsight", "rocprof_sys", "mpi")  # fields about how a process is started


def merge_runtime_envs(
    outer: Mapping[str, Any], inner: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the environment of what is started inside `outer` and asks for `inner`.

    Variables are merged; everything else that `inner` has replaces what `outer` says of it.
    """
    if not inner:
        return dict(outer)
    replaced = TOOLS if any(name in inner for name in TOOLS) else ()
    kept = {name: value for name, value in outer.items() if name not in replaced}
    variables = {**outer.get("env_vars", {}), **inner.get("env_vars", {})}
    return {**kept, **inner, **({"env_vars": variables} if variables else {})}


def check_possible_here(runtime_env: Mapping[str, object], installs: bool = False) -> None:
    """Raise ValueError for what the engine cannot give to its workers.

    `installs` says whether it can give them packages of their own, and unpack archives.
    """
    if not installs and requirements_of(runtime_env) is not None:
        asked = [name for name in TOOLS if name in runtime_env]
        raise ValueError(
            f"runtime_env[{asked[0]!r}] asks for another environment, and the inline engine runs "
            "everything in this process: install the packages here, or use the local or ray engine"
        )
    for name, value in runtime_env.items():
        if name in CONTAINERS:
            raise ValueError(
                f"runtime_env[{name!r}] asks for a container, and workers run beside the driver: "
                "install what is needed here, or run on a Ray cluster with the ray engine"
            )
        if name in PROCESS:
            raise ValueError(
                f"runtime_env[{name!r}] changes how worker processes start, and those are shared: "
                "do it in the task or in the constructor of an actor"
            )
        if name in ("working_dir", "py_modules"):
            for place in value if isinstance(value, list) else [value]:
                _check_place(name, str(place), unpacks=installs)


def _check_place(name: str, place: str, unpacks: bool) -> None:
    if is_elsewhere(place):
        raise ValueError(
            f"runtime_env[{name!r}] takes a local directory, or a local archive; got {place!r}: "
            "download it first, or use the ray engine"
        )
    if not unpacks and place.endswith(ARCHIVES):
        raise ValueError(
            f"runtime_env[{name!r}] is an archive, which the inline engine does not unpack: "
            f"{place!r}. Unpack it and give the folder, or use the local or ray engine"
        )


class _InTurn:
    """Several hooks as one."""

    __name__ = "in_turn"  # Ray shows it

    def __init__(self, *hooks: object) -> None:
        self._hooks = hooks

    def __call__(self) -> None:
        for hook in self._hooks:
            run_setup_hook(hook)


def with_setup_hook(runtime_env: Mapping[str, object] | None, hook: object) -> dict[str, Any]:
    """Return the environment with one more hook, called before the one it has."""
    env = dict(runtime_env or {})
    return {**env, SETUP_HOOK: _InTurn(hook, env[SETUP_HOOK]) if env.get(SETUP_HOOK) else hook}


def run_setup_hook(hook: Any) -> None:
    """Call a hook that is a function, or the path of one. RuntimeEnvSetupError if it fails."""
    from skate.exceptions import RuntimeEnvSetupError

    try:
        if isinstance(hook, str):
            from pkgutil import resolve_name

            hook = resolve_name(hook)
        hook()
    except Exception as error:
        raise RuntimeEnvSetupError(
            f"Failed to execute the setup hook method. runtime_env[{SETUP_HOOK!r}] raised in a "
            f"worker: {type(error).__name__}: {error}"
        ) from error


def check_setup_hook(runtime_env: Mapping[str, object]) -> None:
    """Raise RuntimeEnvSetupError if there is a hook that cannot be sent to workers."""
    import cloudpickle

    from skate.exceptions import RuntimeEnvSetupError

    try:
        cloudpickle.dumps(runtime_env.get(SETUP_HOOK))
    except Exception as error:
        raise RuntimeEnvSetupError(
            f"Failed to export the setup function. runtime_env[{SETUP_HOOK!r}] has to be pickled "
            f"for the workers, and cannot be: {type(error).__name__}: {error}"
        ) from error


def is_elsewhere(place: str) -> bool:
    """Return whether it is an address on another machine."""
    return "://" in place and not place.startswith(LOCAL)
