"""Where rows come from besides local files: Hugging Face, the web, stores out of reach; and where
they go when memory is short."""

import functools
import http.server
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import cloudpickle
import datasets
import fsspec.asyn
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch.utils.data

import skate
import skate.data
from tests.support import local_only, run_program

pytestmark = pytest.mark.usefixtures("engine")

fsspec.asyn.get_loop()  # its thread lives as long as the process: no test leaves it behind


class TestHuggingFace:
    def test_a_dataset(self):
        given = datasets.Dataset.from_dict({"a": [1, 2, 3], "b": ["x", "y", None]})
        found = skate.data.from_huggingface(given)
        assert found.take_all() == given.to_list()
        chosen = given.select([2, 0])
        assert [row["a"] for row in skate.data.from_huggingface(chosen).take_all()] == [3, 1]
        assert skate.data.from_huggingface(given, override_num_blocks=2).num_blocks() == 2

    def test_features_keep_their_types(self):
        features = datasets.Features(
            {
                "label": datasets.ClassLabel(names=["cat", "dog"]),
                "pixels": datasets.Array2D((2, 2), "uint8"),
            }
        )
        rows = {"label": [1, 0], "pixels": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}
        given = datasets.Dataset.from_dict(rows, features=features)
        found = skate.data.from_huggingface(given).take_all()
        assert [row["label"] for row in found] == [1, 0]
        np.testing.assert_array_equal(np.stack(found[1]["pixels"]), [[5, 6], [7, 8]])

    def test_a_stream(self):
        given = datasets.Dataset.from_dict({"a": [1, 2]}).to_iterable_dataset()
        assert skate.data.from_huggingface(given).sum("a") == 3

    def test_several_at_once_must_be_chosen_from(self):
        one = datasets.Dataset.from_dict({"a": [1]})
        with pytest.raises(ValueError, match=r"pick one of \['train', 'test'\]"):
            skate.data.from_huggingface(datasets.DatasetDict({"train": one, "test": one}))


def test_a_torch_dataset_travels_once():
    class Numbers(torch.utils.data.Dataset):
        def __init__(self):
            self.ballast = np.zeros(1 << 20, np.uint8)

        def __len__(self):
            return 4000

        def __getitem__(self, n):
            return n

    dataset = skate.data.from_torch(Numbers())
    tasks = dataset._plan.source.read_tasks(None)
    assert sum(len(cloudpickle.dumps(task)) for task in tasks) < 1 << 20
    assert sum(dataset.take_all()) == sum(range(4000))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def web(tmp_path):
    """The address of a server that shows the test's folder."""
    handler = functools.partial(Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class TestWeb:
    def test_files(self, web, tmp_path):
        pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "t.csv", index=False)
        pq.write_table(pa.table({"a": [3, 4]}), tmp_path / "t.parquet")
        assert skate.data.read_csv(f"{web}/t.csv").sum("a") == 3
        assert skate.data.read_parquet(f"{web}/t.parquet").sum("a") == 7

    def test_a_file_that_is_not_there(self, web):
        with pytest.raises(FileNotFoundError, match=r"no\.csv"):
            skate.data.read_csv(f"{web}/no.csv")

    def test_a_server_that_does_not_answer(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # nobody listens there
            address = f"http://127.0.0.1:{taken.getsockname()[1]}/x.csv"
            with pytest.raises(ConnectionError, match=f"cannot reach '{address}': .*refused"):
                skate.data.read_csv(address)


OUT_OF_REACH = """
import skate.data
try:
    skate.data.read_csv("s3://anonymous@bucket/breast_cancer.csv")
except OSError as error:
    print(error)
"""


def test_a_store_out_of_reach_is_an_error_soon_that_names_it():
    """In a process of its own: Arrow's client of S3 keeps descriptors until the end."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        start = time.monotonic()
        done = run_program(
            [sys.executable, "-c", OUT_OF_REACH],
            env={**os.environ, "AWS_ENDPOINT_URL": url},
            check=True,
        )
    assert time.monotonic() - start < 60
    assert "cannot reach 's3://anonymous@bucket/breast_cancer.csv'" in done.stdout
    assert "connect" in done.stdout.lower()


def spill_dir():
    """Where this process's session keeps what does not fit into memory."""
    (found,) = Path(tempfile.gettempdir()).glob(f"skate-*-{os.getpid()}-*/spilled")
    return found


@local_only
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
