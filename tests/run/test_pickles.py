"""Folders of others: whatever their pickles say, nothing of it runs while they are looked at.

Each file of the corpus would make a marker if it were unpickled, which the last tests prove.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

import skate
import skate.predict
from skate import tune
from skate._run import pickles, signing_key
from skate._run.checkpoint import Checkpoint
from skate._run.errors import RecordedError, read_error, write_error
from skate._run.pickles import signed_pickle
from skate._run.result import Result
from skate.exceptions import UnreadablePickleError, UntrustedPickleError
from skate.predict import BatchPredictor, Predictor
from skate.predict.sklearn import SklearnPredictor
from skate.predict.torch import TorchPredictor
from skate.train import DataParallelTrainer
from skate.train.base_trainer import BaseTrainer
from skate.train.sklearn import SklearnCheckpoint
from skate.train.torch import TorchCheckpoint, load_checkpoint
from skate.tune.schedulers import AsyncHyperBandScheduler
from skate.tune.search.optuna import OptunaSearch
from skate.tune.search.search_generator import SearchGenerator
from tests.run.copies import report_a_copy
from tests.support import run_program


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


def plain(marker: Path, monkeypatch: Any) -> bytes:
    return pickle.dumps(Payload(marker))


def text(marker: Path, monkeypatch: Any) -> bytes:
    return pickle.dumps(Payload(marker), protocol=0)


def of_another_user(marker: Path, monkeypatch: Any) -> bytes:
    with monkeypatch.context() as other:
        other.setattr(signing_key, "_key", b"x" * 32)
        return signed_pickle(Payload(marker))


def with_a_signature_for_something_else(marker: Path, monkeypatch: Any) -> bytes:
    ours = signed_pickle({"harmless": 1})
    return pickle.dumps(Payload(marker)) + ours[ours.index(b"\nskate-signature:") :]


def with_ours_behind_it(marker: Path, monkeypatch: Any) -> bytes:
    return pickle.dumps(Payload(marker)) + signed_pickle({"harmless": 1})


def with_an_empty_signature(marker: Path, monkeypatch: Any) -> bytes:
    return pickle.dumps(Payload(marker)) + b"\nskate-signature:"


VARIANTS = (
    plain, text, of_another_user, with_a_signature_for_something_else, with_ours_behind_it,
    with_an_empty_signature,
)  # fmt: skip


@pytest.fixture(params=VARIANTS, ids=lambda made: made.__name__)
def evil(request: pytest.FixtureRequest, marker: Path, monkeypatch: Any) -> bytes:
    data: bytes = request.param(marker, monkeypatch)
    return data


# -- folders ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of ours, whose files each test replaces in a copy of its own."""
    place = tmp_path_factory.mktemp("searches")
    skate.init(engine="inline", num_cpus=1)
    try:
        tune.run(
            one_trial, name="search", storage_path=place, verbose=0, raise_on_failed_trial=False,
            search_alg=OptunaSearch(seed=1), metric="loss", mode="min", num_samples=2,
            config={"x": tune.uniform(0, 1), "shape": (1, 2)}, callbacks=[Remembering()],
        )  # fmt: skip
        tune.Tuner(
            one_trial,
            param_space={"x": tune.uniform(0, 1), "shape": (1, 2)},
            tune_config=tune.TuneConfig(
                search_alg=OptunaSearch(seed=1), metric="loss", mode="min"
            ),
            run_config=tune.RunConfig(name="other", storage_path=place),
        )
        for name in ("tuner.pkl", "trainable.pkl"):
            (place / "search" / name).write_bytes((place / "other" / name).read_bytes())
    finally:
        skate.shutdown()
    return place / "search"


class Remembering(tune.Callback):
    def get_state(self) -> Any:
        return {"seen": 1}

    def set_state(self, state: Any) -> None:
        pass


def one_trial(config: Any) -> None:
    tune.report({"loss": config["x"], "pair": (1, 2)}, checkpoint=Checkpoint.from_dict({"a": 1}))
    raise ValueError("the trial's own error")


