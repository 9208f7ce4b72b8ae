"""Which checkpoints stay."""

from __future__ import annotations

import math

import pytest

from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import CheckpointManager
from skate._run.config import CheckpointConfig


def run_of(scores, **config):
    """What is kept, in the order of reports, and what is deleted, after all these reports."""
    manager = CheckpointManager(CheckpointConfig(**config))
    deleted = []
    for number, score in enumerate(scores):
        metrics = {} if score is None else {"nested": {"score": score}}
        deleted += manager.register(Checkpoint(f"c{number}"), metrics)
    names = [checkpoint.path.rpartition("/c")[2] for checkpoint, _ in manager.in_order]
    return [int(name) for name in names], len(deleted), manager


def best(**config):
    return {"checkpoint_score_attribute": "nested/score", **config}


@pytest.mark.parametrize(
    ("scores", "config", "kept"),
    [
        ([1, 2, 3], {}, [0, 1, 2]),
        ([1, 2, 3], {"num_to_keep": 1}, [2]),
        ([3, 1, 2], best(num_to_keep=1), [0, 2]),
        ([3, 1, 2, 5], best(num_to_keep=2), [0, 3]),
        ([3, 1, 2], best(num_to_keep=1, checkpoint_score_order="min"), [1, 2]),
        ([math.nan, None, 1, 0], best(num_to_keep=1), [2, 3]),
    ],
)
def test_the_last_and_the_best_stay(scores, config, kept):
    found, deleted, _ = run_of(scores, **config)
    assert found == kept
    assert deleted == len(scores) - len(kept)


def test_the_best_is_last_in_the_list_of_the_best():
    _, _, manager = run_of([1, 3, 2], **best(num_to_keep=2))
    assert [m["nested"]["score"] for _, m in manager.best_checkpoints] == [2, 3]
    assert manager.best.metrics["nested"]["score"] == 3
    assert manager.latest.metrics["nested"]["score"] == 2


@pytest.mark.parametrize(("scores", "listed"), [([3, 1, 2], [3]), ([1, 2, 3], [3])])
def test_the_last_is_not_among_the_best_only_because_it_is_the_last(scores, listed):
    _, _, manager = run_of(scores, **best(num_to_keep=1))
    assert [m["nested"]["score"] for _, m in manager.best_checkpoints] == listed
    assert manager.latest.metrics["nested"]["score"] == scores[-1]


def test_a_checkpoint_takes_the_place_of_another_of_its_name():
    manager = CheckpointManager(CheckpointConfig(num_to_keep=1))
    manager.register(Checkpoint("last"), {"n": 0})
    assert manager.register(Checkpoint("last"), {"n": 1}) == []
    assert [metrics for _, metrics in manager.in_order] == [{"n": 1}]


def test_metrics_that_come_after_the_checkpoint_belong_to_it():
    manager = CheckpointManager(CheckpointConfig())
    manager.register(Checkpoint("c"), {})
    manager.add_metrics({"loss": 1})
    assert manager.latest.metrics == {"loss": 1}
