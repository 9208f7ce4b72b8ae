"""Docstrings of functions begin with a verb, and so say what the function does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "skate"

NOT_VERBS = set(
    """
    a an the this that these those it its they their he she somebody nobody whoever everybody
    what whatever which who whose whether how why where when while until once if unless as
    so such there here now never always not no none nothing only also
    one two three both all any some each every either several most many more other others another
    same new own empty shared nested
    about above after around at before behind below beside besides between but by for from in
    inside into like near of on onto out outside over since through to under up upon with
    within without
    """.split()
)

PROPERTIES = {"property", "cached_property", "setter"}


def is_verb(word: str) -> bool:
    """Tell words that cannot be a verb: plurals, names in quotes, and what is listed above."""
    plural = word.endswith("s") and not word.endswith("ss")
    return word.isalpha() and word[0].isupper() and not plural and word.lower() not in NOT_VERBS


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a noun is right, as for what is read like an attribute."""
    names = [ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list]
    return not PROPERTIES.isdisjoint(names)


def first_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first word of each docstring of a function in a module's text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_property(node):
            words = (ast.get_docstring(node) or "").split()
            if words:
                yield node.lineno, words[0].rstrip(".,:;")


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    wrong = [
        f"{module.relative_to(ROOT)}:{line}: begins with {word!r}; say what it does, as Return …"
        for module in sorted(SOURCE.rglob("*.py"))
        for line, word in first_words(module.read_text())
        if not is_verb(word)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("word", ["The", "What", "Whether", "Files", "`name`", "id", "An"])
def test_what_is_no_verb_is_found(word: str) -> None:
    text = f'def f():\n    """{word} of something."""\n\n\n@property\ndef g():\n    """The g."""\n'
    assert [(line, is_verb(found)) for line, found in first_words(text)] == [(1, False)]


@pytest.mark.parametrize("word", ["Return", "Pass", "Yield"])
def test_verbs_pass(word: str) -> None:
    assert is_verb(word)
