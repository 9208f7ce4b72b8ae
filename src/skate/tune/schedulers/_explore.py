"""How population-based training changes a configuration."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

from skate._run.config_checks import WrongKindError
from skate._run.types import Config
from skate.tune.search.sample import Domain
from skate.tune.search.variant_generator import format_vars


def explore(
    config: Config,
    mutations: Mapping[str, object],
    resample_probability: float,
    perturbation_factors: tuple[float, ...],
    custom_explore_fn: Callable[[dict[str, object]], dict[str, object]] | None,
) -> tuple[Config, dict[str, str]]:
    """Change a copy of the configuration, and tell by name what was done to it."""
    new = copy.deepcopy(config)
    operations: dict[str, Any] = {}
    for key, space in mutations.items():
        if isinstance(space, Mapping):
            new[key], operations[key] = explore(
                config[key], space, resample_probability, perturbation_factors, None
            )
        elif isinstance(space, (list, tuple)):
            new[key], operations[key] = _step(config[key], space, resample_probability)
        else:
            check_space(key, space)
            new[key], operations[key] = _scale(
                config[key], space, resample_probability, perturbation_factors
            )
    if custom_explore_fn is not None:
        new = custom_explore_fn(new)
        if new is None:
            raise ValueError("custom_explore_fn must return the new configuration; got None")
    return new, operations


def check_space(name: str, space: object) -> None:
    """Refuse what no value can be drawn from."""
    if not isinstance(space, (list, tuple, Domain)) and not callable(space):
        raise WrongKindError(
            f"hyperparam_mutations takes lists, tuples, dictionaries, domains and functions; "
            f"got {name}={space!r}"
        )


def _step(value: Any, options: Any, resample_probability: float) -> tuple[Any, str]:
    """Move to a neighbour in the list, or to any of its values; tell which."""
    if random.random() < resample_probability or value not in options:
        return random.choice(options), "resample"
    shift = random.choice([-1, 1])
    old = list(options).index(value)
    new = min(max(old + shift, 0), len(options) - 1)
    name = "shift left" if shift == -1 else "shift right"
    return options[new], name if new != old else f"{name} (noop)"


def _scale(
    value: object, space: object, resample_probability: float, factors: tuple[float, ...]
) -> tuple[Any, str]:
    """Multiply by one of the factors, or draw anew; tell which."""
    if random.random() < resample_probability or not isinstance(value, (int, float)):
        new, name = draw(space), "resample"
    else:
        factor = random.choice(factors)
        new, name = value * factor, f"* {factor}"
    if isinstance(value, bool):
        return bool(new), name
    return (round(new) if isinstance(value, int) else new), name


def draw(space: Any) -> Any:
    """Draw a value of a mutation's space."""
    if isinstance(space, Domain):
        return space.sample(None)
    if callable(space):
        return space()
    if isinstance(space, Mapping):
        return {key: draw(inner) for key, inner in space.items()}
    return random.choice(space)


def fill(config: Config, mutations: Mapping[str, object]) -> Config:
    """Draw what the configuration does not have; these values by names as "layer/size"."""
    drawn: dict[str, Any] = {}
    for key, space in mutations.items():
        if key not in config:
            drawn[key] = config[key] = draw(space)
        elif isinstance(space, Mapping):
            inner = fill(config[key], space)
            drawn.update({f"{key}/{name}": value for name, value in inner.items()})
    return drawn


def perturbed_tag(tag: str, config: Mapping[str, object], names: Any) -> str:
    """Make the tag of a trial whose configuration was changed."""
    changed = {("config", name): config[name] for name in names if name in config}
    return f"{tag}@perturbed[{format_vars(changed)}]"


def mutated_part(config: Mapping[str, Any], mutations: Mapping[str, object]) -> Config:
    """Pick those values of a configuration that mutate."""
    return {
        key: mutated_part(config[key], space) if isinstance(space, Mapping) else config[key]
        for key, space in mutations.items()
        if key in config
    }
