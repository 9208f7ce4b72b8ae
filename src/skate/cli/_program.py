"""Running a program as the interpreter would: as `__main__`, with its own arguments."""

from __future__ import annotations

import functools
import importlib.util
import io
import os
import runpy
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any, NamedTuple


class Program(NamedTuple):
    """A script (a file, or a folder with a `__main__.py`) or, with `is_module`, a module."""

    name: str
    arguments: tuple[str, ...]
    is_module: bool


def run(program: Program) -> int:
    """Return the exit code of the program. An exception is shown as the interpreter shows it."""
    try:
        if program.is_module:
            _run_module(program)
        else:
            _run_script(program)
    except Exception as error:
        _show_program(sys.excepthook, type(error), error, error.__traceback__)
        return 1
    except KeyboardInterrupt:
        sys.excepthook = functools.partial(_show_program, sys.excepthook)
        raise  # the interpreter ends as this signal ends it
    return 0


def _show_program(show: Any, kind: Any, error: Any, traceback: Any) -> None:
    """Show an exception by another hook, without the frames that run the program."""
    shown = _without_us(traceback)
    show(kind, error.with_traceback(shown), shown)


def _run_script(program: Program) -> None:
    sys.argv[:] = [program.name, *program.arguments]
    if os.path.isdir(program.name) or program.name.endswith((".zip", ".pyz")):
        runpy.run_path(program.name, run_name="__main__")
        return
    path = os.path.join(os.getcwd(), program.name)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        sys.exit(f"skate run: cannot open {program.name!r}: {error.strerror}")
    sys.path.insert(0, os.path.dirname(os.path.realpath(program.name)))
    main = _new_main(path, None)
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _run_module(program: Program) -> None:
    sys.path.insert(0, os.getcwd())
    spec = _module_spec(program.name)
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code is not None else None
    if code is None:
        sys.exit(f"skate run: there is no code to run in module {program.name!r}")
    sys.argv[:] = [spec.origin or program.name, *program.arguments]
    main = _new_main(spec.origin, spec)
    exec(code, main.__dict__)


def _module_spec(name: str) -> ModuleSpec:
    """Find where the module is; of a package, its `__main__`."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        sys.exit(f"skate run: no module named {name!r}, or it is a package without __main__")
    return spec


def _new_main(file: str | None, spec: ModuleSpec | None) -> types.ModuleType:
    """Make an empty `__main__`, which stays when the program is over: threads may still use it."""
    main = types.ModuleType("__main__")
    main.__spec__ = spec
    main.__dict__.update(__file__=file, __builtins__=__builtins__, __annotations__={})
    main.__package__ = spec.parent if spec is not None else None
    if spec is not None:
        main.__loader__ = spec.loader
    sys.modules["__main__"] = main
    return main


def _without_us(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return the traceback from the program's own first line on."""
    here = traceback
    while here is not None and here.tb_frame.f_code.co_filename != __file__:
        here = here.tb_next
    while here is not None and here.tb_frame.f_code.co_filename == __file__:
        here = here.tb_next
    return here or traceback
