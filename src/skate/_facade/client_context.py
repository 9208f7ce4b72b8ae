"""What `init` returns: facts about the session that it has begun."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skate._facade import metrics_port, page
from skate.engine import installed_engine

if TYPE_CHECKING:
    from skate.engine.base import Engine


class ClientContext(Mapping[str, Any]):
    """Know a session that `init` has begun; as a context manager, end it.

    It is a mapping as well: the addresses and folders of the session by their names.

    Args:
        engine: The engine that runs.

    Example:
        >>> with skate.init(engine="inline") as context:
        ...     context["node_ip_address"]
        '127.0.0.1'
    """

    def __init__(self, engine: Engine) -> None:
        place = engine.context()
        number = metrics_port.number()
        self.python_version: str = ".".join(map(str, sys.version_info[:3]))
        self.address_info: dict[str, Any] = {
            "address": engine.address,
            "gcs_address": engine.address,
            "redis_address": None,
            "node_ip_address": "127.0.0.1",
            "node_id": place.node_id,
            "session_dir": place.temp_dir,
            "session_name": place.session_name,
            "object_store_address": place.temp_dir,
            "raylet_socket_name": "",
            "webui_url": page.address(),
            "metrics_export_port": -1 if number is None else number,  # Ray's number for "none"
            "dashboard_agent_listen_port": -1,
        }

    @property
    def dashboard_url(self) -> str:
        """The address of the session's page, without `http://`; "" if there is none."""
        return page.address()

    @property
    def skate_version(self) -> str:
        """The version of skate."""
        import skate

        return skate.__version__

    @property
    def ray_version(self) -> str:
        """The version of Ray whose API is offered."""
        from skate.compat._finder import RAY_VERSION

        return RAY_VERSION

    @property
    def ray_commit(self) -> str:
        """In the place of a commit of Ray: who answers instead."""
        return "skate"

    def __getitem__(self, key: str) -> Any:
        return self.address_info[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.address_info)

    def __len__(self) -> int:
        return len(self.address_info)

    def __enter__(self) -> ClientContext:
        return self

    def __exit__(self, *exc: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """End the session, as `skate.shutdown` does."""
        from skate._facade.api import shutdown

        shutdown()

    def __repr__(self) -> str:
        return f"ClientContext({self.address_info['address']!r})"

    def _repr_html_(self) -> str:
        from skate._core.notebooks import html_facts

        facts = {
            "skate": self.skate_version,
            "Python": self.python_version,
            "address": self.address_info["address"],
            "session": self.address_info["session_name"],
        }
        engine = installed_engine()
        resources = engine.cluster_resources() if engine is not None else {}
        shown = ("CPU", "GPU")
        facts |= {name: f"{resources[name]:g}" for name in shown if name in resources}
        return html_facts("skate", facts)
