"""What a program says of itself as a job."""

from __future__ import annotations

import os

import pytest

import skate
from skate.job_config import JobConfig


def test_its_parts_are_those_of_init() -> None:
    job = JobConfig(runtime_env={"env_vars": {"COLOUR": "blue"}}, ray_namespace="ours")
    job.set_metadata("owner", "me")
    assert job.metadata == {"owner": "me"}
    with skate.init(num_cpus=1, job_config=job):
        assert skate.get_runtime_context().namespace == "ours"
        assert skate.get(skate.remote(lambda: os.environ["COLOUR"]).remote()) == "blue"


def test_arguments_of_init_go_first() -> None:
    job = JobConfig(ray_namespace="ours")
    with skate.init(engine="inline", job_config=job, namespace="mine"):
        assert skate.get_runtime_context().namespace == "mine"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (JobConfig(jvm_options=["-Xmx1g"]), "-Xmx1g.*Java"),
        (JobConfig(code_search_path=["jars"]), "jars.*sys.path"),
        (JobConfig(default_actor_lifetime="detached"), "options.lifetime"),
    ],
)
def test_what_is_refused_here(job: JobConfig, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        skate.init(engine="inline", job_config=job)


def test_what_cannot_be_meant() -> None:
    with pytest.raises(ValueError, match="non_detached, detached; got 'for ever'"):
        JobConfig(default_actor_lifetime="for ever")
    with pytest.raises(TypeError, match="folders and jar files; got str"):
        JobConfig(code_search_path="jars")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a JobConfig; got dict"):
        skate.init(engine="inline", job_config={"ray_namespace": "ours"})
    with pytest.raises(TypeError, match="'region': 1"):
        skate.init(engine="inline", labels={"region": 1})  # type: ignore[dict-item]


def test_from_json() -> None:
    job = JobConfig.from_json({"runtime_env": {"env_vars": {"A": "1"}}, "ray_namespace": "ours"})
    assert (job.runtime_env, job.ray_namespace) == ({"env_vars": {"A": "1"}}, "ours")
