"""Large objects, a full store, a full disk, a small /dev/shm, and very many tasks."""

import gc
import glob
import os
import textwrap

import numpy as np
import pytest

import skate
from tests.chaos import drivers
from tests.support import eventually, local_only

pytestmark = [local_only, pytest.mark.differs_from_ray("other limits, other errors")]

MB = 1_000_000


@skate.remote
def total(array):
    return int(array.sum())


@skate.remote
def blocks(megabytes, value=1):
    return np.full(megabytes * MB, value, "u1")


@pytest.mark.usefixtures("engine")
def test_two_gigabytes():
    ref = skate.put(np.ones(2_200 * MB, "u1"))
    assert skate.get(total.remote(ref), timeout=60) == 2_200 * MB


@pytest.mark.init(object_store_memory=100 * MB)
@pytest.mark.usefixtures("engine")
def test_a_full_store_spills_what_was_put():
    refs = [skate.put(np.full(30 * MB, i, "u1")) for i in range(10)]
    for i, ref in enumerate(refs):
        assert int(skate.get(ref)[-1]) == i
    assert skate.get([total.remote(ref) for ref in refs], timeout=60) == [
        i * 30 * MB for i in range(10)
    ]


@pytest.mark.init(object_store_memory=100 * MB)
@pytest.mark.usefixtures("engine")
def test_a_full_store_spills_results():
    refs = [blocks.remote(30, i) for i in range(10)]
    assert [int(skate.get(ref, timeout=60)[0]) for ref in refs] == list(range(10))
    assert [int(skate.get(ref, timeout=60)[0]) for ref in reversed(refs)] == [*reversed(range(10))]


@pytest.mark.init(object_store_memory=100 * MB)
@pytest.mark.usefixtures("engine")
def test_values_in_use_are_not_disturbed_by_spilling():
    held = [skate.get(skate.put(np.full(30 * MB, i, "u1"))) for i in range(5)]
    more = [skate.put(np.full(30 * MB, 10 + i, "u1")) for i in range(5)]
    assert [int(array[0]) for array in held] == list(range(5))
    assert [int(skate.get(ref)[0]) for ref in more] == [10, 11, 12, 13, 14]


@pytest.mark.init(object_store_memory=50 * MB)
@pytest.mark.usefixtures("engine")
def test_an_object_larger_than_the_store():
    ref = skate.put(np.ones(120 * MB, "u1"))
    assert skate.get(total.remote(ref), timeout=60) == 120 * MB


@pytest.mark.usefixtures("engine")
def test_twenty_thousand_pending_tasks(flag):
    go = flag("go")

    @skate.remote
    def hold():
        go.wait()
        return 1

    @skate.remote
    def add(x, y):
        return x + y

    first = hold.remote()
    refs = [add.remote(first, i) for i in range(20_000)]
    go.set()
    assert skate.get(refs, timeout=100) == list(range(1, 20_001))


# -- segments of processes that have ended --------------------------------------------------------


@skate.remote(num_cpus=0)
class Maker:
    def make(self):
        return np.zeros(MB, "u1")

    def die(self):
        os._exit(1)


