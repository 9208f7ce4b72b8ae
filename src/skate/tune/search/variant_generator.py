"""From a search space to configurations: grids are walked over, domains are drawn from.

A space is a nested dictionary (lists and tuples too) with domains among its values. Values that
depend on others are worked out in passes, until nothing is open.
"""

from __future__ import annotations

import copy
import itertools
import logging
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from skate._run.types import Config
from skate.tune.search._samplers import Rng
from skate.tune.search.sample import Categorical, Domain, Function

logger: logging.Logger = logging.getLogger(__name__)

Path = tuple[Any, ...]
SpecLeaves = tuple[list[tuple[Path, Any]], list[tuple[Path, Any]], list[tuple[Path, Any]]]
_CLOSED = (float, int, str, bool, type(None))
_PASSES = 20
_NAMES_FOR_EVAL = {"random": random, "np": np}
_NOT_IN_TAGS = ("run", "env", "resources_per_trial")


class RecursiveDependencyError(Exception):
    """A value depends on one that is not known yet."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


def grid_search(values: Iterable[object]) -> dict[str, Iterable[Any]]:
    """Try every one of some values, in every combination with other grids.

    Args:
        values: The values.

    Returns:
        The grid, for a value of `param_space`.

    Example:
        >>> from skate import tune
        >>> tuner = tune.Tuner(
        ...     lambda config: {"y": config["x"] ** 2},
        ...     param_space={"x": tune.grid_search([1, 2, 3])},
        ...     run_config={"verbose": 0},
        ... )
        >>> sorted(result.metrics["y"] for result in tuner.fit())
        [1, 4, 9]
    """
    return {"grid_search": values}


class Guard(dict[str, Any]):
    """A config as functions see it: values by key or attribute; an open one raises."""

    def __getitem__(self, key: Any) -> Any:
        return _known(key, super().__getitem__(key))

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def get(self, key: object, default: object = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default


def view(spec: Mapping[str, object]) -> Guard:
    """Show a spec to functions of all eras: `spec.config.lr`, `config["lr"]`, `.get("lr")`."""
    if isinstance(spec, Guard):
        return spec
    config = spec.get("config")
    if not isinstance(config, Mapping):
        return Guard({**spec, "config": spec})
    return Guard({**spec, **config, "config": config})


class GuardedList(list[Any]):
    """A list of a config as functions see it; an open value raises."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return GuardedList(super().__getitem__(index))
        return _known(index, super().__getitem__(index))

    def __iter__(self) -> Iterator[object]:
        return (self[index] for index in range(len(self)))


def _known(key: object, value: object) -> object:
    if as_domain(value) is not None:
        raise RecursiveDependencyError(f"`{key}` recursively depends on {value}, still open")
    return guarded(value)


def guarded(value: object) -> Any:
    """Wrap dictionaries and lists to raise where a value is open; all else stays as it is."""
    if isinstance(value, dict) and not isinstance(value, Guard):
        return Guard(value)
    if type(value) is list and has_unresolved_values(value):
        return GuardedList(value)
    return value


def as_domain(value: object) -> Domain | None:
    """Return the domain that a value of a space stands for; None if it is just a value."""
    if isinstance(value, Domain):
        return value
    if isinstance(value, dict) and len(value) == 1:
        if "grid_search" in value:
            return _grid(value["grid_search"])
        if "eval" in value:
            text = value["eval"]
            return Function(lambda spec: eval(text, dict(_NAMES_FOR_EVAL), {"spec": spec}))
    return None


def _grid(values: object) -> Categorical:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"grid_search takes a list of values; got {values!r}")
    domain = Categorical(values)
    if not domain.categories:
        raise ValueError("grid_search takes at least one value; with none, there are no trials")
    return domain.grid()


