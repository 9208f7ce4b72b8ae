"""Programs in surroundings that nobody had in mind."""

import os

import pytest

from tests.chaos import drivers

pytestmark = pytest.mark.differs_from_ray("programs of their own, on the local engine")


def test_processes_of_any_number_call_an_actor():
    code = """
        import skate
        skate.init(num_cpus=2)

        @skate.remote(num_cpus=0)
        class Target:
            def small(self):
                return 1

            def large(self):
                return b"l" * 1_000_000

        @skate.remote(num_cpus=0)
        class Caller:
            def call(self, target):
                for _ in range(50):  # so that calls take the shortest way
                    skate.get(target.small.remote())
                return len(skate.get(target.large.remote()))

        target = Target.remote()
        callers = [Caller.remote() for _ in range(8)]
        for caller in callers:
            print(skate.get(caller.call.remote(target), timeout=60))
    """
    assert drivers.run_code(code).split() == ["1000000"] * 8


CALLS = """
    import numpy, skate
    skate.init(num_cpus=2)

    @skate.remote
    class Actor:
        def hello(self):
            return "hello"

    @skate.remote
    def call(actor):
        return [skate.get(actor.hello.remote()) for _ in range(50)][-1]

    print(skate.get(call.remote(Actor.remote()), timeout=60))
    print(int(skate.get(skate.put(numpy.ones(1_000_000))).sum()))
"""


def test_a_temporary_directory_with_a_very_long_name(tmp_path):
    directory = tmp_path / ("d" * 200)
    directory.mkdir()
    assert drivers.run_code(CALLS, TMPDIR=str(directory)).split() == ["hello", "1000000"]
    assert list(directory.iterdir()) == []


def test_a_large_environment():
    variables = {f"SKATE_TEST_LARGE_{i}": "x" * 100_000 for i in range(3)}
    assert drivers.run_code(CALLS, **variables).split() == ["hello", "1000000"]


def test_paths_among_the_places_of_modules(tmp_path):
    (tmp_path / "skate_far_away.py").write_text("WORD = 'found'")
    code = f"""
        import pathlib, sys, skate
        sys.path.append(pathlib.Path({str(tmp_path)!r}))
        sys.path.append({str(tmp_path)!r})

        def word():
            import skate_far_away
            return skate_far_away.WORD

        print(skate.get(skate.remote(word).remote(), timeout=60))
    """
    assert drivers.run_code(code).strip() == "found"


TORCH = """
import random

class Tensor:
    pass

state = random.Random(0)
manual_seed = state.seed

def set_num_threads(count):
    pass
"""


def test_processes_draw_different_numbers_from_torch(tmp_path):
    """Importing the real one would take seconds."""
    (tmp_path / "torch.py").write_text(TORCH)
    code = """
        import skate, torch
        skate.init(num_cpus=2)

        @skate.remote(num_cpus=0)
        class Member:
            def draw(self):
                return torch.state.random()

        members = [Member.remote() for _ in range(4)]
        print(len(set(skate.get([member.draw.remote() for member in members], timeout=60))))
    """
    path = os.pathsep.join([str(tmp_path), drivers.environment()["PYTHONPATH"]])
    assert drivers.run_code(code, PYTHONPATH=path).strip() == "4"


def test_control_c_while_the_hub_answers_a_worker():
    code = """
        import os, signal, sys, threading, skate
        from skate._core import serialization
        skate.init(num_cpus=2)

        @skate.remote
        def ask():
            return skate.cluster_resources()["CPU"]

        def interrupted(*args, **kwargs):
            caller = sys._getframe(1).f_globals["__name__"]
            here = threading.current_thread() is threading.main_thread()
            if waits and here and caller.startswith("skate.engine.local.hub"):
                serialization.loads = loads
                os.kill(os.getpid(), signal.SIGINT)
            return loads(*args, **kwargs)

        waits = False
        loads, serialization.loads = serialization.loads, interrupted
        while serialization.loads is interrupted:  # the courier may answer instead
            ref = ask.remote()
            try:
                waits = True
                skate.get(ref)
            except KeyboardInterrupt:
                print("interrupted", skate.get(ref, timeout=60))
            waits = False
    """
    assert drivers.run_code(code).split() == ["interrupted", "2.0"]


LOCALES = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "POSIX": {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    "absent": {"LC_ALL": "xx_YY.nothing", "LANG": "", "PYTHONUTF8": "0"},
    "Turkish": {"LC_ALL": "tr_TR.ISO-8859-9", "PYTHONUTF8": "0"},
}


@pytest.mark.parametrize("locale", LOCALES)
def test_any_locale(locale, tmp_path):
    code = f"""
        import skate, skate.data
        from skate import train
        from skate.train.data_parallel_trainer import DataParallelTrainer
        skate.init(num_cpus=2)

        @skate.remote
        class Actor:
            def say(self, text):
                print(text)
                return text

        assert skate.get(Actor.options(name="\\u017elu\\u0165").remote().say.remote(
            "\\u65e5\\u672c \\u00ef")) == "\\u65e5\\u672c \\u00ef"
        rows = skate.data.from_items([{{"\\u00e9": "\\u00ef\\u65e5"}}])
        rows.write_csv({str(tmp_path)!r} + "/csv")
        assert skate.data.read_csv({str(tmp_path)!r} + "/csv").take_all() == rows.take_all()
        trainer = DataParallelTrainer(
            lambda: train.report({{"\\u00e9": "\\u65e5"}}),
            scaling_config={{"num_workers": 0}},
            run_config=train.RunConfig(storage_path={str(tmp_path)!r}),
        )
        assert trainer.fit().metrics["\\u00e9"] == "\\u65e5"
        print("all right")
    """
    assert "all right" in drivers.run_code(code, **LOCALES[locale])


@pytest.mark.parametrize(
    "name", ["with spaces", "ünï日", "new\nline", "\udcff", "%41 $HOME 'a\"b"]
)
def test_temporary_directories_with_odd_names(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    assert drivers.run_code(CALLS, TMPDIR=str(directory)).split() == ["hello", "1000000"]
    assert list(directory.iterdir()) == []


def test_where_there_is_no_proc():
    prefix = drivers.small_mounts(proc="1m")
    assert drivers.run_code(CALLS, prefix=prefix).split() == ["hello", "1000000"]


@pytest.mark.parametrize("limits", ["-n 64", "-s 512", "-c 0 -l 0", "-f 20000"])
def test_low_limits_of_the_system(limits):
    prefix = ["sh", "-c", f'ulimit {limits.replace(" -", "; ulimit -")}; exec "$@"', "sh"]
    assert drivers.run_code(CALLS, prefix=prefix).split() == ["hello", "1000000"]
