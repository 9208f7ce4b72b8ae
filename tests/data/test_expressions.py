"""Expressions: kinds of columns, functions, and values, and where they run."""

import datetime
import os
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data._expressions.text import parse
from skate.data.datatype import DataType
from skate.data.expressions import (
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    DownloadExpr,
    LiteralExpr,
    Operation,
    RandomExpr,
    StarExpr,
    UDFExpr,
    UnaryExpr,
    UnnestExpr,
    col,
    download,
    lit,
    monotonically_increasing_id,
    pyarrow_udf,
    random,
    star,
    udf,
    unnest,
    uuid,
)
from tests.support import local_only

WHEN = datetime.datetime(2024, 2, 29, 13, 40)
TABLE = pa.table(
    {
        "s": ["  aB c ", None],
        "t": pa.array([WHEN, WHEN], pa.timestamp("s")),
        "l": [[3, None, 1], None],
        "n": [[[1], [2, 3]], [[], [4]]],
        "d": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}],
        "m": pa.array([[("k", 1)], [("p", 2), ("q", 3)]], pa.map_(pa.string(), pa.int64())),
        "i": [7, -7],
    }
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("s").str.strip().str.upper(), "AB C"),
        (col("s").str.lstrip(" a"), "B c "),
        (col("s").str.strip().str.pad(6, "-", "left"), "--aB c"),
        (col("s").str.strip().str.center(6, "*"), "*aB c*"),
        (col("s").str.byte_len(), 7),
        (col("s").str.count("a"), 1),
        (col("s").str.replace_regex(" +", ""), "aBc"),
        (col("s").str.split_whitespace().list.len(), 4),
        (col("t").dt.year(), 2024),
        (col("t").dt.strftime("%d.%m."), "29.02."),
        (col("t").dt.floor("day"), WHEN.replace(hour=0, minute=0)),
        (col("l").list[0], 3),
        (col("l").list[0:1], [3]),
        (col("l").list.sort(), [1, 3, None]),
        (col("l").list.sort("descending", "at_start"), [None, 3, 1]),
        (col("n").list.flatten(), [1, 2, 3]),
        (col("d").struct["y"], "a"),
        (col("d").struct[0], 1),
        (col("m").map.keys(), ["k"]),
        (col("m").map.values(), [1]),
        (col("i") // 2, 3),
        (10 // col("i"), 1),
        (col("i") % 4, 3),
        (col("i") / 2, 3),
        (col("i") / 2.0, 3.5),
        (col("i").cast(DataType.string()), "7"),
        (col("i").power(2), 49),
        (col("i").is_in(lit([7, 8])), True),
        (col("i").not_in([7, 8]), False),
    ],
    ids=str,
)
def test_values(expression, expected):
    assert expression.evaluate(TABLE)[0].as_py() == expected


def test_missing_values_stay_missing():
    assert col("l").list.sort().evaluate(TABLE)[1].as_py() is None
    assert col("s").str.upper().evaluate(TABLE)[1].as_py() is None


def test_tensors_as_lists():
    dataset = skate.data.from_numpy(np.arange(4).reshape(2, 2))
    block = next(dataset._blocks())
    assert col("data").arr.to_list().evaluate(block)[0].as_py() == [0, 1]


def test_what_there_is_not_is_named():
    with pytest.raises(AttributeError, match=r"\.str has no 'shout'.*upper"):
        col("s").str.shout()
    with pytest.raises(ValueError, match="'ascending' or 'descending'; got 'up'"):
        col("l").list.sort("up")
    with pytest.raises(TypeError, match="List indices must be integers or slices; got 'x'"):
        col("l").list["x"]
    with pytest.raises(TypeError, match=r"Struct indices must be strings or integers; got 1\.5"):
        col("d").struct[1.5]
    with pytest.raises(TypeError, match="is_in takes a list of values, or lit of one; got 5"):
        col("i").is_in(5)
    for value in (2**70, [1, 2**70], [1.5, 2**63], object()):
        with pytest.raises(TypeError, match=r"lit takes a value that Arrow has a type for.*; got"):
            lit(value)
    with pytest.raises(TypeError, match="Download expressions cannot be converted"):
        download("u").to_pyarrow()
    with pytest.raises(TypeError, match=r"join conditions with &"):
        bool(col("i") > 1)
    with pytest.raises(ValueError, match="Invalid syntax in the expression 'id >'"):
        skate.data.range(3).filter(expr="id >")


