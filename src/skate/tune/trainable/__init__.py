"""What a trial runs."""

from skate.tune.trainable.function_trainable import FunctionTrainable, wrap_function
from skate.tune.trainable.trainable import Trainable
from skate.tune.trainable.util import with_parameters, with_resources

__all__ = ["FunctionTrainable", "Trainable", "with_parameters", "with_resources", "wrap_function"]
