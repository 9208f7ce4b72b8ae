"""Whose a path is."""

from __future__ import annotations

import pytest

from skate.serve._http.routes import Routes, check_prefix
from skate.serve._identity import DeploymentID

ROOT, HELLO, WORLD = (DeploymentID("D", app) for app in ("root", "hello", "world"))
ROUTES = Routes({"/": ROOT, "/hello": HELLO, "/hello/world": WORLD})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", ROOT),
        ("/hell", ROOT),
        ("/helloo", ROOT),
        ("/hello", HELLO),
        ("/hello/", HELLO),
        ("/hello/worlds", HELLO),
        ("/hello/world", WORLD),
        ("/hello/world/again", WORLD),
    ],
)
def test_the_longest_prefix_of_whole_parts_wins(path: str, expected: DeploymentID) -> None:
    route = ROUTES.match(path)
    assert route is not None
    assert route.deployment_id == expected


def test_a_path_below_no_prefix_has_no_route() -> None:
    assert Routes({"/a": ROOT}).match("/") is None
    assert Routes().match("/") is None


def test_names_show_prefixes_and_applications() -> None:
    assert ROUTES.names() == {"/": "root", "/hello": "hello", "/hello/world": "world"}


@pytest.mark.parametrize("prefix", [None, "/", "/a", "/a/b-c"])
def test_prefixes_that_are_fine(prefix: str | None) -> None:
    check_prefix(prefix)


@pytest.mark.parametrize("prefix", ["", "a", "/a/", "/{a}", 3])
def test_prefixes_that_are_not(prefix: object) -> None:
    with pytest.raises(ValueError, match="Invalid route_prefix"):
        check_prefix(prefix)
