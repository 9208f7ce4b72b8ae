"""Sessions of guides have their imports done."""

from tests.warm.servers import warm_servers  # noqa: F401
