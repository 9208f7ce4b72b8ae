"""Good files of every format with something in them changed: rows, or an error that names the
file, whatever it is, and no crash and no hang.

`SKATE_TEST_DAMAGES=150` damages more often; a failure names the format and the seed.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import skate.data
from skate.data.exceptions import UndecodableTextError
from tests.data.hostile_files import image
from tests.data.test_hostile_files import READERS, SAYS_WHAT, text_of
from tests.support import run_program

DAMAGES = int(os.environ.get("SKATE_TEST_DAMAGES", "12"))
ROWS = [{"n": n, "x": n / 3, "t": f"row {n}", "l": [n, n + 1]} for n in range(200)]
FLAT = [{key: row[key] for key in ("n", "x", "t")} for row in ROWS]


def write(folder: Path, format_: str) -> Path:
    """One good file of this format."""
    place = str(folder / format_)
    many = skate.data.from_items(ROWS, override_num_blocks=1)
    flat = skate.data.from_items(FLAT, override_num_blocks=1)
    writers: dict[str, Callable[[], object]] = {
        "parquet": lambda: many.write_parquet(place),
        "csv": lambda: flat.write_csv(place),
        "json": lambda: many.write_json(place),
        "tfrecords": lambda: flat.write_tfrecords(place),
        "webdataset": lambda: flat.map(
            lambda row: {"__key__": f"{row['n']:04}", "txt": row["t"], "json": row}
        ).write_webdataset(place),
        "numpy": lambda: flat.write_numpy(place, column="n"),
    }
    if format_ in writers:
        writers[format_]()
        (file,) = (folder / format_).iterdir()
        return file
    file = folder / f"good.{format_}"
    table = pa.Table.from_pylist(FLAT)
    if format_ == "orc":
        from pyarrow import orc

        orc.write_table(table, file)
    elif format_ == "avro":
        import fastavro

        fields = [
            {"name": n, "type": t}
            for n, t in zip("nxt", ("long", "double", "string"), strict=True)
        ]
        with file.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, FLAT)
    elif format_ == "images":
        file.write_bytes(image((40, 30)))
    elif format_ == "npz":
        np.savez_compressed(file, data=np.arange(1000))
    elif format_ == "text":
        file.write_text("\n".join(f"row {n} ü" for n in range(200)))
    else:
        raise ValueError(format_)
    return file


FORMATS = "parquet csv json tfrecords webdataset numpy npz orc avro images text".split()


def damaged(data: bytes, seed: int) -> bytes:
    """Flip, cut, drop, double or overwrite something."""
    chance = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 5, 50])):
        at = chance.randrange(len(changed))
        end = min(len(changed), at + chance.choice([1, 4, 16, 200]))
        what = chance.randrange(6)
        if what == 0:
            changed[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            del changed[at:end]
        elif what == 2:
            changed[at:at] = changed[at:end]
        elif what == 3:
            changed[at:end] = bytes(end - at)
        elif what == 4:
            changed[at:end] = b"\xff" * (end - at)
        else:
            changed[at:end] = chance.randbytes(end - at)
        if not changed:
            break
    if chance.random() < 0.2:
        del changed[chance.randrange(len(changed) + 1) :]
    return bytes(changed)


def read_all(format_: str, good: Path, seeds: Iterator[int]) -> None:
    """What the program below does: print the seed before each file, so that a crash names it."""
    reader = READERS["numpy" if format_ == "npz" else format_]
    content = good.read_bytes()
    for seed in seeds:
        print("seed", seed, flush=True)
        bad = good.with_name(f"bad-{seed}{good.suffix}")
        bad.write_bytes(damaged(content, seed))
        try:
            rows: list[Any] = reader(str(bad)).take_all()
            assert isinstance(rows, list)
        except SAYS_WHAT as error:
            if bad.name not in text_of(error):
                raise
        bad.unlink()


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_or_an_error_that_names_the_file(tmp_path: Path, format_: str) -> None:
    if format_ == "avro":
        pytest.importorskip("fastavro")
    program = (
        "import sys, pathlib, skate\n"
        "from tests.data.test_damaged_files import read_all, write\n"
        "skate.init(engine='inline')\n"
        "good = write(pathlib.Path(sys.argv[2]), sys.argv[1])\n"
        "read_all(sys.argv[1], good, range(int(sys.argv[3])))"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, format_, str(tmp_path), str(DAMAGES)]
    done = run_program(command, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout[-100:] + done.stderr[-3000:]


TAKERS: dict[str, Callable[[Any], object]] = {
    "rows": lambda dataset: list(dataset.iter_rows()),
    "batches": lambda dataset: list(dataset.iter_batches()),
    "ahead": lambda dataset: list(dataset.iter_batches(prefetch_batches=3)),
    "take": lambda dataset: dataset.take_all(),
    "map": lambda dataset: dataset.map(lambda row: row).take_all(),
    "sort": lambda dataset: dataset.sort("number").take_all(),
    "materialized": lambda dataset: dataset.materialize().take_all(),
}


@pytest.mark.parametrize("format_", ["parquet", "orc"])
@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_text_that_is_none_names_file_and_column(
    engine: str, tmp_path: Path, format_: str, take: Callable[[Any], object]
) -> None:
    """Arrow takes any bytes for text; who makes text of them says whose they are."""
    texts = pa.array([b"good", b"\xff\xfe"]).view(pa.string())
    write = pq.write_table if format_ == "parquet" else orc.write_table
    for name, text in (("a", pa.array(["x", "y"])), ("b", texts), ("c", pa.array(["z", "z"]))):
        write(pa.table({"number": [1, 2], "text": text}), str(tmp_path / f"{name}.{format_}"))
    read = skate.data.read_parquet if format_ == "parquet" else skate.data.read_orc
    with pytest.raises(ValueError, match="not UTF-8") as error:
        take(read(str(tmp_path)))
    assert "column 'text'" in str(error.value)
    assert f"b.{format_}" in text_of(error.value)
    assert take(read(str(tmp_path)).select_columns(["number"]))


def test_the_error_about_a_text_travels() -> None:
    files = [f"f{n}" for n in range(9)]
    error = pickle.loads(pickle.dumps(UndecodableTextError("c", "byte 3", files)))
    assert (error.column, error.reason) == ("c", "byte 3")
    assert "f0, f1, f2, f3, f4 and 4 more" in str(error)
