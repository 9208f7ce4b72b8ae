"""Frames that LightGBM accepts."""

from __future__ import annotations

from typing import Any


def normalize_pandas_for_lightgbm(df: Any) -> object:
    """Return a frame whose numbers and booleans are those that pandas keeps by itself.

    LightGBM knows no others, such as those that Arrow keeps. All other columns stay as they are.

    Args:
        df: The frame.
    """
    import pandas

    kinds = {
        name: normal
        for name, dtype in df.dtypes.items()
        if isinstance(dtype, pandas.ArrowDtype) and (normal := _normal(dtype.pyarrow_dtype))
    }
    return df.astype(kinds) if kinds else df


def _normal(arrow: Any) -> str | None:
    from pyarrow import types

    if types.is_boolean(arrow):
        return "boolean"
    if types.is_signed_integer(arrow):
        return f"Int{arrow.bit_width}"
    if types.is_unsigned_integer(arrow):
        return f"UInt{arrow.bit_width}"
    if types.is_floating(arrow):
        return f"Float{max(arrow.bit_width, 32)}"  # pandas has none of 16 bits
    return None
