"""Daft: a frame in four partitions on its runner for Ray, with a function of one's own."""

import daft
import ray

if __name__ == "__main__":
    daft.set_runner_ray()
    numbers = {"key": [0, 1, 2, 3] * 100, "value": [float(number) for number in range(400)]}
    frame = daft.from_pydict(numbers).into_partitions(4)
    sums = frame.groupby("key").agg(daft.col("value").sum()).sort("key").to_pydict()
    assert sums == {"key": [0, 1, 2, 3], "value": [19800.0, 19900.0, 20000.0, 20100.0]}, sums

    @daft.func
    def increment(number: int) -> int:
        return number + 1

    total = frame.with_column("next", increment(frame["key"])).sum("next").to_pydict()
    assert total == {"next": [1000]}, total

    rows = ray.data.from_daft(frame).filter(expr="value < 3")
    assert rows.to_daft().to_pydict() == {"key": [0, 1, 2], "value": [0.0, 1.0, 2.0]}
    print("400 rows in 4 partitions, grouped, sorted and mapped")
