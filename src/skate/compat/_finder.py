"""The finder behind `import ray`: for each `ray.x.y`, an alias of its homes in skate."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterable, Sequence
from email.message import Message
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from typing import Any

from skate.compat import _beside
from skate.compat._alias import Alias, UnknownAlias
from skate.compat._table import UNKNOWN, homes_of, missing_module

RAY_VERSION = "2.60.0"  # of the API that is offered


class Finder(MetaPathFinder, Loader):
    """Finds `ray` and everything below it; Ray itself, if installed, is never reached."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if name != "ray" and not name.startswith("ray."):
            return None
        homes = homes_of(name)
        if homes in (None, UNKNOWN) and (spec := _beside.find_file(name)):
            return spec
        if homes is None:
            # Without `name=`, or `from ray.x import y` would replace the text by its own.
            raise ModuleNotFoundError(missing_module(name))
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> Alias:
        return _kind_of(spec.name)(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Import the homes of an alias."""
        name = module.__name__
        # importlib.util.LazyLoader has changed the class until now.
        module.__class__ = _kind_of(name)
        assert isinstance(module, Alias)
        module.fill(tuple(map(importlib.import_module, homes_of(name) or ())))

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterable[Distribution]:
        """Let `importlib.metadata.version("ray")` say the same as `ray.__version__`."""
        return [_RayDistribution()] if context is not None and context.name == "ray" else []


def _kind_of(name: str) -> type[Alias]:
    return UnknownAlias if homes_of(name) == UNKNOWN else Alias


class _RayDistribution(Distribution):
    """What programs ask for that look for Ray's version without importing it."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        facts = Message()
        facts["Metadata-Version"] = "2.1"
        facts["Name"] = "ray"
        facts["Version"] = RAY_VERSION
        return facts.as_string()

    def locate_file(self, path: object) -> Any:
        raise FileNotFoundError(f"{path}: this `ray` is skate under another name")
