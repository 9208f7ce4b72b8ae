from __future__ import annotations

import os
import pickle
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.exceptions import RuntimeEnvSetupError, SkateError
from skate.runtime_env import RuntimeEnv, RuntimeEnvConfig


def test_what_is_given_can_be_asked_for(tmp_path: Path) -> None:
    env = RuntimeEnv(env_vars={"A": "1"}, working_dir=str(tmp_path), py_modules=["tests"])
    assert env.env_vars() == {"A": "1"}
    assert env.working_dir() == str(tmp_path)
    assert env.has_working_dir()
    assert env.py_modules() == ["tests"]
    assert not env.has_pip()
    assert env == {"env_vars": {"A": "1"}, "working_dir": str(tmp_path), "py_modules": ["tests"]}


def test_it_travels() -> None:
    env = RuntimeEnv(env_vars={"A": "1"}, config={"setup_timeout_seconds": 5})
    assert pickle.loads(pickle.dumps(env)) == env
    assert RuntimeEnv.deserialize(env.serialize()) == env
    assert env.to_dict() == dict(env)


def test_fields_are_checked_when_set() -> None:
    env = RuntimeEnv()
    env.set("env_vars", {"A": "1"})
    assert env.get("env_vars") == {"A": "1"}
    env.set("env_vars", None)
    assert env == {}
    with pytest.raises(TypeError, match="dictionary"):
        env.set("env_vars", ["A"])


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"env_var": {}}, ValueError, "env_vars"),
        ({"env_vars": {"A": 1}}, TypeError, "type int for 'A'"),
        ({"env_vars": ["A"]}, TypeError, "dictionary"),
        ({"working_dir": 3}, TypeError, "working_dir"),
        ({"working_dir": "no/such/directory"}, ValueError, "no/such/directory"),
        ({"py_modules": "module"}, TypeError, "list"),
        ({"py_modules": [10]}, TypeError, "got 10"),
        ({"py_modules": ["no/such/module"]}, ValueError, "no/such/module"),
        ({"py_modules": [__file__.removesuffix(".py") + ".whl"]}, ValueError, "is no wheel"),
        ({"py_modules": [f"file://{__file__}"]}, ValueError, "no zip file"),
        ({"working_dir": __file__}, ValueError, "no zip file"),
        ({"working_dir": f"file://{os.path.dirname(__file__)}"}, ValueError, "no zip file"),
        ({"excludes": "*.md"}, TypeError, "excludes"),
        ({"config": 3}, TypeError, "config"),
        ({"config": {"setup_timeout_seconds": 0}}, ValueError, "setup_timeout_seconds"),
        ({"config": {"setup_timeout_seconds": "5"}}, TypeError, "setup_timeout_seconds"),
        ({"config": {"eager_install": 1}}, TypeError, "eager_install"),
        ({"worker_process_setup_hook": 3}, TypeError, "module.name"),
        ({"pip": 3}, TypeError, "list of strings"),
        ({"pip": ["a", 3]}, TypeError, "list of strings"),
        ({"pip": "no/such/file.txt"}, ValueError, "no/such/file.txt"),
        ({"pip": {"pip_check": True}}, ValueError, "packages"),
        ({"pip": {"packages": ["a"], "uv_check": True}}, ValueError, "pip_check"),
        ({"pip": {"packages": ["a"], "pip_check": "yes"}}, TypeError, "pip_check"),
        ({"uv": {"packages": ["a"], "uv_version": 3}}, TypeError, "uv_version"),
        ({"uv": {"packages": ["a"], "uv_pip_install_options": "-q"}}, TypeError, "options"),
        ({"conda": 3}, TypeError, "conda"),
        ({"conda": "no/such/file.yml"}, ValueError, "no/such/file.yml"),
        ({"py_executable": 3}, TypeError, "py_executable"),
        ({"pip": ["a"], "conda": "b"}, ValueError, "pip and conda"),
        ({"image_uri": "box", "pip": ["a"]}, ValueError, r"image_uri.* together with \['pip'\]"),
        ({"container": {"image": "box"}, "conda": "b"}, ValueError, "container.* together with"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        RuntimeEnv(**given)


def by_or(env: RuntimeEnv, given: dict[str, Any]) -> None:
    env |= given


CHANGES = {
    "update": lambda env, given: env.update(given),
    "update of pairs": lambda env, given: env.update(list(given.items())),
    "update by name": lambda env, given: env.update(**given),
    "or": by_or,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_several_fields_are_checked_when_set(change: Any) -> None:
    env = RuntimeEnv(env_vars={"A": "1"}, pip=["a"])
    same = env
    for given, error, words in (
        ({"env_vars": {"B": "2"}, "pypi": ["a"]}, ValueError, "pypi"),
        ({"env_vars": {"B": 2}}, TypeError, "type int for 'B'"),
        ({"env_vars": {"B": "2"}, "conda": "b"}, ValueError, "pip and conda"),
        ({"image_uri": "box"}, ValueError, "image_uri.* together with"),
    ):
        with pytest.raises(error, match=words):
            change(env, given)
        assert env == {"env_vars": {"A": "1"}, "pip": ["a"]}
    change(env, {"pip": None, "conda": "b"})
    assert env is same
    assert env == {"env_vars": {"A": "1"}, "conda": "b"}


def test_a_default_is_checked_too() -> None:
    env = RuntimeEnv(env_vars={"A": "1"})
    assert env.setdefault("env_vars", {"A": 1}) == {"A": "1"}
    with pytest.raises(TypeError, match="working_dir"):
        env.setdefault("working_dir", 3)
    assert "working_dir" not in env


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pip": ["no-such-package"]}, "local or ray engine"),
        ({"pip": {"packages": ["numpy", "numpy<1"]}}, "install"),
        ({"uv": ["-e ."]}, "install"),
        ({"py_executable": "uv run"}, "local or ray engine"),
        ({"conda": "env"}, "ray engine"),
        ({"image_uri": "image"}, "image_uri"),
        ({"nsight": "default"}, "nsight"),
        ({"working_dir": "s3://bucket/code.zip"}, "local directory"),
    ],
)
@pytest.mark.parametrize("where", ["init", "remote"])
def test_what_this_process_cannot_give_by_itself(
    given: dict[str, Any], words: str, where: str
) -> None:
    env = RuntimeEnv(**given)
    if where == "init":
        with pytest.raises(ValueError, match=words):
            skate.init(engine="inline", runtime_env=env)
        return
    with skate.init(engine="inline"), pytest.raises(ValueError, match=words):
        skate.remote(print).options(runtime_env=env).remote()


