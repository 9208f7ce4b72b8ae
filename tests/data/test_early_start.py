"""A fork server that begins with `skate.data`, while the program imports what else it needs."""

from __future__ import annotations

import os
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import run_program

BEGIN = """
import os
import skate
import skate.data

def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
"""


def run(program: str) -> None:
    """Run it, with what tests switch off."""
    inherited = {k: v for k, v in os.environ.items() if k != "SKATE_EARLY_START"}
    command = [sys.executable, "-c", BEGIN + textwrap.dedent(program)]
    run_program(command, env=inherited, check=True)


def test_tasks_are_forked_from_what_the_import_has_announced():
    run("""
        [early] = children()

        def parent(batch):
            import sys

            known = "skate.data.sources.parquet" in sys.modules
            return {"parent": [os.getppid()], "known": [known]}

        for row in skate.data.range(2).map_batches(parent).take_all():
            assert row == {"parent": early, "known": True}, row
        assert children() == [early], "and no other server was needed"
    """)


def test_images_announce_what_decodes_them(tmp_path):
    run(f"""
        from PIL import Image

        for number in range(3):
            Image.new("L", (2, 2), number).save(f"{tmp_path}/{{number}}.jpg")
        images = skate.data.read_images({str(tmp_path)!r}, concurrency=1)
        [early] = children()

        def known(row):
            import sys

            return {{"plugins": sorted(name for name in sys.modules if "ImagePlugin" in name)}}

        for row in images.map(known).take_all():
            assert "PIL.JpegImagePlugin" in row["plugins"]
            assert "PIL.IcnsImagePlugin" not in row["plugins"], "it is for rare formats"
    """)


def test_a_first_pass_imports_what_it_uses(tmp_path):
    """Arrow's functions take as long to import as half of `skate.data`, in the driver and in what
    its tasks are forked from."""
    pq.write_table(pa.table({"x": range(9)}), tmp_path / "one.parquet")
    run(f"""
        import sys

        read = skate.data.read_parquet({str(tmp_path)!r}).map_batches(lambda batch: batch)
        assert read.count() == 9
        slow = ["pyarrow.compute", "pyarrow.dataset", "pandas"]
        assert not {{*slow}} & {{*sys.modules}}
    """)
    run("""
        import importlib, sys
        from skate.data import _early_start

        for name in _early_start._ALWAYS:
            importlib.import_module(name)
        assert not {"pyarrow.compute", "pyarrow.dataset", "pandas"} & {*sys.modules}
    """)


def test_numbers_reach_a_function_without_pandas():
    """Arrow imports it, to ask whether an array is one of its own: in each worker."""
    run("""
        skate.init(engine="inline")  # servers of workers import it when they have nothing to do

        def imported(batch):
            import sys

            assert "pandas" not in sys.modules
            return batch

        assert skate.data.range(8).map_batches(imported).map_batches(imported).count() == 8
    """)


def test_what_functions_of_rows_or_text_need_is_imported_once(tmp_path):
    """Arrow asks pandas about text, lists and values of Python: it would be in each worker."""
    (tmp_path / "one.json").write_text('{"text": "a"}\n')
    run(f"""
        def known(batch):
            import sys

            return {{"known": ["pandas" in sys.modules, "pyarrow.json" in sys.modules]}}

        def of_a_row(row):
            import sys

            return {{"known": "pandas" in sys.modules}}

        assert skate.data.range(1).map(of_a_row).take_all() == [{{"known": True}}]
        read = skate.data.read_json({str(tmp_path)!r}, lines=True)
        rows = read.map_batches(known, batch_format="pyarrow").take_all()
        assert rows == [{{"known": True}}, {{"known": True}}]
    """)
