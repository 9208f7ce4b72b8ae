"""`ray.experimental.internal_kv`: keys and values that all processes of a session share."""

from __future__ import annotations

from typing import Any

import skate

_HIDDEN = "_skate_internal_kv"  # name and namespace of the actor that keeps them


class _Table:
    def __init__(self) -> None:
        self._rows: dict[tuple[bytes, bytes], bytes] = {}

    def put(self, space: bytes, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value, and return whether the key was there before."""
        there = (space, key) in self._rows
        if overwrite or not there:
            self._rows[space, key] = value
        return there

    def get(self, space: bytes, key: bytes) -> bytes | None:
        return self._rows.get((space, key))

    def keys(self, space: bytes, prefix: bytes) -> list[bytes]:
        return [key for where, key in self._rows if where == space and key.startswith(prefix)]

    def remove(self, space: bytes, keys: list[bytes]) -> int:
        """Remove keys, and return how many were there."""
        return sum(self._rows.pop((space, key), None) is not None for key in keys)


def _internal_kv_initialized() -> bool:
    return skate.is_initialized()


def _internal_kv_get(key: str | bytes, *, namespace: str | bytes | None = None) -> Any:
    return _ask("get", _space(namespace), _checked(key))


def _internal_kv_exists(key: str | bytes, *, namespace: str | bytes | None = None) -> bool:
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: str | bytes,
    value: str | bytes,
    overwrite: bool = True,
    *,
    namespace: str | bytes | None = None,
) -> bool:
    """Store a value, and return whether the key was there before."""
    there = _ask("put", _space(namespace), _checked(key), _bytes(value), overwrite)
    return bool(there)


def _internal_kv_del(
    key: str | bytes, *, del_by_prefix: bool = False, namespace: str | bytes | None = None
) -> int:
    """Delete a key, or all with that prefix, and return how many were deleted."""
    space, wanted = _space(namespace), _checked(key)
    keys = _ask("keys", space, wanted) if del_by_prefix else [wanted]
    return int(_ask("remove", space, keys))


def _internal_kv_list(prefix: str | bytes, *, namespace: str | bytes | None = None) -> list[bytes]:
    return list(_ask("keys", _space(namespace), _checked(prefix)))


def _ask(method: str, *args: object) -> Any:
    lasting = {"name": _HIDDEN, "namespace": _HIDDEN, "lifetime": "detached"}
    cls: Any = skate.remote(_Table)
    table = cls.options(get_if_exists=True, num_cpus=0, **lasting).remote()
    return skate.get(getattr(table, method).remote(*args))


def _space(namespace: str | bytes | None) -> bytes:
    return _bytes(namespace or b"")


def _checked(key: str | bytes) -> bytes:
    plain = _bytes(key)
    if plain.startswith(b"@namespace_"):
        raise RuntimeError(f"a key must not begin with '@namespace_'; got {key!r}")
    return plain


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)
