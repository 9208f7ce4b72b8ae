"""Run the examples in the docstrings of libraries, in a session for each, as if pasted.

`python -m tests.docs.docstring_examples skate.data skate.tune` prints how many there were, or what
differs from what they say. Examples that begin a session themselves have none before. Only
`skate` is imported for them.
"""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from collections.abc import Iterator

import skate
from tests.docs.public import MODULES, documented

BEGINS = re.compile(r"skate\.(init|shutdown)\(")

#: Modules of other frameworks, which every worker would load, and which have no examples.
FRAMEWORKS = re.compile(r"integration|tensorflow|keras|lightning|huggingface|xgboost|gbm|tf_utils")


def library_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def examples(library: str) -> Iterator[doctest.DocTest]:
    """Yield the examples of a library, those of an inherited docstring once."""
    seen = set()
    for module in MODULES:
        if library_of(module) != library or FRAMEWORKS.search(module):
            continue
        for name, thing in documented(module):
            text = inspect.getdoc(thing) or ""
            if ">>>" in text and text not in seen:
                seen.add(text)
                names = {"skate": skate, "__name__": "__main__"}
                yield doctest.DocTestParser().get_doctest(text, names, name, None, 0)


def run(example: doctest.DocTest) -> str:
    """Return what differs from what the example says."""
    shown: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=shown.append)
    return "".join(shown)


def differences(library: str) -> str:
    """Run the examples of a library, and return what differs from what they say."""
    found = [*examples(library)]
    failed = [run(each) for each in found if BEGINS.search(each.docstring or "")]
    skate.shutdown()
    with skate.init(num_cpus=4):
        if library == "skate.serve":
            skate.serve.start(http_options={"port": 0})
        failed += [run(each) for each in found if not BEGINS.search(each.docstring or "")]
    print(library, len(found))
    return "".join(failed)


if __name__ == "__main__":
    sys.exit("".join(map(differences, sys.argv[1:])) or 0)
