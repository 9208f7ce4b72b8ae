"""Names of `ray.data.exceptions` for what skate does not raise: errors come as they are."""


class SystemException(Exception):  # noqa: N818 - as Ray calls it
    """In Ray, an error of the library itself."""


class ExecutionTimeoutError(Exception):
    """In Ray, an execution that took longer than its settings allow."""


__all__ = ["ExecutionTimeoutError", "SystemException"]
