"""Files on the web, and stores out of reach."""

import functools
import http.server
import os
import socket
import sys
import threading
import time

import fsspec.asyn
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from tests.support import run_program

pytestmark = pytest.mark.usefixtures("engine")

fsspec.asyn.get_loop()  # its thread lives as long as the process: no test leaves it behind


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


OUT_OF_REACH = """
import skate.data
try:
    skate.data.read_csv("s3://anonymous@bucket/breast_cancer.csv")
except OSError as error:
    print(error)
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class TestWeb:
    def test_files(self, web, tmp_path):
        pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "t.csv", index=False)
        pq.write_table(pa.table({"a": [3, 4]}), tmp_path / "t.parquet")
        assert skate.data.read_csv(f"{web}/t.csv").sum("a") == 3
        assert skate.data.read_parquet(f"{web}/t.parquet").sum("a") == 7

    def test_a_file_system_that_is_given(self, web, tmp_path):
        from fsspec.implementations.http import HTTPFileSystem

        (tmp_path / "t.txt").write_text("one\ntwo\n")
        assert skate.data.read_text(f"{web}/t.txt", filesystem=HTTPFileSystem()).count() == 2

    def test_a_file_that_is_not_there(self, web):
        with pytest.raises(FileNotFoundError, match=r"no\.csv"):
            skate.data.read_csv(f"{web}/no.csv")

    def test_a_server_that_does_not_answer(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # nobody listens there
            address = f"http://127.0.0.1:{taken.getsockname()[1]}/x.csv"
            with pytest.raises(ConnectionError, match=f"cannot reach '{address}': .*refused"):
                skate.data.read_csv(address)


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
