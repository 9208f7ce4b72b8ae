"""Workers with packages of their own: environments are built once, side by side, or not at all."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import skate
from skate._core.requirements import Requirements, all_installed
from skate.engine.local.environment_folders import (
    EnvironmentFolder,
    fingerprint,
    sweep_environments,
)
from skate.engine.local.hub import environments
from skate.exceptions import RuntimeEnvSetupError
from tests.local.wheels import make_wheel
from tests.support import PATIENCE, Program, eventually, run_program


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Wheels of two versions, no index, and a cache that the tests of this module share."""
    folder = tmp_path_factory.mktemp("environments")
    for version in ("1.0", "2.0"):
        make_wheel(folder / "wheels", "skate_demo", version)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "wheels"))
        patch.setenv("UV_NO_INDEX", "1")
        patch.setenv("UV_FIND_LINKS", str(folder / "wheels"))
        yield folder


@pytest.fixture
def session(cache: Path) -> Iterator[Path]:
    with skate.init(num_cpus=2):
        yield cache


@skate.remote
def demo() -> tuple[str, str]:
    import skate_demo  # type: ignore[import-not-found]

    return skate_demo.VERSION, sys.prefix


def built(cache: Path) -> list[str]:
    root = cache / "cache/skate/environments"
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.exists() else []


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=5) as server:
        yield server.getsockname()[1]


# -- what works -----------------------------------------------------------------------------------


def test_two_versions_run_side_by_side(session: Path) -> None:
    @skate.remote
    class Actor:
        def __init__(self) -> None:
            import numpy  # the driver's
            import skate_demo

            self.found = skate_demo.VERSION, numpy.__file__, os.environ["VIRTUAL_ENV"]

        def get(self) -> Any:
            return self.found

    old, new = ({"pip": [f"skate_demo=={version}"]} for version in ("1.0", "2.0"))
    both = [demo.options(runtime_env=old).remote(), demo.options(runtime_env=new).remote()]
    (first, place), (second, other) = skate.get(both, timeout=PATIENCE * 2)
    assert (first, second) == ("1.0", "2.0")
    assert place != other
    actor = Actor.options(runtime_env=old).remote()
    import numpy

    assert skate.get(actor.get.remote(), timeout=PATIENCE) == ("1.0", numpy.__file__, place)
    with pytest.raises(ModuleNotFoundError):
        skate.get(demo.remote())
    assert len(built(session)) == 2


