"""What a program says of itself as a job: `init(job_config=JobConfig(...))`."""

from __future__ import annotations

from typing import Any

__all__ = ["JobConfig"]

_LIFETIMES = ("non_detached", "detached")


class JobConfig:
    """Say what is the same for all tasks and actors of a program, for `init(job_config=...)`.

    `runtime_env` and `ray_namespace` are those of `init`, whose own arguments go before them;
    `metadata` is kept for whoever asks. What is about Java (`jvm_options`, `code_search_path`),
    and `default_actor_lifetime="detached"`, can be written down and is refused by `init` on this
    machine. Parameters with an underscore are about the inside of Ray, and without effect.
    """

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: list[str] | None = None,
        runtime_env: dict[str, object] | None = None,
        _client_job: bool = False,
        metadata: dict[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _disable_job_level_lineage_reconstruction: bool = False,
        _py_driver_sys_path: list[str] | None = None,
    ) -> None:
        if not isinstance(code_search_path or [], (list, tuple)):
            raise TypeError(
                "code_search_path is a list of folders and jar files; got "
                f"{type(code_search_path).__name__}: {code_search_path!r}"
            )
        self.jvm_options: list[str] = jvm_options or []
        self.code_search_path: list[str] = code_search_path or []
        self.metadata: dict[str, str] = metadata or {}
        self.ray_namespace = ray_namespace
        self.py_logging_config: Any = None
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)

    def set_metadata(self, key: str, value: str) -> None:
        self.metadata[key] = value

    def set_runtime_env(self, runtime_env: dict[str, Any] | None, validate: bool = False) -> None:
        """Set the environment, which is checked when it is used; with `validate`, also now."""
        if validate:
            from skate.runtime_env import RuntimeEnv

            RuntimeEnv(**(runtime_env or {}))
        self.runtime_env: dict[str, Any] = runtime_env or {}

    def set_ray_namespace(self, ray_namespace: str) -> None:
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        if default_actor_lifetime not in _LIFETIMES:
            raise ValueError(
                f"default_actor_lifetime takes one of {', '.join(_LIFETIMES)}; "
                f"got {default_actor_lifetime!r}"
            )
        self.default_actor_lifetime = default_actor_lifetime

    def set_py_logging_config(self, logging_config: object = None) -> None:
        self.py_logging_config = logging_config

    @classmethod
    def from_json(cls, job_config_json: dict[str, Any]) -> JobConfig:
        """Make one from a dictionary with the parameters of Ray's job submission."""
        return cls(
            jvm_options=job_config_json.get("jvm_options"),
            code_search_path=job_config_json.get("code_search_path"),
            runtime_env=job_config_json.get("runtime_env"),
            metadata=job_config_json.get("metadata"),
            ray_namespace=job_config_json.get("ray_namespace"),
        )

    def _for_init(self) -> dict[str, Any]:
        """Return what `init` is given in place of this; ValueError for what cannot be had."""
        if self.jvm_options or self.code_search_path:
            raise ValueError(
                f"JobConfig(jvm_options={self.jvm_options!r}, "
                f"code_search_path={self.code_search_path!r}) is about Java and C++; skate runs "
                "Python, from sys.path: leave them out"
            )
        if self.default_actor_lifetime == "detached":
            raise ValueError(
                "JobConfig(default_actor_lifetime='detached') is not offered: write "
                'options(lifetime="detached") where the actor is made'
            )
        return {
            "runtime_env": self.runtime_env or None,
            "namespace": self.ray_namespace,
            "logging_config": self.py_logging_config,
        }
