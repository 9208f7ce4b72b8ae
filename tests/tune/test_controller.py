"""The controller alone: events in, verdicts out, no process."""

import pytest

from skate import tune
from skate._run.loggers import JsonLoggerCallback
from skate.tune.execution.channel import GO_ON, HALT, HALT_AND_SAVE, SAVE, Channel
from skate.tune.execution.controller import TuneController
from skate.tune.execution.state import StateLog
from skate.tune.experiment import Experiment, Trial
from skate.tune.schedulers import FIFOScheduler
from skate.tune.search import BasicVariantGenerator
from skate.tune.stopper import MaximumIterationStopper


class Deciding(FIFOScheduler):
    """Says what it was told to say."""

    decision = "CONTINUE"
    needs = False

    def needs_checkpoint(self, tune_controller, trial, result):
        return self.needs

    def on_trial_result(self, tune_controller, trial, result):
        return self.decision


@pytest.fixture
def make(tmp_path):
    def made(samples=2, stopper=None, scheduler=None, saves=False, **options):
        experiment = Experiment(
            "e", lambda config: None, config={"x": tune.randint(0, 9)}, num_samples=samples,
            storage_path=tmp_path, max_failures=options.pop("max_failures", 0),
            checkpoint_config=options.pop("checkpoint_config", None),
        )  # fmt: skip
        search = BasicVariantGenerator()
        search.add_configurations(experiment)
        return TuneController(
            search_alg=search, scheduler=scheduler or FIFOScheduler(), stopper=stopper,
            callbacks=options.pop("callbacks", []), log=StateLog(experiment.storage),
            total_resources={"CPU": 2}, saves_on_demand=saves, **options,
        )  # fmt: skip

    return made


def started(controller):
    trial = controller.next_trial_to_start()
    controller.start(trial)
    controller.on_began(trial, 1)
    return trial


def test_a_life(make):
    controller = make(samples=1)
    trial = started(controller)
    assert trial.status == Trial.RUNNING
    assert controller.on_result(trial, {"loss": 1, "training_iteration": 1}, None) == GO_ON
    controller.on_released(trial)
    assert trial.status == Trial.TERMINATED
    assert trial.last_result["done"]
    assert controller.next_trial_to_start() is None
    assert controller.is_finished


def test_a_stopper_ends_a_trial(make):
    controller = make(stopper=MaximumIterationStopper(2))
    trial = started(controller)
    answers = [controller.on_result(trial, {"training_iteration": n}, None) for n in (1, 2)]
    assert answers == [GO_ON, HALT]
    assert not controller.is_finished
    controller.on_released(trial)


def test_the_end_is_saved_where_that_was_asked_for(make):
    config = tune.CheckpointConfig(checkpoint_at_end=True)
    controller = make(stopper=MaximumIterationStopper(1), saves=True, checkpoint_config=config)
    trial = started(controller)
    assert controller.on_result(trial, {"training_iteration": 1}, None) == HALT_AND_SAVE


def test_a_trial_on_its_way_out_is_not_started_again(make):
    scheduler = Deciding()
    controller = make(samples=1, scheduler=scheduler)
    trial = started(controller)
    scheduler.decision = "PAUSE"
    assert controller.on_result(trial, {"training_iteration": 1}, None) == HALT
    assert trial.status == Trial.PAUSED
    assert controller.next_trial_to_start() is None
    controller.on_released(trial)
    assert trial.status == Trial.PAUSED
    assert controller.next_trial_to_start() is trial


def saved(controller, trial):
    """What a trial sends that was told to save."""
    name = f"checkpoint_{trial.next_checkpoint:06d}"
    trial.storage.persist(tune.Checkpoint.from_dict({"a": 1}), name)
    return controller.on_saved(trial, name)


def test_a_decision_waits_for_the_checkpoint_that_it_needs(make):
    scheduler = Deciding()
    controller = make(scheduler=scheduler, saves=True)
    trial = started(controller)
    scheduler.needs, scheduler.decision = True, "PAUSE"
    assert controller.on_result(trial, {"training_iteration": 1}, None) == SAVE
    assert trial.status == Trial.RUNNING
    assert saved(controller, trial) == HALT
    assert trial.status == Trial.PAUSED
    assert trial.checkpoint.to_dict() == {"a": 1}


def test_a_trial_that_ends_while_it_saves_is_halted(make):
    scheduler = Deciding()
    controller = make(scheduler=scheduler, saves=True)
    trial = started(controller)
    scheduler.needs = True
    assert controller.on_result(trial, {"training_iteration": 1}, None) == SAVE
    controller.stop_trial(trial)
    assert saved(controller, trial) == HALT
    assert trial.status == Trial.TERMINATED


def test_a_scheduler_may_ask_for_a_checkpoint_beside_its_decision(make):
    class Asking(Deciding):
        def on_trial_result(self, tune_controller, trial, result):
            assert tune_controller.save_trial(trial) is None
            return self.decision

    controller = make(scheduler=Asking(), saves=True)
    trial = started(controller)
    assert controller.on_result(trial, {"training_iteration": 1}, None) == SAVE
    assert saved(controller, trial) == GO_ON


