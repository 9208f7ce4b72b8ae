"""Applications of Gradio as deployments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate._core.optional_imports import try_import
from skate.serve._deployment import deployment
from skate.serve._http.ingress import ingress

__all__ = ["GradioIngress", "GradioServer"]


@ingress()
class GradioIngress:
    """Answers requests with an application of Gradio; a deployment derives from it, or is it.

    Args:
        builder: Makes the application, such as `lambda: gradio.Interface(...)`. It is called in
            the replica, as what it makes cannot be pickled.
    """

    def __init__(self, builder: Callable[[], Any]) -> None:
        self._blocks = builder()

    def __serve_build_asgi_app__(self) -> Any:
        routes = try_import("gradio.routes", "gradio")
        return routes.App.create_app(self._blocks)


GradioServer = deployment(GradioIngress)
