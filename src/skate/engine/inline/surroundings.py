"""What a worker process of its own would have: environment variables, directory, GPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skate._core.runtime_environments import check_possible_here, merge_runtime_envs
from skate._core.variable_references import expand_variables


def merged(outer: Mapping[str, object], inner: Mapping[str, object] | None) -> dict[str, object]:
    """Return the runtime environment of something started inside `outer`.

    References to variables are followed here, once: where it is applied, they may be set already.
    """
    if not inner:
        return dict(outer)
    check_possible_here(inner)
    variables: Any = inner.get("env_vars")
    if variables:
        inner = {**inner, "env_vars": expand_variables(variables, os.environ)}
    return merge_runtime_envs(outer, inner)


@contextmanager
def applied(runtime_env: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[None]:
    """Let the process look as `runtime_env` and `variables` say, inside the block."""
    wanted = {**variables, **runtime_env.get("env_vars", {})}
    directory = runtime_env.get("working_dir")
    modules = [_import_root(module) for module in runtime_env.get("py_modules", ())]
    if not (wanted or directory or modules):
        yield
        return
    before = {name: os.environ.get(name) for name in wanted}
    path, here = sys.path[:], os.getcwd()
    try:
        os.environ.update(wanted)
        sys.path[:0] = [*([str(Path(directory).resolve())] if directory else []), *modules]
        if directory:
            os.chdir(directory)
        yield
    finally:
        os.chdir(here)
        sys.path[:] = path
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _import_root(module: Any) -> str:
    """Return the directory from which a module, or the package in a directory, can be imported."""
    file = getattr(module, "__file__", None)
    if file is None:
        return str(Path(module).resolve().parent)
    return str(Path(file).resolve().parents[1 if hasattr(module, "__path__") else 0])
