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
from skate.data.expressions import col, lit
from skate.data.sources.iceberg_filters import iceberg_filter

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
    def test_an_error_between_rows_is_raised_as_it_is(self, tmp_path):
        def fail_late(row):
            if row["id"] == 90:
                raise ZeroDivisionError("the ninetieth row")
            return row

        rows = skate.data.range(100, override_num_blocks=10).map(fail_late)
        with pytest.raises(ZeroDivisionError, match="the ninetieth row"):
            rows.write_delta(tmp_path / "table")

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

    def test_a_table_of_one_partition(self, tmp_path):
        dataset = skate.data.from_items([{"day": n % 2, "n": n} for n in range(4)])
        for _ in range(2):
            dataset.write_delta(tmp_path, partition_by="day")
        assert DeltaTable(tmp_path).metadata().partition_columns == ["day"]
        assert skate.data.read_delta(tmp_path).count() == 8
        with pytest.raises(ValueError, match="no such column in the dataset: 'days'"):
            dataset.write_delta(tmp_path, partition_by="days")

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"mode": "error"}, "is there already.*'append'"),
            ({"partition_by": ["n"]}, r"partitioned by \['s'\]; got partition_by=\['n'\]"),
            ({"partition_by": ["m"]}, "no such column in the dataset: 'm'"),
            ({"schema_mode": "error"}, r"no columns \['new'\].*'merge'"),
        ],
    )
    def test_what_a_table_is_not_made_for(self, tmp_path, arguments, words):
        skate.data.from_items(ROWS).write_delta(tmp_path, partition_by=["s"])
        more = skate.data.from_items([{"n": 9, "s": "a", "new": 1}])
        with pytest.raises(ValueError, match=words):
            more.write_delta(tmp_path, **arguments)
        assert by_number(skate.data.read_delta(tmp_path)) == ROWS
        skate.data.from_items(ROWS).write_delta(tmp_path, schema_mode="error", partition_by=["s"])
        more.write_delta(tmp_path)
        assert skate.data.read_delta(tmp_path).sum("new") == 1

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


COMPLETE = {"n": 1, "s": {"n": 1}, "l": [{"n": 1}], "m": [("a", {"n": 1})]}


