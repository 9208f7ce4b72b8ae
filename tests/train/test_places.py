"""Ranks by machine."""

from __future__ import annotations

import pytest

from skate import train
from skate.exceptions import TaskUnschedulableError
from skate.train._workers.labels import check_labels, fits
from skate.train._workers.places import WorkerPlace, places_of


def test_workers_of_one_machine_are_numbered_together():
    places = places_of([("a", "10.0.0.1"), ("b", "10.0.0.2"), ("a", "10.0.0.1")])
    assert places == [
        WorkerPlace("10.0.0.1", local_rank=0, local_world_size=2, node_rank=0),
        WorkerPlace("10.0.0.2", local_rank=0, local_world_size=1, node_rank=1),
        WorkerPlace("10.0.0.1", local_rank=1, local_world_size=2, node_rank=0),
    ]


@pytest.mark.parametrize(
    ("selector", "fitting"),
    [
        ({"zone": "a"}, True),
        ({"zone": "b"}, False),
        ({"zone": "!b"}, True),
        ({"zone": "!a"}, False),
        ({"zone": "in(b, a)"}, True),
        ({"zone": "in(b)"}, False),
        ({"zone": "!in(b, c)"}, True),
        ({"zone": "!in(a, c)"}, False),
        ({"zone": "a", "kind": "cpu"}, True),
        ({"zone": "a", "kind": "gpu"}, False),
        ({"other": "a"}, False),
        ({"other": "!a"}, True),
        ({}, True),
    ],
)
def test_labels_fit_a_selector(selector, fitting):
    assert fits(selector, {"zone": "a", "kind": "cpu"}) is fitting


def test_workers_are_where_labels_fit(run_config, monkeypatch):
    machines = [{"Alive": True, "Labels": {"zone": "a"}}, {"Alive": False, "Labels": {}}]
    monkeypatch.setattr("skate.nodes", lambda: machines)

    def fit(selector):
        scaling = train.ScalingConfig(num_workers=2, label_selector=selector)
        return train.DataParallelTrainer(
            lambda: train.get_context().get_world_size(),
            scaling_config=scaling,
            run_config=run_config(),
        ).fit()

    assert fit({"zone": "a"}).return_value == 2
    with pytest.raises(ValueError, match="must be the same length as `num_workers`"):
        fit([{"zone": "a"}])
    with pytest.raises(TaskUnschedulableError, match=r"skate.init\(labels="):
        fit([{"zone": "a"}, {"zone": "b"}])
    machines.append({"Alive": True, "Labels": {"zone": "b"}})
    with pytest.raises(ValueError, match="fits 1 of 2 machines"):
        check_labels({"zone": "a"})
