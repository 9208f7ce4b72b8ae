"""Data is never code: files of strangers end in an error that names them, or in plain data."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data.datasource import FilenameProvider, Partitioning
from skate.data.exceptions import UntrustedPickleError
from tests.data.hostile_files import (
    DEEP_JSON,
    Payload,
    arrow_stream,
    claiming,
    deep_avro,
    endless_avro,
    feather,
    hostile_files,
    npy,
    objects,
    parquet,
    tar,
)
from tests.support import run_program

READERS: dict[str, Callable[..., Any]] = {
    "parquet": skate.data.read_parquet,
    "csv": skate.data.read_csv,
    "json": skate.data.read_json,
    "text": skate.data.read_text,
    "binary": skate.data.read_binary_files,
    "numpy": lambda path: skate.data.read_numpy(path, file_extensions=None),
    "images": lambda path: skate.data.read_images(path, file_extensions=None),
    "audio": lambda path: skate.data.read_audio(path, file_extensions=None),
    "videos": lambda path: skate.data.read_videos(path, file_extensions=None),
    "tfrecords": skate.data.read_tfrecords,
    "webdataset": skate.data.read_webdataset,
    "webdataset-pil": lambda path: skate.data.read_webdataset(path, decoder="PIL"),
    "orc": skate.data.read_orc,
    "avro": skate.data.read_avro,
}
OF_ENDINGS = {".parquet": "parquet", ".npy": "numpy", ".npz": "numpy", ".tar": "webdataset"}
VIEWERS: dict[str, Callable[[Any], Any]] = {
    "take": lambda ds: ds.take(2),
    "show": lambda ds: ds.show(1),
    "schema": lambda ds: ds.schema(),
    "batches": lambda ds: list(ds.iter_batches(batch_size=2)),
    "pandas": lambda ds: ds.to_pandas(),
    "arrow": lambda ds: skate.get(ds.to_arrow_refs()),
    "torch": lambda ds: list(ds.iter_torch_batches(batch_size=2)),
    "map": lambda ds: ds.map(lambda row: row).take_all(),
    "sort": lambda ds: ds.sort(ds.columns()[0]).take_all(),
    "filter": lambda ds: ds.filter(expr="n > 0").take_all(),
    "unique": lambda ds: ds.unique(ds.columns()[0]),
    "count": lambda ds: ds.count(),
    "stats": lambda ds: ds.materialize().stats(),
}
OWN = [{"x": Fraction(1, 2), "n": 5}, {"x": Fraction(3), "n": 6}]
SAYS_WHAT = (ValueError, OSError, TypeError, NotImplementedError, MemoryError)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "code-was-run"


@pytest.fixture
def payload(marker: Path) -> bytes:
    return pickle.dumps(Payload(marker))


def looked_at(path: Path, reader: str, viewer: str) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            VIEWERS[viewer](READERS[reader](str(path)))
        except Exception as error:
            return error
    return None


def text_of(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """All files, and what they make if one of them runs."""
    folder = tmp_path_factory.mktemp("hostile")
    marker = folder.parent / "code-of-the-corpus-was-run"
    return hostile_files(folder, marker), marker


@pytest.mark.engines("inline")
def test_no_file_runs_code_in_any_reader(engine: str, corpus: tuple[list[Path], Path]) -> None:
    files, marker = corpus
    assert len(files) >= 60
    for path in files:
        for reader in READERS:
            error = looked_at(path, reader, "take")
            assert not marker.exists(), (path.name, reader)
            assert not Path("x").exists(), (path.name, reader)
            if error is not None:
                assert isinstance(error, SAYS_WHAT), (path.name, reader, repr(error))
                assert path.name in text_of(error), (path.name, reader, repr(error))


@pytest.mark.engines("inline")
def test_no_file_runs_code_in_any_viewer(engine: str, corpus: tuple[list[Path], Path]) -> None:
    files, marker = corpus
    for path in files:
        if path.suffix in OF_ENDINGS:
            for viewer in VIEWERS:
                looked_at(path, OF_ENDINGS[path.suffix], viewer)
                assert not marker.exists(), (path.name, viewer)


class TestColumnsOfObjects:
    @pytest.mark.parametrize("name", ["skate.object", "ray.data.arrow_pickled_object"])
    def test_of_a_file_are_refused_by_name(
        self, engine: str, tmp_path: Path, marker: Path, payload: bytes, name: str
    ) -> None:
        (tmp_path / "a.parquet").write_bytes(parquet(claiming(name, objects(payload))))
        rows = skate.data.read_parquet(str(tmp_path / "a.parquet"))
        with pytest.raises(UntrustedPickleError, match=r"'x' of .*a\.parquet") as refusal:
            rows.map(lambda row: row).take_all()
        assert "allow_pickle=True" in str(refusal.value)
        assert "SKATE_ALLOW_PICKLE=1" in str(refusal.value)
        assert rows.select_columns(["n"]).take_all() == [{"n": 0}, {"n": 1}]
        assert not marker.exists()

    @pytest.mark.parametrize("filtered", [False, True])
    def test_are_read_by_those_who_say_so(
        self, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filtered: bool
    ) -> None:
        written = skate.data.from_items(OWN)
        written.write_parquet(str(tmp_path / "own"))

        def read(**options: Any) -> Any:
            rows = skate.data.read_parquet(str(tmp_path / "own"), **options)
            return (rows.filter(expr="n > 0") if filtered else rows).sort("n").take_all()

        with pytest.raises(UntrustedPickleError):
            read()
        assert read(allow_pickle=True) == OWN
        monkeypatch.setenv("SKATE_ALLOW_PICKLE", "1")
        assert read() == OWN

    def test_of_another_program_are_refused_too(self, engine: str, payload: bytes) -> None:
        table = claiming("skate.object", objects(payload))
        for given in (table, arrow_stream(table)):
            with pytest.raises(UntrustedPickleError, match="'x'"):
                skate.data.from_arrow(given)
        stream = pa.ipc.open_file(feather(table)).read_all()
        with pytest.raises(UntrustedPickleError, match="'x'"):
            skate.data.from_blocks([stream])
        rows = skate.data.from_arrow(
            claiming("skate.object", objects(pickle.dumps(Fraction(1)))), allow_pickle=True
        )
        assert rows.take(1) == [{"x": Fraction(1), "n": 0}]

    def test_a_schema_of_the_users_is_no_consent(
        self, engine: str, tmp_path: Path, marker: Path, payload: bytes
    ) -> None:
        pq.write_table(pa.table({"x": objects(payload)}), tmp_path / "a.parquet")
        own = skate.data.from_items([{"x": Fraction(1)}]).to_arrow_refs()
        schema = skate.get(own)[0].schema
        with pytest.raises(UntrustedPickleError, match="'x'"):
            skate.data.read_parquet(str(tmp_path / "a.parquet"), schema=schema).take_all()
        assert not marker.exists()

    def test_of_this_session_work_wherever_they_go(self, engine: str) -> None:
        rows = skate.data.from_items([{"x": Fraction(n), "n": n} for n in range(6)])
        for same in (
            rows.map(lambda row: row),
            rows.map_batches(lambda batch: batch, batch_format="pyarrow"),
            rows.map_batches(lambda batch: batch, batch_format="pandas"),
            rows.random_shuffle(seed=1).sort("n"),
            rows.materialize().repartition(3),
            skate.data.from_arrow_refs(rows.to_arrow_refs()),
            skate.data.from_arrow(skate.get(rows.to_arrow_refs())),
        ):
            assert [row["x"] for row in same.sort("n").take_all()] == [
                Fraction(n) for n in range(6)
            ]


class TestArrays:
    def test_of_objects_are_refused_by_name(
        self, engine: str, tmp_path: Path, marker: Path
    ) -> None:
        (tmp_path / "a.npy").write_bytes(npy(np.array([Payload(marker)], object)))
        with pytest.raises(UntrustedPickleError, match=r"a\.npy .*allow_pickle=True"):
            skate.data.read_numpy(str(tmp_path / "a.npy")).take_all()
        np.save(tmp_path / "b.npy", np.array([Fraction(1), None], object), allow_pickle=True)
        rows = skate.data.read_numpy(str(tmp_path / "b.npy"), allow_pickle=True)
        assert rows.take_all() == [{"data": Fraction(1)}, {"data": None}]


class TestArchives:
    def test_pickles_in_them_are_refused_by_name(
        self, engine: str, tmp_path: Path, marker: Path, payload: bytes
    ) -> None:
        (tmp_path / "a.tar").write_bytes(tar(("s.pkl", payload)))
        with pytest.raises(UntrustedPickleError, match=r"s\.pkl in .*a\.tar"):
            skate.data.read_webdataset(str(tmp_path / "a.tar")).take_all()
        bytes_ = skate.data.read_webdataset(str(tmp_path / "a.tar"), decoder=None).take_all()
        assert bytes_[0]["pkl"] == payload
        assert not marker.exists()

    def test_of_torch_give_tensors_without_consent(self, engine: str, tmp_path: Path) -> None:
        import torch

        rows = [{"__key__": "s", "pt": {"w": torch.arange(3)}, "pkl": Fraction(1)}]
        skate.data.from_items(rows).write_webdataset(str(tmp_path))
        tensors = skate.data.read_webdataset(str(tmp_path), suffixes=["pt"]).take(1)[0]
        assert list(tensors["pt"]["w"]) == [0, 1, 2]
        both = skate.data.read_webdataset(str(tmp_path), allow_pickle=True).take(1)[0]
        assert both["pkl"] == Fraction(1)

    @pytest.mark.parametrize("cut", [600, 1024, 1100, 2600, 4096])
    def test_that_are_cut_are_an_error_and_not_fewer_rows(
        self, engine: str, tmp_path: Path, cut: int
    ) -> None:
        whole = tar(("a.txt", b"one"), ("b.txt", b"two" * 1000), ("c.txt", b"three"))
        (tmp_path / "a.tar").write_bytes(whole)
        assert skate.data.read_webdataset(str(tmp_path / "a.tar")).count() == 3
        (tmp_path / "cut.tar").write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"cut\.tar"):
            skate.data.read_webdataset(str(tmp_path / "cut.tar")).take_all()

    def test_a_hole_is_no_end(self, engine: str, tmp_path: Path) -> None:
        rows = [{"__key__": f"{n:03}", "txt": f"row {n}"} for n in range(5)]
        skate.data.from_items(rows, override_num_blocks=1).write_webdataset(str(tmp_path / "w"))
        holed = bytearray(next((tmp_path / "w").iterdir()).read_bytes())
        holed[2048:3072] = bytes(1024)
        (tmp_path / "holed.tar").write_bytes(holed)
        with pytest.raises(ValueError, match=r"holed\.tar.* data follows"):
            skate.data.read_webdataset(str(tmp_path / "holed.tar")).take_all()

    def test_that_hide_samples_between_others_are_an_error(
        self, engine: str, tmp_path: Path
    ) -> None:
        (tmp_path / "a.tar").write_bytes(tar(("a.txt", b"1"), ("b.txt", b"2"), ("a.cls", b"3")))
        with pytest.raises(ValueError, match="not next to each other"):
            skate.data.read_webdataset(str(tmp_path / "a.tar")).take_all()

    @pytest.mark.parametrize("key", ["../up", "/etc/x", "a/../../b", "../"])
    def test_are_never_written_to_unpack_elsewhere(
        self, engine: str, tmp_path: Path, key: str
    ) -> None:
        rows = skate.data.from_items([{"__key__": key, "txt": "x"}])
        with pytest.raises(ValueError, match="outside"):
            rows.write_webdataset(str(tmp_path / "out"))
        assert not list(tmp_path.rglob("*.tar"))


class TestWhatIsWrittenStaysInTheFolder:
    @pytest.mark.parametrize("flavor", ["hive", None, "filename"])
    @pytest.mark.parametrize("value", ["../../up", "/etc", "..", ".", "a/b", "%2e%2e", None])
    def test_with_any_value_of_a_partition(
        self, engine: str, tmp_path: Path, flavor: str | None, value: Any
    ) -> None:
        folder = tmp_path / "a" / "b"
        rows = skate.data.from_items([{"k": value, "n": 1}, {"k": "plain", "n": 2}])
        rows.write_parquet(str(folder), partition_cols=["k"], partitioning_flavor=flavor)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) == 2
        assert all(folder in path.parents for path in files)
        if flavor != "filename":
            style = {"hive": "hive", None: "dir"}[flavor]
            parts = Partitioning(style, base_dir=str(folder), field_names=["k"])
            read = skate.data.read_parquet(str(folder), partitioning=parts).sort("n").take_all()
            assert [row["k"] for row in read] == [value, "plain"]

    def test_with_any_name_that_a_row_gives(self, engine: str, tmp_path: Path) -> None:
        class ByRow(FilenameProvider):
            def get_filename_for_row(self, row: Any, *rest: Any) -> str:
                return f"{row['name']}.png"

        rows = [{"name": "../../up", "image": np.zeros((2, 2), np.uint8)}]
        with pytest.raises(ValueError, match="outside"):
            skate.data.from_items(rows).write_images(
                str(tmp_path / "a" / "b"), "image", filename_provider=ByRow()
            )
        assert not list(tmp_path.rglob("*.png"))


def test_what_is_nested_too_deep_ends_no_process(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.json" for name in DEEP_JSON]
    for path, data in zip(paths, DEEP_JSON.values(), strict=True):
        path.write_bytes(data)
    program = (
        "import sys, skate, skate.data\nskate.init(engine='inline')\n"
        "for path in sys.argv[1:]:\n"
        "    try: skate.data.read_json(path).take()\n"
        "    except ValueError as error: print('nested more than' in str(error))"
    )
    done = run_program([sys.executable, "-c", program, *map(str, paths)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * len(paths)


def test_records_inside_of_records_end_no_process(tmp_path: Path) -> None:
    path = tmp_path / "deep.avro"
    path.write_bytes(deep_avro())
    program = (
        "import sys, skate, skate.data\nskate.init(engine='inline')\n"
        "try: skate.data.read_avro(sys.argv[1]).take()\n"
        "except ValueError as error: print('too deep inside of each other' in str(error))"
    )
    done = run_program([sys.executable, "-c", program, str(path)])
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


LITTLE_MEMORY = """
import resource, sys, skate, skate.data
skate.init(engine='inline')
kind, *paths = sys.argv[1:]
read = getattr(skate.data, f'read_{kind}')
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for path in paths:
    try: read(path).take(2)
    except ValueError as error: print(path in str(error))
