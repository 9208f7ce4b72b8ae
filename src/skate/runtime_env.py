"""The surroundings that a task or actor wants: environment variables, directory, modules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from skate._core.requirements import TOOLS, parse_requirements
from skate._core.runtime_environments import (
    ARCHIVES,
    CONTAINERS,
    LOCAL,
    PROCESS,
    SETUP_HOOK,
    is_elsewhere,
)

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_SUPPORTED = ("env_vars", "working_dir", "excludes", "py_modules", "config", SETUP_HOOK, *TOOLS)
_BESIDE_CONTAINERS = ("config", "env_vars")


class RuntimeEnv(dict[str, Any]):
    """A checked runtime environment; a plain dictionary with the same keys does as well.

    RuntimeEnv(env_vars={"OMP_NUM_THREADS": "1"}, working_dir="experiment")

    Workers run in the directories themselves: nothing is copied, so `excludes` leaves out nothing.
    A zip file in the place of a directory, and a wheel among `py_modules`, are unpacked first.
    `worker_process_setup_hook` is a function, or the path of one ("module.name"), that each worker
    calls before anything else. If that raises, so does whatever was to run there.

    `pip` and `uv` take a list of packages, the path of a requirements file, or a dictionary with
    `packages`, `pip_check`, `pip_version` and `pip_install_options` (`uv_check`, ...). Unless all
    of them are installed, workers run in an environment of their own that has them and sees
    everything else that the driver has. It is built once, in the user's cache. `conda` takes the
    name or folder of an environment, or its description; `py_executable` another interpreter of
    the same version. If that fails, so does what was to run there: RuntimeEnvSetupError.
    The inline engine has no workers: there init() or remote() raise ValueError. Containers, and
    directories that are elsewhere, can be had on a Ray cluster only.
    """

    known_fields: frozenset[str] = frozenset((*_SUPPORTED, *CONTAINERS, *PROCESS))
    extensions_fields: frozenset[str] = frozenset()

    def __init__(
        self,
        *,
        py_modules: list[object] | None = None,
        py_executable: str | None = None,
        working_dir: str | None = None,
        pip: object = None,
        conda: object = None,
        container: dict[str, object] | None = None,
        env_vars: dict[str, str] | None = None,
        worker_process_setup_hook: object = None,
        nsight: object = None,
        rocprof_sys: object = None,
        config: object = None,
        _validate: bool = True,
        image_uri: str | None = None,
        uv: object = None,
        **kwargs: object,
    ) -> None:
        given = {
            **kwargs,
            "py_modules": py_modules,
            "py_executable": py_executable,
            "working_dir": working_dir,
            "pip": pip,
            "conda": conda,
            "container": container,
            "env_vars": env_vars,
            "worker_process_setup_hook": worker_process_setup_hook,
            "nsight": nsight,
            "rocprof_sys": rocprof_sys,
            "config": config,
            "image_uri": image_uri,
            "uv": uv,
        }
        super().__init__({name: value for name, value in given.items() if value is not None})
        if _validate:
            _check_fields(self)
            _check_together(self)

    # -- dictionary ----------------------------------------------------------------------------

    def set(self, name: str, value: object) -> None:
        """Set one field, checked; None removes it."""
        if value is None:
            self.pop(name, None)
            return
        self[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        """Set one field, checked."""
        _check(name, value)
        super().__setitem__(name, value)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the field, which is set to the default, checked, if it is not there."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *given: Any, **fields: object) -> None:
        """Set several fields, checked as by the constructor, or none of them; None removes one."""
        wanted = dict(*given, **fields)
        _check_fields({name: value for name, value in wanted.items() if value is not None})
        merged = {**self, **wanted}
        kept = {name: value for name, value in merged.items() if value is not None}
        _check_together(kept)
        self.clear()
        super().update(kept)

    def __ior__(self, given: Any) -> Self:  # type: ignore[override,misc]
        """Do as `update`."""
        self.update(given)
        return self

    def get(self, name: str, default: Any = None, data_class: Any = None) -> Any:
        """Return the field, as an instance of `data_class` if one is given."""
        value = super().get(name, default)
        if data_class is None or name not in self or isinstance(value, data_class):
            return value
        return data_class(**value)

    def to_dict(self) -> dict[str, Any]:
        return dict(self)

    def serialize(self) -> str:
        return json.dumps(self, sort_keys=True, default=_name_of)

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        return cls(**json.loads(serialized_runtime_env))

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (dict(self),)

    # -- questions -----------------------------------------------------------------------------

    def env_vars(self) -> dict[str, str]:
        return dict(super().get("env_vars") or {})

    def working_dir(self) -> str:
        return str(super().get("working_dir") or "")

    def has_working_dir(self) -> bool:
        return bool(super().get("working_dir"))

    def working_dir_uri(self) -> str | None:
        return super().get("working_dir")

    def py_modules(self) -> list[Any]:
        return list(super().get("py_modules") or [])

    def py_modules_uris(self) -> list[str]:
        return [str(module) for module in self.py_modules()]

    def has_pip(self) -> bool:
        return "pip" in self

    def has_uv(self) -> bool:
        return "uv" in self

    def has_conda(self) -> bool:
        return "conda" in self

    def has_py_container(self) -> bool:
        return "container" in self

    def pip_config(self) -> Any:
        """Return what `pip` asks for: packages, or a dictionary of settings; {} for a name."""
        return self._settings_of("pip")

    def uv_config(self) -> Any:
        """Return what `uv` asks for: packages, or a dictionary of settings; {} for a file."""
        return self._settings_of("uv")

    def _settings_of(self, name: str) -> Any:
        value = super().get(name)
        return {} if value is None or isinstance(value, str) else value

    def virtualenv_name(self) -> str | None:
        """Return the name that `pip` is, if it is one."""
        value = super().get("pip")
        return value if isinstance(value, str) else None

    def conda_env_name(self) -> str | None:
        """Return the environment that `conda` names, if it names one."""
        value = super().get("conda")
        return value if isinstance(value, str) else None

    def conda_config(self) -> str | None:
        """Return the environment that `conda` describes, as JSON, if it describes one."""
        value = super().get("conda")
        return json.dumps(value, sort_keys=True) if isinstance(value, dict) else None

    def py_executable(self) -> str | None:
        """Return the command that workers are to be started with."""
        return super().get("py_executable")

    def java_jars(self) -> list[str]:
        """Return the archives of Java that are asked for."""
        return list(super().get("java_jars") or [])

    def nsight(self) -> Any:
        """Return the settings of NVIDIA's profiler."""
        return super().get("nsight")

    def rocprof_sys(self) -> Any:
        """Return the settings of AMD's profiler."""
        return super().get("rocprof_sys")

    def image_uri(self) -> str | None:
        """Return the image of a container that workers are to run in."""
        return super().get("image_uri")

    def py_container_image(self) -> str | None:
        """Return the image of the field `container`, which is older than `image_uri`."""
        return self._of_container("image", "")

    def py_container_worker_path(self) -> str | None:
        """Return where the worker lies in the container."""
        return self._of_container("worker_path", "")

    def py_container_run_options(self) -> list[str] | None:
        """Return the options that the container is run with."""
        none: list[str] = []
        return self._of_container("run_options", none)

    def _of_container(self, name: str, default: T) -> T | None:
        given: T | None = self["container"].get(name, default) if "container" in self else None
        return given

    def get_extension(self, key: str) -> Any:
        """Raise ValueError: there are no plug-ins here whose field it could be."""
        if key not in self.extensions_fields:
            raise ValueError(f"runtime_env has no extension {key!r}; there are none on skate")
        return super().get(key)

    def plugins(self) -> list[tuple[str, Any]]:
        """Return the fields that only a plug-in can know; none, unless they were not checked."""
        return [(name, value) for name, value in self.items() if name not in self.known_fields]


