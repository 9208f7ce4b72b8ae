"""How many descriptors a process may have: each worker costs the driver one."""

from __future__ import annotations

import resource

_MANY = 65_536


def allow_many() -> int:
    """Raise this process's own limit as far as it may go; the limit until now."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = _MANY if most == resource.RLIM_INFINITY else min(most, _MANY)
    if now != resource.RLIM_INFINITY and now < many:
        allow(many)
    return now


def allow(count: int) -> None:
    """Set this process's own limit, if it may have that one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))
    except (OSError, ValueError):
        pass
