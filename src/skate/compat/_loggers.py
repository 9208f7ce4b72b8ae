"""Loggers by Ray's names: levels and handlers of "ray" and of those below it count for skate's.

root ◄── ray ◄── ray.tune ◄── skate.tune ◄── skate.tune.tuner …
          ▲
          └───── skate ◄── skate.util …
"""

from __future__ import annotations

import logging

# Not serve: what it logs goes to loggers of both names already.
_PACKAGES = ("skate.data", "skate.train", "skate.tune", "skate.tune.logger")


def put_loggers_below_those_of_ray() -> None:
    """Let skate's loggers inherit from Ray's, package by package."""
    for name in ("skate", *_PACKAGES):
        _put_below(logging.getLogger(name), logging.getLogger(name.replace("skate", "ray", 1)))


def put_loggers_back() -> None:
    """Let skate's loggers inherit as their names say."""
    _put_below(logging.getLogger("skate"), logging.root)
    for name in _PACKAGES:
        _put_below(logging.getLogger(name), logging.getLogger(name.rpartition(".")[0]))


def _put_below(logger: logging.Logger, parent: logging.Logger) -> None:
    logger.parent = parent
    logger.setLevel(logger.level)  # loggers forget which levels they have inherited
