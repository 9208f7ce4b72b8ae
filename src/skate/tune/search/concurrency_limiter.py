"""A limit of trials at a time, around any searcher."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from skate._run.pickles import allowing
from skate._run.types import Config, ResultRow
from skate.tune.search.searcher import Searcher

if TYPE_CHECKING:
    from skate.tune.search._files import State


class _Wrapper(Searcher):
    """A searcher around a searcher: what is not changed goes through."""

    def __init__(self, searcher: Searcher) -> None:
        if not isinstance(searcher, Searcher):
            raise TypeError(f"{type(self).__name__} takes a Searcher; got {searcher!r}")
        self.searcher = searcher
        super().__init__(searcher.metric, searcher.mode)

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        done = self.searcher._tell(metric, mode, config, spec)
        self._metric, self._mode = self.searcher.metric, self.searcher.mode
        return done

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_pause(self, trial_id: str) -> None:
        """Tell the searcher that a trial waits, if it asks about such.

        Args:
            trial_id: The trial's id.
        """
        self._pass_on("on_pause", trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Tell the searcher that a trial goes on, if it asks about such.

        Args:
            trial_id: The trial's id.
        """
        self._pass_on("on_unpause", trial_id)

    def _pass_on(self, event: str, trial_id: str) -> None:
        method = getattr(self.searcher, event, None)
        if method is not None:
            method(trial_id)

    def add_evaluated_point(self, *args: Any, **kwargs: Any) -> None:
        self.searcher.add_evaluated_point(*args, **kwargs)

    def save(self, checkpoint_path: str) -> None:
        self.searcher.save(checkpoint_path)

    def restore(self, checkpoint_path: str, *, allow_pickle: bool = False) -> None:
        with allowing(allow_pickle):
            self.searcher.restore(checkpoint_path)


class ConcurrencyLimiter(_Wrapper):
    """Let a searcher have only so many trials at a time.

    Args:
        searcher: The searcher.
        max_concurrent: How many.
        batch: Whether a batch of trials is finished before the searcher hears of any of them, and
            the next batch begins.

    Raises:
        ValueError: If `max_concurrent` is below 1.
    """

    def __init__(self, searcher: Searcher, max_concurrent: object, batch: bool = False) -> None:
        if not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise ValueError(f"max_concurrent takes a number from 1; got {max_concurrent!r}")
        super().__init__(searcher)
        self.max_concurrent: int = max_concurrent
        self.batch = batch
        self.live_trials: set[str] = set()
        self.num_unfinished_live_trials: int = 0
        self.cached_results: dict[str, tuple[Any, bool]] = {}
        self._limit_concurrency = not searcher.set_max_concurrency(max_concurrent)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self.max_concurrent = max_concurrent
        return True

    def suggest(self, trial_id: str) -> Config | str | None:
        if not self._limit_concurrency:
            return self.searcher.suggest(trial_id)
        if trial_id in self.live_trials or len(self.live_trials) >= self.max_concurrent:
            return None
        suggestion = self.searcher.suggest(trial_id)
        if suggestion is not None and suggestion != Searcher.FINISHED:
            self.live_trials.add(trial_id)
            self.num_unfinished_live_trials += 1
        return suggestion

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        if not self._limit_concurrency:
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
        elif trial_id not in self.live_trials:
            return
        elif not self.batch:
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
            self.live_trials.discard(trial_id)
            self.num_unfinished_live_trials -= 1
        else:
            self.cached_results[trial_id] = (result, error)
            self.num_unfinished_live_trials -= 1
            self._finish_batch()

    def _finish_batch(self) -> None:
        if self.num_unfinished_live_trials > 0:
            return
        for trial_id, (result, error) in self.cached_results.items():
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
            self.live_trials.discard(trial_id)
        self.cached_results = {}

    def get_state(self) -> State:
        return copy.deepcopy(super().get_state())
