"""Training a TensorFlow loop on several workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.config import RunConfig, ScalingConfig
from skate._run.validation import ValidationConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.train.tensorflow._config import TensorflowConfig


class TensorflowTrainer(DataParallelTrainer):
    """A `DataParallelTrainer` whose workers form one TensorFlow cluster.

    def loop(config):
        with tf.distribute.MultiWorkerMirroredStrategy().scope():
            model = build_and_compile()
        data = train.get_dataset_shard("train").to_tf("x", "y", batch_size=32)
        model.fit(prepare_dataset_shard(data), callbacks=[ReportCheckpointCallback()])

    TensorflowTrainer(loop, scaling_config=ScalingConfig(num_workers=2)).fit()
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        tensorflow_config: TensorflowConfig | None = None,
        scaling_config: ScalingConfig | dict[str, Any] | None = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: Any = None,
        preprocessor: Any = None,
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
