"""Descriptors: how many a process may have (each worker costs the driver one), and the first
three, which belong to the standard streams."""

from __future__ import annotations

import os
import resource

_MANY = 65_536


def allow_many() -> int:
    """Raise this process's own limit as far as it may go; the limit until now."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = _MANY if most == resource.RLIM_INFINITY else min(most, _MANY)
    if now != resource.RLIM_INFINITY and now < many:
        allow(many)
    return now


def fill_standard_streams() -> None:
    """Open the null device in the place of standard streams that are closed: what the engine
    opens next would be taken for them, here and in every process that is started."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def allow(count: int) -> None:
    """Set this process's own limit, if it may have that one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))
    except (OSError, ValueError):
        pass
