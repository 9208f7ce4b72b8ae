"""Text from lines of JSON to tokens: skate beside `datasets` and two processes by hand.

JSONL, 100 MB of it, made of Python's standard library, is read, tokenised by a
WordPiece tokenizer of `tokenizers` that was trained on the same text, and thrown away. Every
number comes from a process of its own.

    python -m benchmarks.text                     everything but Ray
    python -m benchmarks.text --ray               with Ray, which takes most of the time
    python -m benchmarks.text --megabytes 1000    a gigabyte

`bare` is two processes that tokenise half of the file each, and hand nothing over. Nobody uses
more than two threads: the tokenizer's own are off, as they are wherever several processes use it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

from benchmarks.alone import report
from benchmarks.rows import Row, share_of, times_ray

MEGABYTES, WORKERS, BATCH = 100, 2, 1000

TABLE = (
    Row("tokens", "JSONL to tokens, start included", "MB/s",
        (share_of("bare", 0.95), share_of("datasets", 2.0), times_ray(4)),
        ("ray", "datasets", "bare")),
)  # fmt: skip


# -- input ---------------------------------------------------------------------------------------


def paragraphs() -> Iterator[str]:
    """Yield what is between two empty lines in the modules of the standard library."""
    for file in sorted(Path(os.__file__).parent.glob("*.py")):
        yield from file.read_text(errors="replace").split("\n\n\n")


def write_lines(folder: Path, megabytes: float) -> None:
    """Write the file, and a tokenizer that knows its words."""
    import tokenizers

    texts = list(paragraphs())
    wanted = int(megabytes * 1e6)
    with open(folder / "lines.jsonl", "w") as file:
        for number, text in enumerate(cycle(texts)):
            if file.tell() >= wanted:
                break
            file.write(json.dumps({"id": number, "text": text}) + "\n")
    learned = tokenizers.BertWordPieceTokenizer()
    learned.train_from_iterator(texts, vocab_size=8000, show_progress=False)
    learned.save(str(folder / "tokenizer.json"))


@cache
def tokenizer(path: str) -> Any:
    import tokenizers

    return tokenizers.Tokenizer.from_file(path)


def tokens(path: str, texts: list[str]) -> list[list[int]]:
    return [encoded.ids for encoded in tokenizer(path).encode_batch_fast(texts)]


# -- systems -------------------------------------------------------------------------------------


def of_library(data: Any, folder: Path) -> int:
    """`data` is skate.data or ray.data: one code for both."""
    learned = str(folder / "tokenizer.json")

    def tokenise(batch: dict[str, Any]) -> dict[str, Any]:
        return {"ids": tokens(learned, batch["text"].tolist())}

    lines = data.read_json(str(folder / "lines.jsonl"), lines=True)
    made = lines.map_batches(tokenise, batch_size=BATCH)
    return sum(len(batch) for batch in made.iter_batches(batch_format="pyarrow", batch_size=None))


def of_skate(folder: Path) -> int:
    import skate.data

    return of_library(skate.data, folder)


def of_ray(folder: Path) -> int:
    import ray
    import ray.data

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return of_library(ray.data, folder)


def of_datasets(folder: Path) -> int:
    import datasets

    datasets.disable_progress_bars()
    learned, cached = str(folder / "tokenizer.json"), str(folder / "cache")
    lines = datasets.load_dataset(
        "json", data_files=str(folder / "lines.jsonl"), split="train", cache_dir=cached
    )
    made = lines.map(
        lambda batch: {"ids": tokens(learned, batch["text"])},
        batched=True, batch_size=BATCH, num_proc=WORKERS, remove_columns=lines.column_names,
    )  # fmt: skip
    return len(made)


def bare_share(folder: Path, start: int, stop: int) -> None:
    """Tokenise the lines that begin between two places of the file."""
    learned = str(folder / "tokenizer.json")
    with open(folder / "lines.jsonl", "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        texts = []
        while file.tell() < stop and (line := file.readline()):
            texts.append(json.loads(line)["text"])
            if len(texts) == BATCH:
                tokens(learned, texts)
                texts = []
        tokens(learned, texts)


def by_hand(folder: Path) -> int:
    size = (folder / "lines.jsonl").stat().st_size
    context = multiprocessing.get_context("fork")
    ends = [size * number // WORKERS for number in range(WORKERS + 1)]
    processes = [
        context.Process(target=bare_share, args=(folder, *share)) for share in pairwise(ends)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return lines_in(folder)


def lines_in(folder: Path) -> int:
    with open(folder / "lines.jsonl", "rb") as file:
        return sum(1 for _ in file)


SYSTEMS: dict[str, Callable[[Path], int]] = {
    "skate": of_skate,
    "ray": of_ray,
    "datasets": of_datasets,
    "bare": by_hand,
}
IMPORTS = {"skate": "skate.data", "ray": "ray.data", "datasets": "datasets", "bare": "tokenizers"}


# -- one number in a process of its own ----------------------------------------------------------


def one(system: str, folder: Path) -> float:
    import_module(IMPORTS[system])
    start = time.perf_counter()
    lines = SYSTEMS[system](folder)
    seconds = time.perf_counter() - start
    assert lines == lines_in(folder), f"{lines} of {lines_in(folder)} lines"
    return (folder / "lines.jsonl").stat().st_size / 1e6 / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=float, default=MEGABYTES, help="of text")
    parser.add_argument("--ray", action="store_true", help="with Ray")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "ROW"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], Path(os.environ["SKATE_BENCH_FOLDER"]))))
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SKATE_BENCH_FOLDER"] = folder
        write_lines(Path(folder), options.megabytes)
        for row in TABLE:
            report("text", row, not options.ray)


if __name__ == "__main__":
    from benchmarks import text  # by its name, under which workers find what it caches

    text.main()
