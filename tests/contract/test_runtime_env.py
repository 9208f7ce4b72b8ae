"""Surroundings of a task: environment variables, working directory, modules."""

import os
import zipfile
from importlib import import_module
from typing import Any

import pytest

import skate
from tests.support import local_only, parallel

pytestmark = pytest.mark.usefixtures("engine")


whole_job_only = pytest.mark.differs_from_ray("Ray takes directories for a whole job only")


@skate.remote
def variable(name):
    return os.environ.get(name)


def test_environment_variables_of_a_task():
    env = {"env_vars": {"SKATE_COLOUR": "blue"}}
    assert skate.get(variable.options(runtime_env=env).remote("SKATE_COLOUR")) == "blue"
    assert skate.get(variable.remote("SKATE_COLOUR")) is None
    assert "SKATE_COLOUR" not in os.environ


def test_environment_variables_may_refer_to_others():
    # Not HOME: a worker of Ray's looks for its token there.
    env = {"env_vars": {"PATH": "${PATH}:/inner", "SKATE_PLACE": "$PATH:${SKATE_NO_SUCH}:$$"}}
    task = variable.options(runtime_env=env)
    path = skate.get(task.remote("PATH"), timeout=60)
    assert path.endswith(":/inner")
    assert skate.get(task.remote("SKATE_PLACE"), timeout=60) == f"{path}::$$"
    assert not os.environ["PATH"].endswith(":/inner")


def test_references_to_variables_are_followed_once():
    @skate.remote(runtime_env={"env_vars": {"PATH": "${PATH}:/inner"}})
    def parent():
        return skate.get(variable.remote("PATH"), timeout=60)

    assert skate.get(parent.remote(), timeout=60).count(":/inner") == 1


def test_environment_variables_of_an_actor():
    @skate.remote(runtime_env={"env_vars": {"SKATE_COLOUR": "red"}})
    class Actor:
        def __init__(self):
            self.first = os.environ["SKATE_COLOUR"]

        def colour(self):
            return self.first, os.environ["SKATE_COLOUR"]

    assert skate.get(Actor.remote().colour.remote()) == ("red", "red")
    assert "SKATE_COLOUR" not in os.environ


def test_children_inherit_the_environment():
    @skate.remote(runtime_env={"env_vars": {"SKATE_COLOUR": "green"}})
    def parent():
        return skate.get(variable.remote("SKATE_COLOUR"))

    assert skate.get(parent.remote()) == "green"


@pytest.mark.init(runtime_env={"env_vars": {"SKATE_JOB": "whole", "SKATE_COLOUR": "grey"}})
def test_the_environment_of_the_whole_job():
    assert skate.get(variable.remote("SKATE_JOB")) == "whole"
    env = {"env_vars": {"SKATE_COLOUR": "blue"}}
    task = variable.options(runtime_env=env)
    assert skate.get([task.remote("SKATE_JOB"), task.remote("SKATE_COLOUR")]) == ["whole", "blue"]


@whole_job_only
def test_the_working_directory(tmp_path):
    (tmp_path / "data.txt").write_text("from the working directory")

    @skate.remote(runtime_env={"working_dir": str(tmp_path)})
    def read():
        with open("data.txt") as file:
            return file.read()

    here = os.getcwd()
    assert skate.get(read.remote()) == "from the working directory"
    assert os.getcwd() == here


@whole_job_only
def test_modules_of_the_working_directory_can_be_imported(tmp_path):
    (tmp_path / "skate_neighbour.py").write_text("VALUE = 'neighbour'")

    @skate.remote(runtime_env={"working_dir": str(tmp_path)})
    def use():
        import skate_neighbour

        return skate_neighbour.VALUE

    assert skate.get(use.remote()) == "neighbour"


@whole_job_only
def test_modules_can_be_added(tmp_path):
    package = tmp_path / "skate_extra"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 'extra'")

    @skate.remote(runtime_env={"py_modules": [str(package)]})
    def use():
        import skate_extra

        return skate_extra.VALUE

    assert skate.get(use.remote()) == "extra"


