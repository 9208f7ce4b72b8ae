"""Images from files to training batches: skate beside the loaders that people use for it.

10,000 JPEGs of 256x256, cut from the photographs that scikit-learn brings, are decoded, resized to
224, normalised and put into batches of 64 float32 tensors. Every number comes from a process of
its own, which has imported torch before the clock starts.

    python -m benchmarks.images                  everything but Ray
    python -m benchmarks.images --ray            with Ray, which takes most of the time
    python -m benchmarks.images --count 1000     fewer images
    python -m benchmarks.images --only first     the rows whose name contains "first"

`bare` is two processes that decode and normalise half of the images each, and hand nothing over.
LitData and WebDataset read the same JPEGs from files of their own formats, SPDL decodes in two
threads; all use Pillow. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alone import report
from benchmarks.rows import Row, at_most, share_of, times_ray

COUNT, SIDE, CROP, BATCH, WORKERS = 10_000, 256, 224, 64, 2
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
SCALE, SHIFT = (1 / (255 * STD))[:, None, None], (MEAN / STD)[:, None, None]
PEERS = ("loader", "spdl", "litdata", "webdataset", "bare")

TABLE = (
    Row("rate", "JPEGs to batches of 64, start included", "images/s",
        (share_of("loader", 1.0), share_of("spdl", 0.9), times_ray(4)), ("ray", *PEERS)),
    Row("transforms", "resized and normalised by torch, per row", "images/s",
        (share_of("loader", 1.0), times_ray(4)), ("ray", "loader")),
    Row("transforms_batch", "resized and normalised by torch, per batch", "images/s",
        (share_of("loader", 1.0), times_ray(4)), ("ray", "loader")),
    Row("first", "until the first batch", "s",
        (at_most(0.5, "s"),), ("ray", *PEERS[:-1]), less_is_better=True),
)  # fmt: skip
Batches = Iterator[Any]


# -- input ---------------------------------------------------------------------------------------


def write_images(folder: Path, count: int) -> None:
    """Write cut-outs of photographs, each from another place and in another size."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photographs = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    chance = np.random.default_rng(0)
    for number in range(count):
        photograph = photographs[number % len(photographs)]
        side = int(chance.integers(SIDE // 2, min(photograph.size)))
        left = int(chance.integers(0, photograph.width - side))
        top = int(chance.integers(0, photograph.height - side))
        cut = photograph.crop((left, top, left + side, top + side)).resize((SIDE, SIDE))
        cut.save(folder / f"{number:05}.jpg", quality=90)


def write_shards(images: Path, folder: Path) -> None:
    """Write the same files as tar archives, for WebDataset."""
    import tarfile

    files = sorted(images.iterdir())
    for number in range(2 * WORKERS):
        with tarfile.open(folder / f"{number:03}.tar", "w") as archive:
            for file in files[number :: 2 * WORKERS]:
                archive.add(file, file.name)


def whole_file(path: str) -> dict[str, bytes]:
    return {"jpeg": Path(path).read_bytes()}


def write_chunks(images: Path, folder: Path) -> None:
    """Write the same files as LitData's chunks."""
    import litdata

    litdata.optimize(
        whole_file, [str(file) for file in sorted(images.iterdir())], str(folder),
        chunk_bytes="16MB", num_workers=1, verbose=False,
    )  # fmt: skip


# -- the work ------------------------------------------------------------------------------------


def decoded(content: Any) -> np.ndarray[Any, Any]:
    """Return an image as it is wanted, of the path or the stream of a file."""
    from PIL import Image

    with Image.open(content) as image:
        resized = image.convert("RGB").resize((CROP, CROP), Image.Resampling.BILINEAR)
        return np.asarray(resized)


def normalised(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return one image, or several, as a network wants it: channels first, around zero."""
    *count, height, width, _ = pixels.shape
    images = np.empty((*count, 3, height, width), np.float32)
    np.multiply(np.moveaxis(pixels, -1, -3), SCALE, out=images)
    images -= SHIFT
    return images


def of_batch(batch: dict[str, Any]) -> dict[str, Any]:
    return {"image": normalised(batch["image"])}


def transformed(pixels: Any) -> Any:
    """Return one image, or several, as torchvision's Resize, ToDtype and Normalize make them of
    tensors: by torch's own functions."""
    import torch
    from torch.nn.functional import interpolate

    images = torch.from_numpy(np.array(pixels)).movedim(-1, -3)
    several = images if images.ndim == 4 else images[None]
    resized = interpolate(several, (CROP, CROP), mode="bilinear", antialias=True)
    found = resized * torch.from_numpy(SCALE) - torch.from_numpy(SHIFT)
    return found if images.ndim == 4 else found[0]


def transform_row(row: dict[str, Any]) -> dict[str, Any]:
    return {"image": transformed(row["image"])}


def transform_batch(batch: dict[str, Any]) -> dict[str, Any]:
    return {"image": transformed(batch["image"])}


# -- systems -------------------------------------------------------------------------------------


def of_library(data: Any, folder: Path, row: str) -> Batches:
    """`data` is skate.data or ray.data: one code for both."""
    place = str(folder / "images")
    if row == "transforms":
        images = data.read_images(place, mode="RGB").map(transform_row)
    elif row == "transforms_batch":
        images = data.read_images(place, mode="RGB").map_batches(transform_batch, batch_size=BATCH)
    else:
        images = data.read_images(place, size=(CROP, CROP), mode="RGB")
        images = images.map_batches(of_batch, batch_size=BATCH)
    for batch in images.iter_torch_batches(batch_size=BATCH):
        yield batch["image"]


def of_skate(folder: Path, row: str) -> Batches:
    import skate.data

    return of_library(skate.data, folder, row)


def of_ray(folder: Path, row: str) -> Batches:
    import ray
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return of_library(ray.data, folder, row)


def of_loader(folder: Path, row: str) -> Batches:
    import torch

    class Images(torch.utils.data.Dataset[Any]):
        def __init__(self) -> None:
            self.files = sorted((folder / "images").iterdir())

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, number: int) -> Any:
            if row.startswith("transforms"):
                from PIL import Image

                with Image.open(self.files[number]) as image:
                    pixels = np.asarray(image.convert("RGB"))
                return pixels if row == "transforms_batch" else transformed(pixels)
            return torch.from_numpy(normalised(decoded(self.files[number])))

    def transform_together(images: list[Any]) -> Any:
        return transformed(np.stack(images))

    collate = transform_together if row == "transforms_batch" else None
    return iter(
        torch.utils.data.DataLoader(
            Images(), batch_size=BATCH, num_workers=WORKERS, collate_fn=collate
        )
    )


def of_webdataset(folder: Path, row: str) -> Batches:
    import torch
    import webdataset

    shards = [str(path) for path in sorted((folder / "shards").iterdir())]
    samples = webdataset.WebDataset(shards, shardshuffle=False).map(image_of_sample)
    return iter(torch.utils.data.DataLoader(samples, batch_size=BATCH, num_workers=WORKERS))


def image_of_sample(sample: dict[str, Any]) -> Any:
    return normalised(decoded(io.BytesIO(sample["jpg"])))


def image_of_chunk(sample: dict[str, Any]) -> Any:
    return normalised(decoded(io.BytesIO(sample["jpeg"])))


def of_litdata(folder: Path, row: str) -> Batches:
    import litdata

    chunks = litdata.StreamingDataset(str(folder / "chunks"), transform=image_of_chunk)
    return iter(litdata.StreamingDataLoader(chunks, batch_size=BATCH, num_workers=WORKERS))


def of_spdl(folder: Path, row: str) -> Batches:
    import torch
    from spdl.pipeline import PipelineBuilder

    def read(path: Path) -> Any:
        return normalised(decoded(path))

    def batch_of(images: list[Any]) -> Any:
        return torch.from_numpy(np.stack(images))

    builder: Any = PipelineBuilder()
    builder = builder.add_source(sorted((folder / "images").iterdir()))
    builder = builder.pipe(read, concurrency=WORKERS, output_order="input").aggregate(BATCH)
    pipeline = builder.pipe(batch_of).add_sink(4).build(num_threads=WORKERS)
    with pipeline.auto_stop():
        yield from pipeline


SYSTEMS: dict[str, Callable[[Path, str], Batches]] = {
    "skate": of_skate,
    "ray": of_ray,
    "loader": of_loader,
    "spdl": of_spdl,
    "litdata": of_litdata,
    "webdataset": of_webdataset,
}


def bare_share(files: list[Path]) -> None:
    for file in files:
        normalised(decoded(file))


def bare(folder: Path) -> None:
    files = sorted((folder / "images").iterdir())
    shares = [files[number::WORKERS] for number in range(WORKERS)]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=bare_share, args=(share,)) for share in shares]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


