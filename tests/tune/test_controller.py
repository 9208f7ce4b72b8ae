"""The controller: events in, verdicts and effects out, no process."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from skate import tune
from skate._run.append_buffer import AppendBuffer
from skate._run.context import SessionInfo
from skate._run.loggers import default_loggers
from skate._run.storage import Storage
from skate.tune.execution import effects
from skate.tune.execution.channel import Channel
from skate.tune.execution.controller import TuneController
from skate.tune.execution.events import Began, Reported, Saved, TrialVerdict
from skate.tune.execution.performer import Performer
from skate.tune.execution.session import Outbox, TrialTask
from skate.tune.experiment import Experiment, Trial
from skate.tune.experiment.state_file import StateLog
from skate.tune.schedulers import ASHAScheduler, FIFOScheduler, MedianStoppingRule
from skate.tune.search import BasicVariantGenerator
from skate.tune.stopper import MaximumIterationStopper, Stopper


class Deciding(FIFOScheduler):
    """Says what it was told to say."""

    decision = "CONTINUE"
    needs = False

    def needs_checkpoint(self, tune_controller, trial, result):
        return self.needs

    def on_trial_result(self, tune_controller, trial, result):
        return self.decision


class Driven:
    """A controller whose effects are carried out at once."""

    def __init__(self, controller, callbacks, log):
        self.controller = controller
        self._performer = Performer(controller, callbacks, log, AppendBuffer())

    def __getattr__(self, name):
        return getattr(self.controller, name)

    @property
    def next_trial_to_start(self):
        return self._driven(self.controller.next_trial_to_start)

    @property
    def on_event(self):
        return self._driven(self.controller.on_event)

    @property
    def on_released(self):
        return self._driven(self.controller.on_released)

    @property
    def on_failure(self):
        return self._driven(self.controller.on_failure)

    def _driven(self, method):
        return lambda *args: self._performed(method(*args))

    def _performed(self, steps):
        outcome = self._performer.run(steps)
        self._performer.catch_up()
        return outcome


def new_controller(folder, samples=2, stopper=None, scheduler=None, saves=False, **options):
    experiment = Experiment(
        "e", tune.Trainable, config={"x": tune.randint(0, 9)}, num_samples=samples,
        storage_path=folder, max_failures=options.pop("max_failures", 0),
        checkpoint_config=options.pop("checkpoint_config", None),
    )  # fmt: skip
    search = BasicVariantGenerator()
    search.add_configurations(experiment)
    controller = TuneController(
        search_alg=search, scheduler=scheduler or FIFOScheduler(), stopper=stopper,
        total_resources={"CPU": 2}, saves_on_demand=lambda trial: saves, **options,
    )  # fmt: skip
    return controller, StateLog(experiment.storage)


@pytest.fixture
def make(tmp_path):
    def made(callbacks=(), **options):
        controller, log = new_controller(tmp_path, **options)
        return Driven(controller, list(callbacks), log)

    return made


def started(controller):
    trial = controller.next_trial_to_start()
    controller.start(trial)
    assert controller.on_event(trial, Began(1)) is TrialVerdict.GO_ON
    return trial


def reported(controller, trial, **result):
    return controller.on_event(trial, Reported(result))


def test_a_life(make):
    controller = make(samples=1)
    trial = started(controller)
    assert trial.status == Trial.RUNNING
    assert reported(controller, trial, loss=1, training_iteration=1) == TrialVerdict.GO_ON
    controller.on_released(trial)
    assert trial.status == Trial.TERMINATED
    assert trial.last_result["done"]
    assert controller.next_trial_to_start() is None
    assert controller.is_finished


def test_a_stopper_ends_a_trial(make):
    controller = make(stopper=MaximumIterationStopper(2))
    trial = started(controller)
    answers = [reported(controller, trial, training_iteration=n) for n in (1, 2)]
    assert answers == [TrialVerdict.GO_ON, TrialVerdict.HALT]
    assert not controller.is_finished
    controller.on_released(trial)


class Seeing(Stopper):
    def __init__(self):
        self.seen = []

    def __call__(self, trial_id, result):
        self.seen.append((result.get("loss"), result.get("done", False)))
        return False

    def stop_all(self):
        return False


def test_a_stopper_sees_the_last_result_of_a_function_once_more(make):
    controller = make(stopper=Seeing())
    trial, silent = started(controller), started(controller)
    reported(controller, trial, loss=1, training_iteration=1)
    controller.on_released(trial)
    controller.on_released(silent)
    assert controller.controller._stopper.seen == [(1, False), (1, True)]


def test_the_end_is_saved_where_that_was_asked_for(make):
    config = tune.CheckpointConfig(checkpoint_at_end=True)
    controller = make(stopper=MaximumIterationStopper(1), saves=True, checkpoint_config=config)
    trial = started(controller)
    assert reported(controller, trial, training_iteration=1) == TrialVerdict.HALT_AND_SAVE


def test_a_trial_on_its_way_out_is_not_started_again(make):
    scheduler = Deciding()
    controller = make(samples=1, scheduler=scheduler)
    trial = started(controller)
    scheduler.decision = "PAUSE"
    assert reported(controller, trial, training_iteration=1) == TrialVerdict.HALT
    assert trial.status == Trial.PAUSED
    assert controller.next_trial_to_start() is None
    controller.on_released(trial)
    assert trial.status == Trial.PAUSED
    assert controller.next_trial_to_start() is trial


def saved(controller, trial):
    """What a trial sends that was told to save."""
    name = f"checkpoint_{trial.next_checkpoint:06d}"
    trial.storage.persist(tune.Checkpoint.from_dict({"a": 1}), name)
    return controller.on_event(trial, Saved(name))


def test_a_decision_waits_for_the_checkpoint_that_it_needs(make):
    scheduler = Deciding()
    controller = make(scheduler=scheduler, saves=True)
    trial = started(controller)
    scheduler.needs, scheduler.decision = True, "PAUSE"
    assert reported(controller, trial, training_iteration=1) == TrialVerdict.SAVE
    assert trial.status == Trial.RUNNING
    assert saved(controller, trial) == TrialVerdict.HALT
    assert trial.status == Trial.PAUSED
    assert trial.checkpoint.to_dict() == {"a": 1}


def test_a_trial_that_ends_while_it_saves_is_halted(make):
    scheduler = Deciding()
    controller = make(scheduler=scheduler, saves=True)
    trial = started(controller)
    scheduler.needs = True
    assert reported(controller, trial, training_iteration=1) == TrialVerdict.SAVE
    controller.stop_trial(trial)
    assert saved(controller, trial) == TrialVerdict.HALT
    assert trial.status == Trial.TERMINATED


def test_a_scheduler_may_ask_for_a_checkpoint_beside_its_decision(make):
    class Asking(Deciding):
        def on_trial_result(self, tune_controller, trial, result):
            assert tune_controller.save_trial(trial) is None
            return self.decision

    controller = make(scheduler=Asking(), saves=True)
    trial = started(controller)
    assert reported(controller, trial, training_iteration=1) == TrialVerdict.SAVE
    assert saved(controller, trial) == TrialVerdict.GO_ON


def test_a_paused_trial_saves_on_its_way_out(make):
    scheduler = Deciding()
    controller = make(samples=2, scheduler=scheduler, saves=True, max_concurrent=1)
    trial = started(controller)
    scheduler.decision = "PAUSE"
    assert reported(controller, trial, training_iteration=1) == TrialVerdict.HALT_AND_SAVE
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
    reported(controller, trial, training_iteration=1)
    controller.on_failure(trial, OSError("the disk is full"))
    assert (trial.status, trial.num_failures) == (Trial.PENDING, 1)


def test_a_stopped_trial_cannot_fail_any_more(make):
    scheduler = Deciding()
    controller = make(samples=1, scheduler=scheduler, saves=True, max_failures=1)
    trial = started(controller)
    scheduler.decision = "PAUSE"
    reported(controller, trial, training_iteration=1)
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
    reported(controller, trial, training_iteration=1)
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
    controller = make(samples=1, max_failures=1)
    trial = started(controller)

    def report(*iterations):
        for number in iterations:
            reported(controller, trial, training_iteration=number)

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


def test_trials_are_made_ahead_several_at_a_time(tmp_path):
    controller, _ = new_controller(tmp_path, samples=100, most_pending=4)
    sizes = []
    for _ in range(7):
        steps, trial = controller.next_trial_to_start(), None
        while trial is None:
            try:
                sizes.append(len(next(steps).trials))
            except StopIteration as end:
                trial = end.value
        controller.start(trial)
    assert sizes == [4, 2, 2, 2]  # again when half of them have begun


def test_trials_are_written_down_that_were_made_before_one_that_fails(tmp_path):
    controller, _ = new_controller(tmp_path, samples=100, most_pending=4)
    made, make_next = [], controller.search_alg.next_trial

    def next_trial():
        if len(made) == 3:
            raise ValueError("no fourth")
        made.append(make_next())
        return made[-1]

    controller.search_alg.next_trial = next_trial
    steps = controller.next_trial_to_start()
    assert next(steps) == effects.AddTrials(made)
    with pytest.raises(ValueError, match="no fourth"):
        next(steps)


def test_nothing_is_touched_until_the_effects_are_carried_out(tmp_path):
    controller, _ = new_controller(tmp_path / "nowhere", samples=1, max_failures=1)

    def drained(steps):
        found = []
        while True:
            try:
                found.append(next(steps))
            except StopIteration as end:
                return found, end.value

    (added,), trial = drained(controller.next_trial_to_start())
    assert added == effects.AddTrials([trial])
    controller.start(trial)
    assert drained(controller.on_event(trial, Began(1))) == (
        [effects.BeginTrial(trial)],
        TrialVerdict.GO_ON,
    )
    found, verdict = drained(controller.on_event(trial, Reported({"n": 1}, "checkpoint_000000")))
    assert [type(effect) for effect in found] == [effects.RecordResult, effects.RecordCheckpoint]
    assert verdict is TrialVerdict.GO_ON
    found, _ = drained(controller.on_failure(trial, error := ValueError("one")))
    assert found == [
        effects.RecordError(trial, error),
        effects.TellCallbacks("on_trial_recover", trial),
        effects.RollBack(trial),
    ]
    assert trial.status == Trial.PENDING
    assert not (tmp_path / "nowhere").exists()


def test_what_can_never_run_is_an_error(make, tmp_path):
    controller = make()
    controller.controller._total = {"CPU": 0.5}
    with pytest.raises(tune.TuneError, match="never"):
        controller.next_trial_to_start()


def test_channels_answer_who_waits():
    import threading

    channel, verdicts = Channel(), []
    assert channel.send(Saved("one"), wait=False) == TrialVerdict.GO_ON
    thread = threading.Thread(
        target=lambda: verdicts.append(channel.send(Saved("two"), wait=True))
    )
    thread.start()
    items = []
    while len(items) < 2:
        items += channel.take(5)[0]
    channel.answer(TrialVerdict.HALT)
    thread.join()
    assert (items, verdicts) == ([Saved("one"), Saved("two")], [TrialVerdict.HALT])
    assert channel.send(Saved("three"), wait=False) == TrialVerdict.HALT


def test_trials_wait_where_successive_halving_decides(make, tmp_path):
    scheduler = ASHAScheduler(metric="loss", mode="min", max_t=20, reduction_factor=4)
    controller = make(scheduler=scheduler)
    times = scheduler.decision_times(started(controller))
    assert times == ("training_iteration", (1, 4, 16, 20))
    sent = []
    channel = SimpleNamespace(send=lambda event, wait: sent.append(wait))
    info = SessionInfo(trial_id="t", storage=Storage(tmp_path, "t"))
    outbox = Outbox(TrialTask(info, {}, waits_at=times), channel)
    for step in (None, 1, 2, 3, 5, 6, 16, 17, 25, 26):  # 4 and 20 are passed over
        outbox.result({} if step is None else {"training_iteration": step}, None)
    assert sent == [False, True, False, False, True, False, True, False, True, False]


def test_trials_wait_at_each_result_for_schedulers_that_do_not_say_where():
    class Own(ASHAScheduler):
        pass

    class Patient(FIFOScheduler):
        pass

    for scheduler in (Own(), Patient(), MedianStoppingRule()):
        assert scheduler.decision_times(None) is None
    assert FIFOScheduler().decision_times(None) == ("training_iteration", ())


def test_the_usual_files_are_written_when_the_trial_has_its_answer(tmp_path):
    controller, log = new_controller(tmp_path)
    performer = Performer(controller, default_loggers(), log, AppendBuffer())
    trial = performer.run(controller.next_trial_to_start())
    controller.start(trial)
    trial.init_local_path()
    performer.run(controller.on_event(trial, Began(1)))
    row = {"loss": 1, "training_iteration": 1}
    assert performer.run(controller.on_event(trial, Reported(row))) is TrialVerdict.GO_ON
    folder = Path(trial.local_path)
    assert not list(folder.iterdir())
    performer.catch_up()
    names = ["params.json", "params.pkl", "progress.csv", "result.json"]
    assert set(names) < {file.name for file in folder.iterdir()}
    row = {"loss": 2, "training_iteration": 2}
    performer.run(controller.on_event(trial, Reported(row)))
    performer.run(controller.on_failure(trial, RuntimeError()))  # an error is written at once
    assert len((folder / "result.json").read_text().splitlines()) == 2


def test_callbacks_of_users_hear_of_a_result_before_the_trial_goes_on(tmp_path):
    heard = []

    class Listening(tune.Callback):
        def on_trial_result(self, **info):
            heard.append(info["result"]["loss"])

    controller, log = new_controller(tmp_path)
    performer = Performer(controller, [*default_loggers(), Listening()], log, AppendBuffer())
    trial = performer.run(controller.next_trial_to_start())
    controller.start(trial)
    performer.run(controller.on_event(trial, Began(1)))
    performer.run(controller.on_event(trial, Reported({"loss": 1, "training_iteration": 1})))
    assert heard == [1]
    assert (Path(trial.local_path) / "result.json").exists()
