"""DataParallelTrainer: loops, reports, checkpoints, configurations."""

from __future__ import annotations

import csv
import json
import os
import pickle
import re
import sys
from pathlib import Path

import pytest

import skate
from skate import train
from skate.air import session
from skate.train import Checkpoint, CheckpointConfig, DataParallelTrainer, Result, ScalingConfig
from skate.train._trial import changed
from skate.train._workers.worker import takes_config
from skate.train.base_trainer import BaseTrainer


def fit(loop, run_config, workers=2, config=None, **settings):
    return DataParallelTrainer(
        loop,
        train_loop_config=config,
        scaling_config={"num_workers": workers},
        run_config=run_config,
        **settings,
    ).fit()


def test_metrics_of_rank_0_and_what_is_filled_in(run_config):
    def loop(config):
        for step in range(config["steps"]):
            train.report({"step": step, "rank": train.world_rank()})
        return "done", train.get_context().get_world_rank()

    result = fit(loop, run_config(), config={"steps": 3})
    assert result.metrics["step"] == 2
    assert result.metrics["rank"] == 0
    assert result.metrics["training_iteration"] == 3
    assert result.metrics["time_total_s"] >= result.metrics["time_this_iter_s"] > 0
    assert list(result.metrics_dataframe["step"]) == [0, 1, 2]
    assert result.config == {"steps": 3}
    assert result.return_value == ("done", 0)
    assert result.error is None


def test_workers_that_reserve_nothing_are_refused(run_config):
    scaling = ScalingConfig(resources_per_worker={"CPU": 0})
    with pytest.raises(ValueError, match="some of it above 0"):
        DataParallelTrainer(print, scaling_config=scaling, run_config=run_config()).fit()


def test_workers_share_a_working_directory_where_it_is_asked_for(run_config, monkeypatch):
    def loop():
        train.report(folder=os.getcwd(), rank=train.world_rank())

    home = os.getcwd()
    assert fit(loop, run_config()).metrics["folder"] == home
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "1")
    result = fit(loop, run_config(name="apart"))
    session = skate.get_runtime_context().get_temp_dir()
    assert result.metrics["folder"] == os.path.realpath(f"{session}/artifacts/apart")
    assert os.getcwd() == home


def test_the_folder_of_a_run(run_config):
    def loop():
        train.report(loss=1.0)

    result = fit(loop, run_config(), config={"lr": 0.5})
    folder = Path(result.path)
    assert folder.name == "run"
    assert json.loads((folder / "params.json").read_text()) == {"lr": 0.5}
    assert {"result.json", "progress.csv"} <= set(os.listdir(folder))
    assert list(folder.glob("events.out.tfevents.*"))
    assert Result.from_path(folder).metrics == result.metrics


def test_where_a_worker_is(run_config, tmp_path):
    def loop():
        context = train.get_context()
        place = (
            context.get_world_rank(), context.get_local_rank(), context.get_node_rank(),
            context.get_world_size(), context.get_local_world_size(), session.get_world_size(),
        )  # fmt: skip
        names = (context.get_experiment_name(), context.get_trial_dir(), context.get_metadata())
        resources = context.get_trial_resources().bundles
        told = [place, names, os.getcwd(), resources]
        (tmp_path / f"rank-{place[0]}").write_text(json.dumps(told))

    result = fit(loop, run_config(), metadata={"by": "me"})
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}").read_text())
        assert found[0] == [rank, rank, 0, 2, 2, 2]
        assert found[1] == ["run", result.path, {"by": "me"}]
        assert found[2] == os.getcwd()
        assert found[3] == [{"CPU": 1.0}, {"CPU": 1.0}]


def test_notes_of_the_trainer_are_those_of_its_checkpoints(run_config):
    def loop():
        noted = Checkpoint.from_dict({})
        noted.set_metadata({"by": "rank", "step": 1})
        train.report({}, checkpoint=noted)
        train.report({}, checkpoint=Checkpoint.from_dict({}))

    result = fit(loop, run_config(), metadata={"by": "me", "of": "us"})
    found = [checkpoint.get_metadata() for checkpoint, _ in result.best_checkpoints]
    assert found == [{"by": "rank", "of": "us", "step": 1}, {"by": "me", "of": "us"}]
    with pytest.raises(TypeError, match="what JSON can express; got"):
        train.DataParallelTrainer(loop, metadata={"by": object()})