"""


def test_a_few_bytes_of_avro_cannot_ask_for_gigabytes(tmp_path: Path) -> None:
    paths = []
    for name, content in endless_avro().items():
        assert len(content) < 300
        (tmp_path / name).write_bytes(content)
        paths.append(str(tmp_path / name))
    done = run_program([sys.executable, "-W", "ignore", "-c", LITTLE_MEMORY, "avro", *paths])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * len(paths)


def test_a_few_bytes_of_parquet_are_read_a_part_at_a_time(tmp_path: Path) -> None:
    """Values that repeat are next to nothing in a file: all at once, these are 4 GB."""
    wide = pa.repeat(pa.scalar(bytes(512), pa.binary(512)), 1 << 18)
    table = pa.table({"a": wide, "b": pa.repeat(pa.scalar(1), len(wide))})
    path = tmp_path / "repeated.parquet"
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(32):
            writer.write_table(table)
    assert path.stat().st_size < 1_000_000
    program = (
        f"{LITTLE_MEMORY}    else: print(skate.data.read_parquet(path).count())\n"
        "    expression = skate.data.expressions.col('b').is_not_null()\n"
        "    print(len(skate.data.read_parquet(path).filter(expr=expression).take(3)))\n"
        "    batches = skate.data.read_parquet(path).iter_batches(batch_size=None)\n"
        "    print(len(next(iter(batches))['a']) > 0)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, "parquet", str(path)]
    done = run_program(command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(1 << 23), "3", "True"]


def test_brackets_in_texts_are_no_depth(engine: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": "[[{\\"["}\n' * 1000)
    rows = skate.data.read_json(str(tmp_path / "a.json"))
    assert rows.count() == 1000
    assert rows.take(1) == [{"a": '[[{"['}]


def test_records_with_damaged_contents_are_an_error(engine: str, tmp_path: Path) -> None:
    rows = [{"text": "x" * size, "n": size} for size in (1, 50, 5000, 20_000)]
    one_file = skate.data.from_items(rows, override_num_blocks=1)
    one_file.write_tfrecords(str(tmp_path / "good"))
    assert skate.data.read_tfrecords(str(tmp_path / "good")).take_all() == [
        {"text": str(row["text"]).encode(), "n": row["n"]} for row in rows
    ]
    good = next((tmp_path / "good").iterdir()).read_bytes()
    for place in (40, 5000, len(good) - 200):
        damaged = bytearray(good)
        damaged[place] ^= 0x10
        (tmp_path / "bad.tfrecords").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged") as error:
            skate.data.read_tfrecords(str(tmp_path / "bad.tfrecords")).take_all()
        assert "bad.tfrecords" in text_of(error.value)
