"""`skate data`: schema, head and count of files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from skate.cli import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    folder.mkdir()
    rows = pa.table({"x": [1, 2, 3], "name": ["a", "b", None]})
    pyarrow.parquet.write_table(rows, folder / "part.parquet")
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["data", *arguments])
    assert not ended.value.code
    return capsys.readouterr().out


def test_the_schema(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(capsys, "schema", str(table), "--json"))
    assert rows == [{"column": "x", "type": "int64"}, {"column": "name", "type": "string"}]


def test_the_first_rows(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "head", str(table), "-n", "2").splitlines()
    assert [line.split() for line in lines] == [["x", "name"], ["1", "a"], ["2", "b"]]
    rows = json.loads(said(capsys, "head", str(table), "--json"))
    assert rows[2] == {"x": 3, "name": None}


def test_the_number_of_rows(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "count", str(table)) == "rows  3\n"


def test_a_format_that_names_do_not_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("one\ntwo\n")
    assert said(capsys, "count", str(tmp_path / "log"), "--format", "text") == "rows  2\n"
    with pytest.raises(SystemExit) as ended:
        main(["data", "count", str(tmp_path / "log")])
    assert ended.value.code == 1
    assert "--format" in capsys.readouterr().err


def test_a_path_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["data", "head", str(tmp_path / "none.csv")])
    assert ended.value.code == 1
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["head", "schema"])
def test_a_file_tells_the_terminal_nothing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"name\x1b[31m": "\x1b[2J\x1b]0;mine\x07 \u202e [red]ü[/red]"}
    (tmp_path / "file.jsonl").write_text(json.dumps(row) + "\n")
    shown = said(capsys, command, str(tmp_path / "file.jsonl"))
    assert "name\\x1b[31m" in shown
    assert all(line.isprintable() for line in shown.splitlines())
    assert command == "schema" or "[red]ü[/red]" in shown
