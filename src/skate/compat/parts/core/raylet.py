"""Of `ray._raylet`: what tests of Ray programs call, and nothing comes of here."""

from __future__ import annotations

__all__ = ["Config"]


class Config:
    """Settings of Ray's own processes, of which there are none."""

    @staticmethod
    def initialize(config: str) -> None:
        """Do nothing: there are no processes to tell.

        Args:
            config: The settings, as JSON.
        """
