"""`num_workers=0`: the loop runs in this process, where a debugger can follow it."""

from __future__ import annotations

from typing import Any

from skate._run.checkpoints import CHECKPOINT_NAME
from skate._run.context import Whereabouts
from skate._run.reporting import CheckpointUploadMode, Report
from skate._run.result import Result
from skate._run.session import Session, activated
from skate._run.storage import write_into
from skate.train._controller import Plan
from skate.train._errors import failure_of
from skate.train._recorder import Recorder
from skate.train._view import View
from skate.train._worker import REPORTED, Event, call_loop, check_metrics, positions_of


class StoppedError(BaseException):
    """`RunConfig.stop` is met: leaves the loop, past its `except Exception`."""


class LocalSession(Session):
    """Reports are recorded on the spot."""

    def __init__(
        self, whereabouts: Whereabouts, plan: Plan, datasets: dict[str, Any], recorder: Recorder,
        view: View,
    ) -> None:  # fmt: skip
        super().__init__(whereabouts, recorder.checkpoint or plan.checkpoint, datasets)
        self._recorder = recorder
        self._view = view

    def meet(self, value: Any = None) -> Any:
        """There is nobody to wait for."""
        return value

    def report(self, report: Report) -> None:
        check_metrics(report.metrics)
        event = Event(REPORTED, report.metrics)
        if report.checkpoint is not None:
            number = self._recorder.next_checkpoint
            event.checkpoint_name = report.directory_name or CHECKPOINT_NAME.format(number)
            if report.upload_mode is CheckpointUploadMode.NO_UPLOAD:
                event.checkpoint = report.checkpoint
            elif report.upload_fn is not None:
                event.checkpoint = report.upload_fn(report.checkpoint, event.checkpoint_name)
            else:
                draft = self._recorder.storage.draft(event.checkpoint_name)
                write_into(draft, report.checkpoint)
                event.checkpoint_class = type(report.checkpoint)
        event.positions = positions_of(self.datasets)
        self._recorder.record([event])
        self._view.reported(self._recorder.run)
        self.latest_checkpoint = self._recorder.checkpoint or self.latest_checkpoint
        if self._recorder.should_stop():
            raise StoppedError


def run_here(plan: Plan, recorder: Recorder, view: View, datasets: dict[str, Any]) -> Result:
    """Run the loop in the calling thread."""
    run = recorder.run
    whereabouts = Whereabouts(
        experiment_name=run.name, trial_name=run.name, trial_id=run.trial_id,
        trial_dir=run.storage.path, metadata=plan.metadata, storage=run.storage,
    )  # fmt: skip
    session = LocalSession(whereabouts, plan, datasets, recorder, view)
    recorder.clock.restart()
    try:
        with activated(session), plan.backend.train_func_context():
            value = call_loop(plan.loop, plan.config)
    except StoppedError:
        value = None
    except Exception as error:
        recorder.failed({0: error}, again=False)
        failure = failure_of({0: error})
        recorder.close(failure)
        raise failure from error
    except BaseException as error:
        recorder.close(error)
        raise
    return recorder.close(value=value)
