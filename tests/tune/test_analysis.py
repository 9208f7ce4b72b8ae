"""What people look at: tables, analyses, figures."""

import io
import json

import matplotlib
import pytest

from skate import tune
from skate._run.storage import Storage
from skate.tune._table import text_table
from skate.tune.experiment import Trial
from skate.tune.progress_reporter import headline
from skate.tune.result_grid import ResultGrid

matplotlib.use("agg")


def trial(tmp_path, number, status="TERMINATED", losses=(3.0, 1.5), **params):
    made = Trial(
        "train_cifar", trial_id=f"87d1f_{number:05d}", config=dict(params),
        evaluated_params=params, storage=Storage(tmp_path, "search"),
    )  # fmt: skip
    for step, loss in enumerate(losses, start=1):
        made.update_last_result({"loss": loss, "training_iteration": step})
        made.storage.append("result.json", made.last_result)
    made.set_status(status)
    return made


@pytest.fixture
def trials(tmp_path):
    return [
        trial(tmp_path, 0, lr=0.00011629, l1=64),
        trial(tmp_path, 1, losses=(0.5, 2.0), lr=0.01, l1=4),
        trial(tmp_path, 2, "RUNNING", losses=(), lr=0.5, l1=8),
    ]


class TestTable:
    def test_points_are_below_each_other(self):
        table = text_table(
            ["name", "lr", "n", ""], [["a", 0.00011629, 1, None], ["bc", 0.5, 20, "x"]]
        )
        assert table.splitlines() == [
            "+--------+------------+-----+----+",
            "| name   |         lr |   n |    |",
            "|--------+------------+-----+----|",
            "| a      | 0.00011629 |   1 |    |",
            "| bc     | 0.5        |  20 | x  |",
            "+--------+------------+-----+----+",
        ]

    def test_the_headline_counts(self, trials):
        assert headline(trials, 10) == "Number of trials: 3/10 (1 RUNNING, 2 TERMINATED)"
        assert headline(trials[:2], 2) == "Number of trials: 2 (2 TERMINATED)"

    def test_the_reporter_shows_parameters_and_metrics(self, trials, capsys):
        reporter = tune.CLIReporter(metric_columns={"loss": "the loss"}, metric="loss", mode="min")
        reporter.report(trials, True)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "Number of trials: 3 (1 RUNNING, 2 TERMINATED)"
        titles = [part.strip() for part in lines[2].strip("|").split("|")]
        assert titles == ["Trial name", "status", "loc", "lr", "l1", "the loss"]
        assert lines[4].startswith("| train_cifar_87d1f_00000 | TERMINATED |       | 0.00011629 |")
        assert "Current best trial: 87d1f_00000 with loss=1.5" in lines[-2]

    def test_a_mode_is_enough_where_trials_report_a_single_metric(self, trials, capsys):
        tune.CLIReporter(mode="max").report(trials, True)
        assert "Current best trial: 87d1f_00001 with loss=2.0" in capsys.readouterr().out
        trials[0].update_last_result({"loss": 1.0, "accuracy": 0.5})
        tune.CLIReporter(mode="max").report(trials, True)
        assert "Current best trial" not in capsys.readouterr().out

    def test_columns_can_be_chosen_and_added(self, trials, capsys):
        reporter = tune.CLIReporter(parameter_columns=["l1"], metric_columns=[])
        reporter.add_metric_column("training_iteration", "iter")
        with pytest.raises(ValueError, match="shown already"):
            reporter.add_parameter_column("l1")
        reporter.report(trials, True)
        assert "| Trial name              | status     | loc   |   l1 |   iter |" in (
            capsys.readouterr().out
        )

    def test_failures_are_shown(self, trials, capsys):
        trials[0].handle_error(ValueError("mine"))
        tune.CLIReporter().report(trials, True)
        out = capsys.readouterr().out
        assert "Number of errored trials: 1" in out
        assert "error.txt" in out

    def test_too_many_rows_are_cut(self, trials, capsys):
        tune.CLIReporter(max_progress_rows=1).report(trials, True)
        assert "2 more trials not shown" in capsys.readouterr().out

    def test_of_too_many_the_best_are_shown_and_those_that_run(self, tmp_path, capsys):
        losses = [5.0, 4.0, 1.0, 2.0, 3.0]
        made = [trial(tmp_path, n, losses=(loss,)) for n, loss in enumerate(losses)]
        made.append(trial(tmp_path, 5, "RUNNING", losses=()))
        reporter = tune.CLIReporter(
            max_progress_rows=3, sort_by_metric=True, metric="loss", mode="min"
        )
        reporter.report(made, True, "Using a scheduler.")
        out = capsys.readouterr().out
        shown = [line.split()[1] for line in out.splitlines() if line.startswith("| train_")]
        assert [name[-1] for name in shown] == ["2", "3", "5"]
        assert out.rstrip().endswith("Using a scheduler.")

    def test_in_notebooks(self, trials, capsys):
        tune.JupyterNotebookReporter(overwrite=False).report(trials, True)
        assert capsys.readouterr().out.startswith("Number of trials: 3")

    def test_it_is_not_too_often(self, trials):
        reporter = tune.CLIReporter(max_report_frequency=1000)
        asked = [reporter.should_report(trials), reporter.should_report(trials)]
        assert asked == [True, False]
        assert reporter.should_report(trials, done=True)

    def test_on_a_terminal(self, trials):
        from rich.console import Console

        from skate.tune._live import LiveReporter

        reporter = LiveReporter()
        reporter.setup(total_samples=10, metric="loss", mode="min")
        console = Console(record=True, width=120, file=io.StringIO())
        console.print(reporter._drawing(trials))
        text = console.export_text()
        assert "Number of trials: 3/10" in text
        assert "s left" in text
        assert text.index("best trial: 87d1f_00000") < text.index("status")
        assert text.index(" 00000 ") < text.index(" 00001 ")  # the best is on top


