"""What replicas log, and where."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skate import serve
from skate.serve.schema import LoggingConfig
from tests.support import eventually


@serve.deployment
class Logs:
    def __call__(self, line: str) -> str:
        logging.getLogger("ray.serve").debug("quiet %s", line)
        logging.getLogger("ray.serve").info("loud %s", line, extra={"color": "red"})
        return serve.get_replica_context().replica_tag

    def fail(self) -> None:
        raise RuntimeError("it failed")


def _lines(folder: Path) -> list[str]:
    (file,) = folder.iterdir()
    return file.read_text().splitlines()


def test_lines_say_who_logged_them(run: Callable[..., Any], tmp_path: Path) -> None:
    config = LoggingConfig(logs_dir=str(tmp_path))
    handle = run(Logs.options(logging_config=config).bind(), name="app", route_prefix=None)
    tag = handle.remote("one").result()
    first, access = _lines(tmp_path)
    assert f" app_Logs {tag} " in first
    assert first.endswith(" -- loud one")
    assert access.split(" -- ")[1].startswith("CALL __call__ OK ")
    assert [file.name for file in tmp_path.iterdir()] == [f"replica_app_Logs_{tag}.log"]


def test_lines_as_json(run: Callable[..., Any], tmp_path: Path) -> None:
    config = {
        "encoding": "JSON",
        "log_level": "DEBUG",
        "logs_dir": str(tmp_path),
        "enable_access_log": False,
        "additional_log_standard_attrs": ["name"],
    }
    handle = run(Logs.bind(), name="app", route_prefix=None, logging_config=config)
    tag = handle.remote("one").result()
    quiet, loud = map(json.loads, _lines(tmp_path))
    assert (quiet["message"], quiet["levelname"]) == ("quiet one", "DEBUG")
    assert (loud["message"], loud["color"], loud["name"]) == ("loud one", "red", "ray.serve")
    assert (loud["deployment"], loud["replica"], loud["application"]) == ("app_Logs", tag, "app")
    assert loud["request_id"]
    assert loud["timestamp_ns"] >= quiet["timestamp_ns"]
    assert all(loud[name] for name in ("job_id", "worker_id", "node_id", "actor_id", "process"))


@pytest.mark.parametrize("has_access_log", [True, False])
def test_what_a_record_says_of_itself(
    run: Callable[..., Any], tmp_path: Path, has_access_log: bool
) -> None:
    @serve.deployment
    def logs() -> None:
        logger = logging.getLogger("ray.serve")
        logger.info("by hand", extra={"serve_access_log": True})
        fields = {"ray_serve_extra_fields": {"size": 3}, "log_to_stderr": False}
        logger.info("with fields", extra=fields)

    config = {"encoding": "JSON", "logs_dir": str(tmp_path), "enable_access_log": has_access_log}
    run(logs.options(logging_config=config).bind(), route_prefix=None).remote().result()
    lines = list(map(json.loads, _lines(tmp_path)))
    messages = [line["message"] for line in lines if "CALL" not in line["message"]]
    assert messages == ["by hand", "with fields"][not has_access_log :]
    told = lines[messages.index("with fields")]
    assert told["size"] == 3
    assert not told.keys() & {"ray_serve_extra_fields", "log_to_stderr", "serve_access_log"}


def test_a_record_for_files_only_is_not_shown(
    run_locally: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    @serve.deployment
    def logs() -> None:
        logger = logging.getLogger("ray.serve")
        logger.warning("for files", extra={"log_to_stderr": False})
        logger.warning("for all")

    shown = ""

    def is_shown() -> bool:
        nonlocal shown
        shown += capsys.readouterr().err
        return "for all" in shown

    run_locally(logs.bind(), route_prefix=None).remote().result()
    eventually(is_shown)
    assert "for files" not in shown


def test_calls_that_fail_are_logged_with_their_error(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    config = {"logs_dir": str(tmp_path), "log_level": "ERROR"}
    handle = run(Logs.options(logging_config=config).bind(), route_prefix=None)
    handle.remote("one").result()
    with pytest.raises(RuntimeError, match="it failed"):
        handle.fail.remote().result()
    first, *rest = _lines(tmp_path)
    assert " -- CALL fail ERROR " in first
    assert rest[-1] == "RuntimeError: it failed"


def test_an_option_of_a_deployment_goes_before_that_of_the_application(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    app = Logs.options(logging_config={"logs_dir": str(own)}).bind()
    run(app, route_prefix=None, logging_config={"logs_dir": str(other)}).remote("one").result()
    assert _lines(own)
    assert not other.exists()


def test_logging_changes_while_replicas_stay(run: Callable[..., Any], tmp_path: Path) -> None:
    deployment = Logs.options(version="1")
    handle = run(deployment.bind(), route_prefix=None)
    tag = handle.remote("one").result()
    changed = deployment.options(logging_config={"logs_dir": str(tmp_path)})
    handle = run(changed.bind(), route_prefix=None)
    assert handle.remote("two").result() == tag
    assert _lines(tmp_path)[0].endswith("loud two")


def test_loggers_are_left_as_they_were(run: Callable[..., Any], tmp_path: Path) -> None:
    names = ("ray.serve", "skate.serve")
    before = [
        (one.level, one.propagate, list(one.handlers)) for one in map(logging.getLogger, names)
    ]
    config = {"logs_dir": str(tmp_path), "log_level": "DEBUG"}
    run(Logs.options(logging_config=config).bind(), route_prefix=None).remote("one").result()
    serve.delete("default")
    after = [
        (one.level, one.propagate, list(one.handlers)) for one in map(logging.getLogger, names)
    ]
    assert after == before


@pytest.mark.parametrize(
    "config", ["JSON", {"encoding": "XML"}, {"log_level": "LOUD"}, {"logging_config_of_old": 1}]
)
def test_what_is_no_configuration_is_refused(config: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"logging_config|encoding|log_level"):
        serve.deployment(logging_config=config)(Logs.func_or_class)