@local_only
@pytest.mark.parametrize(
    ("field", "suffix", "uri", "folder"),
    [
        ("working_dir", ".zip", False, ""),
        ("working_dir", ".zip", True, "only/"),
        ("py_modules", ".zip", False, ""),
        ("py_modules", ".whl", False, ""),
    ],
)
def test_archives_in_the_place_of_folders(tmp_path, field, suffix, uri, folder):
    archive = tmp_path / f"code{suffix}"

    def write(value):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(f"{folder}skate_zipped/__init__.py", f"VALUE = {value!r}")
            file.writestr(f"{folder}skate_zipped/note.txt", value)

    def value():
        skate_zipped: Any = import_module("skate_zipped")
        beside = os.path.join(os.path.dirname(skate_zipped.__file__), "note.txt")
        with open(beside) as file:
            return skate_zipped.VALUE, file.read(), os.path.exists("skate_zipped")

    place = f"file://{archive}" if uri else str(archive)
    env = {field: place if field == "working_dir" else [place]}
    for text in ("first", "the second, longer"):
        write(text)
        found = skate.get(skate.remote(value).options(runtime_env=env).remote())
        assert found == (text, text, field == "working_dir")


@local_only
@pytest.mark.parametrize("damage", ["content", "encrypted"])
def test_an_archive_that_cannot_be_unpacked_is_named(tmp_path, damage):
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("module.py", "VALUE = 1\n" * 100)
    data = bytearray(archive.read_bytes())
    if damage == "content":
        start = 30 + len("module.py")
        data[start : start + 8] = b"\xff" * 8
    else:  # so do the flags of the file and of the directory say
        data[6] |= 1
        data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    with pytest.raises(ValueError, match=r"code\.zip cannot be unpacked"):
        skate.remote(abs).options(runtime_env={"working_dir": str(archive)}).remote(1)


def test_a_runtime_env_object():
    from skate.runtime_env import RuntimeEnv

    env = RuntimeEnv(env_vars={"SKATE_COLOUR": "violet"})
    assert skate.get(variable.options(runtime_env=env).remote("SKATE_COLOUR")) == "violet"


@pytest.mark.parametrize(
    "env", [{"env_vars": {"A": 1}}, {"env_vars": ["A"]}, {"working_dir": 5}, "text"], ids=str
)
def test_environments_that_make_no_sense_are_refused(env):
    with pytest.raises((TypeError, ValueError)):
        variable.options(runtime_env=env).remote("A")


def test_a_task_knows_its_environment():
    @skate.remote(runtime_env={"env_vars": {"SKATE_COLOUR": "cyan"}})
    def ask():
        return dict(skate.get_runtime_context().runtime_env)["env_vars"]

    assert skate.get(ask.remote()) == {"SKATE_COLOUR": "cyan"}


def test_a_task_runs_in_the_directory_of_the_driver():
    @skate.remote
    def where():
        return os.getcwd()

    assert skate.get(where.remote()) == os.getcwd()


@parallel
@whole_job_only
def test_errors_to_retry_may_be_known_to_the_worker_only(tmp_path, tally):
    (tmp_path / "skate_private.py").write_text("class PrivateError(Exception): pass")

    @skate.remote
    def second_time():
        import skate_private

        if tally.add() == 1:
            raise skate_private.PrivateError
        return "second time"

    @skate.remote(runtime_env={"working_dir": str(tmp_path)})
    def outer():
        from skate_private import PrivateError

        return skate.get(second_time.options(retry_exceptions=[PrivateError]).remote(), timeout=60)

    assert skate.get(outer.remote(), timeout=60) == "second time"
    assert skate.get(variable.remote("HOME"), timeout=60) == os.environ.get("HOME")


def _hook():
    """A function that travels by value: Ray calls it before it knows the driver's modules."""

    def leave_a_mark():
        os.environ["SKATE_SET_UP"] = os.environ.get("SKATE_SET_UP", "") + "x"

    return leave_a_mark


@pytest.mark.init(runtime_env={"worker_process_setup_hook": _hook()})
def test_each_worker_calls_the_hook_before_anything_else():
    @skate.remote
    class Actor:
        def __init__(self):
            self.mark = os.environ["SKATE_SET_UP"]

        def seen(self):
            return self.mark

    assert skate.get(variable.remote("SKATE_SET_UP")) == "x"
    assert skate.get(variable.remote("SKATE_SET_UP")) == "x"
    assert skate.get(Actor.remote().seen.remote()) == "x"
    os.environ.pop("SKATE_SET_UP", None)  # the inline engine has called it here


@pytest.mark.init(labels={"region": "here"})
@pytest.mark.engines("inline", "local")
def test_the_labels_of_this_machine():
    assert skate.nodes()[0]["Labels"]["region"] == "here"
    labels = skate.remote(lambda: skate.get_runtime_context().get_node_labels())
    assert skate.get(labels.remote())["region"] == "here"