def test_checkpoints_of_all_ranks_are_put_together(run_config, tmp_path):
    def loop():
        for step in range(2):
            folder = tmp_path / f"{train.world_rank()}-{step}"
            folder.mkdir()
            (folder / f"rank-{train.world_rank()}").write_text(str(step))
            train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
            (folder / f"rank-{train.world_rank()}").write_text("changed afterwards")
            with train.get_checkpoint().as_directory() as place:
                assert sorted(os.listdir(place)) == ["rank-0", "rank-1"]

    result = fit(loop, run_config())
    with result.checkpoint.as_directory() as place:
        assert {name: Path(place, name).read_text() for name in os.listdir(place)} == {
            "rank-0": "1",
            "rank-1": "1",
        }
    assert Path(result.checkpoint.path).parent == Path(result.path)
    assert [metrics["step"] for _, metrics in result.best_checkpoints] == [0, 1]


def test_a_report_with_a_checkpoint_returns_when_it_is_there_for_good(run_config):
    def loop():
        here = Path(train.get_context().get_trial_dir())
        for step in range(3):
            train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
            reported = [json.loads(line) for line in (here / "result.json").open()]
            assert [row["step"] for row in reported] == list(range(step + 1))
            assert Checkpoint(here / reported[-1]["checkpoint_dir_name"]).to_dict() == {
                "step": step
            }

    assert fit(loop, run_config()).checkpoint.to_dict() == {"step": 2}


def test_the_first_era_of_the_api(run_config):
    def loop(config):
        assert train.load_checkpoint() is None
        for epoch in range(2):
            train.save_checkpoint(epoch=epoch, rank=train.world_rank())
            train.report(loss=1 / (epoch + 1))
            assert train.load_checkpoint()["epoch"] == epoch

    result = fit(loop, run_config())
    assert result.checkpoint.to_dict() == {"epoch": 1, "rank": 0}
    assert result.metrics["loss"] == 0.5
    assert [metrics["loss"] for _, metrics in result.best_checkpoints] == [1, 0.5]


def test_only_the_best_checkpoints_are_kept(run_config):
    def loop():
        for score in (1, 5, 2, 4, 3):
            train.report({"score": score}, checkpoint=Checkpoint.from_dict({"score": score}))

    keep = CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score")
    result = fit(loop, run_config(checkpoint_config=keep))
    kept = [checkpoint.to_dict()["score"] for checkpoint, _ in result.best_checkpoints]
    assert kept == [4, 5]
    folders = [name for name in os.listdir(result.path) if name.startswith("checkpoint_")]
    assert len(folders) == 3  # the last one stays, too


def test_a_run_begins_from_a_checkpoint(run_config):
    def loop():
        train.report(start=train.get_checkpoint().to_dict()["n"])

    result = fit(loop, run_config(), resume_from_checkpoint=Checkpoint.from_dict({"n": 7}))
    assert result.metrics["start"] == 7


def test_the_same_name_goes_on_where_the_run_ended(run_config):
    def loop():
        before = train.get_checkpoint()
        step = before.to_dict()["step"] + 1 if before else 0
        train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))

    assert fit(loop, run_config()).metrics["step"] == 0
    second = fit(loop, run_config())
    assert second.metrics["step"] == 1
    assert second.metrics["training_iteration"] == 2
    assert list(second.metrics_dataframe["step"]) == [0, 1]


def test_what_was_reported_after_the_last_checkpoint_is_reported_once(run_config):
    def loop():
        before = train.get_checkpoint()
        for step in range(before.to_dict()["step"] + 1 if before else 0, 4):
            checkpoint = Checkpoint.from_dict({"step": step}) if step == 1 else None
            train.report({"step": step}, checkpoint=checkpoint)

    fit(loop, run_config(), workers=0)
    again = fit(loop, run_config(), workers=0)
    assert list(again.metrics_dataframe["step"]) == [0, 1, 2, 3]
    assert list(again.metrics_dataframe["training_iteration"]) == [1, 2, 3, 4]
    assert [row["step"] for row in progress_of(again)] == ["0", "1", "2", "3"]


