"""Functions and classes of users that are called again after an error."""

import pytest

import skate.data

pytestmark = [pytest.mark.engines("local"), pytest.mark.usefixtures("engine")]


class FailsTwice:
    def __init__(self):
        self.calls = 0

    def __call__(self, batch):
        self.calls += 1
        if self.calls <= 2:
            raise ValueError("not yet")
        return batch


class FailsTwiceAsync(FailsTwice):
    async def __call__(self, batch):
        return super().__call__(batch)


class TestRetries:
    @pytest.mark.parametrize("cls", [FailsTwice, FailsTwiceAsync])
    def test_a_class_is_called_again(self, context, cls):
        context.actor_task_retry_on_errors = [ValueError]
        dataset = skate.data.range(2).map_batches(cls, concurrency=1)
        assert dataset.count() == 2

    def test_other_errors_are_raised(self, context):
        context.actor_task_retry_on_errors = [KeyError]
        with pytest.raises(ValueError, match="not yet"):
            skate.data.range(2).map_batches(FailsTwice, concurrency=1).materialize()

    @pytest.mark.parametrize(("limit", "words"), [(2, ["not"]), (2, True), (2, ["n.t yet"])])
    def test_a_function_by_the_words_of_its_error(self, context, limit, words):
        context.retried_map_errors, context.max_map_retries = words, limit
        assert skate.data.range(2).map_batches(FailsTwice, concurrency=1).count() == 2

    def test_words_that_are_no_regular_expression(self, context):
        context.retried_map_errors, context.max_map_retries = ["yet)", "(", "*not"], 2
        with pytest.raises(ValueError, match="not yet"):
            skate.data.range(2).map_batches(FailsTwice, concurrency=1).materialize()

    def test_not_more_often_than_allowed(self, context):
        context.retried_map_errors, context.max_map_retries = True, 1
        with pytest.raises(ValueError, match="not yet"):
            skate.data.range(2).map_batches(FailsTwice, concurrency=1).materialize()

    def test_constructors(self, context, tmp_path):
        marks = tmp_path / "marks"

        class Flaky:
            def __init__(self):
                with marks.open("a") as file:
                    file.write("x")
                if marks.stat().st_size < 3:
                    raise OSError("no model yet")

            def __call__(self, batch):
                return batch

        with pytest.raises(OSError, match="no model"):
            skate.data.range(1).map_batches(Flaky, concurrency=1).materialize()
        marks.write_text("")
        context.actor_init_retry_on_errors = True
        assert skate.data.range(1).map_batches(Flaky, concurrency=1).count() == 1