def test_conditions_as_text():
    rows = skate.data.from_items([{"a": 1}, {"a": None}, {"a": -3}])
    kept = [row["a"] for row in rows.filter(expr="is_valid(a) and abs(a) > 2").take_all()]
    assert kept == [-3]
    assert rows.filter(expr="is_null(a) or a not in [1, 2]").count() == 2
    assert rows.filter(expr="a == -3 or -a == 2.5").count() == 1
    assert str(parse("a == -3").to_pyarrow()) == "(a == -3)"


def test_the_same_computation():
    assert (col("a") + 1).structurally_equals(col("a") + 1)
    assert not (col("a") + 1).structurally_equals(col("a") + 2)
    assert (col("i") + 0.5).get_type(TABLE.schema) == pa.float64()


def test_types_that_do_not_depend_on_columns():
    unknown, whole = DataType(object), DataType.int64()
    doubled = skate.data.expressions.udf(return_dtype=whole)(lambda column: column)
    assert (col("a") + 1).data_type == unknown
    assert lit("x").data_type == DataType.string()
    assert col("a").is_null().data_type == (~col("a")).alias("b").data_type == DataType.bool()
    assert doubled(col("a")).alias("b").data_type == col("a").cast(whole).data_type == whole
    assert monotonically_increasing_id().data_type == whole
    assert skate.data.expressions.random(seed=1).data_type == DataType.float64()
    assert skate.data.expressions.uuid().data_type == DataType.string()
    assert skate.data.expressions.download("a").data_type == DataType.binary()


def test_dir_names_the_methods_that_stand_for_kernels():
    assert {"ceil", "log10", "alias"} <= {*dir(col("a"))}
    assert {"upper", "strip"} <= {*dir(col("a").str)}
    assert "year" in dir(col("a").dt)


@pytest.mark.parametrize(
    ("expression", "values", "written"),
    [
        (col("a").str.upper(), ["x"], "utf8_upper(a)"),
        (col("a").str.upper() == col("a"), ["x"], "(utf8_upper(a) == a)"),
        (~col("a").str.contains("x"), ["x", "y"], "invert(match_substring(a, "),
        (col("a").str.len() + 1, ["x"], "add_checked(utf8_length(a), 1)"),
        (col("a").str.strip().alias("b"), [" x"], "utf8_trim_whitespace(a)"),
        (col("a").str.upper().is_in(["X"]), ["x", "y"], "is_in(utf8_upper(a), "),
        (col("a").str.lpad(3), ["x"], "utf8_lpad(a, "),
        (col("a").list.get(0), [[1, 2]], "list_element(a, 0)"),
        (col("a").struct["k"], [{"k": 1}], "struct_field(a, "),
        (col("a").dt.strftime("%Y"), [datetime.datetime(2026, 1, 2)], "strftime(a, "),
        (col("a").round(1).abs(), [-1.25], "abs(round(a, "),
        (col("a").cast("int64") ** 2, [3.0], "power(cast(a, "),
    ],
)
def test_arrow_computes_the_same(expression, values, written):
    table = pa.table({"a": values})
    made = expression.to_pyarrow()
    assert str(made).startswith(written)
    found = pads.dataset(table).to_table(columns={"found": made})["found"]
    assert found.to_pylist() == expression.evaluate(table).to_pylist()


