"""Stores that are busy are asked again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

import skate
import skate.data
from skate.data import DataContext
from skate.data._io import retries

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


class Busy(pafs.FileSystemHandler):  # type: ignore[misc]
    """A store of which every file fails a few times before it can be opened."""

    def __init__(self, failures: int, message: str) -> None:
        self.local = pafs.LocalFileSystem()
        self.left: dict[str, int] = {}
        self.failures = failures
        self.message = message
        self.lock = threading.Lock()

    def _may_fail(self, path: str) -> None:
        with self.lock:
            left = self.left.setdefault(path, self.failures)
            self.left[path] = left - 1
        if left > 0:
            raise OSError(f"{self.message} (while asking for {path})")

    def open_input_stream(self, path: str) -> Any:
        self._may_fail(path)
        return self.local.open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> Any:
        self._may_fail(path)
        return self.local.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self._may_fail(path)
        return self.local.open_output_stream(path, compression=None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def get_type_name(self) -> str:
        return "busy"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Any) -> Any:
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self.local.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self.local.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.local.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        self.local.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.local.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self.local.move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        self.local.copy_file(source, target)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError


class TestStoresThatAreBusy:
    @pytest.fixture(autouse=True)
    def short_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)

    def busy(self, failures: int, message: str = "AWS Error SLOW_DOWN") -> Any:
        return pafs.PyFileSystem(Busy(failures, message))

    def test_are_asked_again(self, tmp_path: Path) -> None:
        rows = skate.data.range(5, override_num_blocks=1)
        rows.write_csv(str(tmp_path / "out"), filesystem=self.busy(3))
        for read in (skate.data.read_csv, skate.data.read_text, skate.data.read_binary_files):
            assert read(str(tmp_path / "out"), filesystem=self.busy(3)).count() > 0
        rows.write_parquet(str(tmp_path / "parquet"))
        parquet = skate.data.read_parquet(str(tmp_path / "parquet"), filesystem=self.busy(2))
        assert parquet.take_all() == [{"id": n} for n in range(5)]

    @pytest.mark.parametrize(
        "message",
        [
            "AWS Error INTERNAL_FAILURE during PutObject operation",
            "AWS Error NETWORK_CONNECTION",
            "AWS Error SLOW_DOWN",
            "AWS Error UNKNOWN (HTTP status 503)",
            "AWS Error SERVICE_UNAVAILABLE",
        ],
    )
    def test_are_told_by_what_they_say(self, tmp_path: Path, message: str) -> None:
        place, busy = str(tmp_path / "out"), self.busy(2, message)
        skate.data.range(5, override_num_blocks=1).write_csv(place, filesystem=busy)
        assert skate.data.read_csv(place, filesystem=self.busy(2, message)).count() == 5

    def test_are_given_up_at_last(self, tmp_path: Path) -> None:
        skate.data.range(5).write_csv(str(tmp_path / "out"))
        with pytest.raises(OSError, match="SLOW_DOWN"):
            skate.data.read_csv(str(tmp_path / "out"), filesystem=self.busy(10_000)).take_all()

    def test_by_errors_that_users_add(self, tmp_path: Path) -> None:
        skate.data.range(5).write_csv(str(tmp_path / "out"))
        odd = self.busy(2, "odd weather")
        with pytest.raises(OSError, match="odd weather"):
            skate.data.read_csv(str(tmp_path / "out"), filesystem=odd).take_all()
        context = DataContext.get_current().copy()
        assert "AWS Error SLOW_DOWN" in context.retried_io_errors
        context.retried_io_errors.append("odd weather")
        with DataContext.current(context):
            rows = skate.data.read_csv(
                str(tmp_path / "out"), filesystem=self.busy(2, "odd weather")
            )
            assert rows.count() == 5
