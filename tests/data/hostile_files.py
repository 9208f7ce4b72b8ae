"""Files that a stranger could send: those with pickles make a folder when they are unpickled."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from skate._core.record_files import record_of

# Nested so deep that a parser without a limit overflows its stack, and hidden from a counter that
# takes brackets in strings, or in lines that are damaged, for the end of the nesting.
DEEP_JSON = {
    "lists": b'{"a":' + b"[" * 300_000,
    "objects": b'{"a":' * 300_000,
    "behind-a-text": b'{"a":"' + b"]" * 300_000 + b'","b":' + b"[" * 300_000,
    "between-texts": b'{"a":' + b'["]",' * 300_000,
    "behind-a-quote": b'{"a":"\\"]","b":' + b'["\\\\","]",' * 300_000,
    "behind-a-cut-line": b'{"a":1}\n' * 200_000 + b'{"a":"\n' + b'{"a":' + b"[" * 300_000,
    "behind-closed-lists": b'{"a":1}\n' * 200_000 + b"]" * 300_000 + b"\n" + b'{"a":' * 300_000,
}


class Payload:
    """Makes the folder `marker` wherever it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self.marker,)


def claiming(name: str, storage: pa.Array, parameters: bytes = b"", **more: Any) -> pa.Table:
    """A table whose column `x` says that it has an extension type, as a foreign file can."""
    metadata = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": parameters}
    field = pa.field("x", storage.type, metadata=metadata)
    numbers = pa.array(range(len(storage)))
    schema = pa.schema([field, pa.field("n", numbers.type)], metadata=more.get("metadata"))
    return pa.table([storage, numbers], schema=schema)


def parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def feather(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def tar(*members: tuple[str, bytes], **header: Any) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in header.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return file.getvalue()


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def torch_file(value: Any) -> bytes:
    import torch

    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def image(size: tuple[int, int], format: str = "png") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size).save(file, format)
    return file.getvalue()


def avro(records: list[dict[str, Any]], schema: dict[str, Any]) -> bytes:
    import fastavro

    file = io.BytesIO()
    fastavro.writer(file, schema, records)
    return file.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def objects(payload: bytes, type_: pa.DataType | None = None) -> pa.Array:
    return pa.array([payload, payload], type_ or pa.large_binary())


def _of_columns(payload: bytes) -> dict[str, bytes]:
    """Parquet files whose columns claim to be what skate, Ray and Arrow once unpickled."""
    pickled = objects(payload)
    nested = pa.struct(
        [pa.field("inner", pa.large_binary(), metadata={b"ARROW:extension:name": b"skate.object"})]
    )
    inside = pa.array([{"inner": payload}] * 2, nested)
    shapes = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64()))
    pandas = json.dumps(
        {
            "index_columns": ["__import__('os').system('true')"],
            "columns": [
                {"name": "x", "field_name": "x", "pandas_type": "object", "numpy_type": "object",
                 "metadata": {"encoding": "pickle"}},
                {"name": "n", "field_name": "n", "pandas_type": "category[pickle]",
                 "numpy_type": "os.system", "metadata": None},
            ],
            "column_indexes": [{"name": None, "numpy_type": "O", "pandas_type": "mixed"}],
        }
    ).encode()  # fmt: skip
    ragged = pa.array([{"data": [1], "shape": [9]}] * 2)
    tables = {
        "skate-object": claiming("skate.object", pickled),
        "skate-object-binary": claiming("skate.object", objects(payload, pa.binary())),
        "skate-object-view": claiming("skate.object", objects(payload, pa.binary_view())),
        "skate-object-plain-rows": claiming(
            "skate.object", pickled, metadata={b"skate.plain": b"1"}
        ),
        "skate-object-in-struct": pa.table({"x": inside}),
        "skate-object-in-list": claiming("", pa.array([[payload]], pa.list_(nested.field(0)))),
        "skate-object-of-numbers": claiming("skate.object", pa.array([1, 2])),
        "skate-object-of-lists": claiming("skate.object", pa.array([[payload]])),
        "ray-object": claiming("ray.data.arrow_pickled_object", pickled),
        "ray-tensor": claiming("ray.data.arrow_tensor", shapes, payload),
        "ray-tensor-v2": claiming("ray.data.arrow_tensor_v2", shapes, payload),
        "ray-tensor-wrong-shape": claiming("ray.data.arrow_tensor", shapes, b"[7, 7]"),
        "ray-tensor-overflow": claiming(
            "ray.data.arrow_tensor", shapes, b"[9223372036854775807,2]"
        ),
        "ray-tensor-negative": claiming("ray.data.arrow_tensor", shapes, b"[-1, 2]"),
        "ray-ragged": claiming("ray.data.arrow_variable_shaped_tensor", shapes, payload),
        "ray-ragged-many": claiming("ray.data.arrow_variable_shaped_tensor", ragged, b"99999"),
        "ray-ragged-wrong": claiming("ray.data.arrow_variable_shaped_tensor", ragged, b"3"),
        "py-extension": claiming("arrow.py_extension_type", pickled, payload),
        "py-extension-lists": claiming("arrow.py_extension_type", shapes, payload),
        "skate-ragged-of-bytes": claiming("skate.ragged_tensor", pickled),
        "skate-ragged-wrong": claiming("skate.ragged_tensor", ragged),
        "fixed-tensor-of-bytes": claiming("arrow.fixed_shape_tensor", pickled, b'{"shape":[2]}'),
        "fixed-tensor-pickled": claiming("arrow.fixed_shape_tensor", shapes, payload),
        "pandas-period": claiming("pandas.period", pa.array([1, 2]), payload),
        "pandas-metadata": claiming("", pickled, metadata={b"pandas": pandas}),
        "pandas-metadata-pickled": claiming("", pickled, metadata={b"pandas": payload}),
        "unknown-extension": claiming("somebody.else", pickled, payload),
    }
    return {f"{name}.parquet": parquet(table) for name, table in tables.items()}


