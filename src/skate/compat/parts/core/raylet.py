"""Of `ray._raylet`: names of labels, and what tests of Ray programs call without effect here."""

from __future__ import annotations

from skate.util.placement_group import NODE_ID_LABEL_KEY as RAY_NODE_ID_KEY

__all__ = [
    "RAY_NODE_ACCELERATOR_TYPE_KEY",
    "RAY_NODE_GROUP_KEY",
    "RAY_NODE_ID_KEY",
    "RAY_NODE_MARKET_TYPE_KEY",
    "RAY_NODE_REGION_KEY",
    "RAY_NODE_ZONE_KEY",
    "Config",
]

# A machine has those of these labels that `init(labels=)` gives it, and its id.
RAY_NODE_ACCELERATOR_TYPE_KEY = "ray.io/accelerator-type"
RAY_NODE_GROUP_KEY = "ray.io/node-group"
RAY_NODE_MARKET_TYPE_KEY = "ray.io/market-type"
RAY_NODE_REGION_KEY = "ray.io/availability-region"
RAY_NODE_ZONE_KEY = "ray.io/availability-zone"


class Config:
    """Settings of Ray's own processes, of which there are none."""

    @staticmethod
    def initialize(config: str) -> None:
        """Do nothing: there are no processes to tell.

        Args:
            config: The settings, as JSON.
        """
