"""Sinks of users, and files that they write."""

from __future__ import annotations

import errno
from pathlib import Path
from traceback import format_exception
from typing import Any

import pyarrow.fs as pafs
import pytest

import skate
import skate.data
from skate.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    DummyOutputDatasink,
    RowBasedFileDatasink,
    WriteResult,
)

pytestmark = pytest.mark.usefixtures("engine")


class TestFileSinks:
    def test_open_complete_places_in_their_folder(self, tmp_path: Path) -> None:
        opened: list[str] = []

        class Lines(BlockBasedFileDatasink):
            def open_output_stream(self, path: str) -> Any:
                opened.append(path)
                return super().open_output_stream(path)

            def write_block_to_file(self, block: Any, file: Any) -> None:
                file.write(str(block.num_rows()).encode())

        sink = Lines(str(tmp_path / "first"), file_format="txt")
        sink.path = str(tmp_path / "second")
        skate.data.range(3, override_num_blocks=1).write_datasink(sink)
        (file,) = (tmp_path / "second").iterdir()
        assert opened == [str(file)]
        assert file.read_text() == "3"
        assert not (tmp_path / "first").exists()

    def test_refuse_a_place_elsewhere(self, tmp_path: Path) -> None:
        class Lost(RowBasedFileDatasink):
            def write_block(self, block: Any, block_index: int, ctx: Any) -> None:
                with self.open_output_stream("lost.txt") as file:
                    file.write(b"x")

        with pytest.raises(ValueError, match=r"lost\.txt.*outside"):
            skate.data.range(1).write_datasink(Lost(str(tmp_path)))
        assert not Path("lost.txt").exists()

    def test_name_the_file_that_could_not_be_written(self, tmp_path: Path) -> None:
        class Full(BlockBasedFileDatasink):
            def write_block_to_file(self, block: Any, file: Any) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(OSError, match="No space left") as caught:
            skate.data.range(1).write_datasink(Full(str(tmp_path)))
        assert f"while writing {tmp_path}/" in "".join(format_exception(caught.value))

    def test_can_be_given_another_file_system(self, tmp_path: Path) -> None:
        class Whole(BlockBasedFileDatasink):
            def write_block_to_file(self, block: Any, file: Any) -> None:
                file.write(b"x")

        sink = Whole("inside")
        sink.filesystem = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        sink.path = "inside"
        skate.data.range(1).write_datasink(sink)
        assert len(list((tmp_path / "inside").iterdir())) == 1

    def test_say_what_writes_return(self) -> None:
        class Counting(Datasink[int]):
            result: WriteResult[int]

            def write(self, blocks: Any, ctx: Any) -> int:
                assert len(ctx.kwargs["write_uuid"]) == 32
                return sum(block.num_rows for block in blocks)

            def on_write_complete(self, write_result: WriteResult[int]) -> None:
                self.result = write_result

        sink = Counting()
        skate.data.range(4, override_num_blocks=2).write_datasink(sink)
        assert (sink.result.num_rows, sink.result.write_returns) == (4, [2, 2])

    def test_for_tests_count(self) -> None:
        sink = DummyOutputDatasink()
        skate.data.range(10).write_datasink(sink)
        assert (sink.num_ok, sink.num_failed) == (1, 0)
        assert skate.get(sink.data_sink.get_rows_written.remote()) == 10
        sink.enabled = False
        with pytest.raises(ValueError, match="disabled"):
            skate.data.range(10).write_datasink(sink)
        assert (sink.num_ok, sink.num_failed) == (1, 1)


def test_files_of_ones_own(tmp_path):
    class Lines(BlockBasedFileDatasink):
        def write_block_to_file(self, block, file):
            file.write("\n".join(map(str, block.to_pandas()["id"])).encode())

    class Numbers(RowBasedFileDatasink):
        def write_row_to_file(self, row, file):
            file.write(str(row["id"]).encode())

    dataset = skate.data.range(4, override_num_blocks=4)
    dataset.write_datasink(Lines(str(tmp_path / "l"), min_rows_per_file=2, file_format="txt"))
    texts = sorted(path.read_text() for path in (tmp_path / "l").iterdir())
    assert texts == ["0\n1", "2\n3"]
    dataset.write_datasink(Numbers(str(tmp_path / "n"), file_format="txt"))
    assert sorted(path.read_text() for path in (tmp_path / "n").iterdir()) == list("0123")


def test_a_sink_of_ones_own():
    from skate.data import Datasink

    class Counter(Datasink):
        total = None

        def write(self, blocks, ctx):
            return sum(block.num_rows for block in blocks)

        def on_write_complete(self, write_result):
            self.total = sum(write_result.write_returns)

    sink = Counter()
    skate.data.range(7).write_datasink(sink)
    assert sink.total == 7


@pytest.mark.engines("inline")
def test_nothing_is_computed_for_a_folder_that_is_left_alone(tmp_path):
    class Told(BlockBasedFileDatasink):
        def write_block_to_file(self, block, file):
            file.write(b"")

        def on_write_complete(self, write_result):
            self.rows = write_result.num_rows

    def fail(row):
        raise AssertionError("computed")

    sink = Told(str(tmp_path), mode="ignore")
    skate.data.range(3).map(fail).write_datasink(sink)
    assert (sink.rows, list(tmp_path.iterdir())) == (0, [])


def test_a_sink_that_is_used_again_adds_files(tmp_path: Path) -> None:
    class Lines(BlockBasedFileDatasink):
        def write_block_to_file(self, block: Any, file: Any) -> None:
            file.write(str(block.num_rows()).encode())

    sink = Lines(str(tmp_path), file_format="txt")
    for rows in (3, 4):
        skate.data.range(rows, override_num_blocks=1).write_datasink(sink)
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == ["3", "4"]
