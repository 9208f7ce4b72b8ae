from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from skate.runtime_env import RuntimeEnv


def test_what_is_given_can_be_asked_for(tmp_path: Path) -> None:
    env = RuntimeEnv(env_vars={"A": "1"}, working_dir=str(tmp_path), py_modules=["module"])
    assert env.env_vars() == {"A": "1"}
    assert env.working_dir() == str(tmp_path)
    assert env.has_working_dir()
    assert env.py_modules() == ["module"]
    assert not env.has_pip()
    assert env == {"env_vars": {"A": "1"}, "working_dir": str(tmp_path), "py_modules": ["module"]}


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
    with pytest.raises(ValueError, match="pip"):
        env.set("pip", ["numpy"])


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"pip": ["numpy"]}, ValueError, "install"),
        ({"conda": "env"}, ValueError, "ray engine"),
        ({"image_uri": "image"}, ValueError, "image_uri"),
        ({"nsight": "default"}, ValueError, "nsight"),
        ({"env_var": {}}, ValueError, "env_vars"),
        ({"env_vars": {"A": 1}}, TypeError, "'A': 1"),
        ({"env_vars": ["A"]}, TypeError, "dictionary"),
        ({"working_dir": 3}, TypeError, "working_dir"),
        ({"working_dir": "no/such/directory"}, ValueError, "no/such/directory"),
        ({"working_dir": "s3://bucket/code.zip"}, ValueError, "local directory"),
        ({"py_modules": "module"}, TypeError, "list"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        RuntimeEnv(**given)
