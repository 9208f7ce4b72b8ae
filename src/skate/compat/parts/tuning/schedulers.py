"""What tests of schedulers take from the inside of `ray.tune.schedulers`."""

from skate.tune.schedulers._explore import explore as _explore

__all__ = ["_explore"]
