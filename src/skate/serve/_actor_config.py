"""Settings of actors that the replicas of a deployment share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import skate
from skate._core.argument_checks import Check, instances, wrong_type, wrong_value
from skate._core.options import ACTOR, check_options
from skate.serve._settings import CheckedSettings

_DECIDED_BY_SERVE = ("name", "namespace", "lifetime", "get_if_exists")


def _actor_class(name: str, value: object) -> Any:
    if isinstance(value, (skate.actor.ActorClass, type, str)):
        return value
    raise wrong_type(name, value, 'a class made remote, or "module:name"')


def _options_of_actor(name: str, value: object) -> dict[str, Any]:
    given: dict[str, Any] = instances(dict, "a dictionary")(name, value)
    wrong = [key for key in given if key in _DECIDED_BY_SERVE]
    if wrong:
        raise wrong_value(
            name, {key: given[key] for key in wrong}, f"no {', '.join(_DECIDED_BY_SERVE)}"
        )
    check_options(ACTOR, given)
    return given


@dataclass
class DeploymentActorConfig(CheckedSettings):
    """An actor that all replicas of a deployment share; it lives as long as they do.

    Args:
        name: Its name, for `serve.get_deployment_actor`.
        actor_class: The class, made remote, or its import path "module:name".
        init_args: Arguments of the class.
        init_kwargs: Named ones.
        actor_options: Options of the actor, as `num_cpus`.

    Raises:
        TypeError: If a value has the wrong type.
    """

    name: str
    actor_class: Any
    init_args: tuple[Any, ...] = ()
    init_kwargs: dict[str, Any] = field(default_factory=dict)
    actor_options: dict[str, Any] = field(default_factory=dict)

    _checks: ClassVar[dict[str, Check]] = {
        "name": instances(str, "a string"),
        "actor_class": _actor_class,
        "init_args": instances((tuple, list), "a tuple of arguments"),
        "init_kwargs": instances(dict, "a dictionary of arguments"),
        "actor_options": _options_of_actor,
    }

    def get_actor_class(self) -> Any:
        """Return the class, imported if it was given by its path."""
        found = self.actor_class
        if isinstance(found, str):
            from skate.serve._application.import_paths import import_attribute

            found = import_attribute(found)
        return found if isinstance(found, skate.actor.ActorClass) else skate.remote(found)
