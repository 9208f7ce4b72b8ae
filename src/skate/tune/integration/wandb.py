"""Weights & Biases in trials. Until Ray 2.6, a decorator or a base class began a trial's run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from skate._core.public_names import name_publicly
from skate._run.loggers.wandb import WandbLoggerCallback, setup_wandb
from skate.tune.integration._mixins import Mixin, around, settings_of

__all__ = ["WandbLoggerCallback", "WandbTrainableMixin", "setup_wandb", "wandb_mixin"]


@contextmanager
def _run(config: Mapping[str, object]) -> Iterator[None]:
    settings = settings_of(config, "wandb", "project")
    run = setup_wandb({name: config[name] for name in config if name != "wandb"}, **settings)
    try:
        yield
    finally:
        run.finish()


def wandb_mixin(func: Callable[..., object]) -> Callable[..., Any]:
    """Let a function for trials log with `wandb.log`.

    Its configuration has an entry "wandb", with the `project` and what else `setup_wandb` takes.
    """
    return around(func, _run)


class WandbTrainableMixin(Mixin):
    """The same for a class: `class Mine(WandbTrainableMixin, tune.Trainable)`."""

    _around = staticmethod(_run)


name_publicly(__name__)
