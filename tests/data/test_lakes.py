"""Tables with versions: Delta Lake and Iceberg, by their own libraries."""

import threading

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.concurrent import ExecutorFactory

import skate.data
from skate.data import SaveMode

pytestmark = pytest.mark.usefixtures("engine")

ROWS = [{"n": n, "s": "ab"[n % 2]} for n in range(6)]


@pytest.fixture(scope="module", autouse=True)
def threads_of_the_libraries(tmp_path_factory, shared_session):
    """Both keep threads for the life of the process: they begin before anything is looked at."""
    shared_session.end()
    place = tmp_path_factory.mktemp("delta")
    write_deltalake(place, pa.table({"n": [0]}))
    DeltaTable(place).to_pyarrow_dataset().to_table()
    ready = threading.Barrier(ExecutorFactory.get_or_create()._max_workers + 1)
    for _ in range(ready.parties - 1):
        ExecutorFactory.get_or_create().submit(ready.wait)
    ready.wait()


def by_number(dataset):
    return sorted(dataset.take_all(), key=lambda row: row["n"])


class TestDelta:
    def test_versions(self, tmp_path):
        write_deltalake(tmp_path, pa.Table.from_pylist(ROWS[:4]), partition_by=["s"])
        before = skate.data.read_delta(tmp_path)
        write_deltalake(tmp_path, pa.Table.from_pylist(ROWS[4:]), mode="append")
        assert by_number(before) == by_number(skate.data.read_delta(tmp_path, 0)) == ROWS[:4]
        now = skate.data.read_delta(tmp_path)
        assert by_number(now) == by_number(now.map(lambda row: row)) == ROWS
        assert now.schema().names == ["n", "s"]

    def test_columns(self, tmp_path):
        write_deltalake(tmp_path, pa.Table.from_pylist(ROWS))
        some = skate.data.read_delta(tmp_path, columns=["s"])
        assert some.columns() == ["s"]
        assert skate.data.read_delta(tmp_path).select_columns(["n"]).sum("n") == 15
        with pytest.raises(KeyError, match=r"'m'; the columns are \['n', 's'\]"):
            skate.data.read_delta(tmp_path, columns=["m"]).take()

    def test_what_is_deleted(self, tmp_path):
        write_deltalake(tmp_path, pa.Table.from_pylist(ROWS))
        DeltaTable(tmp_path).delete("n > 1")
        assert by_number(skate.data.read_delta(tmp_path)) == ROWS[:2]
        DeltaTable(tmp_path).delete()
        assert skate.data.read_delta(tmp_path).to_pandas().columns.tolist() == ["n", "s"]

    def test_writing(self, tmp_path):
        dataset = skate.data.from_items(ROWS, override_num_blocks=3)
        dataset.write_delta(tmp_path, partition_by=["s"])
        dataset.write_delta(tmp_path)
        assert DeltaTable(tmp_path).version() == 1
        assert skate.data.read_delta(tmp_path).count() == 12
        dataset.write_delta(tmp_path, mode=SaveMode.OVERWRITE)
        assert by_number(skate.data.read_delta(tmp_path)) == ROWS
        dataset.write_delta(tmp_path, mode="ignore")
        assert skate.data.read_delta(tmp_path).count() == 6
        with pytest.raises(ValueError, match=r"mode takes .*'upsert'"):
            dataset.write_delta(tmp_path, mode="upsert")

    def test_a_write_that_fails_leaves_the_table_as_it_was(self, tmp_path):
        skate.data.from_items(ROWS).write_delta(tmp_path)

        def fail(row):
            return {"n": 1 // (3 - row["n"]), "s": ""}

        with pytest.raises(Exception, match="division"):
            skate.data.from_items(ROWS, override_num_blocks=6).map(fail).write_delta(tmp_path)
        assert by_number(skate.data.read_delta(tmp_path)) == ROWS

    def test_tensors_become_lists(self, tmp_path):
        skate.data.from_numpy(np.ones((3, 2))).write_delta(tmp_path)
        assert skate.data.read_delta(tmp_path).take(1) == [{"data": [1.0, 1.0]}]


class TestIceberg:
    @pytest.fixture
    def catalog(self, tmp_path):
        """The arguments of a catalog in a file, with a table of no rows."""
        place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
        arguments = {"name": "mine", **place, "warehouse": f"file://{tmp_path}/tables"}
        loaded = load_catalog(**arguments)
        loaded.create_namespace("here")
        loaded.create_table("here.rows", pa.schema([("n", pa.int64()), ("s", pa.string())]))
        yield arguments
        loaded.close()

    def read(self, catalog, **options):
        return skate.data.read_iceberg(
            table_identifier="here.rows", catalog_kwargs=catalog, **options
        )

    def test_there_and_back(self, catalog):
        assert self.read(catalog).schema().names == ["n", "s"]
        assert self.read(catalog).to_pandas().columns.tolist() == ["n", "s"]
        for part in (ROWS[:4], ROWS[4:]):
            skate.data.from_items(part).write_iceberg("here.rows", catalog)
        assert by_number(self.read(catalog)) == ROWS
        assert by_number(self.read(catalog, row_filter="n < 2")) == ROWS[:2]
        chosen = self.read(catalog, selected_fields=("s",)).map(lambda row: row)
        assert chosen.columns() == ["s"]

    def test_snapshots(self, catalog):
        skate.data.from_items(ROWS[:2]).write_iceberg("here.rows", catalog)
        before = self.read(catalog)
        skate.data.from_items(ROWS[2:4]).write_iceberg("here.rows", catalog)
        assert by_number(before) == ROWS[:2]
        assert by_number(self.read(catalog)) == ROWS[:4]

    def test_modes(self, catalog):
        skate.data.from_items(ROWS).write_iceberg("here.rows", catalog)
        changed = skate.data.from_items([{"n": 1, "s": "new"}, {"n": 9, "s": "new"}])
        keys = {"join_cols": ["n"]}
        changed.write_iceberg("here.rows", catalog, mode="upsert", upsert_kwargs=keys)
        assert [row["n"] for row in by_number(self.read(catalog)) if row["s"] == "new"] == [1, 9]
        changed.write_iceberg("here.rows", catalog, mode="overwrite", overwrite_filter="n < 5")
        assert [row["n"] for row in by_number(self.read(catalog))] == [1, 5, 9, 9]
        changed.write_iceberg("here.rows", catalog, mode=SaveMode.OVERWRITE)
        assert self.read(catalog).count() == 2


@pytest.mark.parametrize("name", ["read_mongo", "read_lance", "from_spark", "read_videos"])
def test_what_there_is_not_names_a_way(name):
    with pytest.raises(AttributeError, match=r"from_|read_"):
        getattr(skate.data, name)


class TestTablesOfStrangers:
    def test_of_iceberg_name_no_code(self, tmp_path, monkeypatch):
        """Whoever writes a table could have pyiceberg import and call anything that is installed
        here, by properties in the table's own files."""
        marker = tmp_path / "code-was-run"
        (tmp_path / "stranger_io.py").write_text(
            "import os\nfrom pyiceberg.io.pyarrow import PyArrowFileIO\n"
            "from pyiceberg.table.locations import SimpleLocationProvider\n"
            f"def Evil(*given):\n    os.makedirs({str(marker)!r}, exist_ok=True)\n"
            "    return PyArrowFileIO() if len(given) == 1 else SimpleLocationProvider(*given)\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        uri = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
        where = {"name": "mine", "type": "sql", **uri}
        catalog = load_catalog("mine", type="sql", **uri)
        catalog.create_namespace("shop")
        for number, name in enumerate(("py-io-impl", "write.py-location-provider.impl")):
            table = catalog.create_table(
                f"shop.t{number}",
                schema=pa.schema([("id", pa.int64())]),
                properties={name: "stranger_io.Evil"},
            )
            marker.rmdir() if marker.exists() else None  # by pyiceberg, for its own catalog
            identifier = ".".join(table.name())
            with pytest.raises(ValueError, match=f"{name}.*catalog_kwargs"):
                skate.data.read_iceberg(table_identifier=identifier, catalog_kwargs=where)
            with pytest.raises(ValueError, match=f"{name}.*catalog_kwargs"):
                skate.data.range(1).write_iceberg(identifier, where)
            assert not marker.exists()
            trusted = {**where, name: "stranger_io.Evil"}
            read = skate.data.read_iceberg(table_identifier=identifier, catalog_kwargs=trusted)
            assert read.count() == 0
        catalog.engine.dispose()

    def test_of_a_catalog_that_cannot_be_watched(self, monkeypatch):
        monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda name, **given: object())
        with pytest.raises(RuntimeError, match=r"pyiceberg \d.*from_arrow"):
            skate.data.read_iceberg(table_identifier="shop.t")

    @pytest.mark.parametrize("kind", ["relative", "absolute"])
    def test_of_delta_do_not_point_outside(self, tmp_path, kind):
        write_deltalake(tmp_path / "t", pa.table({"n": [1]}))
        write_deltalake(tmp_path / "secret", pa.table({"n": [666]}))
        secret = next((tmp_path / "secret").glob("*.parquet"))
        own = next((tmp_path / "t").glob("*.parquet"))
        outside = f"../secret/{secret.name}" if kind == "relative" else secret.as_uri()
        log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
        log.write_text(log.read_text().replace(own.name, outside))
        with pytest.raises((OSError, ValueError)):
            skate.data.read_delta(tmp_path / "t").take_all()
