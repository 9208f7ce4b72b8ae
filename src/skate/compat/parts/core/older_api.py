"""Names that `ray` had before 2.0 and programs of that time call; `dir(ray)` lists none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.compat.parts.core import state
from skate.compat.parts.core.state import actors as actors
from skate.compat.parts.core.worker import LOCAL_MODE
from skate.compat.parts.core.worker import get_dashboard_url as get_dashboard_url
from skate.compat.parts.core.worker import get_resource_ids as get_resource_ids
from skate.util import register_serializer
from skate.util.profiling import profile as profile

__all__: list[str] = []

PYTHON_MODE = LOCAL_MODE
global_state = state
get_webui_url = get_dashboard_url


def register_custom_serializer(
    cls: type,
    serializer: Callable[[Any], Any] | None = None,
    deserializer: Callable[[Any], Any] | None = None,
    use_pickle: bool = False,
    use_dict: bool = False,
    class_id: object = None,
    local: object = None,
    job_id: object = None,
) -> None:
    """Serialise instances of a class by two functions.

    Args:
        cls: The class.
        serializer: Makes something of an instance that can be pickled.
        deserializer: Makes the instance of that.
        use_pickle: Without effect: what no function is given for is pickled anyway.
        use_dict: Likewise.
        class_id: What Ray's store called the class; there is none here.
        local: Likewise, whether other processes were told; they learn it with the values.
        job_id: Likewise, whose class it is.
    """
    if (serializer is None) != (deserializer is None):
        raise ValueError(
            "register_custom_serializer takes a serializer and a deserializer, or neither; got "
            f"serializer={serializer!r}, deserializer={deserializer!r}"
        )
    if serializer is not None and deserializer is not None:
        register_serializer(cls, serializer=serializer, deserializer=deserializer)


register_class = register_custom_serializer
