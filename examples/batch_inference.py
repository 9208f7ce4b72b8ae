"""Apply a model to many rows: two actors load it once, rows stream through, Parquet comes out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import skate.data

ROWS = 20_000


class Model:
    """Stands for a network that takes seconds to load."""

    def __init__(self, size: int) -> None:
        self.weights = np.arange(size, dtype=np.float32)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "score": batch["features"] @ self.weights}


def features(batch: dict[str, Any]) -> dict[str, Any]:
    return {"id": batch["id"], "features": np.stack([batch["id"] / ROWS] * 8, axis=1)}


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = str(Path(place) / "scores")
        rows = skate.data.range(ROWS).map_batches(features)
        scored = rows.map_batches(Model, fn_constructor_args=(8,), concurrency=2, batch_size=1_000)
        scored.write_parquet(folder)
        scores = skate.data.read_parquet(folder)
        print(f"{scores.count():,} scores, the largest {scores.max('score'):.2f}")


if __name__ == "__main__":
    main()
