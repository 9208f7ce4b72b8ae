"""Public docstrings say what their parameters are, and their examples run as shown."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.docstring_examples import library_of
from tests.docs.pages import ROOT
from tests.docs.public import MODULES, documented, parameters
from tests.support import run_program

LIBRARIES = sorted(set(map(library_of, MODULES)))
TOGETHER = (  # in one process, as they load the same packages
    ("skate.data", "skate.tune"),
    ("skate.train", "skate.predict"),
    ("skate.serve",),
)
OTHERS = tuple(library for library in LIBRARIES if library not in sum(TOGETHER, ()))


@pytest.mark.parametrize("libraries", [*TOGETHER, OTHERS], ids=lambda some: some[0])
def test_examples(libraries: tuple[str, ...], tmp_path: Path, warm_python: str) -> None:
    done = run_program(
        [warm_python, "-m", "tests.docs.docstring_examples", *libraries],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "SKATE_STORAGE": str(tmp_path),
            "WARM_PACKAGES": "torch" if "skate.train" in libraries else "pandas polars",
        },
        timeout=280,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


#: Where people begin, and what they use next: all of it says what its parameters are.
DESCRIBED = """
    skate skate.logging_config skate.exceptions skate.data
    skate.data.collate_fn skate.predict skate.serve skate.serve.handle skate.train
    skate.train.torch skate.train.tensorflow skate.tune skate.tune.schedulers skate.tune.search
    skate.util skate.util.executor skate.util.queue skate.util.multiprocessing skate.util.dask
    skate.util.collective skate.util.metrics skate.util.scheduling_strategies skate.util.state
    skate.util.actor_group
""".split()


@pytest.mark.parametrize("module", DESCRIBED)
@pytest.mark.filterwarnings("ignore")  # of libraries about themselves
def test_every_parameter_is_described(module: str) -> None:
    """Of a class that inherits its constructor, the docstring of the base may do it."""
    missing = {name: left for name, thing in documented(module) if (left := _unnamed(thing))}
    assert missing == {}


def _unnamed(thing: Any) -> list[str]:
    classes = inspect.getmro(thing) if inspect.isclass(thing) else ()
    text = "\n".join(filter(None, [inspect.getdoc(thing), *(each.__doc__ for each in classes)]))
    return [name for name in parameters(thing) if not re.search(rf"\b{name}\b", text)]
