"""What a trial runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.tune.trainable.function_trainable import FunctionTrainable, wrap_function
    from skate.tune.trainable.trainable import Trainable
    from skate.tune.trainable.util import with_parameters, with_resources
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["FunctionTrainable", "Trainable", "with_parameters", "with_resources", "wrap_function"]