def test_what_has_no_expression_of_pyarrow_says_so():
    with pytest.raises(TypeError, match=r"cannot be converted to PyArrow .* star\(\)"):
        (skate.data.expressions.star() == 1).to_pyarrow()
    with pytest.raises(TypeError, match=r"cannot be converted to PyArrow .*list\.flatten\(\)"):
        col("a").list.flatten().list.len().to_pyarrow()


class TestFields:
    """What column an expression makes, before there are rows."""

    SCHEMA = pa.schema(
        [pa.field("a", pa.int32(), metadata={"k": "v"}), pa.field("b", pa.float32(), False)]
    )

    @pytest.mark.parametrize(
        ("expression", "kind", "gaps"),
        [
            (col("a"), pa.int32(), True),
            (col("b"), pa.float32(), False),
            (col("a") + 5, pa.int64(), True),
            (col("b") * 2.0, pa.float64(), False),
            (col("a").is_in([1, 2]), pa.bool_(), True),
            (col("a").is_null(), pa.bool_(), False),
            (~(col("a") > 0), pa.bool_(), True),
            (lit(None), pa.null(), True),
            (lit("x"), pa.string(), False),
            (udf(return_dtype=DataType.float64())(abs)(col("a")), pa.float64(), True),
            (skate.data.expressions.download("uri"), pa.binary(), True),
            (skate.data.expressions.random(), pa.float64(), False),
            (skate.data.expressions.uuid(), pa.string(), False),
            (skate.data.expressions.monotonically_increasing_id(), pa.int64(), False),
        ],
    )
    def test_name_type_and_gaps(self, expression, kind, gaps):
        assert expression.alias("x").to_field(self.SCHEMA) == pa.field("x", kind, gaps)
        assert expression.nullable(self.SCHEMA) is gaps

    def test_a_column_stays_as_it_is(self):
        assert col("a").to_field(self.SCHEMA).equals(self.SCHEMA.field("a"), check_metadata=True)

    @pytest.mark.parametrize(
        "expression",
        [
            col("missing").alias("x"),
            (col("missing") + 1).alias("x"),
            col("a") + 1,
            skate.data.expressions.star(),
            udf()(abs)(col("a")).alias("x"),
            (udf()(abs)(col("a")) + 1).alias("x"),
        ],
        ids=repr,
    )
    def test_what_cannot_be_known(self, expression):
        assert expression.to_field(self.SCHEMA) is None


@pytest.mark.usefixtures("engine")
class TestDatasets:
    def test_a_function_of_columns_runs_elsewhere_and_has_a_type(self):
        @udf(return_dtype=DataType.float64())
        def double(column):
            return pc.multiply(column, 2)

        dataset = skate.data.range(3).with_column("x", double(col("id")) + 1)
        assert [row["x"] for row in dataset.take_all()] == [1.0, 3.0, 5.0]
        assert "tasks" in dataset.stats()

    def test_a_class_keeps_what_it_was_made_with(self):
        @pyarrow_udf(return_dtype=DataType.int64())
        class Shift:
            def __init__(self, amount):
                self.amount = amount

            def __call__(self, column):
                return pc.add(column, self.amount)

        dataset = skate.data.range(2).with_column("x", Shift(5)(col("id")))
        assert [row["x"] for row in dataset.take_all()] == [5, 6]

    def test_row_numbers_go_on_from_block_to_block(self):
        dataset = skate.data.range(10, override_num_blocks=4)
        numbered = dataset.with_column("n", monotonically_increasing_id())
        assert [row["n"] for row in numbered.take_all()] == list(range(10))

    def test_random_numbers(self):
        def draw(**options):
            dataset = skate.data.range(20).with_column("r", random(**options))
            return [[row["r"] for row in dataset.take_all()] for _ in range(2)]

        first, second = draw(seed=1, reseed_after_execution=False)
        assert first == second == draw(seed=1, reseed_after_execution=False)[0]
        first, second = draw(seed=1)
        assert first != second
        assert [first, second] == draw(seed=1)
        assert all(0 <= number < 1 for number in first)

    def test_identifiers_downloads_and_columns_of_dictionaries(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"hello")
        uris = [str(tmp_path / "a.txt"), str(tmp_path / "no.txt")]
        rows = [{"uri": uri, "d": {"x": n, "y": -n}} for n, uri in enumerate(uris)]
        dataset = skate.data.from_items(rows).with_columns(star(), unnest(col("d")))
        dataset = dataset.with_column("b", download("uri")).with_column("u", uuid())
        found = dataset.take_all()
        assert [row["b"] for row in found] == [b"hello", None]
        assert [(row["x"], row["y"]) for row in found] == [(0, 0), (1, -1)]
        assert len({row["u"] for row in found}) == 2


