"""Training with JAX. The program that starts the training need not import it, nor have it."""

from skate._core.public_names import name_publicly
from skate.train.jax._config import JaxConfig
from skate.train.jax.jax_trainer import JaxTrainer

__all__ = ["JaxConfig", "JaxTrainer"]

name_publicly(__name__)
