"""More rows than memory."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import skate
import skate.data

pytestmark = [pytest.mark.engines("local"), pytest.mark.usefixtures("engine")]


def spill_dir():
    """Where this process's session keeps what does not fit into memory."""
    (found,) = Path(tempfile.gettempdir()).glob(f"skate-*-{os.getpid()}-*/spilled")
    return found


@pytest.mark.init(object_store_memory=24 << 20)
def test_more_rows_than_memory_spill_to_disk_and_come_back(engine, tmp_path):
    context = skate.data.DataContext.get_current().copy()
    context.sort_memory_bytes = 4 << 20
    rows = 2_000_000  # 32 MB in two columns of numbers
    with skate.data.DataContext.current(context):
        dataset = skate.data.range(rows, override_num_blocks=16).map_batches(
            lambda batch: {"id": batch["id"], "key": (batch["id"] * 7919) % rows}
        )
        total, last, spilled = 0, -1, False
        for batch in dataset.sort("key").iter_batches(batch_size=100_000):
            assert batch["key"][0] == last + 1
            assert (np.diff(batch["key"]) == 1).all()
            last = int(batch["key"][-1])
            spilled = spilled or any(spill_dir().iterdir())
            total += int(batch["id"].sum())
    assert spilled
    assert last == rows - 1
    assert total == rows * (rows - 1) // 2
