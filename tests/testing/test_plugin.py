"""The plugin for pytest, as somebody else's project uses it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support import run_program

SOURCE = Path(__file__).parents[2] / "src"

USE = """
import os
import threading

import pytest
import skate


@skate.remote
def process():
    return os.getpid()


def test_inline(skate_inline):
    assert skate.get(process.remote()) == os.getpid()


@pytest.mark.skate_leaves_nothing
def test_local(skate_local):
    assert skate.get(process.remote()) != os.getpid()


@pytest.mark.skate_init(num_cpus=3, resources={"disk": 1})
class TestSettings:
    def test_of_the_class(self, skate_inline):
        assert skate.cluster_resources()["CPU"] == 3

    @pytest.mark.skate_init(num_cpus=5)
    def test_the_closest_wins(self, skate_local):
        assert skate.cluster_resources()["CPU"] == 5
        assert skate.cluster_resources()["disk"] == 1


def test_no_session_is_left():
    assert not skate.is_initialized()
"""

LEAVE = """
import os
import threading

import pytest
import skate
from skate.testing import leftovers

leftovers.GRACE_SECONDS = 0.1
forever = threading.Event()


@pytest.mark.skate_leaves_nothing
def test_a_session():
    skate.init(num_cpus=1)
    skate.get(skate.remote(os.getpid).remote())


def test_end():
    skate.shutdown()


def test_a_thread_without_the_marker():
    threading.Thread(target=forever.wait, name="lazy", daemon=True).start()


@pytest.mark.skate_leaves_nothing
def test_a_thread():
    threading.Thread(target=forever.wait, name="lazy", daemon=True).start()


@pytest.mark.skate_leaves_nothing
def test_surroundings(tmp_path):
    os.chdir(tmp_path)


@pytest.mark.skate_leaves_nothing
def test_nothing(tmp_path):
    (tmp_path / "file").touch()
"""

WRONG = """
import pytest
import skate


def test_two_sessions(skate_inline, skate_local):
    pass


@pytest.mark.skate_init(3)
def test_no_name(skate_inline):
    pass


@pytest.mark.skate_init(num_cpu=3)
def test_misspelt(skate_inline):
    pass
"""


FAIL = """
import skate


@skate.remote
def fail():
    raise ValueError("no such thing")


def test_that_fails(skate_local):
    assert skate.get(fail.remote()) == 0
"""


def pytest_says(program: str, folder: Path, *options: str) -> str:
    """Run the tests of a program in a project of its own; return what pytest prints."""
    (folder / "test_program.py").write_text(program)
    arguments = ["-p", "skate.testing.plugin", "-p", "no:cacheprovider", "--strict-markers", "-q"]
    done = run_program(
        [sys.executable, "-m", "pytest", *arguments, "--rootdir", folder, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    return done.stdout


def test_the_fixtures_begin_and_end_a_session(tmp_path):
    assert "5 passed" in pytest_says(USE, tmp_path)


def test_the_marker_finds_what_is_left_behind(tmp_path):
    said = pytest_says(LEAVE, tmp_path)
    assert "6 passed, 3 errors" in said
    assert "processes: " in said
    assert "threads: lazy" in said
    assert "surroundings: cwd=" in said


def test_the_setting_is_for_all_tests(tmp_path):
    said = pytest_says(LEAVE, tmp_path, "-o", "skate_leaves_nothing=true")
    assert "4 errors" in said


def test_a_failure_shows_the_line_of_the_test_and_no_source_of_skate(tmp_path):
    said = pytest_says(FAIL, tmp_path)
    assert ">       assert skate.get(fail.remote()) == 0" in said
    assert "no such thing" in said
    assert "def get(" not in said


def test_mistakes(tmp_path):
    said = pytest_says(WRONG, tmp_path)
    assert "3 errors" in said
    assert "@pytest.mark.skate_init: init() has no parameter 'num_cpu'" in said
    assert "plugin.py" not in said
    assert "ask for one of the fixtures only" in said
    assert "skate_init takes keyword arguments only; got (3,)" in said