# -- one number in a process of its own ----------------------------------------------------------


def prepared(folder: Path, system: str) -> None:
    """Import, in the order of a sorted block, and write what the system needs, before the clock
    starts."""
    __import__(
        {"skate": "skate.data", "ray": "ray.data", "spdl": "spdl.pipeline"}.get(system, "PIL")
    )
    __import__("torch")
    writers = {"litdata": ("chunks", write_chunks), "webdataset": ("shards", write_shards)}
    if system in writers:
        name, write = writers[system]
        if not (folder / name).exists():
            (folder / name).mkdir()
            write(folder / "images", folder / name)


def one(system: str, row: str, folder: Path) -> float:
    prepared(folder, system)
    total = len(os.listdir(folder / "images"))
    start = time.perf_counter()
    if system == "bare":
        bare(folder)
        return total / (time.perf_counter() - start)
    batches = SYSTEMS[system](folder, row)
    images = len(next(batches))
    if row == "first":
        return time.perf_counter() - start
    for batch in batches:
        assert batch.shape[1:] == (3, CROP, CROP), batch.shape
        images += len(batch)
    seconds = time.perf_counter() - start
    assert images == total, f"{images} of {total} images"
    return total / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains it")
    parser.add_argument("--count", type=int, default=COUNT, help="images")
    parser.add_argument("--ray", action="store_true", help="with Ray")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "ROW"))
    options = parser.parse_args()
    if options.one:
        system, row_name = options.one
        print(json.dumps(one(system, row_name, Path(os.environ["SKATE_BENCH_FOLDER"]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SKATE_BENCH_FOLDER"] = folder
        (Path(folder) / "images").mkdir()
        write_images(Path(folder) / "images", options.count)
        for row in TABLE:
            if options.only in row.name:
                report("images", row, not options.ray)


if __name__ == "__main__":
    from benchmarks import images  # by its name, under which workers find what it caches

    images.main()