NAN = float("nan")
CHOSEN = [
    col("s") == "a",
    col("s") != "a",
    ~(col("s") == "a"),
    ~(col("s") != "a"),
    col("s").is_in(["a", "b"]),
    ~col("s").is_in(["a", "b"]),
    col("s").not_in(["a", "b"]),
    ~col("s").not_in(["a", "b"]),
    col("s").not_in(["a"]),
    col("s").is_in(["a", None]),
    col("s").not_in(["a", None]),
    ~(col("s") < "b"),
    ~((col("s") == "a") & (col("n") < 3)),
    ~((col("s") == "a") | (col("n") < 3)),
    (col("s").is_null() & (col("n") == 3)) | (col("s") == "a"),
    ~col("s").is_null(),
    ~col("s").is_not_null(),
    (col("s") == "a") | (col("n") == 4),
    col("f") != 1.0,
    ~(col("f") < 2.0),
    col("f") < 2.0,
    col("f").is_null() | (col("n") == 2),
    col("f").is_not_null(),
    col("f").not_in([1.0, 2.0]),
    col("f").is_in([1.0, 2.0]) | (col("n") == 2),
    col("f").is_in([1.0, NAN]),
    col("f").not_in([1.0, NAN]),
    (col("f") > 1.0) | (col("n") == 3),
]


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

    def test_new_and_wider_columns_change_the_table(self, catalog):
        load_catalog(**catalog).create_table("here.small", pa.schema([("n", pa.int32())]))
        for table in (
            pa.table({"n": pa.array([1], pa.int32())}),
            pa.table({"n": [2], "t": ["x"]}),
        ):
            skate.data.from_arrow(table).write_iceberg("here.small", catalog)
        read = skate.data.read_iceberg(table_identifier="here.small", catalog_kwargs=catalog)
        assert by_number(read) == [{"n": 1, "t": None}, {"n": 2, "t": "x"}]
        assert read.schema().base_schema.field("n").type == pa.int64()

    def test_a_write_that_fails_leaves_the_table_as_it_was(self, catalog):
        with pytest.raises(Exception, match="no such column"):
            skate.data.from_items([{"n": 1, "new": 2}]).write_iceberg(
                "here.rows",
                catalog,
                mode="upsert",
                upsert_kwargs={"join_cols": ["no such column"]},
            )
        assert self.read(catalog).schema().names == ["n", "s"]

    def strict(self, catalog):
        """Make a table with fields that have to be there; return what tells the number of its
        rows, and which of the fields still have to."""
        wanted = [pa.field("n", pa.int64(), nullable=False)]
        wanted += [
            pa.field("s", pa.struct(wanted)),
            pa.field("l", pa.list_(pa.field("element", pa.struct(wanted), nullable=False))),
            pa.field(
                "m", pa.map_(pa.string(), pa.field("value", pa.struct(wanted), nullable=False))
            ),
        ]
        load_catalog(**catalog).create_table("here.strict", pa.schema(wanted))

        def now():
            table = load_catalog(**catalog).load_table("here.strict")
            paths = ("n", "s.n", "l.element", "l.element.n", "m.value", "m.value.n")
            wants = {path: table.schema().find_field(path).required for path in paths}
            return table.scan().to_arrow().num_rows, wants

        return now

    def of_rows(self, *rows):
        inner = pa.struct([("n", pa.int64())])
        types = {"n": pa.int64(), "s": inner, "l": pa.list_(inner)}
        types["m"] = pa.map_(pa.string(), inner)
        return skate.data.from_arrow(pa.Table.from_pylist(list(rows), pa.schema(types.items())))

    def test_columns_that_have_to_be_there_stay_so(self, catalog):
        now = self.strict(catalog)
        others = {"s": None, "l": None, "m": None}
        self.of_rows(COMPLETE, {"n": 2, **others}).write_iceberg("here.strict", catalog)
        rows, wants = now()
        assert rows == 2
        assert all(wants.values()), wants

    @pytest.mark.parametrize(
        ("given", "named"),
        [
            ({"n": None}, "'n'"),
            ({"s": {"n": None}}, r"'s\.n'"),
            ({"l": [{"n": 1}, None]}, r"'l\.element'"),
            ({"l": [{"n": 1}, {"n": None}]}, r"'l\.element\.n'"),
            ({"m": [("a", None)]}, r"'m\.value'"),
            ({"m": [("a", {"n": None})]}, r"'m\.value\.n'"),
        ],
    )
    def test_what_has_to_be_there_and_is_missing_is_named(self, catalog, given, named):
        now = self.strict(catalog)
        with pytest.raises(ValueError, match=f"wants a value in each row of {named}"):
            self.of_rows(COMPLETE, COMPLETE | given).write_iceberg("here.strict", catalog)
        rows, wants = now()
        assert rows == 0
        assert all(wants.values()), wants

    def test_new_fields_of_what_is_there_may_be_missing(self, catalog):
        now = self.strict(catalog)
        self.of_rows(COMPLETE).write_iceberg("here.strict", catalog)
        never = pa.schema(
            [
                pa.field("n", pa.int64()),
                pa.field("s", pa.struct([("n", pa.int64()), pa.field("t", pa.int64(), False)])),
            ]
        )
        more = pa.Table.from_pylist([{"n": 2, "s": {"n": 2, "t": 3}}], never)
        skate.data.from_arrow(more).write_iceberg("here.strict", catalog)
        rows, wants = now()
        assert rows == 2
        assert all(wants.values()), wants
        read = skate.data.read_iceberg(table_identifier="here.strict", catalog_kwargs=catalog)
        assert [row["s"]["t"] for row in by_number(read)] == [None, 3]

    @pytest.mark.parametrize(
        ("chosen", "left"),
        [
            (col("n") < 4, [4, 5]),
            (lit(2) <= col("n"), [0, 1]),
            ((col("n") == 1) | (col("n") != 2) & (col("n") > 3), [0, 2, 3]),
            (~col("n").is_in([0, 5]), [0, 5]),
            (col("n").not_in([0, 5]), [0, 5]),
            (col("s").is_null(), [0, 1, 2, 3, 4]),
            (col("s").is_not_null().alias("there"), [5]),
        ],
    )
    def test_rows_that_give_way_are_chosen_by_an_expression(self, catalog, chosen, left):
        rows = [{"n": n, "s": None if n == 5 else "old"} for n in range(6)]
        skate.data.from_items(rows).write_iceberg("here.rows", catalog)
        new = skate.data.from_items([{"n": 9, "s": "new"}])
        new.write_iceberg("here.rows", catalog, mode="overwrite", overwrite_filter=chosen)
        assert [row["n"] for row in by_number(self.read(catalog))] == [*left, 9]

    @pytest.mark.parametrize("ends", [[7], [2, 3, 5, 6, 7]], ids=["together", "apart"])
    def test_missing_values_and_nan_are_chosen_as_by_filter(self, catalog, ends):
        """Also in files that have nothing else, of which pyiceberg reads the statistics only."""
        table = pa.table(
            {
                "n": range(7),
                "s": ["a", "b", "x", None, None, "a", "x"],
                "f": [1.0, 2.0, NAN, NAN, None, None, 5.0],
            }
        )
        loaded, rows, wrong = load_catalog(**catalog), skate.data.from_arrow(table), {}
        for chosen in CHOSEN:
            there = loaded.create_table("here.gaps", table.schema)
            with there.transaction() as version:
                for begin, end in zip([0, *ends], ends, strict=False):
                    version.append(table[begin:end])
            there.delete(iceberg_filter(chosen))
            left = there.scan().to_arrow()["n"].to_pylist()
            loaded.drop_table("here.gaps")
            gone = [row["n"] for row in rows.filter(expr=chosen).take_all()]
            if sorted(left) != sorted(set(range(7)) - set(gone)):
                wrong[str(chosen)] = left, gone
        assert not wrong

    @pytest.mark.parametrize(
        "chosen", [col("s") == lit(None), ~(col("s") != lit(None)), lit(None) < col("n")]
    )
    def test_comparisons_with_none_name_what_asks_for_it(self, catalog, chosen):
        with pytest.raises(ValueError, match=r"None.*is_null\(\)"):
            skate.data.from_items(ROWS).write_iceberg(
                "here.rows", catalog, mode="overwrite", overwrite_filter=chosen
            )

    def test_an_expression_that_iceberg_has_not_is_refused(self, catalog):
        with pytest.raises(ValueError, match=r"compares columns with values.*\+"):
            skate.data.from_items(ROWS).write_iceberg(
                "here.rows", catalog, mode="overwrite", overwrite_filter=col("n") + 1 < 5
            )

    @pytest.mark.parametrize(
        "given", [{"upsert_kwargs": {"join_cols": ["n"]}}, {"overwrite_filter": col("n") < 5}]
    )
    def test_arguments_of_other_modes_are_refused(self, catalog, given):
        with pytest.raises(ValueError, match=f"{next(iter(given))} is for mode=.*mode='append'"):
            skate.data.from_items(ROWS).write_iceberg("here.rows", catalog, **given)


@pytest.mark.parametrize("name", ["read_mongo", "read_hudi", "from_spark", "read_kafka"])
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