def progress_of(result):
    with open(Path(result.path, "progress.csv"), newline="") as file:
        return list(csv.DictReader(file))


def test_the_same_name_without_a_checkpoint_is_a_new_run(run_config):
    def loop(config):
        for step in range(config["steps"]):
            train.report({"step": step, config["metric"]: 1})

    first = fit(loop, run_config(), workers=0, config={"steps": 5, "metric": "old"})
    second = fit(loop, run_config(), workers=0, config={"steps": 2, "metric": "new"})
    assert list(second.metrics_dataframe["step"]) == [0, 1]
    assert list(second.metrics_dataframe["training_iteration"]) == [1, 2]
    assert [(row["step"], row["new"]) for row in progress_of(second)] == [("0", "1"), ("1", "1")]
    assert "old" not in progress_of(second)[0]
    assert len(list(Path(second.path).glob("events.out.tfevents.*"))) == 1
    assert first.metrics["trial_id"] != second.metrics["trial_id"]


def test_metrics_that_come_later_are_in_the_table_too(run_config):
    def loop():
        train.report(loss=1)
        train.report(loss=2, accuracy=0.5)

    rows = progress_of(fit(loop, run_config(), workers=0))
    assert [(row["loss"], row["accuracy"]) for row in rows] == [("1", ""), ("2", "0.5")]


def test_a_misspelt_score_is_worth_a_warning(run_config):
    def loop():
        for step in range(3):
            checkpoint = Checkpoint.from_dict({})
            train.report({"accuracy": 3 - step, "nested": {"f1": 0}}, checkpoint=checkpoint)

    keep = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="acuracy")
    with pytest.warns(UserWarning, match=r"'acuracy'.*\['accuracy', 'nested/f1'\]") as caught:
        fit(loop, run_config(checkpoint_config=keep), workers=0)
    assert len(caught) == 1


def test_storage_elsewhere(run_config, tmp_path):
    place = tmp_path / "bucket"
    place.mkdir()
    import pyarrow.fs as pafs

    system = pafs.SubTreeFileSystem(str(place), pafs.LocalFileSystem())

    def loop():
        for step in range(2):
            train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))

    settings = run_config(storage_path="deep", storage_filesystem=system)
    result = fit(loop, settings)
    assert result.path == "deep/run"
    assert result.checkpoint.to_dict() == {"step": 1}
    assert list(result.metrics_dataframe["step"]) == [0, 1]
    again = fit(loop, settings)
    assert list(again.metrics_dataframe["step"]) == [0, 1, 0, 1]
    assert Result.from_path("deep/run", system).checkpoint.to_dict() == {"step": 1}


def test_in_this_process_with_no_workers(run_config):
    seen = []

    def loop(config):
        seen.append(os.getpid())
        assert train.get_context().get_world_size() == 1
        for step in range(2):
            train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))

    result = fit(loop, run_config(), workers=0)
    assert seen == [os.getpid()]
    assert result.checkpoint.to_dict() == {"step": 1}
    with pytest.raises(train.WorkerGroupError) as caught:
        fit(lambda: 1 / 0, run_config(), workers=0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("stop", [{"step": 2}, lambda trial_id, result: result["step"] >= 2])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_stops_by_its_metrics(run_config, stop, workers):
    def loop():
        for step in range(1000):
            train.report(step=step)

    assert fit(loop, run_config(stop=stop), workers=workers).metrics["step"] == 2


@pytest.mark.parametrize("loop", [lambda a, b: None, "not a function", 3])
def test_what_is_not_a_loop(loop):
    with pytest.raises(ValueError, match="train_loop_per_worker"):
        DataParallelTrainer(loop)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="num_wrokers"):
        DataParallelTrainer(lambda: None, scaling_config={"num_wrokers": 2})
    with pytest.raises(ValueError, match="Checkpoint"):
        DataParallelTrainer(lambda: None, resume_from_checkpoint="a/path")
    wrong = {"train_loop_config": [1], "preprocessor": 5, "metadata": 5, "backend_config": 5}
    for name, value in wrong.items():
        with pytest.raises(TypeError, match=rf"got \w+: {re.escape(repr(value))}"):
            DataParallelTrainer(lambda config: None, **{name: value})