WAYS_TO_END = {
    "kill": skate.kill,
    "terminate": lambda maker: maker.__ray_terminate__.remote(),
    "exit": lambda maker: maker.die.remote(),
    "last handle": lambda maker: None,
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("way", WAYS_TO_END)
def test_the_memory_of_an_actor_that_has_ended_is_freed(way):
    for _ in range(3):
        maker = Maker.remote()
        assert skate.get(maker.make.remote(), timeout=60).sum() == 0
        WAYS_TO_END[way](maker)
    del maker
    eventually(lambda: not segments())


@pytest.mark.usefixtures("engine")
def test_the_memory_of_workers_that_serve_once_is_freed():
    @skate.remote(max_calls=1)
    def once(i):
        return np.full(MB, i, "u1")

    assert [int(skate.get(once.remote(i), timeout=60)[0]) for i in range(5)] == [*range(5)]
    eventually(lambda: not segments())


def segments():
    gc.collect()
    return glob.glob(f"/dev/shm/skate-{os.getuid()}-{os.getpid()}-*/objects/*")


# -- small file systems ---------------------------------------------------------------------------

WORK = """
    import numpy, skate
    skate.init(num_cpus=2)
    total = skate.remote(lambda array: int(array.sum()))
    refs = [skate.put(numpy.ones(20_000_000, "u1")) for _ in range(10)]
    print(sum(skate.get([total.remote(ref) for ref in refs])))
    make = skate.remote(lambda: numpy.ones(30_000_000, "u1"))
    results = [make.remote() for _ in range(5)]
    print(sum(int(skate.get(ref)[0]) for ref in results))
"""


def test_a_small_dev_shm():
    out = drivers.run_code(WORK, prefix=drivers.small_mounts(dev_shm="64m"))
    assert out.split()[-2:] == ["200000000", "5"]


def test_a_full_dev_shm():
    code = """
        import os
        with open("/dev/shm/ballast", "wb") as file:
            try:
                while True:
                    file.write(b"0" * 1_000_000)
            except OSError:
                pass
    """
    prefix = drivers.small_mounts(dev_shm="64m")
    out = drivers.run_code(textwrap.dedent(code) + textwrap.dedent(WORK), prefix=prefix)
    assert out.split()[-2:] == ["200000000", "5"]


def test_a_full_disk_is_a_typed_error():
    code = """
        import numpy, skate
        skate.init(num_cpus=2, object_store_memory=30_000_000)
        refs = []
        try:
            for _ in range(20):
                refs.append(skate.put(numpy.ones(20_000_000, "u1")))
        except (skate.exceptions.OutOfDiskError, skate.exceptions.ObjectStoreFullError) as error:
            print("typed:", type(error).__name__)
        del refs
        print(skate.get(skate.remote(lambda: "usable").remote(), timeout=60))
    """
    prefix = drivers.small_mounts(dev_shm="64m", mnt="48m")
    out = drivers.run_code(code, prefix=prefix, TMPDIR="/mnt")
    assert "typed:" in out
    assert "usable" in out


def test_a_full_disk_is_a_typed_error_for_results_too():
    code = """
        import numpy, skate
        skate.init(num_cpus=2, object_store_memory=30_000_000)
        make = skate.remote(lambda: numpy.ones(20_000_000, "u1"))
        refs = [make.remote() for _ in range(20)]
        failed = 0
        for ref in refs:
            try:
                skate.get(ref, timeout=60)
            except (skate.exceptions.OutOfDiskError, skate.exceptions.ObjectStoreFullError):
                failed += 1
        print("failed:", failed)
        del ref, refs
        print(skate.get(skate.remote(lambda: "usable").remote(), timeout=60))
    """
    prefix = drivers.small_mounts(dev_shm="64m", mnt="48m")
    out = drivers.run_code(code, prefix=prefix, TMPDIR="/mnt")
    assert "failed: 0" not in out
    assert "failed:" in out
    assert "usable" in out


def test_what_is_spilled_leaves_the_memory():
    code = """
        import os, numpy, skate
        skate.init(num_cpus=1, object_store_memory=60_000_000)
        def used():
            state = os.statvfs("/dev/shm")
            return (state.f_blocks - state.f_bfree) * state.f_frsize
        before, keep = used(), []
        for i in range(20):
            skate.put(numpy.ones(10_000_000, "u1"))  # dropped, so that its memory is used again
            keep.append(skate.put(numpy.ones(10_000_000, "u1")))
        print(used() - before < 80_000_000, sum(int(skate.get(ref)[-1]) for ref in keep))
    """
    prefix = drivers.small_mounts(dev_shm="400m")
    assert drivers.run_code(code, prefix=prefix).strip() == "True 20"


@pytest.mark.usefixtures("engine")
def test_a_value_that_was_cut_short_from_outside_is_lost_here_and_in_workers():
    """And nobody looks for it for ever."""
    ref = skate.put(np.ones(MB, "u1"))
    home = os.path.join("/dev/shm", skate.get_runtime_context().get_session_name())
    (segment,) = glob.glob(f"{home}/objects/*")
    os.truncate(segment, 1000)
    with pytest.raises(skate.exceptions.ObjectLostError):
        skate.get(ref)
    with pytest.raises(skate.exceptions.ObjectLostError):
        skate.get(total.remote(ref), timeout=60)