def test_how_it_is_set_up() -> None:
    env = RuntimeEnv(config=RuntimeEnvConfig(setup_timeout_seconds=5))
    assert env.get("config", data_class=RuntimeEnvConfig)["setup_timeout_seconds"] == 5
    with pytest.raises(ValueError, match="-7"):
        RuntimeEnvConfig(setup_timeout_seconds=-7)


def test_what_is_there_already_is_not_refused(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("# for arrays\nnumpy>=1.20  # any\n\n")
    for given in (
        {"pip": ["numpy", "cloudpickle>=1"]},
        {"pip": str(requirements)},
        {"pip": ["skate", "no-such-package; python_version < '3'", "dask[array]>=2024"]},
        {"uv": {"packages": ["numpy"], "uv_version": "==0.4"}},
        {"py_executable": sys.executable},
        {"working_dir": str(tmp_path), "excludes": ["*.csv"]},
    ):
        with skate.init(engine="inline", runtime_env=given):
            assert skate.get(skate.remote(lambda: 1).remote()) == 1


class Box:
    def value(self) -> int:
        return 1


def _fails() -> None:
    raise FileNotFoundError("no such model")


def test_what_runs_where_the_hook_failed_fails() -> None:
    with skate.init(num_cpus=1, runtime_env={"worker_process_setup_hook": _fails}):
        with pytest.raises(RuntimeEnvSetupError, match="FileNotFoundError: no such model"):
            skate.get(skate.remote(lambda: 1).remote())
        words = "Failed to execute the setup hook method.*no such model"
        with pytest.raises(SkateError, match=words):
            skate.get(skate.remote(Box).remote().value.remote())


def test_a_hook_that_cannot_be_sent_is_refused_at_once() -> None:
    lock = threading.Lock()
    env = {"worker_process_setup_hook": lambda: lock.acquire()}
    with pytest.raises(RuntimeEnvSetupError, match=r"Failed to export the setup function\."):
        skate.init(num_cpus=1, runtime_env=env)
    assert not skate.is_initialized()


def test_a_hook_by_its_path_and_one_of_a_task_alone(tmp_path: Path) -> None:
    (tmp_path / "setting_up.py").write_text("import os\ndef mark(): os.environ['MARK'] = '1'\n")
    env = {"worker_process_setup_hook": "setting_up.mark", "working_dir": str(tmp_path)}
    marked = skate.remote(lambda: os.environ.get("MARK"))
    with skate.init(num_cpus=1):
        assert skate.get(marked.options(runtime_env=env).remote()) == "1"
        assert skate.get(marked.remote()) is None


def test_hooks_are_shown_by_their_name() -> None:
    env = RuntimeEnv(worker_process_setup_hook=_fails)
    assert env.serialize() == '{"worker_process_setup_hook": "_fails"}'


def test_a_field_is_checked_however_it_is_set() -> None:
    env = RuntimeEnv(pip=["numpy"], env_vars={"A": "b"})
    with pytest.raises(TypeError, match="list of strings"):
        env["pip"] = 3
    with pytest.raises(TypeError, match="strings"):
        env.set("env_vars", {"A": 1})
    env["pip"] = ["scipy"]
    env.set("env_vars", None)
    assert env == {"pip": ["scipy"]}
    beside = RuntimeEnv(image_uri="box", env_vars={"A": "b"}, config={"eager_install": False})
    assert beside.image_uri() == "box"


def test_what_an_environment_says_of_itself() -> None:
    env = RuntimeEnv(
        pip=["numpy"],
        conda={"dependencies": ["pip"]},
        container={"image": "box", "run_options": ["--fast"]},
        py_executable="python3 -X dev",
        image_uri="box:1",
        java_jars=["a.jar"],
        _validate=False,
    )
    assert env.pip_config() == ["numpy"]
    assert env.uv_config() == {}
    assert env.virtualenv_name() is None
    assert env.conda_env_name() is None
    assert env.conda_config() == '{"dependencies": ["pip"]}'
    assert (env.py_container_image(), env.py_container_worker_path()) == ("box", "")
    assert env.py_container_run_options() == ["--fast"]
    assert env.py_executable() == "python3 -X dev"
    assert (env.image_uri(), env.java_jars()) == ("box:1", ["a.jar"])
    assert (env.nsight(), env.rocprof_sys()) == (None, None)
    assert env.plugins() == []
    assert RuntimeEnv(conda="base").conda_env_name() == "base"
    assert RuntimeEnv(_validate=False, mine=1).plugins() == [("mine", 1)]
    assert RuntimeEnv().py_container_image() is None
    with pytest.raises(ValueError, match="mine"):
        env.get_extension("mine")


def test_the_inline_engine_unpacks_no_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as file:
        file.writestr("skate_zipped.py", "")
    with pytest.raises(ValueError, match="Unpack it and give the folder"):
        skate.init(engine="inline", runtime_env={"working_dir": str(tmp_path / "code.zip")})
    assert not skate.is_initialized()


def test_a_pipe_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(ValueError, match="no zip file"):
        RuntimeEnv(working_dir=str(tmp_path / "pipe.zip"))
