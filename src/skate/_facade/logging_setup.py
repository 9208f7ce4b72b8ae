"""What `init` is told about logging: skate's own logger, and that of the program."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from skate._core.argument_checks import wrong_value
from skate._core.optional_imports import ray_is_skate

if TYPE_CHECKING:
    from skate.engine.base import Engine

# Of Ray, for whoever starts the programs of others.
_ENCODING = "RAY_LOGGING_CONFIG_ENCODING"
_OUTPUT = "RAY_LOG_TO_DRIVER"


def shows_output(log_to_driver: bool | None) -> bool:
    """Return whether what workers print is shown; None leaves it to an environment variable."""
    if log_to_driver is not None:
        return log_to_driver
    return os.environ.get(_OUTPUT, "1").lower() in ("1", "true")


def config_of_environment() -> Any:
    """Return the `LoggingConfig` that an environment variable asks for; None if none does."""
    encoding = os.environ.get(_ENCODING)
    return _config_of(encoding) if encoding else None


@cache  # a second init() then asks for the same
def _config_of(encoding: str) -> Any:
    from importlib import import_module

    return import_module("skate.logging_config").LoggingConfig(encoding=encoding)


def apply_config(config: Any, runtime_env: dict[str, Any] | None) -> dict[str, Any] | None:
    """Set up this process as a `LoggingConfig` says; return the environment that does so in
    workers."""
    if config is None:
        return runtime_env
    from skate._core.runtime_environments import with_setup_hook

    config._apply()
    return with_setup_hook(runtime_env, config._apply)


def say_what_began(engine: Engine) -> None:
    """Write the first record, for programs that collect them."""
    import logging

    cpus = engine.cluster_resources().get("CPU", 0)
    logging.getLogger("skate").info("a session began, with %g CPUs", cpus)


def chosen_level(log_level: int | str | None, logging_level: int | str | None) -> int | str | None:
    """Return the level that was given in either spelling.

    Raises:
        ValueError: If both were given, and differ.
    """
    if None not in (log_level, logging_level) and log_level != logging_level:
        raise ValueError(
            f"init(log_level={log_level!r}, logging_level={logging_level!r}): these are two "
            "spellings of one setting; give one of them"
        )
    return logging_level if log_level is None else log_level


def configure_own(level: int | str | None, format: str | None) -> None:
    """Set level and format of skate's own logger, or of Ray's in programs that import ray, where
    they are given."""
    if level is None and format is None:
        return
    if level is None:
        level = "INFO"  # who has a format in mind wants to see records
    import logging

    logger = logging.getLogger("ray" if ray_is_skate() else "skate")
    try:
        logger.setLevel(level.upper() if isinstance(level, str) else level)
    except (TypeError, ValueError):
        allowed = 'the name of a level, as "INFO", or its number'
        raise wrong_value("log_level", level, allowed) from None
    if format is not None:
        handler = logging.StreamHandler()
        try:
            handler.setFormatter(logging.Formatter(format))
        except (TypeError, ValueError):
            allowed = 'a format of logging, as "%(levelname)s %(message)s"'
            raise wrong_value("logging_format", format, allowed) from None
        logger.handlers[:] = [handler]
