"""Show everything public under its public name in the reference.

The source keeps most classes and functions in modules that nobody outside should name, and offers
them elsewhere, in part by tables that only a running interpreter reads. mkdocstrings reads the
source without running it. So this extension imports the modules that the pages of the reference
name, asks them for their names, and moves each definition to the module where users find it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

_PAGES = Path(__file__).parent / "reference"


def modules() -> list[str]:
    """Return the public modules, in the order of the pages that describe them."""
    pages = sorted(_PAGES.glob("*.md"))
    return [name for page in pages for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)]


def public_names(module: Any) -> list[str]:
    """Return the names that a module offers: its `__all__`, or what is defined in it."""
    if (listed := getattr(module, "__all__", None)) is not None:
        return [name for name in listed if not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


class PublicNames(griffe.Extension):
    """Move definitions from where they are written to where they are found."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Move all of them, when the whole source has been read."""
        if pkg.name != "skate":
            return
        definitions = _Definitions(pkg)
        moved: set[int] = set()
        for path in modules():
            runtime = importlib.import_module(path)
            module = _module(pkg, path, runtime)
            names = public_names(runtime)
            for name in names:
                found = definitions.find(path, name, getattr(runtime, name))
                if found is None:
                    continue
                if id(found) in moved:
                    module.set_member(name, griffe.Alias(name, found, parent=module))
                else:
                    moved.add(id(found))
                    _move(found, module, name)
                    _take_docstrings(found, getattr(runtime, name))
            module.exports = names
        _show_examples_as_code(pkg)


def _take_docstrings(found: griffe.Object, value: Any) -> None:
    """Show what decorators have added: the options that a function takes by `**`."""
    text = inspect.getdoc(value)
    if found.is_function and found.docstring is not None and text:
        found.docstring.value = text
    if found.is_class:
        for name, member in found.members.items():
            if not member.is_alias and name in vars(value):
                _take_docstrings(member, vars(value)[name])


def _show_examples_as_code(parent: griffe.Object) -> None:
    """Give examples the heading by which griffe knows them: under any other they are Markdown, in
    which a list below another in brackets is a link."""
    if parent.docstring is not None:
        text = parent.docstring.value
        parent.docstring.value = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    for member in parent.members.values():
        if not member.is_alias:
            _show_examples_as_code(member)


class _Definitions:
    """Classes, functions and values of the source, by their names."""

    def __init__(self, pkg: griffe.Module) -> None:
        self._pkg = pkg
        self._by_name: dict[str, list[griffe.Object]] = {}
        for found in _walk(pkg):
            self._by_name.setdefault(found.name, []).append(found)

    def find(self, path: str, name: str, value: Any) -> griffe.Object | None:
        """Return the definition of `path.name`, whose value is `value`; modules have none."""
        if inspect.ismodule(value):
            return None
        return self._by_imports(path, name) or self._by_value(value)

    def _by_imports(self, path: str, name: str) -> griffe.Object | None:
        inside = f"{path}.{name}".removeprefix("skate.")
        try:
            found = self._pkg[inside]
            found = found.final_target if found.is_alias else found
        except (KeyError, griffe.GriffeError):
            return None
        return None if found.is_module else found

    def _by_value(self, value: Any) -> griffe.Object | None:
        name = getattr(value, "__name__", None)
        candidates = self._by_name.get(name, []) if isinstance(name, str) else []
        text = inspect.getdoc(value) or ""
        same = [c for c in candidates if c.docstring is not None and c.docstring.value == text]
        return (same or candidates or [None])[0]


def _walk(parent: griffe.Object) -> Iterator[griffe.Object]:
    for member in list(parent.members.values()):
        if not member.is_alias and member.is_module:
            yield from _walk(member)
        elif not member.is_alias:
            yield member


def _module(pkg: griffe.Module, path: str, runtime: Any) -> griffe.Module:
    """Return the module at `path`, made where no file has it."""
    parent = pkg
    for part in path.split(".")[1:]:
        if part not in parent.members or not parent.members[part].is_module:
            made = griffe.Module(part, filepath=Path(pkg.filepath), parent=parent)
            parent.set_member(part, made)
        parent = parent.members[part]
    if parent.docstring is None and runtime.__doc__:
        parent.docstring = griffe.Docstring(inspect.getdoc(runtime), parent=parent)
    return parent


def _move(found: griffe.Object, module: griffe.Module, name: str) -> None:
    """Put a definition into `module`; its former place refers to it."""
    home = found.parent
    if isinstance(found, griffe.Class):  # names of bases mean nothing at the new place
        found.bases = [
            base if isinstance(base, str) else base.canonical_path for base in found.bases
        ]
    if home is not module:
        module.set_member(name, found)
        home.set_member(found.name, griffe.Alias(found.name, found, parent=home))
        found.parent = module
    found.name = name
    found.public = True