def test_a_checkpoint_stays_in_the_folder_of_the_run(run_config):
    def loop():
        train.report({}, checkpoint=Checkpoint.from_dict({}), checkpoint_dir_name="../out")

    with pytest.raises(ValueError, match=r"inside of the run's folder.*got '\.\./out'"):
        fit(loop, run_config(), workers=0)


@pytest.mark.parametrize("stop", [5, ["loss"], {"loss": "low"}])
def test_what_a_run_cannot_stop_by(run_config, stop):
    with pytest.raises(TypeError, match="stop is a dict of limits"):
        fit(lambda: None, run_config(stop=stop), workers=0)


def test_metrics_have_names(run_config):
    with pytest.raises(TypeError, match=r"report\({'loss': 0.1}\).*got 5"):
        fit(lambda: train.report(5), run_config(), workers=0)


def test_more_workers_than_cpus_share_them(run_config):
    def loop():
        train.report(size=train.world_size())

    assert fit(loop, run_config(), workers=4).metrics["size"] == 4


def test_resources_that_are_not_there(run_config):
    trainer = DataParallelTrainer(
        lambda: None,
        scaling_config=ScalingConfig(num_workers=1, resources_per_worker={"CPU": 64}),
        run_config=run_config(),
    )
    with pytest.raises(skate.exceptions.SkateError, match="64"):
        trainer.fit()


def test_a_gpu_that_is_not_there(run_config):
    trainer = DataParallelTrainer(
        lambda: None, scaling_config=ScalingConfig(use_gpu=True), run_config=run_config()
    )
    with pytest.raises(train.ControllerError, match="use_gpu=False") as caught:
        trainer.fit()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, train.ControllerError)
    assert isinstance(copy, skate.exceptions.TaskUnschedulableError)
    assert str(copy) == str(caught.value)


def test_callbacks(run_config):
    told = []

    class Listener(train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            told.append(([m["rank"] for m in metrics], checkpoint))

        def after_exception(self, run_context, worker_exceptions):
            told.append(sorted(worker_exceptions))

        def before_run(self, run_context):
            told.append(run_context.run_config.name)
            assert run_context.train_loop_config in ({}, {"fails": True})
            assert run_context.scaling_config.num_workers == 2
            assert isinstance(run_context.backend_config, train.BackendConfig)
            assert isinstance(run_context.dataset_config, train.DataConfig)

        def after_run(self, run_context, result):
            told.append(type(result.error))

    def loop(config):
        train.report(rank=train.world_rank())
        if config and train.world_rank() == 1:
            raise ValueError

    with pytest.raises(train.TrainingFailedError) as caught:
        fit(loop, run_config(callbacks=[Listener()]), config={"fails": True})
    assert told == ["run", ([0, 1], None), [1], type(caught.value)]
    told.clear()
    fit(loop, run_config(callbacks=[Listener()]))
    assert told == ["run", ([0, 1], None), type(None)]


def test_callbacks_know_the_name_of_a_run_that_was_given_none(run_config):
    told = []

    class Listener(train.UserCallback):
        def before_run(self, run_context):
            told.append(run_context.get_run_config().name)

    given = run_config(name=None, callbacks=[Listener()])
    result = fit(lambda: None, given)
    assert told == [os.path.basename(result.path)]
    assert given.name is None  # the next run gets another


def test_a_large_loop_is_worth_a_warning_that_names_it(run_config):
    captured = b"x" * (11 << 20)

    def large_loop():
        train.report(size=len(captured))

    with pytest.warns(UserWarning, match="large_loop.*12 MB"):
        assert fit(large_loop, run_config(), workers=1).metrics["size"] == 11 << 20


def test_one_line_per_report_when_asked_for(run_config, capsys):
    def loop():
        for step in range(2):
            train.report(step=step, loss=0.123456)

    fit(loop, run_config(name="silent", verbose=0), workers=0)
    assert capsys.readouterr() == ("", "")
    fit(loop, run_config(name="loud", verbose=2), workers=0)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split("  (")[0] for line in err.splitlines()[:2]] == [
        "skate: loud: step 0  loss 0.1235",
        "skate: loud: step 1  loss 0.1235",
    ]


