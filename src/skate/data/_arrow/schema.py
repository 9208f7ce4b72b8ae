"""The schema of a dataset, as users see it."""

from __future__ import annotations

import html

import pyarrow as pa

from skate.data._arrow.tensors import is_object, type_text


class Schema:
    """Tell the names and types of columns.

    Args:
        base_schema: Arrow's own schema.
    """

    def __init__(self, base_schema: pa.Schema) -> None:
        self.base_schema = base_schema

    @property
    def names(self) -> list[str]:
        return list(self.base_schema.names)

    @property
    def types(self) -> list[pa.DataType | type]:
        """Arrow's types; `object` for columns of Python objects, for which Arrow has none."""
        return [object if is_object(kind) else kind for kind in self.base_schema.types]

    @property
    def type_texts(self) -> list[str]:
        """The types as they are printed."""
        return [type_text(kind) for kind in self.base_schema.types]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.base_schema.equals(other.base_schema)

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __repr__(self) -> str:
        rows = [("Column", "Type"), ("------", "----")]
        rows += zip(self.names, self.type_texts, strict=True)
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {kind}" for name, kind in rows)

    def short(self) -> str:
        """Write the names and types on one line."""
        pairs = zip(self.names, self.type_texts, strict=True)
        return "{" + ", ".join(f"{name}: {kind}" for name, kind in pairs) + "}"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(kind)}</td></tr>"
            for name, kind in zip(self.names, self.type_texts, strict=True)
        )
        return f"<table><tr><th>Column</th><th>Type</th></tr>{cells}</table>"
