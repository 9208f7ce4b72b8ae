"""Writes that note the ids of rows, and leave out those that are noted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate.data
from skate.data import DataContext
from skate.data._io.file_writers import OutputExistsError
from skate.data._io.row_checkpoints import RunWithIds
from skate.data.checkpoint import (
    CheckpointBackend,
    CheckpointConfig,
    InvalidCheckpointingConfig,
)
from skate.data.datasource import BlockBasedFileDatasink, FilenameProvider, RowBasedFileDatasink


@pytest.fixture
def context():
    changed = DataContext.get_current().copy()
    with DataContext.current(changed):
        yield changed


@pytest.fixture
def source(tmp_path: Path) -> str:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        ids = range(number * 5, number * 5 + 5)
        pq.write_table(
            pa.table({"id": ids, "x": [i * 2 for i in ids]}), folder / f"{number}.parquet"
        )
    return str(folder)


def config(tmp_path: Path, **arguments: object) -> CheckpointConfig:
    return CheckpointConfig("id", str(tmp_path / "ids"), **arguments)


def noted(tmp_path: Path) -> list[int]:
    files = (tmp_path / "ids").glob("*.parquet")
    return sorted(i for file in files for i in pq.read_table(file)["id"].to_pylist())


def written(folder: Path) -> list[int]:
    return sorted(row["id"] for row in skate.data.read_parquet(str(folder)).take_all())


def rows_of_files(source: str) -> skate.data.Dataset:
    return skate.data.read_parquet(source, override_num_blocks=4)


class FailingSink(skate.data.Datasink[None]):
    """Remembers rows, and fails at one of them."""

    def __init__(self, fails_at: int | None) -> None:
        self.fails_at, self.rows = fails_at, []

    def write(self, blocks, ctx) -> None:
        ids = [i for block in blocks for i in block["id"].to_pylist()]
        if self.fails_at in ids:
            raise OSError("the disk is full")
        self.rows.extend(ids)


class BlocksToFiles(BlockBasedFileDatasink):
    """Writes blocks as Parquet."""

    def write_block_to_file(self, block, file) -> None:
        pq.write_table(block.to_arrow(), file)


class RowsToFiles(RowBasedFileDatasink):
    """Writes each row as Parquet."""

    def write_row_to_file(self, row, file) -> None:
        pq.write_table(pa.table({name: [value] for name, value in row.items()}), file)


class SameNames(FilenameProvider):
    """Names files alike in each run."""

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        return f"{task_index}.parquet"


@pytest.fixture
def killed_before_notes_count(monkeypatch):
    """Let a block pass as a kill would find it: its files are written, its note is pending."""

    def die(run: RunWithIds, pending: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunWithIds, "_commit", die)
    return monkeypatch


class TestKills:
    @pytest.mark.parametrize("sink", [BlocksToFiles, RowsToFiles])
    def test_files_of_sinks_are_written_anew(
        self, context, source, tmp_path, killed_before_notes_count, sink
    ):
        context.checkpoint_config = config(tmp_path)
        ds = rows_of_files(source)
        with pytest.raises(KeyboardInterrupt):
            ds.write_datasink(sink(str(tmp_path / "out"), file_format="parquet"), concurrency=1)
        assert written(tmp_path / "out")
        killed_before_notes_count.undo()
        ds.write_datasink(sink(str(tmp_path / "out"), file_format="parquet"))
        assert written(tmp_path / "out") == list(range(20))

    def test_a_sink_that_is_used_again(self, context, source, tmp_path, killed_before_notes_count):
        context.checkpoint_config = config(tmp_path)
        sink = BlocksToFiles(str(tmp_path / "out"), file_format="parquet")
        with pytest.raises(KeyboardInterrupt):
            rows_of_files(source).write_datasink(sink, concurrency=1)
        killed_before_notes_count.undo()
        rows_of_files(source).write_datasink(sink)
        assert written(tmp_path / "out") == list(range(20))

    def test_names_that_a_user_repeats(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        sinks = [BlocksToFiles(str(tmp_path / "out"), dataset_uuid="mine") for _ in range(2)]
        rows_of_files(source).limit(2).write_datasink(sinks[0])
        with pytest.raises(OutputExistsError, match="would be called"):
            rows_of_files(source).write_datasink(sinks[1])
        assert set(written(tmp_path / "out")) == set(noted(tmp_path)) >= {0, 1}

    def test_other_sinks_are_told_again(
        self, context, source, tmp_path, killed_before_notes_count
    ):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        sink = FailingSink(None)
        with pytest.raises(KeyboardInterrupt):
            rows_of_files(source).write_datasink(sink, concurrency=1)
        assert sink.rows
        killed_before_notes_count.undo()
        rows_of_files(source).write_datasink(sink)
        assert set(sink.rows) == set(noted(tmp_path)) == set(range(20))
        assert len(noted(tmp_path)) == 20

    def test_files_that_count_are_never_taken_back(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)

        def write(rows: skate.data.Dataset) -> None:
            sink = BlocksToFiles(str(tmp_path / "out"), filename_provider=SameNames())
            rows.write_datasink(sink, concurrency=1)

        write(rows_of_files(source).limit(2))
        for _ in range(2):
            with pytest.raises(OutputExistsError, match="would be called"):
                write(rows_of_files(source))
        assert set(range(2)) <= set(written(tmp_path / "out"))
        assert written(tmp_path / "out") == noted(tmp_path)


class TestWrites:
    def test_a_second_run_writes_what_the_first_one_has_not(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        seen = tmp_path / "seen"

        def fail_once(batch):
            with seen.open("a") as file:
                file.write("".join(f"{i}\n" for i in batch["id"]))
            if 12 in batch["id"] and not (tmp_path / "mended").exists():
                raise RuntimeError("broken")
            return batch

        ds = rows_of_files(source).map_batches(fail_once, concurrency=1)
        with pytest.raises(RuntimeError, match="broken"):
            ds.write_parquet(tmp_path / "out", concurrency=1)
        first = noted(tmp_path)
        assert first == written(tmp_path / "out")
        assert 12 not in first
        (tmp_path / "mended").touch()
        seen.unlink()
        ds.write_parquet(tmp_path / "out")
        assert written(tmp_path / "out") == list(range(20))
        assert sorted(map(int, seen.read_text().split())) == sorted(set(range(20)) - set(first))
        assert not (tmp_path / "ids").exists()

    @pytest.mark.parametrize("method", ["write_parquet", "write_csv", "write_json"])
    def test_ids_stay_if_they_are_to(self, context, source, tmp_path, method):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        getattr(rows_of_files(source), method)(tmp_path / "out")
        assert noted(tmp_path) == list(range(20))
        getattr(rows_of_files(source), method)(tmp_path / "again")
        assert not (tmp_path / "again").exists()

    def test_other_rows_are_written(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        rows_of_files(source).write_parquet(tmp_path / "out")
        pq.write_table(pa.table({"id": [7, 21], "x": [1, 1]}), f"{source}/more.parquet")
        rows_of_files(source).write_parquet(tmp_path / "again")
        assert written(tmp_path / "again") == [21]

    def test_files_in_folders_by_values(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        rows_of_files(source).write_parquet(tmp_path / "out", partition_cols=["x"])
        assert written(tmp_path / "out") == list(range(20))

    def test_only_writes_leave_rows_out(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        ds = rows_of_files(source)
        ds.write_parquet(tmp_path / "out")
        assert ds.count() == len(ds.take_all()) == 20

    def test_what_was_under_way_is_written_anew(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        ds = rows_of_files(source)
        ds.write_parquet(tmp_path / "out")
        first = min((tmp_path / "ids").iterdir())
        first.rename(first.with_suffix(".pending.parquet"))
        (tmp_path / "ids" / f"{'0' * 32}_000000.pending.parquet").write_bytes(b"PAR1")
        ds.write_parquet(tmp_path / "out")
        assert written(tmp_path / "out") == noted(tmp_path) == list(range(20))

    def test_ids_of_another_type(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        ds = rows_of_files(source).map(lambda row: {"id": str(row["id"])})
        ds.write_parquet(tmp_path / "out")
        ds.write_parquet(tmp_path / "again")
        assert not (tmp_path / "again").exists()

    def test_a_filter_of_the_files_with_ids(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)
        rows_of_files(source).write_parquet(tmp_path / "out")
        context.checkpoint_config = config(
            tmp_path, checkpoint_path_partition_filter=lambda paths: []
        )
        rows_of_files(source).write_parquet(tmp_path / "again")
        assert written(tmp_path / "again") == list(range(20))

    def test_sinks(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        first, second = FailingSink(17), FailingSink(None)
        with pytest.raises(OSError, match="full"):
            rows_of_files(source).write_datasink(first, concurrency=1)
        assert noted(tmp_path) == sorted(first.rows)
        rows_of_files(source).write_datasink(second)
        assert sorted(first.rows + second.rows) == list(range(20))


class TestPlans:
    """Rows are left out where that changes no other row."""

    @pytest.fixture
    def twice(self, context, tmp_path):
        """Write a dataset twice; the ids of what each of both has written."""
        context.checkpoint_config = config(tmp_path, delete_checkpoint_on_success=False)

        def write(ds: skate.data.Dataset) -> list[list[int]]:
            ds.write_parquet(tmp_path / "first")
            ds.write_parquet(tmp_path / "second")
            folders = [tmp_path / "first", tmp_path / "second"]
            return [written(folder) if folder.exists() else [] for folder in folders]

        return write

    def test_limits(self, source, twice):
        assert twice(rows_of_files(source).limit(2)) == [[0, 1], []]

    def test_joins_with_rows_without_ids(self, source, tmp_path, twice):
        pq.write_table(pa.table({"x": [0, 4], "y": [1, 2]}), tmp_path / "other.parquet")
        other = skate.data.read_parquet(str(tmp_path / "other.parquet"))
        joined = rows_of_files(source).join(other, "inner", 2, on=("x",))
        assert twice(joined) == [[0, 2], []]

    def test_groups(self, source, twice):
        assert twice(rows_of_files(source).groupby("id").sum("x")) == [list(range(20)), []]

    def test_ids_that_a_function_makes(self, source, twice):
        ds = skate.data.read_parquet(source, columns=["x"])
        numbered = ds.map_batches(lambda batch: {"id": batch["x"] // 2, "x": batch["x"]})
        assert twice(numbered) == [list(range(20)), []]

    def test_ids_under_another_name(self, source, twice):
        ds = rows_of_files(source).drop_columns(["id"]).rename_columns({"x": "id"})
        assert twice(ds) == [list(range(0, 40, 2)), []]

    @pytest.mark.parametrize(
        "reordered",
        [
            lambda ds: ds.repartition(2),
            lambda ds: ds.repartition(target_num_rows_per_block=3),
            lambda ds: ds.sort("x", descending=True),
            lambda ds: ds.random_shuffle(seed=1),
            lambda ds: ds.randomize_block_order(seed=1),
            lambda ds: ds.union(skate.data.range(0)),
        ],
    )
    def test_functions_below_what_only_reorders_are_spared(
        self, source, tmp_path, twice, reordered
    ):
        seen = tmp_path / "seen"

        def see(batch):
            with seen.open("a") as file:
                file.write("".join(f"{i}\n" for i in batch["id"]))
            return batch

        everything = list(range(20))
        assert twice(reordered(rows_of_files(source).map_batches(see))) == [everything, []]
        assert sorted(map(int, seen.read_text().split())) == everything


class TestFilesOfOthers:
    def test_only_ids_are_removed(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        own, inner = tmp_path / "ids" / "own.parquet", tmp_path / "ids" / "a" / "b.parquet"
        inner.parent.mkdir(parents=True)
        for place in (own, inner):
            pq.write_table(pa.table({"id": [3]}), place)
        rows_of_files(source).write_parquet(tmp_path / "out")
        assert own.exists()
        assert inner.exists()
        assert [path for path in (tmp_path / "ids").iterdir() if path != own] == [inner.parent]

    def test_they_count_as_ids(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        (tmp_path / "ids").mkdir()
        pq.write_table(pa.table({"id": [3]}), tmp_path / "ids" / "own.parquet")
        rows_of_files(source).write_parquet(tmp_path / "out")
        assert written(tmp_path / "out") == sorted(set(range(20)) - {3})

    def test_what_only_looks_pending_stays(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        place = tmp_path / "ids" / "mine.pending.parquet"
        place.parent.mkdir()
        pq.write_table(pa.table({"id": [3]}), place)
        rows_of_files(source).write_parquet(tmp_path / "out")
        assert place.exists()


class TestErrors:
    def test_rows_of_sinks_and_ids_have_folders_of_their_own(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        with pytest.raises(ValueError, match="one inside of the other"):
            rows_of_files(source).write_datasink(BlocksToFiles(str(tmp_path / "ids")))

    @pytest.mark.parametrize("out", ["ids", "ids/out", "."])
    def test_rows_and_ids_have_folders_of_their_own(self, context, source, tmp_path, out):
        context.checkpoint_config = config(tmp_path)
        with pytest.raises(ValueError, match="one inside of the other"):
            rows_of_files(source).write_parquet(tmp_path / out)
        assert not (tmp_path / "ids").exists()

    def test_folders_may_begin_alike(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        rows_of_files(source).write_parquet(tmp_path / "ids_and_more")
        assert written(tmp_path / "ids_and_more") == list(range(20))

    def test_ids_have_to_be_there_at_the_end(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        with pytest.raises(ValueError, match="ID column id is absent"):
            rows_of_files(source).drop_columns(["id"]).write_parquet(tmp_path / "out")

    def test_what_is_not_read_is_written_as_ever(self, context, tmp_path):
        context.checkpoint_config = config(tmp_path)
        with pytest.warns(UserWarning, match="doesn't support"):
            skate.data.from_items([{"id": 1}]).write_parquet(tmp_path / "out")
        assert written(tmp_path / "out") == [1]

    def test_overwriting_would_lose_rows(self, context, source, tmp_path):
        context.checkpoint_config = config(tmp_path)
        with pytest.raises(ValueError, match="mode='append'"):
            rows_of_files(source).write_parquet(tmp_path / "out", mode="overwrite")

    @pytest.mark.parametrize("name", ["", 1, None])
    def test_a_column_needs_a_name(self, name):
        with pytest.raises(InvalidCheckpointingConfig, match="Checkpoint ID column"):
            CheckpointConfig(name, "/ids")

    @pytest.mark.parametrize("path", ["relative/", "s3:/ids", "nothing://ids"])
    def test_paths_are_absolute(self, path):
        with pytest.raises(InvalidCheckpointingConfig, match="Invalid checkpoint path"):
            CheckpointConfig("id", path)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"override_filesystem": "local"},
            {"override_backend": "FILE_STORAGE"},
            {"checkpoint_filter_cls": object},
        ],
    )
    def test_arguments_are_checked(self, tmp_path, arguments):
        with pytest.raises(InvalidCheckpointingConfig):
            config(tmp_path, **arguments)

    def test_settings_are_checked(self, context):
        with pytest.raises(TypeError, match="checkpoint_config"):
            context.checkpoint_config = "ids"


class TestConfig:
    def test_the_usual_path(self, monkeypatch, tmp_path):
        variable = CheckpointConfig.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(InvalidCheckpointingConfig, match="checkpoint_path"):
            CheckpointConfig("id")
        monkeypatch.setenv(variable, str(tmp_path))
        assert CheckpointConfig("id").checkpoint_path == f"{tmp_path}/ray_data_checkpoint"

    def test_the_backend_follows_from_the_path(self, tmp_path):
        assert config(tmp_path).backend is CheckpointBackend.FILE_STORAGE
        with pytest.warns(FutureWarning, match="deprecated"):
            other = config(tmp_path, override_backend=CheckpointBackend.CLOUD_OBJECT_STORAGE)
        assert other.backend is CheckpointBackend.CLOUD_OBJECT_STORAGE

    def test_a_dictionary_has_the_arguments(self, context, tmp_path):
        context.checkpoint_config = {"id_column": "id", "checkpoint_path": str(tmp_path)}
        assert context.checkpoint_config.id_column == "id"


@pytest.mark.parametrize("names", ['["link/own"]', '["../own"]', "5", "{", '[["a"]]'])
def test_a_note_of_others_removes_nothing_outside_of_the_folder(context, source, tmp_path, names):
    out, ids, own = tmp_path / "out", tmp_path / "ids", tmp_path / "own"
    for folder in (out, ids):
        folder.mkdir()
    own.write_text("own")
    (out / "link").symlink_to(tmp_path)
    note = pa.table({"id": [99]}).replace_schema_metadata({"skate.files": names})
    pq.write_table(note, ids / f"{'a' * 32}_000000.pending.parquet")
    context.checkpoint_config = CheckpointConfig(id_column="id", checkpoint_path=str(ids))
    with pytest.raises(ValueError, match=r"outside of the folder|no note of a write"):
        skate.data.read_parquet(source).write_parquet(str(out))
    assert own.read_text() == "own"