@pytest.fixture
def stolen(search: Path, tmp_path: Path) -> Path:
    import shutil

    place = tmp_path / "search"
    shutil.copytree(search, place)
    return place


def with_evil_states(folder: Path, evil: bytes, kind: str, name: str) -> None:
    """Replace one value of each line of a kind."""
    state = folder / "experiment_state.jsonl"
    lines = [json.loads(line) for line in state.read_text().splitlines()]
    for line in lines:
        if line["kind"] == kind:
            line[name] = {"pickle": base64.b64encode(evil).decode()}
    state.write_text("".join(json.dumps(line) + "\n" for line in lines))


# -- those who read -----------------------------------------------------------------------------


def in_a_folder(name: str, read: Callable[[Checkpoint], Any]) -> Callable[[Path, bytes], Any]:
    def call(folder: Path, evil: bytes) -> Any:
        (folder / name).write_bytes(evil)
        return read(Checkpoint.from_directory(folder))

    return call


def from_bytes(folder: Path, evil: bytes) -> Any:
    if not evil.startswith(b"\x80"):
        raise UntrustedPickleError("not even the start of one")
    return Checkpoint.from_bytes(evil)


def restored(cls: Any) -> Callable[[Path, bytes], Any]:
    def call(folder: Path, evil: bytes) -> Any:
        (folder / "trainer.pkl").write_bytes(evil)
        return cls.restore(folder)

    return call


def state_of(thing: Callable[[], Any]) -> Callable[[Path, bytes], Any]:
    def call(folder: Path, evil: bytes) -> Any:
        (folder / "state.pkl").write_bytes(evil)
        return thing().restore(str(folder / "state.pkl"))

    return call


def search_state(folder: Path, evil: bytes) -> Any:
    (folder / "search_gen_state-x.pkl").write_bytes(evil)
    SearchGenerator(OptunaSearch(seed=1)).restore_from_dir(str(folder))


def searcher_state(folder: Path, evil: bytes) -> Any:
    (folder / "searcher-state-x.pkl").write_bytes(evil)
    OptunaSearch(seed=1).restore_from_dir(str(folder))


class Own(Predictor):
    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Own:
        return cls(checkpoint.get_preprocessor())


def torch_model(checkpoint: Checkpoint) -> Any:
    return TorchCheckpoint.from_checkpoint(checkpoint).get_model()