class RuntimeEnvConfig(dict[str, Any]):
    """Say how environments are set up, for `RuntimeEnv(config=...)`.

    Args:
        setup_timeout_seconds: How long packages may take to be installed; -1 for no limit.
        eager_install: Whether that begins with the session, not with the first task.
        log_files: Kept for programs that read it.
    """

    def __init__(
        self,
        setup_timeout_seconds: int = 600,
        eager_install: bool = True,
        log_files: list[str] | None = None,
    ) -> None:
        if not isinstance(setup_timeout_seconds, int):
            raise TypeError(
                f"setup_timeout_seconds takes a whole number; got {setup_timeout_seconds!r}"
            )
        if not isinstance(eager_install, bool):
            raise TypeError(f"eager_install takes True or False; got {eager_install!r}")
        if setup_timeout_seconds != -1 and setup_timeout_seconds <= 0:
            raise ValueError(
                "setup_timeout_seconds takes a number of at least 1, or -1 for no limit; "
                f"got {setup_timeout_seconds}"
            )
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds,
            eager_install=eager_install,
            log_files=log_files or [],
        )


def _name_of(hook: object) -> str:
    return str(getattr(hook, "__qualname__", hook))


def _restore(fields: dict[str, Any]) -> RuntimeEnv:
    return RuntimeEnv(_validate=False, **fields)


