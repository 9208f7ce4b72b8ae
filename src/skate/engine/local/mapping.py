"""Mapping a file into memory for as long as anyone looks at it: unmapped after the last view.

By hand rather than with `mmap.mmap`, which keeps a file descriptor open per mapping (until Python
3.13): a program that holds ten thousand large arrays would run out of them. `ctypes` is imported
when the first large object is read.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

from skate._core.serialization import SNAPSHOT

Mapping = Any  # a ctypes array: exports its memory, and can be referenced weakly

_libc: Any = None
_live: dict[int, weakref.ref[Any]] = {}  # by address


def map_copy_on_write(fd: int, size: int, on_close: Callable[[], None] | None = None) -> Mapping:
    """Return the first `size` bytes of the file; writing changes only this mapping.

    `on_close` is called, maybe inside garbage collection, when it is unmapped.
    """
    mapping = _map(fd, size, mmap.MAP_PRIVATE, on_close)
    setattr(mapping, SNAPSHOT, True)
    return mapping


def map_shared(fd: int, size: int) -> Mapping:
    """Return the first `size` bytes of the file; writing changes the file."""
    return _map(fd, size, mmap.MAP_SHARED, None)


def _map(fd: int, size: int, flags: int, on_close: Callable[[], None] | None) -> Mapping:
    import ctypes

    libc = _load_libc()
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if address == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    block = (ctypes.c_char * size).from_address(address)

    def unmap(_: object) -> None:
        del _live[address]
        libc.munmap(address, size)
        if on_close is not None:
            on_close()

    _live[address] = weakref.ref(block, unmap)
    return block


def _load_libc() -> Any:
    global _libc
    if _libc is None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        c_int, c_size, c_pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
        libc.mmap.restype = c_pointer
        libc.mmap.argtypes = [c_pointer, c_size, c_int, c_int, c_int, ctypes.c_long]
        libc.munmap.argtypes = [c_pointer, c_size]
        _libc = libc
    return _libc
