"""What the callbacks of gradient boosting libraries for trials have in common."""

from __future__ import annotations

from collections.abc import Callable

from skate._run.boosting import BoostingCallback, Metrics, Wanted


class ModelsInBetween(BoostingCallback):
    """A model every few iterations, not only at the end: a scheduler may stop a trial before."""

    def __init__(
        self,
        metrics: Wanted = None,
        filename: str | None = None,
        frequency: int = 5,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        super().__init__(
            metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn
        )


class NoModels(ModelsInBetween):
    """Metrics only."""

    def __init__(
        self,
        metrics: Wanted = None,
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        super().__init__(metrics, None, 0, False, results_postprocessing_fn)
