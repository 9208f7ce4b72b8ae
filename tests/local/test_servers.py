"""What fork servers import before they fork."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import skate
from tests.support import local_only

pytestmark = [local_only, pytest.mark.usefixtures("usual_servers")]

#: Stands for a module that runs an operation of TensorFlow while it is imported: the threads of
#: its runtime have names that begin like this one's.
STARTS_A_RUNTIME = """
import os, threading

named = threading.Event()

def compute():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write("tf_Compute")
    named.set()
    threading.Event().wait()

threading.Thread(target=compute, daemon=True).start()
named.wait()
imported_by = os.getpid()
"""


def test_a_module_that_starts_tensorflow_is_not_inherited(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "skate_starts_a_runtime.py").write_text(STARTS_A_RUNTIME)
    (tmp_path / "skate_harmless.py").write_text("import os\nimported_by = os.getpid()\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ["skate_starts_a_runtime", "skate_harmless"]
    start(num_cpus=1, preload=names)

    @skate.remote
    def inherited() -> dict[str, bool]:
        return {name: import_module(name).imported_by != os.getpid() for name in names}

    assert skate.get(inherited.remote()) == {
        "skate_starts_a_runtime": False,
        "skate_harmless": True,
    }


def test_what_import_ray_needs_is_inherited(start: Any) -> None:
    import skate.compat.ray

    skate.compat.ray.install()
    try:
        import_module("ray")
        start(num_cpus=1)

        @skate.remote
        def imported() -> bool:
            return {"skate.compat.ray", "skate.compat.parts.top"} <= {*sys.modules}

        assert skate.get(imported.remote())
    finally:
        skate.compat.ray.uninstall()


def test_what_functions_of_datasets_use_is_inherited(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import skate.data

    (tmp_path / "skate_slow_module.py").write_text("import os\nimported_by = os.getpid()\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("skate_slow_module")
    start(num_cpus=1, preload=["skate_slow_module"])

    def inherited(batch: Any) -> Any:
        import skate_slow_module  # type: ignore[import-not-found]

        return {"inherited": [skate_slow_module.imported_by != os.getpid()]}

    class Model:
        def __call__(self, batch: Any) -> Any:
            return inherited(batch)

    for function, options in ((inherited, {}), (Model, {"concurrency": 1})):
        (row,) = skate.data.range(1).map_batches(function, **options).take_all()
        assert row["inherited"]


def test_what_trials_run_in_is_imported_once(start: Any) -> None:
    """And inherited by the first workers already, which no warm server has been made for."""
    import_module("skate.tune.execution.worker")
    start(num_cpus=1)

    @skate.remote
    class Trial:
        def inherits(self) -> bool:
            return "skate.tune.execution.worker" in sys.modules

    assert skate.get(Trial.remote().inherits.remote())
