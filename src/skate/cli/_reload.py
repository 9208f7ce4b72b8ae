"""`skate serve run --reload`: applications that are deployed again when their files change."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES

_LOOK_SECONDS = 0.5
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}  # and what begins with a dot
_OF_MODULES = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)

Files = dict[str, tuple[int, int]]  # when they were written, and how large they are


class Watched:
    """The modules of a folder and other files, as they were when they were looked at last.

    What else is in the folder does not count: applications write there, as logs.

    Args:
        folder: Where the modules are, and in folders below.
        others: Further files, as of configs.
    """

    def __init__(self, folder: str, others: Iterable[str] = ()) -> None:
        self._folder = os.path.abspath(folder)
        self._others = [os.path.abspath(path) for path in others]
        self._files = self._look()

    def changed(self) -> list[str]:
        """Return the files that are new, other or gone since the last look."""
        before, self._files = self._files, self._look()
        paths = {*before, *self._files}
        return sorted(path for path in paths if before.get(path) != self._files.get(path))

    def forget_modules(self) -> None:
        """Have modules of the folder be imported anew, when they are imported next."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            is_ours = name.partition(".")[0] in ("__main__", "skate")
            if path and os.path.abspath(path) in self._files and not is_ours:
                del sys.modules[name]
        importlib.invalidate_caches()

    def _look(self) -> Files:
        return {path: seen for path in self._paths() if (seen := _seen(path)) is not None}

    def _paths(self) -> Iterator[str]:
        yield from self._others
        for folder, folders, names in os.walk(self._folder):
            folders[:] = [each for each in folders if each not in _LEFT_OUT and each[:1] != "."]
            yield from (os.path.join(folder, name) for name in names if _is_module(name))


def _is_module(name: str) -> bool:
    return name.endswith(_OF_MODULES) and name[:1] != "."


def _seen(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:  # it was just removed
        return None
    return found.st_mtime_ns, found.st_size


def deploy_on_changes(
    watched: Watched, is_over: Callable[[float], bool], deploy: Callable[[], None]
) -> None:
    """Call `deploy` after each change, until it is over.

    An error of `deploy` is shown, and the next change waited for.

    Args:
        watched: The files.
        is_over: Waits for so many seconds; returns whether that is the end.
        deploy: Deploys what the files now say.
    """
    while not is_over(_LOOK_SECONDS):
        paths = watched.changed()
        if not paths:
            continue
        print(f"Deploying again, as {_listed(paths)} changed", flush=True)
        watched.forget_modules()
        try:
            deploy()
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            print(f"The change was not deployed. {message}", file=sys.stderr, flush=True)


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"
