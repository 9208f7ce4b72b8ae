"""`ray._private.state_api_test_utils`: what tests of the state API compare rows with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import skate
from ray_test_helpers.test_utils import wait_for_condition
from skate.compat.parts.core.state_client import ListApiOptions
from skate.util.state import StateRow, list_tasks


def _only_row(name: str) -> StateRow:
    rows = list_tasks(filters=[("name", "=", name)], detail=True)
    assert len(rows) == 1, rows
    return rows[0]


def verify_failed_task(
    name: str, error_type: str, error_message: str | list[str] | None = None
) -> bool:
    """Assert that the one task of that name has failed in that way, with these words."""
    row = _only_row(name)
    assert (row["state"], row["error_type"]) == ("FAILED", error_type), row
    words = [error_message] if isinstance(error_message, str) else error_message or []
    for word in words:
        assert word in row["error_message"], row
    return True


def wait_for_task_states(name_to_state: dict[str, str], timeout: float = 30) -> None:
    """Wait until each task is in its state."""

    def all_are() -> bool:
        return all(_only_row(name)["state"] == state for name, state in name_to_state.items())

    wait_for_condition(all_are, timeout)


@skate.remote
class PidActor:
    """Keeps processes by the names of the tasks that run there, and how these are to end."""

    def __init__(self) -> None:
        self._pids: dict[str, tuple[int, str | None]] = {}

    def report_pid(self, name: str, pid: int, state: str | None = None) -> None:
        self._pids[name] = (pid, state)

    def get_pids(self) -> dict[str, tuple[int, str | None]]:
        return self._pids


def _is_actor_task_running(actor_pid: int, task_name: str) -> bool:
    """Return whether the title of the process says that it runs the task."""
    try:
        title = Path(f"/proc/{actor_pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:  # it has ended
        return False
    return title.startswith("ray::") and task_name in title


def verify_tasks_running_or_terminated(
    task_pids: dict[str, tuple[int, str | None]], expect_num_tasks: int
) -> bool:
    """Assert that each task is in the state that was told, or else fits its process: it is said to
    run where it does, and to have failed where nothing runs it."""
    assert len(task_pids) == expect_num_tasks, task_pids
    for name, (pid, expected) in task_pids.items():
        row = _only_row(name)
        actual = "RUNNING" if _is_actor_task_running(pid, name) else "FAILED"
        assert row["state"] == (expected or actual), row
    return True


def verify_schema(state: Any, result_dict: dict[str, Any], detail: bool = False) -> None:
    """Assert that a row has the columns of its kind, and no others."""
    columns = state.columns() if detail else state.base_columns()
    assert set(result_dict) == columns
    state(**result_dict)


def create_api_options(
    timeout: float = 30,
    limit: int = 100,
    filters: list[tuple[str, str, Any]] | None = None,
    detail: bool = False,
    exclude_driver: bool = True,
) -> ListApiOptions:
    """Make options for `StateApiClient.list`."""
    return ListApiOptions(limit, timeout, detail, filters or [], exclude_driver, 1.0)
