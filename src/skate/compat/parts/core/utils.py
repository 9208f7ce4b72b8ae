"""`ray._private.utils` and `ray._common.utils`: what programs and tests use of them."""

from __future__ import annotations

import asyncio
import binascii
import os
import tempfile
import warnings
from collections.abc import Coroutine
from typing import Any

import skate
from skate._core.machine import memory, memory_gauge


def reset_ray_address() -> None:
    """Do nothing: no address of an earlier session is kept."""


def get_ray_temp_dir() -> str:
    """Return the folder for what is to be gone one day."""
    return tempfile.gettempdir()


def get_user_temp_dir() -> str:
    return tempfile.gettempdir()


def decode(text: str | bytes, allow_none: bool = False, encode_type: str = "utf-8") -> str:
    if text is None and allow_none:
        return ""
    return text.decode(encode_type) if isinstance(text, bytes) else text


def binary_to_hex(identifier: bytes) -> str:
    return binascii.hexlify(identifier).decode()


def hex_to_binary(identifier: str) -> bytes:
    return binascii.unhexlify(identifier)


def get_num_cpus() -> int:
    return os.cpu_count() or 1


def get_system_memory() -> int:
    """Return the memory that there is, in bytes."""
    return memory()


def get_used_memory() -> int:
    """Return the memory in use, in bytes; 0 where the system does not tell."""
    use = memory_gauge().read()
    return use.used if use is not None else 0


def estimate_available_memory() -> int:
    """Return the memory that is not in use, in bytes."""
    return memory() - get_used_memory()


def is_in_test() -> bool:
    return "PYTEST_CURRENT_TEST" in os.environ


def get_ray_doc_version() -> str:
    return skate.__version__


# -- asyncio --------------------------------------------------------------------------------------

background_tasks: set[asyncio.Task[Any]] = set()


def get_or_create_event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that runs, or else the one of this thread, made if need be."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return asyncio.get_event_loop()
        except RuntimeError:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            return loop


def run_background_task(coroutine: Coroutine[object, object, object]) -> asyncio.Task[Any]:
    """Run it on the loop, which alone would forget a task that nobody refers to."""
    task = get_or_create_event_loop().create_task(coroutine)
    background_tasks.add(task)
    task.add_done_callback(background_tasks.discard)
    return task