class TestOneColumnPerKey:
    def test_what_is_no_dictionary_is_found_before_anything_runs(self):
        with pytest.raises(TypeError, match=r"needs a struct-typed expression.*got int64"):
            skate.data.range(1).with_columns(unnest(col("id")))

    def test_its_expressions_by_a_schema(self):
        schema = pa.schema({"d": pa.struct({"x": pa.int64(), "y": pa.string()})})
        keys = unnest(col("d")).expand_projection(schema)
        assert [key.name for key in keys] == ["x", "y"]
        table = pa.table({"d": [{"x": 1, "y": "a"}]})
        assert [key.evaluate(table).to_pylist() for key in keys] == [[1], ["a"]]
        plain = col("d")
        assert plain.expand_projection(None)[0] is plain
        with pytest.raises(ValueError, match="have to be known when the plan is built"):
            unnest(col("d")).expand_projection(None)

    def test_of_a_function_that_says_its_type(self):
        pair = DataType.struct([("n", DataType.int64())])
        make = udf(return_dtype=pair)(lambda values: values)
        keys = unnest(make(col("d"))).expand_projection(None)
        assert [key.name for key in keys] == ["n"]

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: unnest("d"), "expects an expression"),
            (lambda: unnest(unnest(col("d"))), "cannot be nested"),
            (lambda: unnest(col("d")).alias("x"), "cannot be aliased"),
            (lambda: unnest(col("d")).to_pyarrow(), "expands to multiple columns"),
        ],
        ids=["text", "nested", "alias", "pyarrow"],
    )
    def test_it_is_no_column(self, call, words):
        with pytest.raises(TypeError, match=words):
            call()


def test_what_gives_the_same_wherever_the_rows_stand():
    assert (col("a") + 1).is_idempotent()
    assert not (random() + 1).is_idempotent()
    assert not unnest(uuid()).is_idempotent()
    assert not monotonically_increasing_id().is_idempotent()


def test_a_cast_needs_a_type_of_a_known_width():
    with pytest.raises(TypeError, match=r"Python-type-backed DataType.*requires values"):
        col("a").cast(DataType(int))
    with pytest.raises(TypeError, match=r"must be a skate\.data\.datatype\.DataType.*'whole'"):
        col("a").cast("whole")


def test_functions_of_arrow_are_functions_too():
    for expression in (col("a").ceil(), col("a").str.upper(), col("a").cast(DataType.int64())):
        assert isinstance(expression, UDFExpr)
        assert [part.name for part in expression.args] == ["a"]
        assert not expression.runs_python
        assert expression.structurally_equals(expression.alias("b").expr)
    assert not col("a").ceil().structurally_equals(col("a").floor())


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
def test_texts_are_joined():
    table = pa.table({"a": ["x", None], "b": pa.array(["y", "z"]).dictionary_encode()})
    dataset = skate.data.from_arrow(table).with_columns(
        {"c": col("a") + col("b"), "d": lit("<") + col("b") + ">"}
    )
    rows = dataset.select_columns(["c", "d"]).take_all()
    assert rows == [{"c": "xy", "d": "<y>"}, {"c": None, "d": "<z>"}]


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
def test_whole_numbers_stay_whole():
    dataset = skate.data.range(4).with_column("half", col("id") / 2)
    assert [row["half"] for row in dataset.take_all()] == [0, 0, 1, 1]
    exact = skate.data.range(2).with_column("half", col("id") / 2.0)
    assert exact.take_all()[1]["half"] == 0.5


