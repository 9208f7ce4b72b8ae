"""`num_workers=0`: the loop runs in this process, where a debugger can follow it."""

from __future__ import annotations

from typing import Any

from skate._run.context import SessionInfo
from skate._run.reporting import Report
from skate._run.result import Result
from skate._run.session import RunSession, activated
from skate.train._controller import TrainPlan
from skate.train._errors import failure_of
from skate.train._recorder import Recorder
from skate.train._view import View
from skate.train._workers.events import StoppedError
from skate.train._workers.handover import discard_original, hand_over
from skate.train._workers.worker import call_loop, check_metrics, positions_of


class LocalSession(RunSession):
    """Reports are recorded on the spot."""

    def __init__(
        self, info: SessionInfo, plan: TrainPlan, datasets: dict[str, object], recorder: Recorder,
        view: View,
    ) -> None:  # fmt: skip
        super().__init__(info, recorder.checkpoint or plan.checkpoint, datasets)
        self._recorder = recorder
        self._view = view

    def meet(self, value: object = None) -> Any:
        """Return the value at once: there is nobody to wait for."""
        return value

    def check(self) -> None:
        self._recorder.check()

    def report(self, report: Report) -> None:
        check_metrics(report.metrics)
        recorder = self._recorder
        event = hand_over(report, recorder.next_checkpoint, recorder.storage, 0, self.began)
        event.positions = positions_of(self.datasets)
        self._recorder.record([event])
        discard_original(report, event.checkpoint)
        self._view.reported(self._recorder.run)
        self.latest_checkpoint = self._recorder.checkpoint or self.latest_checkpoint
        if self._recorder.should_stop():
            raise StoppedError


def run_here(
    plan: TrainPlan, recorder: Recorder, view: View, datasets: dict[str, object]
) -> Result:
    """Run the loop in the calling thread."""
    run = recorder.run
    info = SessionInfo(
        experiment_name=run.name, trial_name=run.name, trial_id=run.trial_id,
        trial_dir=run.storage.path, metadata=plan.metadata, storage=run.storage,
        validates=recorder.validator.configured,
    )  # fmt: skip
    session = LocalSession(info, plan, datasets, recorder, view)
    recorder.clock.restart()
    try:
        with activated(session), plan.backend.train_func_context():
            value = call_loop(plan.loop, plan.config)
    except StoppedError:
        value = None
    except Exception as error:
        recorder.failed({0: error}, again=False)
        raise failure_of({0: error}) from error
    return recorder.close(value=value)
