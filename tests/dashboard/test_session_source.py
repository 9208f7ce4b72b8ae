"""What the page keeps of a session: news in small pieces, and the last state."""

from __future__ import annotations

import os
from typing import Any

import pytest

from skate._core.latencies import LatencyCounts
from skate.dashboard import session_source
from skate.dashboard.numbered import Numbered
from skate.dashboard.session_source import SessionSource
from skate.dashboard.traffic import DeploymentTraffic
from skate.engine.sessions import NoAnswerError


class Session:
    """Answers as a session does."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.is_over = False
        self.ended = 0
        self.asked: list[dict[str, int]] = []
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def news(self, **seen: int) -> dict[str, Any]:
        if self.is_over:
            raise NoAnswerError("gone")
        self.asked.append(seen)
        new = self.ended - seen["ended"]
        return {
            "ended": self.ended, "failed": 0, "gone": 0, "time": 100.0 + len(self.asked),
            "tasks": [["f", 1, 1.0, 5, False]] * min(new, 2000), "failures": [],
            "ended_actors": [], "logs": [], "running": [{"id": "a", "name": "f", "pid": 1}],
            "workers": [{"pid": self.pid, "state": "IDLE", "runs": []}], "store_bytes": 7,
            "spill_folder": "/nowhere",
        }  # fmt: skip

    def under_way(self) -> dict[str, list[dict[str, Any]]]:
        if self.is_over:
            raise NoAnswerError("gone")
        return self.rows

    def memory(self) -> list[dict[str, Any]]:
        return [{"size": 1}]

    def ask(self, question: str) -> dict[str, Any]:
        assert question == "wait_graph"
        return {"nodes": []}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(session_source, "_EVERY_SECONDS", -1.0)
    monkeypatch.setattr(session_source, "_ANSWER_SHARE", 0)
    monkeypatch.setattr(session_source, "_LIBRARIES_SECONDS", -1.0)
    return Session()


@pytest.fixture
def source(session: Session) -> SessionSource:
    made: Any = session
    return SessionSource(made)


def test_a_hundred_thousand_tasks_in_pieces(session: Session, source: SessionSource) -> None:
    seen: dict[str, int] = {}
    drawn = 0
    for ended in range(10_000, 100_001, 10_000):
        session.ended = ended
        news = source.news(seen)
        seen = {"tasks": news["tasks"]["total"]}
        drawn += len(news["tasks"]["rows"])
        assert len(news["tasks"]["rows"]) <= 2000
        assert news["facts"]["ended"] == ended
    assert drawn == 20_000
    assert session.asked[-1]["ended"] == 90_000
    assert len(source.news({})["tasks"]["rows"]) == 20_000  # who comes later sees what is kept


def test_processes_that_are_about_to_start_have_no_memory(
    session: Session, source: SessionSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = session.news(ended=0)
    found["workers"] = [{"pid": None, "state": "STARTING", "runs": []}]
    monkeypatch.setattr(session, "news", lambda **_: found)
    (sample,) = source.news({})["memory"]["rows"]
    assert [pid for pid, *_ in sample["processes"]] == [session.pid]


def test_it_is_asked_once_a_second_however_many_look(
    session: Session, source: SessionSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_source, "_EVERY_SECONDS", 3600.0)
    for _ in range(5):
        source.news({})
    assert len(session.asked) == 1


def test_a_slow_answer_makes_it_ask_less_often(
    session: Session, source: SessionSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_source, "_ANSWER_SHARE", 1e9)
    for _ in range(5):
        source.news({})
    assert len(session.asked) == 1


def test_since_when_a_task_runs(source: SessionSource) -> None:
    first = source.news({})["facts"]["running"][0]["since"]
    assert source.news({})["facts"]["running"][0]["since"] == first


def test_the_last_state_stays(session: Session, source: SessionSource) -> None:
    session.ended = 3
    session.rows = {"datasets": [{"dataset": "d", "state": "RUNNING"}]}
    source.news({})
    source.libraries()
    session.rows = {}
    assert source.libraries()["datasets"] == [[{"dataset": "d", "state": "ENDED"}]]
    session.is_over = True
    news = source.news({})
    assert (news["over"], news["facts"]["ended"], news["tasks"]["total"]) == (True, 3, 3)
    assert source.libraries()["datasets"]
    assert source.objects() == []
    session.is_over = False
    assert source.news({})["over"]  # another session of the same process is not this one


def test_one_that_does_not_answer_is_not_over(
    session: Session, source: SessionSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(**seen: int) -> dict[str, Any]:
        raise NoAnswerError("busy")

    with monkeypatch.context() as patch:
        patch.setattr(session, "news", busy)
        news = source.news({})
        assert (news["over"], news["answers"]) == (False, False)
    assert source.news({})["answers"]


def test_numbered() -> None:
    kept = Numbered(3)
    kept.extend("abcde")
    assert kept.since(0) == {"rows": ["c", "d", "e"], "total": 5}
    assert kept.since(4) == {"rows": ["e"], "total": 5}
    assert kept.since(5) == kept.since(99) == {"rows": [], "total": 5}


def test_rates_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("skate.dashboard.traffic.time.monotonic", lambda: now[0])
    traffic = DeploymentTraffic()
    deployment = {"application": "app", "deployment": "D", "state": "HEALTHY"}

    counts = LatencyCounts()

    def look(*times: float) -> dict[str, Any]:
        now[0] += 2.0
        for seconds in times:
            counts.add(seconds)
        answered.extend(times)
        replica = {"application": "app", "deployment": "D", "replica": "r", "ongoing": 1}
        replica |= {"answered": len(answered), "seconds": sum(answered)}
        (row,) = traffic.rows([deployment], [{**replica, "latencies": counts.counts()}])
        assert row["answered"] == len(answered)
        assert row["p50_s"] == row["processes"][0]["p50_s"] == pytest.approx(4, rel=1 / 8)
        assert "latencies" not in row["processes"][0]
        sample: dict[str, Any] = row["samples"][-1]
        return sample

    answered: list[float] = []
    first = look(*[4.0] * 100)
    assert (first["rate"], first["p50_s"]) == (0, None)  # what was before is not known
    sample = look(*[1.0] * 18, 9.0, 9.0)
    assert (sample["rate"], sample["mean_s"], sample["ongoing"]) == (10.0, 1.8, 1)
    assert sample["p50_s"] == pytest.approx(1, rel=1 / 8)
    assert sample["p99_s"] == pytest.approx(9, rel=1 / 8)
    assert look()["mean_s"] is look()["p99_s"] is None
