"""Every example in a public docstring runs, and shows what it says.

The examples of a library share a session, as they would if pasted one after the other; those that
begin a session themselves have none before. Only `skate` is imported for them.
"""

from __future__ import annotations

import doctest
import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import skate
from tests.docs.public import MODULES, documented

LIBRARIES = sorted({".".join(module.split(".")[:2]) for module in MODULES})
BEGINS = re.compile(r"skate\.(init|shutdown)\(")


def examples(library: str) -> Iterator[doctest.DocTest]:
    """Yield the examples of a library, those of an inherited docstring once."""
    seen = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about themselves
        for module in MODULES:
            if ".".join(module.split(".")[:2]) != library:
                continue
            for name, thing in documented(module):
                text = inspect.getdoc(thing) or ""
                if ">>>" in text and text not in seen:
                    seen.add(text)
                    names = {"skate": skate, "__name__": "__main__"}
                    yield doctest.DocTestParser().get_doctest(text, names, name, None, 0)


def run(example: doctest.DocTest) -> str:
    """Return what differs from what the example says; an example has lines that are compared."""
    assert example.examples
    shown: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=shown.append)
    return "".join(shown)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.leaves("serving and libraries keep threads until the end of the session or program")
def test_examples(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = [*examples(library)]
    failed = [run(each) for each in found if BEGINS.search(each.docstring or "")]
    skate.shutdown()
    with skate.init(num_cpus=4):
        if library == "skate.serve":
            skate.serve.start(http_options={"port": 0})
        failed += [run(each) for each in found if not BEGINS.search(each.docstring or "")]
    assert not any(failed), "".join(failed)
