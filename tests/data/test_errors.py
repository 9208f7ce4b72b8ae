"""Errors: of which type they are, and what they say of file, row and operator."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import skate
import skate.data
from skate.data.exceptions import UserCodeException
from skate.data.expressions import col, udf
from skate.exceptions import TaskError
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
class TestUserCode:
    def test_they_are_those_of_a_task_wherever_they_happen(self):
        dataset = skate.data.range(3)
        with pytest.raises(UserCodeException) as caught:
            dataset.with_column("y", col("x") + 1).materialize()
        assert isinstance(caught.value, KeyError)
        with pytest.raises(UserCodeException, match="cannot compute"):
            dataset.with_column("y", col("id") + "x").materialize()
        with pytest.raises(UserCodeException, match="no such column in the dataset: 'x'"):
            dataset.sort("x").materialize()

    def test_what_a_function_of_columns_may_return(self):
        @udf()
        def one(column):
            return {"a": 1}

        with pytest.raises(UserCodeException, match=r"one returned invalid type dict.*numpy"):
            skate.data.range(3).with_column("y", one(col("id"))).materialize()


class TestWhatTheySay:
    @pytest.fixture
    def files(self, tmp_path):
        for number in range(3):
            pd.DataFrame({"a": [number]}).to_csv(tmp_path / f"{number}.csv", index=False)
        (tmp_path / "1.csv").write_text('a,b\n1,2,3\n"')
        return tmp_path

    def text_of(self, error):
        return "\n".join([str(error), *getattr(error, "__notes__", [])])

    def test_a_bad_file_names_itself(self, files):
        with pytest.raises(Exception, match=r"CSV|column|Expected") as caught:
            skate.data.read_csv(str(files)).take_all()
        assert "1.csv" in self.text_of(caught.value)

    def test_a_function_that_fails_names_file_row_and_operator(self, files):
        (files / "1.csv").write_text("a\n1\n")

        def broken(row):
            return {"x": 1 // (row["a"] - 1)}

        with pytest.raises(ZeroDivisionError) as caught:
            skate.data.read_csv(str(files)).map(broken).take_all()
        text = self.text_of(caught.value)
        for part in ("1.csv", "Map(broken)", "{'a': 1}"):
            assert part in text

    def test_bad_files_may_be_left_out(self, files):
        read = skate.data.read_csv
        assert len(read(str(files), on_bad_files="skip").take_all()) == 2
        with pytest.warns(UserWarning, match=r"1\.csv is left out"):
            assert len(read(str(files), on_bad_files="warn").take_all()) == 2
        with pytest.raises(ValueError, match=r"on_bad_files takes.*'ignore'"):
            read(str(files), on_bad_files="ignore")

    def test_missing_files_may_be_ignored(self, files):
        paths = [str(files / "0.csv"), str(files / "9.csv")]
        with pytest.raises(FileNotFoundError, match=r"9\.csv"):
            skate.data.read_csv(paths)
        assert skate.data.read_csv(paths, ignore_missing_paths=True).count() == 1

    def test_a_block_may_fail(self):
        dataset = skate.data.range(4, override_num_blocks=4).map(lambda r: {"x": 1 // r["id"]})
        dataset.context.max_errored_blocks = 2
        with pytest.warns(UserWarning, match="left out"):
            assert dataset.count() == 3

    @pytest.mark.parametrize(
        "use",
        [
            lambda ds: ds.drop_columns(["idd"]).take(),
            lambda ds: ds.sort("idd").take(),
            lambda ds: ds.groupby("idd").count().take(),
            lambda ds: ds.sum("idd"),
            lambda ds: ds.filter(expr="idd > 3").take(),
            lambda ds: ds.rename_columns({"idd": "x"}).take(),
            lambda ds: ds.unique("idd"),
        ],
    )
    def test_a_wrong_column_lists_those_there_are(self, use):
        with pytest.raises(KeyError, match=r"'idd'; the columns are \['id'\]; did you mean 'id'"):
            use(skate.data.range(3))

    @pytest.mark.parametrize(
        ("use", "message"),
        [
            (lambda ds, _: ds.mapbatches, "'mapbatches'; did you mean 'map_batches'"),
            (lambda ds, _: skate.data.read_cvs, "'read_cvs'; did you mean 'read_csv'"),
            (lambda ds, _: ds.map_batches(len, batchsize=3), "'batchsize'; did you mean batch_s"),
            (lambda ds, path: ds.write_images(path, "id"), "column 'id' .* no png image"),
            (lambda ds, path: ds.write_csv(path / "file" / "x"), "Cannot create directory"),
        ],
    )
    def test_what_was_meant(self, use, message, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises((AttributeError, ValueError, TypeError, OSError), match=message):
            use(skate.data.range(3), tmp_path)


@pytest.mark.engines("inline")
def test_an_error_of_user_code():
    def fail(row):
        raise KeyError("mine")

    with pytest.raises(UserCodeException) as caught:
        skate.data.range(1).map(fail).take()
    assert isinstance(caught.value, TaskError)
    assert isinstance(caught.value, KeyError)


class TestFunctions:
    def test_the_users_own_error_names_operator_and_row(self):
        with pytest.raises(ZeroDivisionError) as caught:
            skate.data.range(5).map(lambda row: {"x": 1 // (row["id"] - 3)}).take_all()
        text = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "Map(<lambda>)" in text
        assert "{'id': 3}" in text

    def test_a_constructor_that_fails(self):
        class Broken:
            def __init__(self):
                raise LookupError("no model")

            def __call__(self, batch):
                return batch

        with pytest.raises((LookupError, skate.exceptions.ActorDiedError), match="no model"):
            skate.data.range(3).map_batches(Broken, concurrency=1).take_all()

    def test_some_blocks_may_fail_if_allowed(self):
        context = skate.data.DataContext.get_current()
        context.max_errored_blocks = 1
        try:
            dataset = skate.data.range(4, override_num_blocks=4)
            dataset = dataset.map(lambda row: {"x": 1 // row["id"]})
            with pytest.warns(UserWarning, match="left out"):
                rows = dataset.take_all()
            assert len(rows) == 3
        finally:
            context.max_errored_blocks = 0

    def test_a_wrong_column_lists_those_there_are(self):
        with pytest.raises(KeyError, match=r"'idx'.*\['id'\].*did you mean 'id'"):
            skate.data.range(3).select_columns(["idx"]).take()


class TestClasses:
    def test_a_constructor_raises_what_it_raises(self) -> None:
        class Broken:
            def __init__(self) -> None:
                raise RuntimeError("no model")

            def __call__(self, batch: Any) -> Any:
                return batch

        with pytest.raises(RuntimeError, match="no model") as caught:
            skate.data.range(2).map_batches(Broken).count()
        assert "in the constructor of Broken" in str(caught.value)

    @local_only
    def test_actors_that_always_die_name_the_operator(self) -> None:
        import os
        import signal

        class Deadly:
            def __call__(self, batch: Any) -> Any:
                os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(skate.exceptions.SkateError) as caught:
            skate.data.range(1).map_batches(Deadly).count()
        assert "MapBatches(Deadly)" in "".join(getattr(caught.value, "__notes__", [])) + str(
            caught.value
        )

    def test_a_batch_is_shown_by_its_first_row(self) -> None:
        def broken(batch: Any) -> Any:
            raise ValueError("bad")

        with pytest.raises(ValueError, match="bad") as caught:
            skate.data.range(3, override_num_blocks=1).map_batches(broken).count()
        assert "a batch of 3 rows with the columns ['id'], the first {'id': 0}" in str(
            caught.value
        )

    def test_map_that_yields(self) -> None:
        def twice(row: dict[str, int]) -> Iterator[dict[str, int]]:
            yield row
            yield row

        with pytest.raises(ValueError, match=r"yields rows, for the row \{'id': 0\}.*flat_map"):
            skate.data.range(1).map(twice).take_all()

    def test_flat_map_that_returns_one_value(self) -> None:
        for error in (TypeError, ValueError):  # the second is Ray's
            with pytest.raises(error, match=r"returned 0 for the row \{'id': 0\}"):
                skate.data.range(1).flat_map(lambda row: row["id"]).count()


@pytest.mark.parametrize("method", ["map_batches", "flat_map"])
def test_a_generator_that_fails_names_its_input(method: str) -> None:
    def broken(value: Any) -> Any:
        yield value
        raise ValueError("halfway")

    dataset = getattr(skate.data.range(3, override_num_blocks=1), method)(broken)
    with pytest.raises(ValueError, match="halfway") as caught:
        dataset.take_all()
    assert "(broken), on " in str(caught.value)


def test_a_row_that_is_an_array_is_called_a_row() -> None:
    def broken(row: Any) -> Any:
        raise ValueError("bad pixel")

    images = skate.data.from_items([{"image": np.zeros((4, 4))}])
    with pytest.raises(ValueError, match="bad pixel") as caught:
        images.map(broken).take_all()
    assert "on the row {'image'" in str(caught.value)


@pytest.mark.parametrize("files", [1, 3])
def test_blocks_that_fail_are_left_out_wherever_they_run(tmp_path: Any, files: int) -> None:
    for number in range(files):
        (tmp_path / f"{number}.csv").write_text("a\n1\n2\n")
    (tmp_path / "bad.csv").write_text("a,b\n1\n2,3,4\n")
    context = skate.data.DataContext.get_current().copy()
    context.max_errored_blocks = -1
    with skate.data.DataContext.current(context), pytest.warns(UserWarning, match="left out"):
        assert len(skate.data.read_csv(str(tmp_path)).take(100)) == 2 * files