READERS = {
    "to_dict": in_a_folder("dict_checkpoint.pkl", Checkpoint.to_dict),
    "to_bytes": in_a_folder("dict_checkpoint.pkl", Checkpoint.to_bytes),
    "preprocessor": in_a_folder("preprocessor.pkl", Checkpoint.get_preprocessor),
    "preprocessor of Ray AIR": in_a_folder("_preprocessor", Checkpoint.get_preprocessor),
    "preprocessor in a dict": in_a_folder("preprocessor.pkl", Checkpoint.to_dict),
    "from_bytes": from_bytes,
    "model.pt": in_a_folder("model.pt", torch_model),
    "model.pth": in_a_folder("model.pth", load_checkpoint),
    "checkpoint.pt": in_a_folder("checkpoint.pt", TorchPredictor.from_checkpoint),
    "dict for torch": in_a_folder("dict_checkpoint.pkl", load_checkpoint),
    "estimator": in_a_folder("model.pkl", SklearnPredictor.from_checkpoint),
    "estimator.pkl": in_a_folder(
        "estimator.pkl", lambda c: SklearnCheckpoint.from_checkpoint(c).get_estimator()
    ),
    "model": in_a_folder("model", SklearnPredictor.from_checkpoint),
    "function": in_a_folder(
        "dict_checkpoint.pkl", skate.predict.predictor.FunctionPredictor.from_checkpoint
    ),
    "own predictor": in_a_folder("preprocessor.pkl", Own.from_checkpoint),
    "batch predictor": in_a_folder(
        "preprocessor.pkl", lambda c: BatchPredictor(c, Own).get_preprocessor()
    ),
    "trainer": restored(DataParallelTrainer),
    "base trainer": restored(BaseTrainer),
    "scheduler": state_of(AsyncHyperBandScheduler),
    "searcher": state_of(lambda: OptunaSearch(seed=1)),
    "limited searcher": state_of(
        lambda: tune.search.ConcurrencyLimiter(OptunaSearch(seed=1), max_concurrent=1)
    ),
    "searcher in a folder": searcher_state,
    "search in a folder": search_state,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_nothing_runs_while_a_file_of_others_is_read(read, evil, marker, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    with pytest.raises(UntrustedPickleError) as caught:
        read(folder, evil)
    assert not marker.exists()
    if read is not from_bytes:
        assert str(folder) in str(caught.value)
        assert "allow_pickle=True" in str(caught.value)
        assert "SKATE_ALLOW_PICKLE=1" in str(caught.value)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_whoever_says_so_reads_them(read, marker, monkeypatch, tmp_path):
    monkeypatch.setenv("SKATE_ALLOW_PICKLE", "1")
    with contextlib.suppress(Exception):  # what it holds is no checkpoint either
        read(tmp_path, plain(marker, monkeypatch))
    assert marker.exists()


def test_an_error_of_others(evil, marker, stolen):
    for file in stolen.rglob("error.pkl"):
        file.write_bytes(evil)
    analysis = tune.ExperimentAnalysis(stolen)
    results = [Result.from_path(trial.path) for trial in analysis.trials]
    for error in [trial.get_error() for trial in analysis.trials] + [r.error for r in results]:
        assert isinstance(error, RecordedError)
        assert error.type_name == "builtins.ValueError"
        assert "the trial's own error" in str(error)
        assert "one_trial" in error.traceback_text
    assert not marker.exists()
    assert results[0].metrics["loss"] == analysis.trials[0].last_result["loss"]


@pytest.mark.parametrize("described", [b"{", b"{}", b"[" * 100_000], ids=["cut", "empty", "deep"])
def test_an_error_that_cannot_be_read_is_named(described, marker, stolen):
    for found in stolen.rglob("error.json"):
        found.write_bytes(described)
    for found in stolen.rglob("error.pkl"):
        found.write_bytes(found.read_bytes()[:-9])
    trial = tune.ExperimentAnalysis(stolen).trials[0]
    assert isinstance(trial.get_error(), UntrustedPickleError)
    assert f"{trial.path}/error.pkl" in str(trial.get_error())
    assert Result.from_path(trial.path).checkpoint.to_dict() == {"a": 1}


PLACES = [
    ("trial", "config"), ("trial", "evaluated_params"), ("progress", "last_result"),
    ("checkpoint", "metrics"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), PLACES)
def test_a_search_of_others_is_looked_at(kind, name, evil, marker, stolen):
    with_evil_states(stolen, evil, kind, name)
    with pytest.raises(UntrustedPickleError, match=r"experiment_state\.jsonl"):
        tune.ExperimentAnalysis(stolen)
    assert not marker.exists()


def test_a_search_of_others_shows_what_is_data(stolen, monkeypatch):
    monkeypatch.setattr(signing_key, "_key", b"x" * 32)
    analysis = tune.ExperimentAnalysis(stolen)
    assert [trial.config["shape"] for trial in analysis.trials] == [[1, 2], [1, 2]]
    assert all(0 < trial.config["x"] < 1 for trial in analysis.trials)
    assert all(trial.last_result["pair"] == [1, 2] for trial in analysis.trials)
    assert all(isinstance(trial.get_error(), RecordedError) for trial in analysis.trials)
    frame = analysis.dataframe()
    assert list(frame["config/x"]) == [trial.config["x"] for trial in analysis.trials]
    with pytest.raises(UntrustedPickleError, match=r"dict_checkpoint\.pkl"):
        analysis.trials[0].checkpoint.to_dict()


def test_a_search_of_others_with_a_word_of_consent(stolen, monkeypatch):
    monkeypatch.setattr(signing_key, "_key", b"x" * 32)
    analysis = tune.ExperimentAnalysis(stolen, allow_pickle=True)
    assert [trial.config["shape"] for trial in analysis.trials] == [(1, 2), (1, 2)]
    assert isinstance(analysis.trials[0].get_error(), ValueError)
    assert analysis.trials[0].checkpoint.to_dict() == {"a": 1}
    result = Result.from_path(analysis.trials[0].path, allow_pickle=True)
    assert isinstance(result.error, ValueError)
    assert result.checkpoint.to_dict() == {"a": 1}
    assert pickle.loads(pickle.dumps(result.checkpoint)).to_dict() == {"a": 1}


@pytest.mark.parametrize("name", ["tuner.pkl", "trainable.pkl"])
def test_a_tuner_of_others(name, evil, marker, stolen):
    (stolen / name).write_bytes(evil)
    with pytest.raises(UntrustedPickleError, match=name):
        tune.Tuner.restore(str(stolen))
    assert not marker.exists()


@pytest.mark.parametrize("name", ["search_gen_state", "searcher-state", "callback-states"])
def test_a_search_of_others_does_not_go_on(name, evil, marker, stolen):
    for file in stolen.glob(f"{name}*"):
        file.write_bytes(evil)
    skate.init(engine="inline", num_cpus=1)
    try:
        with pytest.raises(UntrustedPickleError, match=name):
            tune.Tuner.restore(str(stolen), resume_errored=True).fit()
    finally:
        skate.shutdown()
    assert not marker.exists()


def test_a_tuner_with_a_word_of_consent(stolen, monkeypatch):
    monkeypatch.setattr(signing_key, "_key", b"x" * 32)
    with pytest.raises(UntrustedPickleError, match="allow_pickle=True"):
        tune.Tuner.restore(str(stolen))
    skate.init(engine="inline", num_cpus=1)
    try:
        tuner = tune.Tuner.restore(str(stolen), allow_pickle=True, restart_errored=True)
        assert isinstance(tuner.get_results()[0].error, ValueError)
        grid = tuner.fit()
    finally:
        skate.shutdown()
    assert all(isinstance(result.error, ValueError) for result in grid)


def test_the_class_of_a_checkpoint_is_not_imported(tmp_path, monkeypatch, marker):
    (tmp_path / "chosen_by_a_file.py").write_text(f"open({str(marker)!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "run"
    (folder / "checkpoint_000000").mkdir(parents=True)
    line = {"checkpoint_dir_name": "checkpoint_000000", "class": "chosen_by_a_file:Thing"}
    (folder / "checkpoints.json").write_text(json.dumps(line) + "\n")
    (folder / "result.json").write_text(json.dumps({"checkpoint_dir_name": "x"}) + "\n")
    assert type(Result.from_path(folder).checkpoint) is Checkpoint
    assert not marker.exists()


# -- what is ours -------------------------------------------------------------------------------


def test_another_process_of_this_user_reads_what_we_wrote(tmp_path):
    written = Checkpoint.from_dict({"lock": one_trial, "n": 1})
    written.set_preprocessor({"mean": 2})
    path = written.to_directory(tmp_path / "ours")
    program = (
        "import sys; from skate.train import Checkpoint; c = Checkpoint(sys.argv[1]);"
        "print(c.to_dict()['n'], c.get_preprocessor())"
    )
    command = [sys.executable, "-c", program, path]
    out = run_program(command, check=True, cwd=Path(__file__).parents[2]).stdout
    assert out.split() == ["1", "{'mean':", "2}"]
    assert Checkpoint.from_bytes(written.to_bytes()).to_dict()["n"] == 1


def test_signed_files_are_plain_pickles_too(tmp_path):
    Checkpoint.from_dict({"n": 1}).to_directory(tmp_path)
    assert pickle.loads((tmp_path / "dict_checkpoint.pkl").read_bytes()) == {"n": 1}


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_without_a_text_is_written(tmp_path):
    from skate._run.storage import Storage

    storage = Storage(tmp_path, "run")
    write_error(storage.folder, UnspeakableError("x"), RuntimeError)
    assert isinstance(read_error(storage), UnspeakableError)
    about = json.loads((tmp_path / "run" / "error.json").read_text())
    assert about["type"].endswith("UnspeakableError")
    assert "RuntimeError" in about["message"]


def test_a_damaged_file_of_ours_is_named(tmp_path, monkeypatch):
    Checkpoint.from_dict({"n": 1}).to_directory(tmp_path)
    file = tmp_path / "dict_checkpoint.pkl"
    file.write_bytes(file.read_bytes()[:9])
    with pytest.raises(UntrustedPickleError, match="changed or damaged"):
        Checkpoint(tmp_path).to_dict()
    with pytest.raises(UnreadablePickleError, match=str(file)):
        Checkpoint(tmp_path).to_dict(allow_pickle=True)


def whole_model(folder: Path) -> None:
    torch.save(torch.nn.Linear(2, 1), folder / "model.pt")


def estimator(folder: Path) -> None:
    (folder / "model.pkl").write_bytes(pickle.dumps({"an": "estimator"}))


@pytest.mark.parametrize("write", [whole_model, estimator])
def test_what_a_program_pickled_and_reported_it_may_read(write, tmp_path, marker, monkeypatch):
    from skate._run.storage import Storage

    def read(checkpoint: Checkpoint) -> Any:
        if write is estimator:
            return SklearnPredictor.from_checkpoint(checkpoint).estimator
        return torch_model(checkpoint)

    made = tmp_path / "made"
    made.mkdir()
    write(made)
    with pytest.raises(UntrustedPickleError):
        read(Checkpoint(made))
    began = made.stat().st_mtime
    kept = Storage(tmp_path, "run").persist(
        Checkpoint(made), "checkpoint_000000", written_since=began
    )
    assert read(kept) is not None
    (file,) = Path(kept.path).glob("model.*")
    file.write_bytes(plain(marker, monkeypatch))
    with pytest.raises(UntrustedPickleError):
        read(kept)
    assert not marker.exists()


def report_it(config: Any) -> None:
    """Report the checkpoint that came in, then what has become of that, then copies of both."""
    import shutil

    came = tune.get_checkpoint()
    assert came is not None
    given = Path(config["given"])
    tune.report({"n": 0}, checkpoint=came)
    tune.report({"n": 1}, checkpoint=tune.get_checkpoint())
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(came.path) / "model.pkl", folder)
        tune.report({"n": 2}, checkpoint=Checkpoint(folder))
    tune.report({"n": 3}, checkpoint=Checkpoint(given))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(given, folder, dirs_exist_ok=True)
        tune.report({"n": 4}, checkpoint=Checkpoint(folder))
    with tempfile.TemporaryDirectory() as folder:
        estimator(Path(folder))
        tune.report({"n": 5}, checkpoint=Checkpoint(folder))
    tune.report({"n": 6}, checkpoint=tune.get_checkpoint())


def foreign_model(folder: Path, data: bytes) -> Path:
    """A folder with a model of somebody else, which has been here for an hour."""
    folder.mkdir()
    (folder / "model.pkl").write_bytes(data)
    (folder / ".model.pkl.signature").write_bytes(b"0" * 64)
    an_hour_ago = time.time() - 3600
    os.utime(folder / "model.pkl", (an_hour_ago, an_hour_ago))
    return folder


@pytest.mark.parametrize("library", ["train", "train in this process", "tune"])
def test_what_came_from_elsewhere_is_not_signed_by_reporting_it(
    library, tmp_path, marker, monkeypatch
):
    came = foreign_model(tmp_path / "came", plain(marker, monkeypatch))
    given = foreign_model(tmp_path / "given", pickle.dumps([Payload(marker)]))
    loop, config = report_it, {"given": str(given)}
    skate.init(engine="inline", num_cpus=1)
    try:
        if library != "tune":
            workers = int(library == "train")
            DataParallelTrainer(
                loop, train_loop_config=config, resume_from_checkpoint=Checkpoint(came),
                scaling_config=skate.train.ScalingConfig(num_workers=workers),
                run_config=tune.RunConfig(name="run", storage_path=str(tmp_path / "runs")),
            ).fit()  # fmt: skip
        else:
            tune.run(
                loop, name="run", storage_path=tmp_path / "runs", verbose=0, config=config,
                restore=str(came),
            )  # fmt: skip
    finally:
        skate.shutdown()
    folders = sorted(path.parent for path in (tmp_path / "runs").rglob("model.pkl"))
    assert len(folders) == 7
    for folder in folders[:5]:
        with pytest.raises(UntrustedPickleError):
            SklearnPredictor.from_checkpoint(Checkpoint(folder))
    assert not marker.exists()
    for folder in folders[5:]:
        assert SklearnPredictor.from_checkpoint(Checkpoint(folder)).estimator
    assert not marker.exists()


def test_a_trial_signs_no_more_than_the_workers_of_its_trainer(tmp_path, marker, monkeypatch):
    came = foreign_model(tmp_path / "came", plain(marker, monkeypatch))
    trainer = DataParallelTrainer(
        report_a_copy, train_loop_config={}, resume_from_checkpoint=Checkpoint(came),
        scaling_config=skate.train.ScalingConfig(num_workers=1),
    )  # fmt: skip
    skate.init(engine="local", num_cpus=2)
    try:
        (result,) = tune.Tuner(
            trainer, run_config=tune.RunConfig(name="run", storage_path=str(tmp_path / "runs"))
        ).fit()
    finally:
        skate.shutdown()
    assert result.error is None
    folders = sorted(path.parent for path in (tmp_path / "runs").rglob("model.pkl"))
    copies = [
        folder for folder in folders if b"estimator" not in (folder / "model.pkl").read_bytes()
    ]
    assert copies
    for folder in copies:
        with pytest.raises(UntrustedPickleError):
            SklearnPredictor.from_checkpoint(Checkpoint(folder))
    assert SklearnPredictor.from_checkpoint(result.checkpoint).estimator
    assert not marker.exists()


def test_what_was_downloaded_is_not_signed_by_reporting_it(tmp_path, marker, monkeypatch):
    from skate._run.storage import Storage

    filesystem = fsspec.filesystem("memory")
    filesystem.pipe("/downloads/one/model.pkl", plain(marker, monkeypatch))
    try:
        checkpoint = Checkpoint("downloads/one", filesystem)
        storage = Storage(tmp_path, "run")
        kept = [storage.persist(checkpoint, "checkpoint_000000", written_since=0)]
        copy = Checkpoint(checkpoint.to_directory(tmp_path / "copy"))
        kept.append(storage.persist(copy, "checkpoint_000001", written_since=0))
    finally:
        filesystem.rm("/downloads", recursive=True)
    for place in kept:
        with pytest.raises(UntrustedPickleError):
            SklearnPredictor.from_checkpoint(place)
    assert not marker.exists()


def test_weights_need_no_signature(tmp_path):
    model = torch.nn.Linear(2, 1)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    loaded = TorchCheckpoint.from_directory(tmp_path).get_model(torch.nn.Linear(2, 1))
    assert torch.equal(loaded.weight, model.weight)
    assert not pickles.is_allowed()


def test_a_pipe_in_the_place_of_weights_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.pt")
    with pytest.raises(OSError, match=r"no file.*model\.pt"):
        TorchCheckpoint.from_directory(tmp_path).get_model()


def test_a_reference_in_a_checkpoint_is_of_use_while_its_session_lives(tmp_path):
    with skate.init(engine="inline"):
        Checkpoint.from_dict({"rows": skate.put([1, 2])}).to_directory(tmp_path / "c")
        rows = Checkpoint.from_directory(tmp_path / "c").to_dict()["rows"]
        assert skate.get(rows) == [1, 2]
    with skate.init(engine="inline"):
        skate.put("another object")
        with pytest.raises(UnreadablePickleError, match="1 references to objects whose session"):
            Checkpoint.from_directory(tmp_path / "c").to_dict()