def test_it_is_built_once_and_goes_with_all_other_keys(session: Path, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("skate_demo==1.0  # the old one\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/neighbour.py").write_text(
        "def mark():\n  import os; os.environ['M'] = 'x'\n"
    )
    (tmp_path / "work/pip.py").write_text("raise SystemExit('a module of the user')")
    (tmp_path / "added").mkdir()
    (tmp_path / "added/__init__.py").write_text("")

    @skate.remote
    def look() -> Any:
        import added  # type: ignore[import-not-found]
        import skate_demo

        child = skate.get(demo.remote(), timeout=PATIENCE)
        inside = skate.get_runtime_context().runtime_env
        assert added
        return skate_demo.VERSION, os.getcwd(), os.environ["M"], child[0], dict(inside)

    env = {
        "pip": str(tmp_path / "requirements.txt"),
        "env_vars": {"COLOUR": "blue"},
        "working_dir": str(tmp_path / "work"),
        "py_modules": [str(tmp_path / "added")],
        "worker_process_setup_hook": "neighbour.mark",
    }
    version, where, mark, child, shown = skate.get(
        look.options(runtime_env=env).remote(), timeout=PATIENCE * 2
    )
    assert (version, where, mark, child) == ("1.0", str(tmp_path / "work"), "x", "1.0")
    assert shown["pip"] == env["pip"]
    before = built(session)
    again = look.options(runtime_env={**env, "env_vars": {}}).remote()
    assert skate.get(again, timeout=PATIENCE)[0] == "1.0"
    assert built(session) == before


def test_files_in_the_working_directory(session: Path, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r more.txt\n")
    (tmp_path / "more.txt").write_text("skate_demo==1.0\n")
    env: dict[str, Any] = {
        "working_dir": str(tmp_path),
        "uv": ["-r ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/requirements.txt"],
    }
    assert skate.get(demo.options(runtime_env=env).remote(), timeout=PATIENCE * 2)[0] == "1.0"
    before = built(session)
    (tmp_path / "more.txt").write_text("skate_demo==2.0\n")  # another environment from now on
    env = {**env, "env_vars": {"NEW": "1"}}
    assert skate.get(demo.options(runtime_env=env).remote(), timeout=PATIENCE * 2)[0] == "2.0"
    assert len(built(session)) == len(before) + 1


def test_for_the_whole_session_from_a_wheel_with_uv(cache: Path) -> None:
    wheel = cache / "wheels/skate_demo-2.0-py3-none-any.whl"
    with skate.init(num_cpus=1, runtime_env={"uv": {"packages": [str(wheel)], "uv_check": False}}):
        assert skate.get(demo.remote(), timeout=PATIENCE * 2)[0] == "2.0"
        # In the place of the session's, not beside it.
        own = demo.options(runtime_env={"pip": ["skate_demo==1.0"]})
        assert skate.get(own.remote(), timeout=PATIENCE)[0] == "1.0"


def test_the_version_of_pip_that_is_asked_for(session: Path) -> None:
    """One that installs but one thing, and shows so that it was called."""
    source = """
        import pathlib, sys, sysconfig

        if sys.argv[1] == "install":
            place = pathlib.Path(sysconfig.get_path("purelib"), "skate_demo.py")
            place.write_text("VERSION = 'by pip 99'")
    """
    make_wheel(session / "wheels", "pip", "99.0", textwrap.dedent(source))
    env = {"pip": {"packages": ["skate_demo"], "pip_version": "==99.0", "pip_check": True}}
    found = skate.get(demo.options(runtime_env=env).remote(), timeout=PATIENCE)
    assert found[0] == "by pip 99"


def test_programs_that_a_worker_starts_see_the_same(session: Path) -> None:
    @skate.remote(runtime_env={"pip": ["skate_demo==1.0"]})
    def run() -> str:
        code = "import skate_demo, cloudpickle; print(skate_demo.VERSION)"
        return subprocess.run(
            ["python", "-c", code], capture_output=True, text=True, check=True, cwd="/"
        ).stdout

    assert skate.get(run.remote(), timeout=PATIENCE * 2) == "1.0\n"


def test_another_interpreter(session: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    run_program([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    env = {"py_executable": str(folder / "bin/python")}
    prefix = skate.remote(lambda: sys.prefix)
    assert skate.get(prefix.options(runtime_env=env).remote(), timeout=PATIENCE) == str(folder)


def test_conda_is_asked_where_it_is(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that does what conda would: make the environment where it is told to."""
    conda = tmp_path / "conda"
    conda.write_text(f"#!/bin/sh\nexec {sys.executable} -m venv --without-pip $4\n")
    conda.chmod(0o755)
    monkeypatch.setenv("CONDA_EXE", str(conda))
    env = {"conda": {"dependencies": ["python"]}}
    prefix = skate.remote(lambda: sys.prefix).options(runtime_env=env)
    where = skate.get(prefix.remote(), timeout=PATIENCE)
    assert os.path.basename(where) in built(session)


# -- what does not --------------------------------------------------------------------------------


def test_a_failure_is_the_error_of_what_was_to_run(session: Path) -> None:
    @skate.remote(max_restarts=-1)
    class Actor:
        def get(self) -> int:
            return 1

    before = built(session)
    env = {"pip": ["skate_demo==3.0"]}
    with pytest.raises(RuntimeEnvSetupError, match="No matching distribution found") as caught:
        skate.get(demo.options(runtime_env=env).remote(), timeout=PATIENCE)
    assert "skate_demo==3.0" in str(caught.value)
    actor = Actor.options(runtime_env=env).remote()
    with pytest.raises(RuntimeEnvSetupError, match="No matching distribution"):
        skate.get(actor.get.remote(), timeout=PATIENCE)
    assert built(session) == before
    assert skate.get(skate.remote(lambda: 5).remote()) == 5


def test_conda_where_there_is_none(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDA_EXE", raising=False)
    with pytest.raises(RuntimeEnvSetupError, match=r"install it, or .* runtime_env\['pip'\]"):
        skate.get(demo.options(runtime_env={"conda": "none"}).remote(), timeout=PATIENCE)


def test_what_a_builder_did_not_expect_is_told(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conda = tmp_path / "conda"
    conda.write_text("#!/bin/sh\necho this is no JSON\n")
    conda.chmod(0o755)
    monkeypatch.setenv("CONDA_EXE", str(conda))
    with pytest.raises(RuntimeEnvSetupError, match=r"(?s)JSONDecodeError: .*_conda_folder"):
        skate.get(demo.options(runtime_env={"conda": "other"}).remote(), timeout=PATIENCE)


def test_requirements_that_include_themselves(session: Path, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"skate_demo==1.0\n-r {file}\n")
    assert not all_installed([f"-r {file}"])
    with pytest.raises(RuntimeEnvSetupError, match="recursi"):
        skate.get(demo.options(runtime_env={"pip": str(file)}).remote(), timeout=PATIENCE)


def test_requirements_that_include_what_is_not_there(session: Path, tmp_path: Path) -> None:
    env = {"pip": [f"-r {tmp_path / 'none.txt'}"]}
    with pytest.raises(RuntimeEnvSetupError, match=r"none\.txt"):
        skate.get(demo.options(runtime_env=env).remote(), timeout=PATIENCE)


def test_any_change_in_a_folder_is_another_environment(tmp_path: Path) -> None:
    def name() -> str:
        return fingerprint(Requirements("pip", (f"{tmp_path}/package",)), (), str(tmp_path))

    package = tmp_path / "package"
    package.mkdir()
    for file in ("a.py", "b.py"):
        (package / file).write_text("1")
    (package / "leads nowhere").symlink_to("nowhere")
    os.utime(package / "a.py", (2e9, 2e9))  # newer than all the others, whatever happens to them
    names = [name()]
    (package / "b.py").write_text("other")
    names.append(name())
    (package / "b.py").rename(package / "c.py")
    names.append(name())
    (package / "c.py").unlink()
    names.append(name())
    assert len(set(names)) == 4
    assert name() == names[-1]


def test_failures_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "_FAILURE_SECONDS", 0.0)
    known = environments.Environments(cast(Any, None), cast(Any, None))
    for number in range(5):
        wanted = environments.WantedEnvironment(str(number), Requirements("pip", ("none",)))
        assert "because" in str(known._fail(wanted, "because"))
    assert len(known._failed) == 1


def test_what_takes_too_long_is_ended(session: Path, silent_port: int) -> None:
    env = {
        "pip": [f"slow @ http://127.0.0.1:{silent_port}/slow-1-py3-none-any.whl"],
        "config": {"setup_timeout_seconds": 1},
    }
    with pytest.raises(RuntimeEnvSetupError, match="setup_timeout_seconds=1"):
        skate.get(demo.options(runtime_env=env).remote(), timeout=PATIENCE)


def test_building_ends_with_the_driver(cache: Path, silent_port: int, tmp_path: Path) -> None:
    """Killed in the middle, it leaves no process, and nothing that would be used."""
    before = built(cache)
    package = f"slow @ http://127.0.0.1:{silent_port}/slow-2-py3-none-any.whl"
    program = f"""
        import skate
        skate.init(num_cpus=1, runtime_env={{"pip": [{package!r}]}})
        skate.get(skate.remote(print).remote())
    """
    driver = Program([sys.executable, "-c", textwrap.dedent(program)])
    try:
        eventually(lambda: set(built(cache)) - set(before))
        (name,) = set(built(cache)) - set(before)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    folder = EnvironmentFolder(name, str(cache / "cache/skate/environments"))
    assert folder.use() is None

    def is_swept() -> bool:
        sweep_environments(str(cache / "cache/skate/environments"))
        return name not in built(cache)

    eventually(is_swept)  # once its builder has noticed


def test_the_session_ends_while_it_is_built(cache: Path, silent_port: int) -> None:
    env = {"pip": [f"slow @ http://127.0.0.1:{silent_port}/slow-3-py3-none-any.whl"]}
    with skate.init(num_cpus=1):
        demo.options(runtime_env=env).remote()


# -- folders --------------------------------------------------------------------------------------


def test_what_a_killed_builder_left_is_never_used(tmp_path: Path) -> None:
    folder = EnvironmentFolder("name", str(tmp_path))
    pid = os.fork()
    if pid == 0:
        with folder.building():
            os.mkdir(folder.path)
            Path(folder.path, "half").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert os.listdir(folder.path) == ["half"]
    assert folder.use() is None
    with folder.building() as needed:
        assert needed
        assert not os.path.exists(folder.path)
        os.mkdir(folder.path)
        folder.complete("/a/python")
    assert folder.interpreter == "/a/python"
    with folder.building() as needed:
        assert not needed


def test_what_is_in_use_is_not_removed(tmp_path: Path) -> None:
    folder = EnvironmentFolder("name", str(tmp_path))
    with folder.building():
        os.mkdir(folder.path)
        folder.complete("/a/python")
    held = folder.use()
    assert held is not None
    mark = Path(folder.path, "skate-complete.json")
    os.utime(mark, (0, 0))
    sweep_environments(str(tmp_path))
    assert folder.interpreter == "/a/python"
    os.close(held)
    sweep_environments(str(tmp_path))
    assert not os.path.exists(folder.path)


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="XDG_CACHE_HOME"):
        EnvironmentFolder("name", str(tmp_path)).use()


@pytest.mark.parametrize("which", ["cache", "cache/skate"])
@pytest.mark.parametrize("how", ["theirs", "open", "a link of theirs"])
def test_a_cache_in_which_others_can_put_another_folder_is_refused(
    tmp_path: Path, which: str, how: str
) -> None:
    """Ours today, theirs when the interpreter is started."""
    root, above = tmp_path / "cache/skate/environments", tmp_path / which
    root.mkdir(mode=0o700, parents=True)
    if how == "open":
        above.chmod(0o777)
    elif os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    elif how == "theirs":
        os.chown(above, 54321, -1)
    else:
        above.rename(tmp_path / "elsewhere")
        above.symlink_to(tmp_path / "elsewhere")
        os.lchown(above, 54321, -1)
    with pytest.raises(PermissionError, match=rf"{re.escape(str(above))} .*XDG_CACHE_HOME"):
        EnvironmentFolder("name", str(root)).use()
    if how == "open":
        above.chmod(0o1777)
        assert EnvironmentFolder("name", str(root)).use() is None


def test_a_start_that_fails_while_it_prepares_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    """Not even with an environment under way: neither at a fork nor at the end of the program
    does anybody look for the engine that never was."""
    program = """
        import atexit, os, resource, sys
        import psutil
        import skate
        from skate.engine.local.hub.plans import Planner

        prepare = Planner.prepare_environment
        def fails(planner):
            prepare(planner)
            raise OSError("prepared, and then this")
        Planner.prepare_environment = fails

        before = os.listdir("/proc/self/fd"), resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            skate.init(num_cpus=1, runtime_env={"pip": ["skate_demo==3.0"]})
        except OSError as error:
            assert "and then this" in str(error)
        else:
            raise AssertionError("it started")
        assert (os.listdir("/proc/self/fd"), resource.getrlimit(resource.RLIMIT_NOFILE)) == before
        assert psutil.Process().children(recursive=True) == []
        mine = [open(os.devnull) for _ in range(40)]
        child = os.fork()
        if not child:
            for file in mine:
                os.fstat(file.fileno())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        atexit._run_exitfuncs()
        for file in mine:
            os.fstat(file.fileno())
        print("whole")
    """
    done = run_program([sys.executable, "-c", textwrap.dedent(program)])
    assert (done.returncode, done.stdout, done.stderr) == (0, "whole\n", "")