class TestAnalysis:
    @pytest.fixture
    def analysis(self, trials, tmp_path):
        return tune.ExperimentAnalysis(
            Storage(tmp_path, "search"), trials=trials, default_metric="loss", default_mode="min"
        )

    def test_the_best_by_scope(self, analysis, trials):
        assert analysis.best_trial is trials[0]
        assert analysis.best_config == {"lr": 0.00011629, "l1": 64}
        assert analysis.get_best_trial("loss", "min", "all") is trials[1]
        assert analysis.get_best_trial("loss", "max", "last") is trials[1]
        assert analysis.get_best_trial("loss", "min", "avg") is trials[1]
        assert analysis.get_best_trial("nothing", "min") is None
        with pytest.raises(ValueError, match="last-5-avg"):
            analysis.get_best_trial("loss", "min", "sometimes")

    def test_nan_is_never_the_best(self, tmp_path):
        made = [trial(tmp_path, 1, losses=(float("nan"),)), trial(tmp_path, 2, losses=(5.0,))]
        analysis = tune.ExperimentAnalysis(Storage(tmp_path, "search"), trials=made)
        assert analysis.get_best_trial("loss", "min") is made[1]

    def test_tables(self, analysis):
        assert analysis.dataframe()["loss"].tolist() == [1.5, 2.0]
        assert analysis.dataframe("loss", "min")["loss"].tolist() == [1.5, 0.5]
        assert len(analysis.trial_dataframes["87d1f_00000"]) == 2
        assert analysis.get_all_configs(prefix=True)["87d1f_00000"] == {
            "config/lr": 0.00011629, "config/l1": 64
        }  # fmt: skip

    def test_without_defaults_one_has_to_say(self, trials, tmp_path):
        analysis = tune.ExperimentAnalysis(Storage(tmp_path, "search"), trials=trials)
        with pytest.raises(ValueError, match="get_best_trial"):
            analysis.best_config  # noqa: B018
        with pytest.raises(ValueError, match="no experiment"):
            tune.ExperimentAnalysis(tmp_path / "elsewhere")

    def test_a_grid(self, analysis):
        grid = ResultGrid(analysis)
        assert (len(grid), grid.num_terminated, grid.num_errors) == (3, 2, 0)
        best = grid.get_best_result()
        assert best.metrics["loss"] == 1.5
        assert best.config == {"lr": 0.00011629, "l1": 64}
        with pytest.raises(RuntimeError, match="No best trial"):
            grid.get_best_result("nothing", "min")

    def test_a_figure(self, analysis):
        figure = ResultGrid(analysis).plot()
        titles = [axes.get_title() for axes in figure.axes]
        assert titles == ["Learning curves", "Parameter importance", "Parallel coordinates"]
        assert len(figure.axes[0].lines) == 3

    def test_a_figure_of_odd_values(self, tmp_path, capfd):
        made = [
            trial(tmp_path, 0, losses=(float("nan"),), layers=[1], lr=1e-5),
            trial(tmp_path, 1, losses=(3.0,), layers=[1, 2], lr=1e-4),
            *(trial(tmp_path, n, losses=(n / 2,), layers=[3], lr=0.1) for n in range(2, 6)),
        ]
        analysis = tune.ExperimentAnalysis(Storage(tmp_path, "search"), trials=made)
        figure = ResultGrid(analysis).plot("loss", "max")
        assert [bar.get_width() >= 0 for bar in figure.axes[1].patches] == [True, True]
        shown = [text.get_text() for text in figure.axes[2].texts]
        assert shown == ["[1, 2]", "[3]", "0.0001", "0.1", "1", "3"]
        assert capfd.readouterr().err == ""


def test_who_asks_for_the_best_of_failed_trials_is_told_why(session, tmp_path):
    def fails(config):
        raise KeyError("no such column")

    grid = tune.Tuner(
        fails,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=2),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    with pytest.raises(RuntimeError, match=r"2 of 2 trials failed, see \.errors") as caught:
        grid.get_best_result()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_trial_that_has_ended_knows_the_course_of_its_only_result():
    trial = Trial("f")
    trial.update_last_result({"loss": 2.0, "nested": {"a": 1}, "training_iteration": 1})
    before = dict(trial.metric_analysis)
    trial.settle()
    assert dict(trial.metric_analysis) == before
    again = Trial("f")
    again.take_progress(json.loads(json.dumps(trial.progress())))
    assert dict(again.metric_analysis) == before
    trial.update_last_result({"loss": 4.0, "training_iteration": 2})
    assert trial.metric_analysis["loss"]["avg"] == 3


@pytest.mark.parametrize("course", [["1", 2, 3, 4], [1, None, 2, 3], "abcd"], ids=str)
def test_the_course_of_a_metric_is_of_numbers(course):
    told = Trial("f").progress() | {"courses": {"loss": course}}
    with pytest.raises(TypeError, match="list of numbers"):
        Trial("f").take_progress(json.loads(json.dumps(told)))


def test_times_that_a_program_reports_as_texts_are_left_out_of_the_statistics(tmp_path):
    made = [trial(tmp_path, number) for number in range(3)]
    made[0].update_last_result({"timestamp": "noon", "time_total_s": 1.0})
    made[1].update_last_result({"timestamp": 20, "time_total_s": "long"})
    made[2].update_last_result({"timestamp": 20, "time_total_s": 5})
    stats = tune.ExperimentAnalysis(Storage(tmp_path, "search"), trials=made).stats()
    assert (stats["start_time"], stats["timestamp"]) == (15, 20)
