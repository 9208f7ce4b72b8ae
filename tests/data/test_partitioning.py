"""Values of columns in the names of folders and files."""

import pytest

import skate
import skate.data
from skate.data.datasource import Partitioning, PathPartitionFilter, PathPartitionParser

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
@pytest.mark.parametrize(("flavor", "path"), [(None, "1/*"), ("filename", "1_*")])
def test_values_in_paths(tmp_path, flavor, path):
    dataset = skate.data.from_items([{"k": 1, "v": 2}, {"k": 3, "v": 4}])
    dataset.write_parquet(tmp_path, partition_cols=["k"], partitioning_flavor=flavor)
    (file,) = tmp_path.glob(path)
    assert skate.data.read_parquet(file, partitioning=None).take_all() == [{"v": 2}]
    with pytest.raises(ValueError, match="got 'tree'"):
        dataset.write_parquet(tmp_path, partition_cols=["k"], partitioning_flavor="tree")


@pytest.mark.engines("local")
def test_values_in_file_and_path(tmp_path):
    folder = tmp_path / "month=01"
    folder.mkdir()
    (folder / "a.csv").write_text("month,x\n1,5\n,6\n")
    assert skate.data.read_csv(tmp_path).take_all() == [
        {"month": 1, "x": 5},
        {"month": 1, "x": 6},
    ]
    (folder / "a.csv").write_text("month,x\n2,5\n")
    with pytest.raises(ValueError, match=r"'month' of .* which says '01'"):
        skate.data.read_csv(tmp_path).materialize()
    assert skate.data.read_csv(tmp_path, partitioning=None).take(1) == [{"month": 2, "x": 5}]


@pytest.mark.engines("local")
def test_folders_without_a_name(tmp_path):
    from skate.data.datasource import Partitioning

    (tmp_path / "1970" / "data").mkdir(parents=True)
    (tmp_path / "1970" / "data" / "a.csv").write_text("x\n5\n")
    style = Partitioning("dir", field_names=["year", None], base_dir=str(tmp_path))
    found = skate.data.read_csv(tmp_path, partitioning=style)
    assert found.take_all() == [{"x": 5, "year": "1970"}]


def test_values_in_the_names_of_folders():
    hive = PathPartitionParser.of(base_dir="/data", field_types={"year": int})
    assert hive("/data/year=2024/kind=a/f.csv") == {"year": 2024, "kind": "a"}
    assert hive("/elsewhere/year=2024/f.csv") == {}
    folders = PathPartitionParser.of("dir", base_dir="/data", field_names=["kind"])
    assert folders("/data/cat/f.png") == {"kind": "cat"}
    with pytest.raises(ValueError, match="do not fit the partitions"):
        folders("/data/cat/small/f.png")


def test_the_values_of_partition_folders_are_text(tmp_path):
    skate.data.from_items([{"a": 1, "b": 2}]).write_parquet(tmp_path, partition_cols=["a"])
    with pytest.raises(TypeError, match=r"col\('a'\) is string.*Partitioning\(field_types"):
        skate.data.read_parquet(tmp_path).filter(expr="a == 1").take_all()


class TestWrittenAndRead:
    def test_written_and_read(self, tmp_path):
        rows = [{"n": n, "k": "ab"[n % 2]} for n in range(6)]
        skate.data.from_items(rows).write_parquet(tmp_path, partition_cols=["k"])
        assert {path.name for path in tmp_path.iterdir()} == {"k=a", "k=b"}
        back = skate.data.read_parquet(str(tmp_path))
        assert sorted(back.take_all(), key=lambda row: row["n"]) == rows
        assert back.select_columns(["k"]).count() == 6
        assert {row["k"] for row in back.select_columns(["k"]).take_all()} == {"a", "b"}

    def test_folders_by_position_and_a_filter(self, tmp_path):
        for year in ("2020", "2021"):
            (tmp_path / year).mkdir()
            (tmp_path / year / "x.csv").write_text("v\n1\n")
        by_year = Partitioning("dir", field_names=["year"], field_types={"year": int})
        found = skate.data.read_csv(tmp_path, partitioning=by_year).take_all()
        assert found == [{"v": 1, "year": 2020}, {"v": 1, "year": 2021}]
        later = PathPartitionFilter(by_year, lambda values: values["year"] > 2020)
        found = skate.data.read_csv(tmp_path, partitioning=by_year, partition_filter=later)
        assert found.take_all() == [{"v": 1, "year": 2021}]


def test_folders_of_keys_and_values_become_columns(tmp_path):
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1" / "a.csv").write_text("a\n1\n")
    assert skate.data.read_csv(str(tmp_path)).take_all() == [{"a": 1, "k": "1"}]
    assert skate.data.read_csv(str(tmp_path), partitioning=None).take_all() == [{"a": 1}]


@pytest.mark.engines("inline")
def test_each_path_has_its_own_partitions(tmp_path):
    for name in ("one/2020/x.csv", "two/2021/x.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("v\n1\n")
    by_year = Partitioning("dir", field_names=["year"])
    later = PathPartitionFilter(by_year, lambda values: values["year"] > "2020")
    found = skate.data.read_csv(
        [tmp_path / "one", tmp_path / "two"], partitioning=by_year, partition_filter=later
    )
    assert found.take_all() == [{"v": 1, "year": "2021"}]
