"""Values of columns in the names of folders and files."""

import pytest

import skate
import skate.data
from skate.data.datasource import PathPartitionParser

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
