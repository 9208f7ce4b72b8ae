"""Ranks by machine."""

from __future__ import annotations

from skate.train._places import Place, places_of


def test_workers_of_one_machine_are_numbered_together():
    places = places_of([("a", "10.0.0.1"), ("b", "10.0.0.2"), ("a", "10.0.0.1")])
    assert places == [
        Place("10.0.0.1", local_rank=0, local_world_size=2, node_rank=0),
        Place("10.0.0.2", local_rank=0, local_world_size=1, node_rank=1),
        Place("10.0.0.1", local_rank=1, local_world_size=2, node_rank=0),
    ]