@pytest.mark.usefixtures("engine")
def test_calculating_with_decimals() -> None:
    rows = skate.data.from_arrow(pa.table({"d": [Decimal("1.25"), Decimal("3.50")]}))
    for expr, wanted in (
        (col("d") + 1, [Decimal("2.25"), Decimal("4.50")]),
        (col("d") * 2.0, [2.5, 7.0]),
        (col("d") + col("d"), [Decimal("2.50"), Decimal("7.00")]),
        (col("d") - Decimal("0.25"), [Decimal("1.00"), Decimal("3.25")]),
    ):
        assert [row["x"] for row in rows.with_column("x", expr).take_all()] == wanted


@pytest.mark.usefixtures("engine")
def test_a_filter_without_columns():
    assert skate.data.range(2).filter(expr="1 == 1").count() == 2
    assert skate.data.range(2).filter(expr="1 == 2").count() == 0


@pytest.mark.usefixtures("engine")
def test_expressions_can_be_pickled():
    dataset = skate.data.range(5).filter(expr="id > 1 and id in (1, 3)")
    assert pickle.loads(pickle.dumps(dataset)).take_all() == [{"id": 3}]


@pytest.mark.engines("inline")
@pytest.mark.usefixtures("engine")
def test_names_with_dots():
    ds = skate.data.from_items([{"sepal.length": 4.8}, {"sepal.length": 5.1}])
    assert ds.filter(expr="sepal.length > 5.0").count() == 1


def blocks(count=4):
    return skate.data.range(40, override_num_blocks=count)


