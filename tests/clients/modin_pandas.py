"""Modin on its ray engine: reading, grouping, merging, applying."""

import os
import tempfile

os.environ["MODIN_ENGINE"] = "ray"
os.environ["MODIN_CPUS"] = "2"

import modin.pandas as pd
import numpy as np
import pandas

if __name__ == "__main__":
    rows = 20_000
    plain = pandas.DataFrame(
        {"key": np.arange(rows) % 7, "value": np.arange(rows, dtype=float), "name": "x"}
    )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        plain.to_csv(path, index=False)
        frame = pd.read_csv(path)
    grouped = frame.groupby("key").sum(numeric_only=True)
    assert grouped["value"].tolist() == plain.groupby("key")["value"].sum().tolist()
    merged = frame.merge(pd.DataFrame({"key": range(7), "label": list("abcdefg")}), on="key")
    assert len(merged) == rows
    assert sorted(merged["label"].unique().tolist()) == list("abcdefg")
    applied = frame["value"].apply(lambda value: value * 2)
    assert float(applied.sum()) == float(plain["value"].sum() * 2)
    assert float(frame["value"].max()) == rows - 1
    print("read_csv, groupby, merge, apply of", rows, "rows")
