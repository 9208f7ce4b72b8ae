"""`ray.tune.tune`: a space of configurations as an object, as algorithms of RLlib have it."""

from __future__ import annotations

import abc
from typing import Any


class _Config(abc.ABC):
    """What may be a space: whatever has `to_dict`."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return it as a dictionary."""