@pytest.mark.usefixtures("engine")
class TestRowsBefore:
    def test_a_filter_counts_on_from_block_to_block(self):
        kept = blocks().filter(expr=monotonically_increasing_id() >= 15).take_all()
        assert [row["id"] for row in kept] == list(range(15, 40))

    def test_a_random_filter_is_the_same_for_any_blocks(self):
        kept = [
            [row["id"] for row in blocks(count).filter(expr=random(seed=1) < 0.5).take_all()]
            for count in (1, 4)
        ]
        assert kept[0] == kept[1]
        tens = [{n % 10 for n in kept[1] if n // 10 == ten} for ten in range(4)]
        assert any(ten != tens[0] for ten in tens)

    @pytest.mark.parametrize(
        "expression",
        [
            col("id") // (monotonically_increasing_id() + 1),
            lit(0) % (monotonically_increasing_id() + 1),
            monotonically_increasing_id().cast(pa.string()).str.len(),
            udf()(lambda column: column)(monotonically_increasing_id()),
        ],
        ids=str,
    )
    def test_all_that_is_made_of_it_counts_too(self, expression):
        assert expression.counts_rows

    def test_executions_side_by_side_do_not_mix(self):
        drawn = blocks().with_column("r", random(seed=1, reseed_after_execution=False))
        alone = [row["r"] for row in drawn.take_all()]
        pairs = list(zip(drawn.iter_rows(), drawn.iter_rows(), strict=True))
        assert [(one["r"], other["r"]) for one, other in pairs] == [(r, r) for r in alone]

    def test_numbers_without_a_seed_differ(self):
        drawn = blocks().with_column("r", random())
        first, second = ([row["r"] for row in drawn.take_all()] for _ in range(2))
        assert len({*first, *second}) == 80


@pytest.mark.usefixtures("engine")
@local_only
class TestWhereFunctionsRun:
    def test_the_user_s_function_stays_out_of_the_driver(self):
        @udf()
        def process(column):
            return pa.array([str(os.getpid())] * len(column))

        upper = process(col("id")).str.upper()
        assert upper.runs_python
        found = {row["p"] for row in blocks().with_column("p", upper).take_all()}
        assert str(os.getpid()) not in found
        driver = str(os.getpid())
        assert blocks().filter(expr=process(col("id")) == driver).count() == 0


@pytest.mark.usefixtures("engine")
class TestWholeNumbers:
    LARGE = 2**53 + 1

    @pytest.mark.parametrize("b", [7, -7, 1, 2**40])
    @pytest.mark.parametrize("a", [LARGE, -LARGE, 8, -8, 0])
    def test_division_is_that_of_python(self, a, b):
        table = pa.table({"a": [a], "b": [b]})
        assert (col("a") // col("b")).evaluate(table)[0].as_py() == a // b
        assert (col("a") % col("b")).evaluate(table)[0].as_py() == a % b

    def test_of_fractions(self):
        table = pa.table({"a": [7.5, -7.5, None]})
        assert (col("a") // 2).evaluate(table).to_pylist() == [3.0, -4.0, None]
        assert (col("a") % 2).evaluate(table).to_pylist() == [1.5, 0.5, None]
        assert (col("a") % 2).get_type(table.schema) == pa.float64()


@pytest.mark.usefixtures("engine")
def test_numbers_of_a_seed_are_those_of_numpy():
    drawn = blocks().with_column("r", random(seed=5, reseed_after_execution=False))
    found = [row["r"] for row in drawn.take_all()]
    np.testing.assert_array_equal(found, np.random.default_rng(5).random(40))


class TestKinds:
    def test_operations_on_two(self):
        for made, op in [
            (col("a") + 1, Operation.ADD),
            (col("a") - 1, Operation.SUB),
            (col("a") * 1, Operation.MUL),
            (col("a") / 1, Operation.DIV),
            (col("a") // 1, Operation.FLOORDIV),
            (col("a") % 1, Operation.MOD),
            (col("a") > 1, Operation.GT),
            (col("a") >= 1, Operation.GE),
            (col("a") < 1, Operation.LT),
            (col("a") <= 1, Operation.LE),
            (col("a") == 1, Operation.EQ),
            (col("a") != 1, Operation.NE),
        ]:
            assert isinstance(made, BinaryExpr)
            assert made.op is op
            assert isinstance(made.left, ColumnExpr)
            assert made.left.name == "a"
            assert isinstance(made.right, LiteralExpr)
            assert made.right.value == 1
            assert BinaryExpr(op, col("a"), lit(1)).structurally_equals(made)

    def test_members_of_lists(self):
        inside, outside = col("a").is_in({5}), col("a").not_in(lit([5]))
        assert (inside.op, outside.op) == (Operation.IN, Operation.NOT_IN)
        assert inside.right.value == outside.right.value == [5]
        table = pa.table({"a": [5, 6, None]})
        assert inside.evaluate(table).to_pylist() == [True, False, False]
        assert outside.evaluate(table).to_pylist() == [False, True, True]
        for type_ in (pa.string(), pa.large_string(), pa.int64(), pa.bool_(), pa.date32()):
            empty = pa.table({"a": pa.nulls(2, type_)})
            assert col("a").is_in([]).evaluate(empty).to_pylist() == [False, False]
            assert col("a").not_in([]).evaluate(empty).to_pylist() == [True, True]
            assert col("a").is_in([None]).evaluate(empty).to_pylist() == [True, True]
        with pytest.raises(TypeError, match="is_in takes a list"):
            BinaryExpr(Operation.IN, col("a"), col("b"))

    @pytest.mark.parametrize("numbers", [[0.0, 0.0], [-0.0, 0.0], [None, 0.0], [None, -0.0, 5.0]])
    @pytest.mark.parametrize("listed", [[0, 1], [0.0], [-0.0, 2.5]])
    def test_zeros_are_members_in_memory_and_in_files(self, numbers, listed, tmp_path):
        table = pa.table({"a": numbers})
        pq.write_table(table, tmp_path / "a.parquet")
        wanted = [number == 0 for number in numbers]
        for expression, found in (
            (col("a").is_in(listed), sum(wanted)),
            (col("a").not_in(listed), len(wanted) - sum(wanted)),
        ):
            for kept in (table, pa.table({"a": table["a"].dictionary_encode()})):
                assert kept.filter(expression.evaluate(kept)).num_rows == found
            read = pads.dataset(tmp_path).to_table(filter=expression.to_pyarrow())
            assert read.num_rows == found

    def test_expressions_are_found_in_lists(self):
        assert col("a") + 1 in [col("b"), col("a") + 1][1:]
        assert col("a").is_in(lit([5])).right == lit([5])
        with pytest.raises(TypeError, match="has no truth value"):
            bool(col("a") == 1)

    def test_operations_on_one(self):
        for made, op in [
            (~col("a"), Operation.NOT),
            (col("a").is_null(), Operation.IS_NULL),
            (col("a").is_not_null(), Operation.IS_NOT_NULL),
        ]:
            assert isinstance(made, UnaryExpr)
            assert (made.op, made.operand.name) == (op, "a")
        with pytest.raises(ValueError, match="UnaryExpr"):
            BinaryExpr(Operation.NOT, col("a"), col("b"))
        with pytest.raises(ValueError, match="IS_NULL"):
            UnaryExpr(Operation.ADD, col("a"))

    def test_names(self):
        named = (col("a") + 1).alias("b").alias("c")
        assert isinstance(named, AliasExpr)
        assert (named.name, named.expr.name) == ("c", None)
        assert named.expr.structurally_equals(col("a") + 1)
        assert not col("a").alias("a").structurally_equals(col("a"))

    def test_functions(self):
        @udf()
        class Add:
            def __init__(self, number):
                self.number = number

            def __call__(self, values):
                return pc.add(values, self.number)

        one, two = Add(1)(col("a")), Add(2)(col("a"))
        assert isinstance(one, UDFExpr)
        assert [part.name for part in one.args] == ["a"]
        assert one.structurally_equals(Add(1)(col("a")))
        assert not (one + 1).structurally_equals(two + 1)
        plain = UDFExpr(fn=pc.negate, args=[col("a")], kwargs={}, data_type=DataType.float64())
        assert plain.evaluate(pa.table({"a": [3]})).to_pylist() == [-3.0]

    def test_values_of_their_own(self):
        assert download("u").uri_column_name == "u"
        assert isinstance(download("u"), DownloadExpr)
        assert (random(seed=3).seed, type(random())) == (3, RandomExpr)
        assert isinstance(star(), StarExpr)
        assert isinstance(unnest(col("s")), UnnestExpr)


@pytest.mark.parametrize("value", [[1, 2], b"a\0", {"k": 1}, datetime.date(2024, 2, 29), None])
def test_any_value_is_a_column(value):
    assert skate.data.range(0).with_column("v", lit(value)).columns() == ["id", "v"]
    assert skate.data.range(2).with_column("v", lit(value)).take(1) == [{"id": 0, "v": value}]


def test_missing_values_are_filled():
    table = pa.table({"a": [1, None], "b": pa.nulls(2)})
    assert col("a").fill_null(7).evaluate(table).to_pylist() == [1, 7]
    assert col("b").fill_null("x").evaluate(table).to_pylist() == ["x", "x"]


def test_lists_of_fixed_size_are_sorted():
    lists = pa.array([[2, 1], None, [4, 3]], pa.list_(pa.int64(), 2))
    nested = pa.array([[[2], [1]], None, [[], [3]]])
    table = pa.table({"l": lists, "n": nested})
    found = col("l").list.sort().evaluate(table)
    assert (found.type, found.to_pylist()) == (lists.type, [[1, 2], None, [3, 4]])
    assert col("n").list.flatten().evaluate(table).to_pylist() == [[2, 1], None, [3]]