def test_a_summary_stays(run_config, capsys):
    result = fit(lambda: train.report(loss=0.5), run_config(name="short"), workers=0)
    *_, done, place = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"skate: short: done in \d+ s: loss 0.5  \(iteration 1, .*\)", done)
    assert place == f"skate: short: results in {result.path}"


def test_a_loop_that_does_not_see_its_config(run_config, capsys):
    def loop():
        train.report(loss=1)

    train.DataParallelTrainer(loop, train_loop_config={"lr": 1}, run_config=run_config())
    assert "does not see its train_loop_config: write def loop(config)" in capsys.readouterr().err
    train.DataParallelTrainer(loop, run_config=run_config())
    train.DataParallelTrainer(lambda config: loop(), train_loop_config={"lr": 1})
    assert capsys.readouterr().err == ""


def test_a_line_now_and_then(run_config, capsys, monkeypatch):
    monkeypatch.setenv("SKATE_PROGRESS_EVERY", "1e-9")
    fit(lambda: train.report(loss=0.5), run_config(name="long"), workers=0)
    assert "skate: long: loss 0.5  (iteration 1" in capsys.readouterr().err.splitlines()[0]


def test_a_loop_that_never_reports(run_config, capsys):
    fit(lambda: None, run_config(), workers=0)
    assert "train.report() was never called" in capsys.readouterr().err


def test_a_run_that_had_ended_already(run_config, capsys):
    def loop():
        if train.get_checkpoint() is None:
            train.report({"step": 1}, checkpoint=Checkpoint.from_dict({"step": 1}))

    fit(loop, run_config(name="over"), workers=0)
    capsys.readouterr()
    result = fit(loop, run_config(name="over"), workers=0)
    assert result.metrics["step"] == 1
    said = capsys.readouterr().err
    assert "nothing new was reported" in said
    assert "never called" not in said


def test_a_name_that_is_used_again(run_config, capsys):
    def loop():
        train.report({"step": 1}, checkpoint=Checkpoint.from_dict({"step": 1}))

    fit(loop, run_config(name="again"), workers=0)
    assert "goes on" not in capsys.readouterr().err
    fit(loop, run_config(name="again"), workers=0)
    assert (
        "skate: again: run 'again' goes on from checkpoint_000000; give another name to begin anew"
        in capsys.readouterr().err
    )


def test_a_live_view_on_a_terminal(run_config, monkeypatch):
    class Terminal:
        text = ""
        encoding = "utf-8"

        def write(self, text):
            self.text += text
            return len(text)

        def flush(self):
            pass

        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    fit(lambda: train.report(loss=0.5), run_config(), workers=0)
    assert "loss" in terminal.text
    assert "restarts" in terminal.text


def set_word(word):
    os.environ["MINE"] = word


def test_a_back_end_of_ones_own(run_config, tmp_path):
    class Mine(train.Backend):
        def on_start(self, worker_group, backend_config):
            ports = worker_group.execute(os.getpid)
            assert len(set(ports)) == len(worker_group) == 2
            for rank in range(2):
                worker_group.execute_single(rank, set_word, f"{backend_config.word} {rank}")

        def on_training_start(self, worker_group, backend_config):
            assert worker_group.execute(train.world_rank) == [0, 1]

        def on_shutdown(self, worker_group, backend_config):
            (tmp_path / "over").write_text(backend_config.word)

    class MyConfig(train.BackendConfig):
        word = "hello"
        backend_cls = Mine

    def loop():
        assert os.environ["MINE"] == f"hello {train.world_rank()}"

    fit(loop, run_config(), backend_config=MyConfig())
    assert (tmp_path / "over").read_text() == "hello"