def _check(name: str, value: object) -> None:
    if name not in RuntimeEnv.known_fields:
        raise ValueError(f"runtime_env has no field {name!r}; allowed are {', '.join(_SUPPORTED)}")
    check = {
        "env_vars": _check_env_vars,
        "working_dir": _check_path,
        "py_modules": _check_modules,
        "excludes": _check_excludes,
        "config": _check_config,
        SETUP_HOOK: _check_hook,
        **dict.fromkeys(TOOLS, parse_requirements),
    }
    if name in check:
        check[name](name, value)


def _check_fields(fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        _check(name, value)


def _check_together(runtime_env: Mapping[str, object]) -> None:
    _check_one_tool(runtime_env)
    _check_container(runtime_env)


def _check_one_tool(runtime_env: Mapping[str, object]) -> None:
    asked = [name for name in TOOLS if runtime_env.get(name)]
    if len(asked) > 1:
        raise ValueError(
            f"runtime_env takes one of {', '.join(TOOLS)}; got {' and '.join(asked)}: list the "
            "packages of all under one of them"
        )


def _check_container(runtime_env: Mapping[str, object]) -> None:
    for name in CONTAINERS[:2]:
        others = runtime_env.keys() - {name, *_BESIDE_CONTAINERS}
        if runtime_env.get(name) and others:
            raise ValueError(
                f"runtime_env[{name!r}] cannot be used together with {sorted(others)}: the image "
                f"has to bring all but {', '.join(_BESIDE_CONTAINERS)}"
            )


def _check_env_vars(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        kind = type(value).__name__  # what it is may be secret
        raise TypeError(f"runtime_env[{name!r}] takes a dictionary of strings; got a {kind}")
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str):
            raise TypeError(
                f"runtime_env[{name!r}] takes strings, as a Dict[str, str]; got a value of type "
                f"{type(item).__name__} for {key!r}"
            )


def _check_path(name: str, value: object) -> None:
    from pathlib import Path

    if not isinstance(value, (str, Path)):
        raise TypeError(f"runtime_env[{name!r}] takes the path of a directory; got {value!r}")
    text = str(value)
    is_folder = not text.startswith(LOCAL) and Path(text).is_dir()
    if not (is_folder or is_elsewhere(text) or _is_archive(text, (".zip",))):
        raise ValueError(
            f"runtime_env[{name!r}] is not a directory, and no zip file: {str(value)!r}"
        )


def _is_archive(text: str, suffixes: tuple[str, ...]) -> bool:
    from pathlib import Path
    from zipfile import is_zipfile

    path = Path(text.removeprefix(LOCAL))
    return text.endswith(suffixes) and path.is_file() and is_zipfile(path)  # no pipe, to wait for


def _check_hook(name: str, value: object) -> None:
    if not callable(value) and not isinstance(value, str):
        raise TypeError(
            f"runtime_env[{name!r}] takes a function or the path of one, 'module.name'; "
            f"got {value!r}"
        )


def _check_modules(name: str, value: object) -> None:
    from pathlib import Path
    from types import ModuleType

    if not isinstance(value, list):
        raise TypeError(f"runtime_env[{name!r}] takes a list of paths and modules; got {value!r}")
    for module in value:
        if not isinstance(module, (str, Path, ModuleType)):
            raise TypeError(f"runtime_env[{name!r}] takes paths and modules; got {module!r}")
        text = str(module)
        if isinstance(module, ModuleType) or is_elsewhere(text):
            continue
        if not text.endswith(ARCHIVES) and not text.startswith(LOCAL):
            if not Path(text).exists():
                raise ValueError(f"runtime_env[{name!r}]: there is no {text!r}")
        elif not _is_archive(text, ARCHIVES):
            raise ValueError(f"runtime_env[{name!r}]: {text!r} is no wheel, and no zip file")


def _check_excludes(name: str, value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"runtime_env[{name!r}] takes a list of patterns; got {value!r}")


def _check_config(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(
            f"runtime_env[{name!r}] takes a RuntimeEnvConfig, or a dictionary; got {value!r}"
        )
    known = ("setup_timeout_seconds", "eager_install", "log_files")
    RuntimeEnvConfig(**{field: value[field] for field in known if field in value})
