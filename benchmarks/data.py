"""skate.data side by side with Ray Data and with the bare parts underneath, as ratios in one run.

2 million rows in 16 Parquet files, and images. Every number comes from a process of its own.

    python -m benchmarks.data                   everything
    python -m benchmarks.data --no-ray          without Ray, which takes most of the time
    python -m benchmarks.data --only sort       the rows whose name contains "sort"
    python -m benchmarks.data --growth F.svg    1 to 10,000 files, drawn, and 0.1 to 10 GB

The images are the 10,000 of FashionMNIST's test set where Debian's `dataset-fashion-mnist` is
installed, else as many random ones of the same size.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.alone import compile_modules
from benchmarks.data_growth import draw, passes_by_gigabytes, seconds_by_files
from benchmarks.fashion_mnist import fashion_images
from benchmarks.rows import Goal, Row, at_most, share_of, times_ray
from benchmarks.timing import timed

ROOT = Path(__file__).resolve().parents[1]
ROWS, FILES, IMAGES = 2_000_000, 16, 10_000
SMALL_FILES, SMALL_ROWS = 10_000, 120  # of 20 bytes each
REPEATS = 3
Work = Callable[[], object]

TABLE = (
    Row("map_batches", "parquet, map_batches, materialise", "rows/s",
        (times_ray(20), share_of("bare", 0.6)), ("ray", "bare")),
    Row("torch_batches", "parquet, iter_torch_batches(1024)", "rows/s",
        (times_ray(20), share_of("bare", 0.7)), ("ray", "bare")),
    Row("sort", "sort", "rows/s", (times_ray(10),), ("ray", "bare")),
    Row("groupby", "groupby mean", "rows/s", (times_ray(50),), ("ray", "bare")),
    Row("shuffle", "random_shuffle", "rows/s", (times_ray(10),), ("ray",)),
    Row("inference", "batch inference, small CNN, 2 actors", "images/s",
        (times_ray(4), share_of("bare", 0.8)), ("ray", "bare", "loader")),
    Row("small_files", "10,000 parquet files of 4 KB, map_batches", "files/s",
        (times_ray(10), share_of("bare", 0.5)), ("ray", "bare")),
    Row("first_pass", "parquet, map_batches: the first pass / a warm one", "x",
        (at_most(2, "x"),), ("ray",), less_is_better=True),
    Row("memory", "peak of a pass over 10 GB, over the baseline", "MB",
        (at_most(1024, "MB"),), (), less_is_better=True),
)  # fmt: skip


# -- input ---------------------------------------------------------------------------------------


def write_tables(folder: Path, rows: int = ROWS, files: int = FILES) -> None:
    random = np.random.default_rng(0)
    share = rows // files
    for number in range(files):
        table = pa.table(
            {
                "key": random.integers(0, 1000, share),
                "x": random.normal(size=share),
                "y": random.normal(size=share).astype(np.float32),
            }
        )
        pq.write_table(table, folder / f"{number:05}.parquet")


def images() -> np.ndarray[Any, Any]:
    return fashion_images("t10k", IMAGES)[0]


def double(batch: dict[str, Any]) -> dict[str, Any]:
    return {"key": batch["key"], "x": batch["x"] * 2 + 1, "y": batch["y"]}


def network() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 10),
    ).eval()  # fmt: skip


class Classifier:
    def __init__(self) -> None:
        self.model = network()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"label": classify(self.model, batch["data"])}


def classify(model: Any, pixels: np.ndarray[Any, Any]) -> Any:
    import torch

    with torch.inference_mode():
        inputs = torch.as_tensor(pixels[:, None] / 255, dtype=torch.float32)
        return model(inputs).argmax(1).numpy()


# -- the same work on skate, on Ray, and by hand --------------------------------------------------


def on_library(data: Any, name: str, folder: Path) -> Work:
    """`data` is skate.data or ray.data: one code for both."""
    works: dict[str, Work] = {
        "map_batches": lambda: data.read_parquet(str(folder)).map_batches(double).materialize(),
        "torch_batches": lambda: drain(
            data.read_parquet(str(folder)).iter_torch_batches(batch_size=1024)
        ),
        "sort": lambda: data.read_parquet(str(folder)).sort("x").materialize(),
        "groupby": lambda: data.read_parquet(str(folder)).groupby("key").mean("x").materialize(),
        "shuffle": lambda: data.read_parquet(str(folder)).random_shuffle(seed=1).materialize(),
        "inference": lambda: (
            data.from_numpy(list(np.array_split(images(), 20)))
            .map_batches(Classifier, batch_size=250, compute=data.ActorPoolStrategy(size=2))
            .materialize()
        ),
    }
    return works[name]


def by_hand(name: str, folder: Path) -> Work:
    works: dict[str, Work] = {
        "map_batches": lambda: [bare_map(path) for path in sorted(folder.iterdir())],
        "torch_batches": lambda: drain(bare_torch(folder)),
        "sort": lambda: pq.read_table(folder).sort_by("x"),
        "groupby": lambda: pq.read_table(folder).group_by("key").aggregate([("x", "mean")]),
        "inference": bare_inference,
    }
    return works[name]


def bare_map(path: Path) -> pa.Table:
    table = pq.read_table(path)
    return pa.table(double({name: table[name].to_numpy() for name in table.column_names}))


def bare_torch(folder: Path) -> Iterator[Any]:
    import torch

    for path in sorted(folder.iterdir()):
        for batch in pq.ParquetFile(path).iter_batches(1024):
            arrays = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: torch.from_numpy(column.to_numpy().copy()) for name, column in arrays}


def bare_inference() -> None:
    import torch

    torch.set_num_threads(2)
    model = network()
    pixels = images()
    for start in range(0, len(pixels), 250):
        classify(model, pixels[start : start + 250])


def with_loader() -> None:
    """torch's DataLoader with two workers brings the images, the model runs here."""
    import torch

    class Images(torch.utils.data.Dataset[Any]):
        def __init__(self) -> None:
            self.pixels = images()

        def __len__(self) -> int:
            return len(self.pixels)

        def __getitem__(self, number: int) -> Any:
            return self.pixels[number]

    model = network()
    for batch in torch.utils.data.DataLoader(Images(), batch_size=250, num_workers=2):
        classify(model, batch.numpy())


