"""Rows by key."""

import numpy as np
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def test_rows_by_key():
    rows = [{"k": n, "v": n * n} for n in np.random.default_rng(0).permutation(50).tolist()]
    found = skate.data.from_items(rows).to_random_access_dataset("k", num_workers=2)
    assert skate.get(found.get_async(7)) == {"k": 7, "v": 49}
    assert skate.get(found.get_async(-1)) is None
    assert found.multiget([49, 99, 3]) == [{"k": 49, "v": 2401}, None, {"k": 3, "v": 9}]
    assert found.stats().startswith("RandomAccessDataset: 2 actors")
    assert "Accesses per worker: 1 min, 2 max, 1 mean" in found.stats()


@pytest.mark.engines("inline")
class TestRandomAccess:
    @pytest.mark.parametrize("keys", [list(range(0, 200, 2)), [f"k{n:03}" for n in range(100)]])
    def test_keys(self, keys):
        rows = [{"k": key, "n": n} for n, key in enumerate(keys)]
        shuffled = skate.data.from_items([*rows[50:], {"k": None, "n": -1}, *rows[:50]])
        found = shuffled.to_random_access_dataset("k", num_workers=3)
        assert found.multiget([keys[7], keys[99], keys[0]]) == [rows[7], rows[99], rows[0]]
        absent = 1 if keys[0] == 0 else "k0001"
        assert found.multiget([absent, keys[3]]) == [None, rows[3]]
        assert skate.get(found.get_async(keys[42])) == rows[42]