def test_a_trainer_that_says_itself_how_to_train(run_config):
    class Mine(BaseTrainer):
        def setup(self):
            self.factor = 2

        def training_loop(self):
            rows = self.datasets["train"].iter_rows()
            train.report(total=self.factor * sum(row["id"] for row in rows))

    result = Mine(datasets={"train": skate.data.range(4)}, run_config=run_config()).fit()
    assert result.metrics["total"] == 12


def test_what_a_trial_changes_of_a_trainer():
    class Mine(BaseTrainer):
        def __init__(self, sizes, **settings):
            super().__init__(**settings)
            self.sizes = sizes

    trainer = Mine({"layer": {"width": 1, "depth": 2}}, scaling_config={"num_workers": 3})
    config = {"sizes": {"layer": {"width": 9}}, "scaling_config": {"num_workers": 1}}
    other = changed(trainer, config)
    assert other.sizes == {"layer": {"width": 9, "depth": 2}}
    assert other.scaling_config.num_workers == 1
    assert trainer.sizes == {"layer": {"width": 1, "depth": 2}}
    with pytest.raises(ValueError, match=r"no \['lr'\] to tune"):
        changed(trainer, {"lr": 0.1})


def test_metrics_equal_what_was_reported(run_config):
    result = fit(lambda: train.report(loss=1.0, nested={"a": 1}), run_config(), workers=1)
    assert result.metrics == {"loss": 1.0, "nested": {"a": 1}}
    assert result.metrics != {"loss": 2.0, "nested": {"a": 1}}
    assert result.metrics["training_iteration"] == 1


def test_what_cannot_travel_is_not_returned(run_config):
    class Stays:
        def __reduce__(self):
            raise RuntimeError("stays here")

    assert fit(Stays, run_config()).return_value is None


def test_all_checkpoints_so_far(run_config):
    def loop():
        for step in range(3):
            train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
            found = train.get_all_reported_checkpoints()
            assert [c.metrics["step"] for c in found] == list(range(step + 1))
            assert found[-1].checkpoint.to_dict() == {"step": step}

    fit(loop, run_config())


@pytest.mark.parametrize(
    "settings", [{"log_to_file": True}, {"checkpoint_config": {"checkpoint_frequency": 2}}]
)
def test_what_only_a_tuner_can_do(settings):
    trainer = DataParallelTrainer(lambda: None, run_config=settings)
    with pytest.raises(ValueError, match="for t"):
        trainer.fit()


def test_workers_meet(run_config):
    def loop():
        rank = train.world_rank()
        word = train.collective.broadcast_from_rank_zero(f"from {rank}")
        train.collective.barrier()
        train.report(word=word)

    assert fit(loop, run_config()).metrics == {"word": "from 0"}
    assert fit(loop, run_config(name="here"), workers=0).metrics == {"word": "from 0"}


def test_a_checkpoint_keeps_its_class(run_config):
    class Mine(Checkpoint):
        def double(self):
            return 2 * self.to_dict()["n"]

    def loop():
        train.report({}, checkpoint=Mine.from_dict({"n": 4}))

    assert fit(loop, run_config()).checkpoint.double() == 8


def test_a_method_of_a_trainer_may_have_the_name_of_its_parameter(run_config):
    class Mine(DataParallelTrainer):
        def __init__(self, word, **settings):
            super().__init__(lambda: self.train_loop_per_worker(word), **settings)

        @staticmethod
        def train_loop_per_worker(word):
            train.report(word=word)

    assert Mine("hello", run_config=run_config()).fit().metrics["word"] == "hello"


def test_workers_with_another_home_sign_for_their_program(run_config, tmp_path):
    def loop():
        train.report(
            {"a": 1}, checkpoint=Checkpoint.from_dict({"home": os.environ["XDG_STATE_HOME"]})
        )

    home = str(tmp_path / "home of the workers")
    config = run_config(worker_runtime_env={"env_vars": {"XDG_STATE_HOME": home}})
    assert fit(loop, config).checkpoint.to_dict() == {"home": home}


def test_functions_in_c_that_do_not_say_what_they_take_are_given_the_configuration():
    assert takes_config(max)
