"""Paths mean what they say: folders, patterns, file systems."""

import gzip
import os
from importlib import import_module

import pyarrow as pa
import pytest
from pyarrow import parquet

import skate
import skate.data
from skate._core import notices
from skate.data._io import paths
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")


@local_only
def test_the_memory_of_another_process_is_named():
    import fsspec

    fsspec.filesystem("memory").pipe("/surprise/a.csv", b"x\n1\n")
    dataset = skate.data.read_csv("memory://surprise/a.csv")
    assert dataset.take_all() == [{"x": 1}]
    with pytest.raises(FileNotFoundError, match="memory of one process"):
        dataset.map(lambda row: row).take_all()


@local_only
def test_a_pipe_and_a_device_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zeros.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zeros.csv"):
        with pytest.raises(OSError, match=f"{name}.*no file and no folder, but a pipe"):
            skate.data.read_csv(tmp_path / name)


class TestPaths:
    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("a.csv", "b.csv", "c.txt", "_hidden.csv", "sub/d.csv"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"name\n{name}\n")
        return tmp_path

    def names(self, paths, **options):
        return [row["name"] for row in skate.data.read_csv(paths, **options).take_all()]

    def test_a_folder_with_everything_in_it(self, folder):
        assert self.names(folder) == ["a.csv", "b.csv", "c.txt", "sub/d.csv"]
        assert self.names(folder, file_extensions=["csv"]) == ["a.csv", "b.csv", "sub/d.csv"]

    @pytest.mark.parametrize(
        ("read", "write", "name"),
        [
            ("read_parquet", "parquet.write_table", "a.parquet"),
            ("read_orc", "orc.write_table", "a.orc"),
            ("read_json", None, "a.jsonl.gz"),
        ],
    )
    def test_a_folder_of_a_format_with_other_files_beside(self, tmp_path, read, write, name):
        def put(path):
            if write is None:
                path.write_bytes(gzip.compress(b'{"x": 1}\n'))
            else:
                module, function = write.split(".")
                getattr(import_module(f"pyarrow.{module}"), function)(pa.table({"x": [1]}), path)

        put(tmp_path / name)
        (tmp_path / "README.md").write_text("what this is")
        reader = getattr(skate.data, read)
        assert reader(tmp_path).take_all() == [{"x": 1}]
        with pytest.raises((ValueError, OSError)):  # all files are meant
            reader(tmp_path, file_extensions=None, override_num_blocks=1).take_all()
        (tmp_path / name).unlink()
        (tmp_path / "README.md").unlink()
        put(tmp_path / "part-0")
        if write is not None:
            assert reader(tmp_path).take_all() == [{"x": 1}]  # none has the extension: all
            assert reader(tmp_path / "part-0").take_all() == [{"x": 1}]

    def test_parts_without_extension_beside_others_are_told_of(self, tmp_path, capfd, monkeypatch):
        monkeypatch.setattr(notices, "_said", set())
        for name in ("b.parquet", "day=1/part-0", "day=1/part-1"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            parquet.write_table(pa.table({"x": [1]}), tmp_path / name)
        for _ in range(2):
            assert skate.data.read_parquet(tmp_path).count() == 1
        said = capfd.readouterr().err
        assert said.count("left out") == 1
        assert f"2 of the files in {tmp_path}" in said
        assert "'part-0'" in said
        assert "file_extensions=None" in said
        assert skate.data.read_parquet(tmp_path, file_extensions=None).count() == 3

    def test_notes_and_marks_beside_files_of_a_format_are_not(self, tmp_path, capfd, monkeypatch):
        monkeypatch.setattr(notices, "_said", set())
        parquet.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
        for name in ("_SUCCESS", ".hidden", "README", "SHA256SUMS", "b.parquet.crc", "notes.txt"):
            (tmp_path / name).write_text("no rows")
        (tmp_path / "done").touch()
        assert skate.data.read_parquet(tmp_path).count() == 1
        (tmp_path / "part-0").write_text("no rows")
        for options in ({"file_extensions": ["parquet"]}, {"skip_paths": tmp_path / "part-0"}):
            assert skate.data.read_parquet(tmp_path, **options).count() == 1
        assert "left out" not in capfd.readouterr().err

    def test_files_and_lists_and_globs(self, folder):
        assert self.names(str(folder / "b.csv")) == ["b.csv"]
        assert self.names([folder / "b.csv", folder / "a.csv"]) == ["b.csv", "a.csv"]
        assert self.names(str(folder / "*.csv")) == ["_hidden.csv", "a.csv", "b.csv"][1:]

    def test_what_is_not_there(self, folder):
        with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
            skate.data.read_csv(folder / "nothing.csv")
        paths = [folder / "nothing.csv", folder / "a.csv"]
        assert self.names(paths, ignore_missing_paths=True) == ["a.csv"]

    def test_a_file_system_of_ones_own(self):
        import fsspec

        memory = fsspec.filesystem("memory")
        with memory.open("/data/a.csv", "w") as file:
            file.write("name\nhere\n")
        assert self.names("/data/a.csv", filesystem=memory) == ["here"]
        assert self.names("memory://data/a.csv") == ["here"]

    def test_include_paths_and_input_files(self, folder):
        dataset = skate.data.read_csv(folder / "a.csv", include_paths=True)
        assert dataset.take()[0]["path"] == str(folder / "a.csv")
        assert dataset.input_files() == [str(folder / "a.csv")]

    def test_an_unknown_example_lists_those_there_are(self):
        with pytest.raises(FileNotFoundError, match=r"iris\.csv"):
            skate.data.read_csv("example://nothing.csv")

    @pytest.mark.parametrize("options", [{}, {"ignore_missing_paths": True}])
    def test_no_file_at_all_is_an_error(self, folder, options):
        (folder / "empty").mkdir()
        with pytest.raises(ValueError, match="No input files found to read"):
            skate.data.read_csv(folder / "empty", **options)
        with pytest.raises((FileNotFoundError, ValueError)):
            skate.data.read_csv(folder / "nowhere.csv", **options)

    def test_what_is_no_path_is_an_error_of_value_and_type(self):
        for error in (ValueError, TypeError):
            with pytest.raises(error, match="paths takes"):
                skate.data.read_csv(7)

    def test_wrong_seed_and_order(self, folder):
        with pytest.raises(ValueError, match="Seed must be an integer or None; got 'x'"):
            skate.data.FileShuffleConfig(seed="x")
        with pytest.raises(ValueError, match="Invalid value for 'shuffle': 'rows'"):
            skate.data.read_csv(folder, shuffle="rows")

    def test_file_shuffle(self, folder):
        config = skate.data.FileShuffleConfig(seed=1)
        found = self.names(folder, shuffle=config)
        assert sorted(found) == ["a.csv", "b.csv", "c.txt", "sub/d.csv"]
        assert found == self.names(folder, shuffle=config)


@pytest.mark.engines("inline")
def test_a_pattern_looks_only_where_it_can_match(tmp_path):
    for name in ("a/x.csv", "b/x.csv", "b/deep/er/x.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("v\n1\n")
    looked = []

    class Files(pa.fs.FSSpecHandler):
        def get_file_info_selector(self, selector):
            looked.append((selector.base_dir, selector.recursive))
            return super().get_file_info_selector(selector)

    import fsspec

    files = pa.fs.PyFileSystem(Files(fsspec.filesystem("file")))
    found = paths.find(f"{tmp_path}/*/x.csv", files).files
    assert [file.path for file in found] == [f"{tmp_path}/a/x.csv", f"{tmp_path}/b/x.csv"]
    assert {place for place, _ in looked} == {str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/b"}
    assert not any(recursive for _, recursive in looked)
    assert len(paths.find(f"{tmp_path}/**/x.csv", files).files) == 3


@pytest.mark.engines("inline")
def test_one_file_system_at_a_time(tmp_path):
    import fsspec

    (tmp_path / "x.csv").write_text("v\n1\n")
    with fsspec.filesystem("memory").open("/x.csv", "w") as file:
        file.write("v\n1\n")
    with pytest.raises(ValueError, match=r"memory://x\.csv.*union"):
        skate.data.read_csv([str(tmp_path / "x.csv"), "memory://x.csv"])
