"""Files that are larger than what may be in memory: they are read piece by piece."""

import gzip
import json
import random
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data.sources import tables
from tests.support import run_program

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


@pytest.fixture
def tiny_pieces(monkeypatch):
    """Files are large from the first byte on."""
    monkeypatch.setattr(tables, "STREAM_FROM", 1)
    monkeypatch.setattr(tables, "LEAST_BYTES", 1)
    monkeypatch.setattr(tables, "PIECE_BYTES", 40)
    monkeypatch.setattr(tables, "MORE_BYTES", 7)
    monkeypatch.setattr(tables, "SAMPLE_BYTES", 200)


def written(place, lines, end="\n", last="\n"):
    place.write_bytes((end.join(lines) + last).encode())
    return str(place)


@pytest.mark.parametrize(
    ("end", "last"), [("\n", "\n"), ("\n", ""), ("\r\n", "\r\n"), ("\n\n", "")]
)
def test_each_line_is_in_one_piece(tiny_pieces, tmp_path, end, last):
    chance = random.Random(0)
    rows = [{"id": n, "text": "x" * chance.randrange(60)} for n in range(200)]
    place = written(tmp_path / "rows.jsonl", map(json.dumps, rows), end, last)
    dataset = skate.data.read_json(place, override_num_blocks=50)
    assert len(dataset._plan.source.read_tasks(None)) > 5
    assert dataset.take_all() == rows


def test_a_file_of_lines_has_pieces_for_all_processors(tmp_path):
    """And several rounds of them: of three pieces, two processors do the last alone."""
    line = json.dumps({"text": "x" * 1000})
    place = written(tmp_path / "rows.jsonl", [line] * 12_000)
    dataset = skate.data.read_json(place)
    tasks = dataset._plan.source.read_tasks(None)
    sizes = [task.size_bytes for task in tasks]
    assert len(tasks) == 5
    assert max(sizes) - min(sizes) <= 2
    assert dataset.count() == 12_000


def test_a_line_of_many_pieces(tiny_pieces, tmp_path):
    rows = [{"id": 0, "text": "a"}, {"id": 1, "text": "b" * 3000}, {"id": 2, "text": "c"}]
    place = written(tmp_path / "rows.jsonl", map(json.dumps, rows))
    assert skate.data.read_json(place).take_all() == rows


def test_types_are_those_of_the_first_lines_unless_others_do_not_fit(tiny_pieces, tmp_path):
    rows = [{"id": n, "x": None if 50 <= n < 100 else n + 0.5} for n in range(100)]
    rows += [{"id": 100.5, "x": None}, {"id": 101, "more": True}]
    place = written(tmp_path / "rows.jsonl", map(json.dumps, rows))
    blocks = list(skate.data.read_json(place, override_num_blocks=40).iter_batches(
        batch_size=None, batch_format="pyarrow"
    ))  # fmt: skip
    assert {str(block.schema.field("x").type) for block in blocks} == {"double"}
    found = [row for block in blocks for row in block.to_pylist()]
    assert [row["id"] for row in found] == [row["id"] for row in rows]
    assert found[-1]["more"] is True


def test_what_is_no_object_per_line_is_read_as_a_whole(tiny_pieces, tmp_path):
    rows = [{"id": n, "text": "x" * 20} for n in range(20)]
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps(rows))
    indented = tmp_path / "indented.json"
    indented.write_text(json.dumps(rows[0], indent=4))
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    for place, expected in ((listed, rows), (indented, rows[:1]), (packed, rows)):
        dataset = skate.data.read_json(str(place), file_extensions=None)
        assert len(dataset._plan.source.read_tasks(None)) == 1
        assert dataset.take_all() == expected


def test_a_line_that_is_no_json_is_named_with_its_place(tiny_pieces, tmp_path):
    lines = [json.dumps({"id": n}) for n in range(50)]
    lines[30] = '{"id": oops}'
    place = written(tmp_path / "rows.jsonl", lines)
    words = r"(?s)is no JSON.*in the lines that begin at bytes"
    with pytest.raises(ValueError, match=words):
        skate.data.read_json(place).take_all()


@pytest.mark.parametrize("columns", [None, ["t"], ["s", "a"]])
@pytest.mark.parametrize("least", [0, 777, 5000])
def test_a_filter_of_a_large_row_group_leaves_what_that_of_a_small_one_does(
    tmp_path, columns, least
):
    words = pa.array([str(number % 7) for number in range(1000)])
    numbers = np.arange(1000)
    tensors = skate.data.from_numpy(np.ones((1000, 2))).to_arrow_refs()
    (tensors,) = skate.get(tensors)
    first = pa.table({"a": numbers, "s": words.dictionary_encode(), "t": tensors["data"]})
    pq.write_table(first, tmp_path / "0.parquet", row_group_size=600)
    pq.write_table(pa.table({"a": numbers.astype("int32")}), tmp_path / "1.parquet")

    def read(block_bytes):
        context = skate.data.DataContext.get_current().copy()
        context.target_max_block_size = block_bytes
        with skate.data.DataContext.current(context):
            wanted = (pc.field("a") >= least) & (pc.field("s") != "3")
            return skate.data.read_parquet(tmp_path, columns=columns, filter=wanted).take_all()

    assert repr(read(2000)) == repr(read(1 << 27))
    assert len(read(2000)) == sum(number % 7 != 3 for number in range(least, 1000))


IN_LITTLE_MEMORY = """
import json, resource, sys
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import skate.data
from skate.data.sources import tables

MB = 1 << 20
folder, skate_data = sys.argv[1], skate.data
numbers = np.random.default_rng(0).random(8 * MB)
pq.write_table(pa.table({"x": numbers}), folder + "/x.parquet", row_group_size=len(numbers))
del numbers
with open(folder + "/x.jsonl", "w") as file:
    for number in range(700_000):
        file.write('{"id": %d, "text": "%s"}\\n' % (number, "word " * 20))
pa.default_memory_pool().release_unused()

skate.init(engine="inline")
tables.PIECE_BYTES = MB
settings = skate_data.DataContext.get_current()
settings.target_max_block_size = 4 * MB
largest = 0

def rows(dataset):
    global largest
    count = 0
    for batch in dataset.iter_batches(batch_size=1000, batch_format="pyarrow"):
        count += batch.num_rows
        largest = max(largest, pa.total_allocated_bytes())
    return count

parquet = skate_data.read_parquet(folder + "/x.parquet")
for dataset in (
    parquet,
    parquet.filter(expr=skate_data.expressions.col("x") >= 0),
    parquet.filter(expr=skate_data.expressions.col("x") > 0.99999),
    skate_data.read_json(folder + "/x.jsonl"),
):
    largest = 0
    print(rows(dataset), largest // MB)
"""


def test_files_of_many_blocks_are_read_in_the_memory_of_a_few(tmp_path):
    """64 MB in one row group and 84 MB in lines, with blocks of 4 MB."""
    program = [sys.executable, "-c", IN_LITTLE_MEMORY, str(tmp_path)]
    outputs = run_program(program, check=True).stdout.splitlines()
    whole, all_of_it, little, lines = (tuple(map(int, line.split())) for line in outputs)
    assert whole[0] == all_of_it[0] == 8 << 20
    assert 0 < little[0] < 1000
    assert lines[0] == 700_000
    assert max(whole[1], all_of_it[1], little[1]) <= 24
    assert lines[1] <= 48