def drain(batches: Any) -> int:
    return sum(1 for _ in batches)


# -- growth ---------------------------------------------------------------------------------------


def report_growth(figure: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        curves = seconds_by_files(
            lambda place, files: write_tables(place, SMALL_ROWS * files, files),
            {
                name: lambda place, name=name: work_of(name, "map_batches", place)()  # type: ignore[misc]
                for name in ("skate", "bare")
            },
            Path(folder),
        )
    for name, points in curves.items():
        for files, seconds in points:
            print(f"{name}, {files:,} files of 4 KB, map_batches: {files / seconds:,.0f} files/s")
    draw({"Files of 4 KB": ("files", curves)}, figure)
    for gigabytes, seconds, peak in passes_by_gigabytes():
        print(f"{gigabytes:g} GB streamed: {gigabytes / seconds:.2f} GB/s, peak {peak:,.0f} MB")


# -- one number in a process of its own -----------------------------------------------------------


def one(system: str, name: str, folder: Path) -> float:
    if name == "memory":
        return passes_by_gigabytes((10.0,))[0][2]
    if name == "small_files":
        return files_per_second(system)
    if name == "first_pass":
        return first_over_warm(system, folder)
    units = IMAGES if name == "inference" else ROWS
    work = work_of(system, name, folder)
    if name == "inference":  # the start of actors and the loading of the model are part of it
        return units / timed(work)
    work()
    return units / min(timed(work) for _ in range(REPEATS))


def first_over_warm(system: str, folder: Path) -> float:
    """Of the passes alone, in a program that imports pandas too before it writes its plan."""
    data = library(system)
    importlib.import_module("pandas")
    first, *warm = (
        timed(data.read_parquet(str(folder)).map_batches(double).materialize)
        for _ in range(1 + REPEATS)
    )
    return first / min(warm)


def files_per_second(system: str) -> float:
    """Of the faster of two passes over many small files."""
    with tempfile.TemporaryDirectory() as place:
        write_tables(Path(place), SMALL_FILES * SMALL_ROWS, SMALL_FILES)
        work = work_of(system, "map_batches", Path(place))
        return SMALL_FILES / min(timed(work), timed(work))


def work_of(system: str, name: str, folder: Path) -> Work:
    if system in ("skate", "ray"):
        return on_library(library(system), name, folder)
    return with_loader if system == "loader" else by_hand(name, folder)


def library(system: str) -> Any:
    """skate.data or ray.data, begun as its own guide says."""
    if system == "skate":
        import skate.data

        return skate.data
    import ray
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains it")
    parser.add_argument("--no-ray", action="store_true", help="leave Ray out")
    parser.add_argument(
        "--growth", type=Path, metavar="FIGURE", help="draw growth with files, and 0.1 to 10 GB"
    )
    parser.add_argument("--one", nargs=3, metavar=("SYSTEM", "ROW", "FOLDER"))
    options = parser.parse_args()
    if options.one:
        system, name, folder = options.one
        print(json.dumps(one(system, name, Path(folder))))
        return
    if options.growth:
        report_growth(options.growth)
        return
    compile_modules()
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))
        for row in TABLE:
            if options.only in row.name:
                report(row, folder, options.no_ray)


def report(row: Row, folder: str, no_ray: bool) -> None:
    systems = [s for s in ("skate", *row.peers) if not (no_ray and s == "ray")]
    values = {system: alone(system, row.name, folder) for system in systems}
    known = {system: value for system, value in values.items() if value is not None}
    numbers = "  ".join(f"{system} {rounded(value)}" for system, value in known.items())
    print(f"{row.title} ({row.unit}): {numbers}  {'; '.join(map(verdict(known), row.goals))}")


def rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def verdict(values: dict[str, float]) -> Callable[[Goal], str]:
    def say(goal: Goal) -> str:
        if not {"skate", *goal.needs} <= values.keys():
            return f"{goal.text}: ?"
        return f"{goal.text}: {'yes' if goal.holds(values) else 'no'}"

    return say


def alone(system: str, name: str, folder: str) -> float | None:
    command = [sys.executable, "-m", "benchmarks.data", "--one", system, name, folder]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    if done.returncode:
        print(f"  {name}, {system}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"  {name}, {system}: {time.perf_counter() - start:.1f} s, {spent:,.0f} MB",
        file=sys.stderr,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
