"""What callbacks of gradient boosting libraries have in a training."""

from __future__ import annotations

import skate.train
from skate._run.boosting import BoostingCallback


class TrainBoostingCallback(BoostingCallback):
    """Asks the training which worker this is, where programs and tests replace the answer."""

    def _world_rank(self) -> int | None:
        return skate.train.get_context().get_world_rank()