def walk(space: object, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every leaf of a space with its path; domains and grids are leaves."""
    domain = as_domain(space)
    if domain is not None:
        yield path, domain
    elif isinstance(space, Mapping):
        for key, value in space.items():
            yield from walk(value, (*path, key))
    elif isinstance(space, (list, tuple)):
        for index, value in enumerate(space):
            yield from walk(value, (*path, index))
    else:
        yield path, space


def parse_spec_vars(spec: Mapping[str, object]) -> SpecLeaves:
    """Sort the leaves of a space into (plain values, domains, grids)."""
    fixed, domains, grids = [], [], []
    for path, value in walk(spec):
        if not isinstance(value, Domain):
            fixed.append((path, value))
        elif value.is_grid():
            grids.append((path, value))
        else:
            domains.append((path, value))
    grids.sort(key=lambda item: [str(part) for part in item[0]])
    return fixed, domains, grids


def has_unresolved_values(spec: object) -> bool:
    """Return whether domains or grids are among the values."""
    return any(isinstance(value, Domain) for _, value in walk(spec))


def get_value(spec: Any, path: Path) -> Any:
    """Return the value at a path."""
    for key in path:
        spec = spec[key]
    return spec


def assign_value(spec: Any, path: Path, value: Any) -> None:
    """Set the value at a path; a tuple on the way is made anew."""
    parent, key = None, None
    for name in path[:-1]:
        parent, key, spec = spec, name, spec[name]
    if not isinstance(spec, tuple):
        spec[path[-1]] = value
    elif parent is None:
        raise ValueError("cannot assign to a tuple that is nobody's value")
    else:
        parent[key] = (*spec[: path[-1]], value, *spec[path[-1] + 1 :])


def generate_variants(
    unresolved_spec: Mapping[str, object],
    constant_grid_search: bool = False,
    random_state: object = None,
) -> Iterator[tuple[dict[Path, Any], dict[str, Any]]]:
    """Draw the space once: yield pairs of (what was chosen, by path) and the finished spec.

    Several if there are grids: one per combination, each with fresh draws of the domains, or
    with the same ones if `constant_grid_search`.
    """
    leaves = parse_spec_vars(unresolved_spec)
    yield from variants_of(unresolved_spec, leaves, constant_grid_search, random_state)


def variants_of(
    unresolved_spec: Mapping[str, object],
    leaves: SpecLeaves,
    constant_grid_search: bool = False,
    random_state: object = None,
) -> Iterator[tuple[dict[Path, Any], dict[str, Any]]]:
    """Do as `generate_variants`, of a space whose leaves are known: there may be many draws."""
    rng = Rng.of(random_state)
    _, domains, grids = leaves
    spec: Any = unresolved_spec
    constant: dict[Path, Any] = {}
    if constant_grid_search:
        spec = copy_space(unresolved_spec)
        constant = _draw(spec, domains, rng, allow_fail=True)
    for combination in _combinations(grids):
        variant = copy_space(spec)
        chosen = dict(constant)
        for (path, _), value in zip(grids, combination, strict=True):
            assign_value(variant, path, value)
            chosen[path] = value
        chosen.update(_draw(variant, [d for d in domains if d[0] not in chosen], rng))
        if not any(map(_may_be_open, chosen.values())):
            yield chosen, variant
            continue
        for more, finished in generate_variants(variant, constant_grid_search, rng):
            yield {**chosen, **more}, finished


def _may_be_open(value: object) -> bool:
    return type(value) not in _CLOSED and has_unresolved_values(value)


def _combinations(grids: list[tuple[Path, Any]]) -> Iterator[tuple[object, ...]]:
    """Yield all combinations, the first grid fastest."""
    backwards = [domain.categories for _, domain in reversed(grids)]
    for combination in itertools.product(*backwards):
        yield combination[::-1]


def _draw(
    spec: Config, domains: list[tuple[Path, object]], rng: Rng, allow_fail: bool = False
) -> dict[Path, object]:
    """Draw all domains into the spec; those that wait for others come in a later pass."""
    drawn: dict[Path, Any] = {}
    waiting, error = domains, None
    for _ in range(_PASSES):
        waiting, error = _one_pass(spec, waiting, rng, drawn)
        if not waiting:
            return drawn
    if allow_fail:
        return drawn
    raise error or RecursiveDependencyError("the search space does not come to an end")


def _one_pass(
    spec: Config, domains: list[tuple[Path, Any]], rng: Rng, drawn: dict[Path, Any]
) -> tuple[list[tuple[Path, Any]], Exception | None]:
    waiting, error = [], None
    for path, domain in domains:
        try:
            value = domain.sample(view(spec), random_state=rng)
        except RecursiveDependencyError as found:
            waiting.append((path, domain))
            error = found
        except Exception as found:
            name = "/".join(map(str, path))
            raise ValueError(
                f"Failed to evaluate expression: {name}: {domain.domain_str} raised {found!r}"
            ) from found
        else:
            assign_value(spec, path, value)
            drawn[path] = value
    return waiting, error


def preset_variants(
    spec: Mapping[str, Any],
    config: Mapping[str, object],
    constant_grid_search: bool = False,
    random_state: object = None,
) -> Iterator[tuple[dict[Path, Any], dict[str, Any]]]:
    """Do as `generate_variants`, with some values given."""
    _warn_of_contradictions(spec["config"], config)
    return generate_variants(_with_point(spec, config), constant_grid_search, random_state)


def _with_point(spec: Mapping[str, object], point: Mapping[str, object]) -> dict[str, object]:
    """Copy the spec with the values of a point in it."""
    made: dict[str, Any] = copy_space(spec)
    for path, value in walk(point):
        try:
            get_value(made["config"], path)
        except (KeyError, IndexError, TypeError):
            raise ValueError(
                f"the given point sets {'/'.join(map(str, path))!r}, which is not in the "
                f"search space {list(made['config'])}"
            ) from None
        assign_value(made["config"], path, value)
    return made


def _warn_of_contradictions(space: Mapping[str, object], point: Mapping[str, object]) -> None:
    """Say what a point has that the space has not; the point is evaluated all the same."""
    for path, value in walk(point):
        name = "/".join(map(str, path))
        try:
            wanted = get_value(space, path)
        except (KeyError, IndexError, TypeError):
            continue  # is refused
        if isinstance(wanted, Mapping):
            if set(wanted) != {"grid_search"}:
                continue  # a part of the space is replaced as a whole
            wanted = Categorical(wanted["grid_search"])
        if isinstance(wanted, Domain):
            if not wanted.is_valid(value):
                logger.warning(
                    "points_to_evaluate: the value %r is not within the valid values of %r, %s",
                    value, name, wanted.domain_str,
                )  # fmt: skip
        elif wanted != value:
            logger.warning(
                "points_to_evaluate: the value %r is not equal to that of %r, which is fixed: %r",
                value, name, wanted,
            )  # fmt: skip


def count_spec_samples(spec: Mapping[str, object], num_samples: int = 1) -> int:
    """Count the variants that a space gives."""
    _, _, grids = parse_spec_vars(spec)
    count = num_samples
    for _, domain in grids:
        count *= len(domain)
    return count


def count_variants(spec: Mapping[str, Any], presets: list[dict[str, Any]]) -> int:
    """Count as `count_spec_samples`, where each given point replaces one sample."""
    total, left = 0, spec.get("num_samples", 1)
    for preset in presets:
        total += count_spec_samples(_with_point(spec, preset))
        left -= 1
    return total + (count_spec_samples(spec, left) if left > 0 else 0)


def copy_space(space: Any) -> Any:
    """Copy the containers of a space; the values inside are shared."""
    if type(space) in _CLOSED:
        return space
    if type(space) is dict:
        return {
            key: value if type(value) in _CLOSED else copy_space(value)
            for key, value in space.items()
        }
    if isinstance(space, dict):
        try:
            made = copy.copy(space)
        except TypeError:
            made = dict(space)
        for key, value in space.items():
            made[key] = copy_space(value)
        return made
    if type(space) in (list, tuple):
        return type(space)(copy_space(value) for value in space)
    return space


def flatten_resolved_vars(resolved: Mapping[Path, object]) -> dict[str, Any]:
    """Return what was chosen, by names as "layer/size"."""
    return {
        "/".join(str(part) for part in (path[1:] if path[0] == "config" else path)): value
        for path, value in resolved.items()
    }


def format_vars(resolved_vars: Mapping[Path, object]) -> str:
    """Return what was chosen, as a text that can be part of a folder's name."""
    items = sorted(
        (item for item in resolved_vars.items() if item[0][0] not in _NOT_IN_TAGS),
        key=lambda item: [str(part) for part in item[0]],
    )
    return ",".join(f"{_clean(path[-1])}={_clean(value)}" for path, value in items)


def _clean(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", str(value)).strip("_")
