"""Training a JAX loop on several workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from skate._run.config import RunConfig
from skate._run.config_checks import as_config
from skate._run.scaling_config import ScalingConfig
from skate._run.types import Config
from skate._run.validation import ValidationConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.train.jax._config import JaxConfig

if TYPE_CHECKING:
    from skate.train._data import DataConfig


class JaxTrainer(DataParallelTrainer):
    """Run a JAX loop in workers, which compute together if they have accelerators.

    With `ScalingConfig(use_gpu=True)` or `use_tpu=True`, and with `JaxConfig(use_cpu=True)` also
    without, `jax.devices()` are those of all workers: arrays can be sharded over them.

    Args:
        train_loop_per_worker: The loop: a function without arguments, or of its configuration.
        train_loop_config: That configuration.
        jax_config: On what they compute together; by default what `scaling_config` gives them.
        scaling_config: How many workers, and what each gets.
        dataset_config: How datasets are split, a `DataConfig`; by default all of them are.
        run_config: Where the run goes, what happens when it fails, and who is told.
        datasets: By name, for `get_dataset_shard(name)`; each worker gets a part.
        validation_config: Validates checkpoints beside the training, where `report(…,
            validation=True)` asks for it.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If the loop takes more than one argument.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object],
        *,
        train_loop_config: Config | None = None,
        jax_config: JaxConfig | None = None,
        scaling_config: ScalingConfig | Mapping[str, object] | None = None,
        dataset_config: DataConfig | Mapping[str, object] | None = None,
        run_config: RunConfig | Mapping[str, object] | None = None,
        datasets: Mapping[str, object] | None = None,
        validation_config: ValidationConfig | None = None,
    ) -> None:
        scaling = as_config(ScalingConfig, scaling_config)
        usual = JaxConfig(use_tpu=scaling.use_tpu, use_gpu=scaling.use_gpu is True)
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=jax_config or usual,
            scaling_config=scaling,
            dataset_config=dataset_config,
            run_config=run_config,
            datasets=datasets,
            validation_config=validation_config,
        )
