"""What people see of a search while it runs: a reporter, called when it is time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from skate.tune.search.search_algorithm import WITHOUT_END

if TYPE_CHECKING:
    from skate._run.config import RunConfig
    from skate.tune.execution.controller import TuneController
    from skate.tune.tune_config import TuneConfig


class ProgressReporting:
    """Calls the reporter of a search, if there is one.

    Args:
        name: The experiment's.
        tuning: What is optimised.
        run: How much is to be seen, and by which reporter.
        controller: Whose trials are shown.
    """

    def __init__(
        self, name: str, tuning: TuneConfig, run: RunConfig, controller: TuneController
    ) -> None:
        self._controller = controller
        self._reporter = _reporter(name, run)
        if self._reporter is not None:
            total = controller.search_alg.total_samples
            self._reporter.setup(
                start_time=time.time(),
                total_samples=total if total < WITHOUT_END else None,
                metric=tuning.metric,
                mode=tuning.mode,
            )

    def tick(self) -> None:
        """Report if it is time."""
        self._report(done=False)

    def finish(self) -> None:
        """Report what all has come to."""
        self._report(done=True)

    def _report(self, done: bool) -> None:
        reporter, controller = self._reporter, self._controller
        if reporter is not None and reporter.should_report(controller.trials, done=done):
            reporter.report(controller.get_trials(), done, controller.scheduler.debug_string())


def _reporter(name: str, run: RunConfig) -> Any:
    """Choose the user's reporter; else a live view, if somebody can see it; else lines."""
    if run.verbose == 0:
        return None
    if run.progress_reporter is not None:
        return run.progress_reporter
    from skate.tune._live import LiveReporter

    if LiveReporter.usable():
        return LiveReporter()
    if run.verbose is not None and run.verbose >= 2:
        from skate.tune.progress_reporter import CLIReporter

        return CLIReporter()
    from skate.tune._lines import LineReporter

    return LineReporter(name)
