"""One line per record, here and in workers, with where it comes from."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from tests.support import eventually


@pytest.fixture(autouse=True)
def root_logger_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger("skate")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@skate.remote
def speak(word: str) -> str:
    logging.getLogger("choir").info(word, extra={"voice": "alto"})
    return skate.get_runtime_context().get_task_id() or ""


def test_workers_and_driver_write_json(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[dict[str, Any]] = []

    def written(message: str) -> list[dict[str, Any]]:
        lines.extend(json.loads(line) for line in capfd.readouterr().err.splitlines())
        return [line for line in lines if line["message"] == message]

    config = skate.LoggingConfig(encoding="JSON", additional_log_standard_attrs=["name"])
    with skate.init(num_cpus=1, logging_config=config):
        task = skate.get(speak.remote("la"))
        logging.getLogger("conductor").info("one")
        eventually(lambda: written("la"))
        sung, said = written("la")[0], written("one")[0]
        assert {"name": "choir", "voice": "alto", "task_name": "speak"}.items() <= sung.items()
        assert (sung["task_id"], sung["levelname"]) == (task, "INFO")
        assert said["node_id"] == sung["node_id"]
        assert "task_id" not in said


def test_the_first_record_is_about_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    with skate.init(engine="inline", num_cpus=3, logging_config=skate.LoggingConfig()):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert "-- a session began, with 3 CPUs job_id=" in line


def test_a_format_of_its_own_is_seen_from_the_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with skate.init(engine="inline", num_cpus=3, logging_format="skate says: %(message)s"):
        pass
    assert capsys.readouterr().err == "skate says: a session began, with 3 CPUs\n"


def test_fields_of_a_dictionary_are_shown_by_their_own_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = skate.LoggingConfig("JSON", log_level="WARNING")
    with skate.init(engine="inline", logging_config=config):
        logging.warning("la", extra={"ray_serve_extra_fields": {"voice": "alto", "bars": 2}})
    line = json.loads(capsys.readouterr().err)
    assert (line["voice"], line["bars"]) == ("alto", 2)
    assert "ray_serve_extra_fields" not in line


def test_text_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    with skate.init(engine="inline", logging_config=skate.LoggingConfig(log_level="WARNING")):
        logging.getLogger("choir").info("quiet")
        logging.getLogger("choir").warning("loud")
    (line,) = capsys.readouterr().err.splitlines()
    assert "WARNING test_logging_config.py" in line
    assert "-- loud job_id=" in line


def test_the_encoding_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_LOGGING_CONFIG_ENCODING", "JSON")
    with skate.init(engine="inline") as session:
        assert dict(skate.init()) == dict(session)  # asks for nothing new
        logging.getLogger("choir").info("la")
    assert json.loads(capsys.readouterr().err.splitlines()[1])["message"] == "la"
    with skate.init(engine="inline", logging_config=skate.LoggingConfig("TEXT")):
        logging.getLogger("choir").info("la")
    assert "-- la job_id=" in capsys.readouterr().err
    monkeypatch.setenv("RAY_LOGGING_CONFIG_ENCODING", "MORSE")
    with pytest.raises(ValueError, match="takes one of TEXT, JSON; got 'MORSE'"):
        skate.init(engine="inline")


def test_what_is_refused_and_how_it_travels() -> None:
    with pytest.raises(ValueError, match="TEXT, JSON; got 'XML'"):
        skate.LoggingConfig(encoding="XML")
    with pytest.raises(ValueError, match=r"lineno.*got 'colour'"):
        skate.LoggingConfig(additional_log_standard_attrs=["colour"])
    with pytest.raises(TypeError, match="takes a LoggingConfig; got str"):
        skate.init(engine="inline", logging_config="JSON")
    config = skate.LoggingConfig("JSON", "DEBUG", ["name"])
    assert skate.LoggingConfig.from_dict({**config.to_dict(), "newer": 1}) == config


@pytest.mark.parametrize(("level", "lines"), [(None, 1), ("info", 1), ("ERROR", 0), (40, 0)])
def test_one_level_for_what_skate_says_itself(
    level: Any, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    from skate._core import notices

    with skate.init(engine="inline", log_level=level):
        notices.say("something is odd")
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_level_that_there_is_not() -> None:
    with pytest.raises(ValueError, match=r"log_level.*'LOUD'"):
        skate.init(engine="inline", log_level="LOUD")
    with pytest.raises(ValueError, match="two spellings"):
        skate.init(engine="inline", log_level="INFO", logging_level="ERROR")
    assert not skate.is_initialized()
