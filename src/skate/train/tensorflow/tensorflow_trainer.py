"""Training a TensorFlow loop on several workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.train.tensorflow._config import TensorflowConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.train.base_trainer import TrainerSettings


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
        tensorflow_config: TensorflowConfig | None = None,
        **settings: Unpack[TrainerSettings],
    ) -> None:
        backend = tensorflow_config or TensorflowConfig()
        super().__init__(train_loop_per_worker, backend_config=backend, **settings)