def test_a_paused_trial_saves_on_its_way_out(make):
    scheduler = Deciding()
    controller = make(samples=2, scheduler=scheduler, saves=True, max_concurrent=1)
    trial = started(controller)
    scheduler.decision = "PAUSE"
    assert controller.on_result(trial, {"training_iteration": 1}, None) == HALT_AND_SAVE
    assert trial.is_saving
    assert scheduler.choose_trial_to_run(controller) is not trial
    saved(controller, trial)
    controller.on_released(trial)
    assert not trial.is_saving
    assert trial.has_checkpoint()


def test_a_paused_trial_that_cannot_save_has_failed(make):
    scheduler = Deciding()
    controller = make(samples=1, scheduler=scheduler, saves=True, max_failures=1)
    trial = started(controller)
    scheduler.decision = "PAUSE"
    controller.on_result(trial, {"training_iteration": 1}, None)
    controller.on_failure(trial, OSError("the disk is full"))
    assert (trial.status, trial.num_failures) == (Trial.PENDING, 1)


def test_a_stopped_trial_cannot_fail_any_more(make):
    scheduler = Deciding()
    controller = make(samples=1, scheduler=scheduler, saves=True, max_failures=1)
    trial = started(controller)
    scheduler.decision = "PAUSE"
    controller.on_result(trial, {"training_iteration": 1}, None)
    controller.stop_trial(trial)
    controller.on_failure(trial, OSError("the disk is full"))
    assert (trial.status, trial.num_failures) == (Trial.TERMINATED, 0)
    assert controller.is_finished


def test_a_trial_that_is_stopped_while_it_saves_ends_once(make):
    ended = []

    class Listener(tune.Callback):
        def on_trial_complete(self, iteration, trials, trial, **info):
            ended.append(trial)

    scheduler = Deciding()
    controller = make(samples=1, scheduler=scheduler, saves=True, callbacks=[Listener()])
    trial = started(controller)
    scheduler.decision = "PAUSE"
    controller.on_result(trial, {"training_iteration": 1}, None)
    controller.stop_trial(trial)
    saved(controller, trial)
    controller.on_released(trial)
    assert ended == [trial]


def test_failures_are_retried_as_often_as_allowed(make):
    controller = make(samples=1, max_failures=1)
    trial = started(controller)
    controller.on_failure(trial, ValueError("one"))
    assert trial.status == Trial.PENDING
    assert started(controller) is trial
    controller.on_failure(trial, ValueError("two"))
    assert trial.status == Trial.ERROR
    assert controller.is_finished


def test_what_a_trial_reported_before_it_took_over_a_checkpoint_stays(make, tmp_path):
    controller = make(samples=1, max_failures=1, callbacks=[JsonLoggerCallback()])
    trial = started(controller)

    def report(*iterations):
        for number in iterations:
            controller.on_result(trial, {"training_iteration": number}, None)

    report(1, 2, 3)
    (tmp_path / "of a trial that is not as far").mkdir()
    other = tune.Checkpoint(tmp_path / "of a trial that is not as far")
    controller.adopt_checkpoint(trial, other, {"training_iteration": 1})
    report(2, 3, 4)
    controller.on_failure(trial, ValueError("one"))
    rows = trial.storage.lines("result.json")
    assert [row["training_iteration"] for row in rows] == [1, 2, 3]
    assert trial.last_result["training_iteration"] == 3


class Noting(FIFOScheduler):
    """Writes down what it hears of trials that come and fail."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def on_trial_add(self, tune_controller, trial):
        self.heard.append(("add", trial.status))

    def on_trial_error(self, tune_controller, trial):
        self.heard.append(("error", trial.status))


def test_schedulers_hear_of_trials_that_begin_again(make):
    scheduler = Noting()
    controller = make(samples=1, max_failures=1, scheduler=scheduler)
    trial = started(controller)
    controller.on_failure(trial, ValueError("one"))
    assert scheduler.heard == [("add", "PENDING"), ("error", "RUNNING"), ("add", "PENDING")]
    started(controller)
    controller.on_failure(trial, ValueError("two"))
    assert scheduler.heard[3:] == [("error", "ERROR")]


def test_fail_fast_ends_the_others(make):
    controller = make(fail_fast=True)
    first, second = started(controller), started(controller)
    controller.on_failure(first, ValueError("one"))
    assert controller.trials_to_halt() == [second]
    assert not controller.is_finished
    controller.on_released(second)
    assert controller.is_finished
    assert second.status == Trial.TERMINATED


def test_a_limit_of_trials_at_a_time(make):
    controller = make(max_concurrent=1)
    started(controller)
    assert controller.next_trial_to_start() is None


def test_what_can_never_run_is_an_error(make, tmp_path):
    controller = make()
    controller._total = {"CPU": 0.5}
    with pytest.raises(tune.TuneError, match="never"):
        controller.next_trial_to_start()


def test_channels_answer_who_waits():
    import threading

    channel, verdicts = Channel(), []
    assert channel.send("one", wait=False) == GO_ON
    thread = threading.Thread(target=lambda: verdicts.append(channel.send("two", wait=True)))
    thread.start()
    items = []
    while len(items) < 2:
        items += channel.take(5)[0]
    channel.answer(HALT)
    thread.join()
    assert (items, verdicts) == (["one", "two"], [HALT])
    assert channel.send("three", wait=False) == HALT
