"""Training a TensorFlow loop on several workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.config import RunConfig
from skate._run.scaling_config import ScalingConfig
from skate._run.types import Config
from skate._run.validation import ValidationConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.train.tensorflow._config import TensorflowConfig

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor
    from skate.train._data import DataConfig


class TensorflowTrainer(DataParallelTrainer):
    """Run a loop in workers that form one TensorFlow cluster.

    In the loop, build and compile the model in the scope of a
    `tf.distribute.MultiWorkerMirroredStrategy`, and give `model.fit` a `ReportCheckpointCallback`.

    Args:
        train_loop_per_worker: The loop: a function without arguments, or of its configuration.
        train_loop_config: That configuration.
        tensorflow_config: How the cluster is made.
        scaling_config: How many workers, and what each gets.
        run_config: Where the run goes, what happens when it fails, and who is told.
        datasets: By name, for `get_dataset_shard(name)`; each worker gets a part.
        dataset_config: How they are split, a `DataConfig`; by default all of them are.
        preprocessor: Is fitted to the "train" dataset and applied to all; also goes into
            checkpoints.
        resume_from_checkpoint: What `get_checkpoint()` gives at the start of a new run.
        metadata: What `get_context().get_metadata()` gives, and notes of each checkpoint.
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
        tensorflow_config: TensorflowConfig | None = None,
        scaling_config: ScalingConfig | Mapping[str, object] | None = None,
        run_config: RunConfig | Mapping[str, object] | None = None,
        datasets: Mapping[str, object] | None = None,
        dataset_config: DataConfig | Mapping[str, object] | None = None,
        preprocessor: Preprocessor | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=tensorflow_config or TensorflowConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            preprocessor=preprocessor,
            resume_from_checkpoint=resume_from_checkpoint,
            metadata=metadata,
            validation_config=validation_config,
        )
