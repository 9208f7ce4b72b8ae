"""Arrays and other buffers: exact, read-only, without a copy."""

import gc

import numpy as np
import pytest

import skate
from skate._facade.api import get_own
from tests.support import eventually, local_only

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def identity(x):
    return x


def test_structured():
    array = np.zeros(1000, dtype=[("a", "i4"), ("b", "f8", (2,))])
    array["a"] = np.arange(1000)
    assert_same(array)


ARRAYS = {
    "small": np.arange(3),
    "large": np.arange(300_000, dtype="f4"),
    "empty": np.empty((0, 3)),
    "scalar array": np.array(5),
    "matrix": np.arange(12).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(200_000.0).reshape(400, 500)),
    "strided": np.arange(400_000)[::2],
    "negative stride": np.arange(200_000)[::-1],
    "transposed": np.arange(200_000).reshape(400, 500).T,
    "bool": np.array([True, False]),
    "complex": np.ones(100_000, "c16"),
    "datetime": np.array(["2024-02-29", "NaT"], "M8[us]"),
    "timedelta": np.arange(5).astype("m8[s]"),
    "text": np.array(["a", "longer"]),
    "bytes": np.array([b"a", b"bc"]),
    "big endian": np.arange(5, dtype=">i4"),
    "object": np.array([1, "a", None, [2]], dtype=object),
    "record": np.rec.fromarrays([np.arange(50_000), np.ones(50_000)], names="x,y"),
}


def assert_same(array):
    for back in (skate.get(skate.put(array)), skate.get(identity.remote(array))):
        assert type(back) is type(array)
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_an_array_comes_back_as_it_went(array):
    assert_same(array)


def test_numpy_scalars_and_masked_arrays():
    assert skate.get(skate.put(np.float32(1.5))) == np.float32(1.5)
    masked = np.ma.masked_array([1, 2], mask=[False, True])
    assert skate.get(skate.put(masked)).mask.tolist() == [False, True]


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_arrays_are_read_only(size):
    array = skate.get(skate.put(np.zeros(size)))
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_arrays_inside_arguments_are_read_only():
    @skate.remote
    def writeable(array, box):
        return array.flags.writeable, box["a"].flags.writeable

    array = np.zeros(200_000)
    assert skate.get(writeable.remote(skate.put(array), {"a": array})) == (False, False)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("size", [1, 1000, 300_000])
def test_arrays_begin_where_vector_instructions_want_them(dtype, copy, size):
    @skate.remote
    def misaligned(*arrays):
        return [array.ctypes.data % 64 for array in arrays]

    arrays = [np.ones(size + more, dtype) for more in range(3)]
    options = {"copy": True} if copy else {}
    for array in [*skate.get(skate.put(arrays), **options), skate.get(skate.put(arrays[0]))]:
        assert array.ctypes.data % 64 == 0
        assert array.sum() in (size, size + 1, size + 2)
    assert not any(skate.get(misaligned.remote(*arrays), timeout=60))


@pytest.mark.differs_from_ray("only skate has get_own")
@pytest.mark.parametrize("numbers", [10, 100_000])
def test_memory_of_ones_own_is_seen_by_nobody_else(numbers):
    ref = skate.put({"a": np.zeros(numbers), "b": np.zeros(numbers)})
    before = skate.get(ref)["a"]
    own, other = get_own(ref), get_own(ref)
    own["a"] += 1
    other["b"] += 2
    assert own["a"].min() == 1
    assert own["b"].max() == 0
    assert other["a"].max() == 0
    assert other["b"].min() == 2
    assert before.max() == skate.get(ref)["a"].max() == 0
    del ref
    gc.collect()
    assert own["a"].min() == 1
    assert own["b"].max() == 0


@pytest.mark.differs_from_ray("only skate has get_own")
def test_an_error_is_raised_to_who_wants_memory_of_his_own():
    @skate.remote
    def fail():
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        get_own(fail.remote())


@pytest.mark.differs_from_ray("only skate has copy=True")
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_writable_copy_on_request(size):
    ref = skate.put({"a": np.zeros(size)})
    array = skate.get(ref, copy=True)["a"]
    array[0] = 1
    assert skate.get(ref)["a"][0] == 0
    (again,) = skate.get([ref], copy=True)
    assert again["a"].flags.writeable
    assert again["a"][0] == 0


def test_the_caller_may_change_an_array_after_putting_it():
    array = np.zeros(500_000)
    ref = skate.put(array)
    array[:] = 1
    assert skate.get(ref)[0] == 0


def test_an_array_outlives_its_reference():
    array = skate.get(skate.put(np.arange(1_000_000)))
    for i in range(5):
        skate.put(np.full(1_000_000, i))
    assert array[-1] == 999_999


def test_a_view_outlives_array_and_reference():
    view = skate.get(skate.put(np.arange(1_000_000)))[500_000:500_002]
    for i in range(5):
        skate.put(np.full(1_000_000, -i))
    assert view.tolist() == [500_000, 500_001]


def test_many_arrays_in_one_value():
    arrays = [np.full(20_000, i) for i in range(50)]
    back = skate.get(identity.remote(arrays))
    assert [int(a[0]) for a in back] == list(range(50))


def file_behind(array):
    """The file whose mapping an array is in; nothing for ordinary memory."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as file:
        for line in file:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return " ".join(line.split()[5:])
    raise AssertionError("an array outside of memory")


@local_only
def test_a_large_array_is_a_view_on_the_store():
    ref = skate.put(np.zeros(1_000_000))
    here = file_behind(skate.get(ref))
    assert "skate" in here
    assert skate.get(skate.remote(file_behind).remote(ref)) == here


def test_out_of_band_buffers_of_any_class():
    import pickle

    class Blob:
        def __init__(self, data):
            self.data = data

        def __reduce_ex__(self, protocol):
            return Blob, (pickle.PickleBuffer(self.data),)

    assert bytes(skate.get(skate.put(Blob(b"b" * 300_000))).data) == b"b" * 300_000


def shared_memory_of_this_process():
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["RssShmem"].split()[0]) * 1024


@local_only
def test_memory_goes_back_when_the_last_reference_goes():
    before = shared_memory_of_this_process()
    for i in range(20):
        assert skate.get(skate.put(np.full(2_500_000, i)))[0] == i
    eventually(lambda: shared_memory_of_this_process() - before < 100_000_000)


@local_only
@pytest.mark.init(object_store_memory=200_000_000)
def test_freed_memory_can_be_used_again():
    for i in range(20):
        ref = skate.put(np.full(12_500_000, i, "u1").view("u1").repeat(5))
        assert skate.get(identity.remote(ref))[0] == i


@local_only
@pytest.mark.init(object_store_memory=200_000_000)
def test_results_are_freed_as_well():
    @skate.remote
    def block(i):
        return np.full(60_000_000, i, "u1")

    for i in range(10):
        assert skate.get(block.remote(i))[0] == i
