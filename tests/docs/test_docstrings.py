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


#: Base classes to derive from, and what programs rarely call: a sentence says enough there.
IN_A_SENTENCE = set(
    """
    skate.runtime_context skate.runtime_env skate.job_config
    skate.data.aggregate skate.data.expressions skate.data.datatype skate.data.datasource
    skate.data.exceptions skate.experimental.tqdm_ray skate.air.integrations.keras
    skate.serve.request_router skate.serve.context skate.serve.schema skate.testing.plugin
    skate.train.lightning
    skate.tune.integration.pytorch_lightning skate.tune.logger skate.util.iter
    """.split()
)


@pytest.mark.parametrize("module", [name for name in MODULES if name not in IN_A_SENTENCE])
@pytest.mark.filterwarnings("ignore")  # of libraries about themselves
def test_every_parameter_is_described(module: str) -> None:
    """Of a class, its constructor may do it, or the class that it inherits that from."""
    missing = {name: left for name, thing in documented(module) if (left := _unnamed(thing))}
    assert missing == {}


#: Whose other keywords go to libraries, of which newer versions have more.
OPEN_ENDED = {f"skate.data.Dataset.write_{kind}" for kind in ("csv", "json", "orc", "parquet")}


@pytest.mark.filterwarnings("ignore")  # of libraries about themselves
def test_signatures_show_the_keywords_that_are_known() -> None:
    """In place of the `**` that takes them."""
    hidden = {
        name
        for module in MODULES
        for name, thing in documented(module)
        if any("Unpack" in text or text.startswith("**older") for text in _collecting(thing))
    }
    assert {name for name in hidden if "MaterializedDataset" not in name} == OPEN_ENDED


def _collecting(thing: Any) -> list[str]:
    """Return the parameters that take any keyword, as written."""
    if inspect.isclass(thing):
        return []
    found = inspect.signature(thing).parameters.values()
    return [str(parameter) for parameter in found if parameter.kind is parameter.VAR_KEYWORD]


def _unnamed(thing: Any) -> list[str]:
    classes = inspect.getmro(thing) if inspect.isclass(thing) else ()
    constructors = [vars(each).get("__init__") for each in classes]
    own = [each.__doc__ for each in (*classes, *constructors)]
    text = "\n".join(filter(None, [inspect.getdoc(thing), *own]))
    return [name for name in parameters(thing) if not re.search(rf"\b{name}\b", text)]