def _of_arrays(payload: bytes, poison: Any) -> dict[str, bytes]:
    huge = npy(np.zeros(1)).replace(b"(1,)", b"(99999999999,)").replace(b"           \n", b" \n")
    return {
        "objects.npy": npy(np.array([poison, 1], object)),
        "pickle.npy": payload,
        "objects.npz": npz(a=np.array([poison, 1], object)),
        "numbers.npz": npz(a=np.zeros(3)),
        "object-fields.npy": npy(np.array([(1, poison)], [("a", int), ("b", object)])),
        "huge-header.npy": huge,
        "code-in-header.npy": b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': __import__('os').mkdir('x'), 'shape': (1,)}".ljust(117) + b"\n",
        "weights.pt": torch_file(poison),
        "weights.pth": payload,
    }  # fmt: skip


def _of_tars(payload: bytes, poison: Any) -> dict[str, bytes]:
    bomb = gzip.compress(tar(("a.txt", bytes(1 << 20))))
    sparse = {"major": "1", "minor": "0", "name": "a.txt", "realsize": str(1 << 44)}
    header = {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    whole = tar(("a.txt", b"one"), ("b.txt", b"two" * 1000), ("c.txt", b"three"))
    damaged = bytearray(whole)
    damaged[1024 + 100] ^= 0xFF
    return {
        "pickle.tar": tar(("a.pkl", payload)),
        "pickle-long-name.tar": tar(("a.data.pickle", payload)),
        "torch.tar": tar(("a.pt", torch_file(poison))),
        "torch-old.tar": tar(("a.pth", payload)),
        "npy.tar": tar(("a.npy", npy(np.array([poison], object)))),
        "npz.tar": tar(("a.npz", npz(a=np.array([poison], object)))),
        "outside.tar": tar(("../../outside.txt", b"x"), ("/etc/outside.txt", b"y")),
        "symlink.tar": tar(("a.txt", b""), type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        "hardlink.tar": tar(("a.txt", b""), type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        "device.tar": tar(("a.txt", b""), type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        "sparse.tar": tar(("a.txt", b"1\n0\n".ljust(512, b"\0")), pax_headers=header),
        "deep-json.tar": tar(("a.json", b"[" * 100_000)),
        "bad-number.tar": tar(("a.cls", b"__import__('os')")),
        "bad-image.tar": tar(("a.png", payload)),
        "postscript.tar": tar(("a.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")),
        "msgpack.tar": tar(("a.mp", b"\xdd\xff\xff\xff\xff")),
        "duplicate.tar": tar(("a.txt", b"x"), ("a.txt", b"y")),
        "cut-header.tar": whole[: 1024 + 200],
        "cut-content.tar": whole[:2600],
        "cut-between.tar": whole[:1024],
        "damaged-header.tar": bytes(damaged),
        "bomb.tar.gz": bomb,
        "cut.tar.gz": bomb[: len(bomb) // 2],
        "zip.tar": zipped("a.pkl", payload),
    }


def _of_records(payload: bytes) -> dict[str, bytes]:
    good = record_of(b"\x0a\x00")
    damaged = bytearray(record_of(b"\x0a\x0b" + bytes(11)))
    damaged[15] ^= 1
    return {
        "pickle.tfrecords": record_of(payload),
        "cut.tfrecords": good + record_of(bytes(100))[:50],
        "cut-checksum.tfrecords": good[:-2],
        "damaged.tfrecords": bytes(damaged),
        "long.tfrecords": struct.pack("<Q", 1 << 62) + bytes(8),
        "endless-number.tfrecords": record_of(b"\xff" * 5000),
        "no-field.tfrecords": record_of(b"\x0a\x7f\x01"),
        "no-name.tfrecords": record_of(b"\x0a\x04\x0a\x02\x12\x00"),
    }


def _of_texts(payload: bytes) -> dict[str, bytes]:
    nested: Any = "int"
    for depth in range(3000):
        nested = {"type": "record", "name": f"r{depth}", "fields": [{"name": "a", "type": nested}]}
    sync = bytes(16)
    deep = b'{"type":"array","items":' * 30_000 + b'"int"' + b"}" * 30_000
    header = b"Obj\x01\x02\x16avro.schema" + _zigzag(len(deep)) + deep + b"\x00" + sync
    return {
        "deep.json": b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        "deep-list.json": b"[" * 200_000,
        **{f"deep-{name}.json": data for name, data in DEEP_JSON.items()},
        "tags.json": b'{"py/object": "os.system", "py/reduce": [{"py/type": "os.mkdir"}, "x"]}',
        "large-number.json": b'{"a": ' + b"9" * 10_000 + b"}",
        "surrogates.json": b'{"a": "\\ud800"}',
        "tags.yaml": b"!!python/object/apply:os.mkdir [x]\n",
        "formula.csv": b"a,b\n=cmd|' /C calc'!A0,__import__('os').mkdir('x')\n",
        "wide.csv": b",".join(b"c%d" % n for n in range(1000)) + b"\n",
        "long-cell.csv": b"a\n" + b"x" * (1 << 20),
        "quotes.csv": b'a,b\n"' + b"\n" * 100_000,
        "pickle.csv": payload,
        "pickle.json": payload,
        "pickle.avro": payload,
        "deep.avro": header,
        "pickle.orc": b"ORC" + payload,
        "bomb.json.gz": gzip.compress(b'{"a": "' + b"x" * (4 << 20) + b'"}'),
        "cut.csv.gz": gzip.compress(b"a\n" + os.urandom(10_000))[:5000],
    }


def endless_avro() -> dict[str, bytes]:
    """Avro files of a few bytes that claim to have gigabytes, or any number of values."""

    nulls = _zigzag(1 << 40) + b"\x00"
    empty = {"type": "record", "name": "e", "fields": []}
    return {
        "long-block.avro": _avro_of("string", 1, b"", 3 << 30),
        "long-text.avro": _avro_of("string", 1, _zigzag(3 << 30)),
        "no-fields.avro": _avro_of(None, 1 << 40, b""),
        "only-nulls.avro": _avro_of("null", 1 << 40, b""),
        "array-of-nulls.avro": _avro_of({"type": "array", "items": "null"}, 1, nulls),
        "array-of-empty.avro": _avro_of({"type": "array", "items": empty}, 1, nulls),
        "array-of-known.avro": _avro_of(
            [empty, {"type": "map", "values": {"type": "array", "items": "e"}}],
            1,
            b"\x02\x02\x02k" + nulls,
        ),
    }


def deep_avro() -> bytes:
    """An Avro file with a record in a record in a record …"""
    return _avro_of(["null", "r"], 1, b"\x02" * 200_000 + b"\x00")


def _avro_of(type_: Any, count: int, block: bytes, size: int | None = None) -> bytes:
    fields = [] if type_ is None else [{"name": "a", "type": type_}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    length = _zigzag(len(block) if size is None else size)
    header = b"Obj\x01\x02\x16avro.schema" + _zigzag(len(schema)) + schema + b"\x00"
    return header + bytes(16) + _zigzag(count) + length + block + bytes(16)


def _zigzag(number: int) -> bytes:
    number, parts = number << 1, bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _of_pictures(payload: bytes) -> dict[str, bytes]:
    small = image((1, 1))
    size = b"IHDR" + struct.pack(">II", 50_000, 50_000) + small[24:29]
    return {
        "bomb.png": small[:12] + size + struct.pack(">I", zlib.crc32(size)) + small[33:],
        "pickle.png": payload,
        "cut.png": image((300, 300))[:60],
        "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) run\n",
        "cut.jpg": image((64, 64), "jpeg")[:300],
    }


def hostile_files(folder: Path, marker: Path) -> list[Path]:
    """Write all of them to the folder."""
    poison = Payload(marker)
    payload = pickle.dumps(poison)
    contents: dict[str, bytes] = {}
    for make in (_of_columns, _of_records, _of_texts, _of_pictures):
        contents |= make(payload)
    for both in (_of_arrays, _of_tars):
        contents |= both(payload, poison)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]
