"""Values in the store: put, get, and references wherever they can be."""

import copy
import datetime
import decimal
import pickle

import numpy
import pytest

import skate

pytestmark = pytest.mark.usefixtures("engine")

ObjectLost = skate.exceptions.ObjectLostError
PickledByOthers = skate.exceptions.OufOfBandObjectRefSerializationException


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


@skate.remote
def identity(x):
    return x


VALUES = {
    "none": None,
    "true": True,
    "int": 42,
    "big int": 2**1000,
    "negative": -(2**63) - 1,
    "float": 0.1,
    "infinity": float("inf"),
    "complex": 1 + 2j,
    "text": "grüße 🐟",
    "empty text": "",
    "bytes": b"\x00\xff",
    "tuple": (1, (2, ())),
    "list": [1, [2, []]],
    "dict": {"a": {(1, 2): None}},
    "set": {1, 2},
    "frozenset": frozenset("ab"),
    "range": range(3),
    "date": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc),
    "decimal": decimal.Decimal("1.10"),
    "type": int,
    "exception class": ValueError,
    "instance": Point(1, [2]),
    "ellipsis": ...,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_value_comes_back_as_it_went(value):
    assert skate.get(skate.put(value)) == value
    returned = skate.get(identity.remote(value))
    assert returned == value
    assert type(returned) is type(value)


@pytest.mark.parametrize("size", [0, 1, 1_000, 100_000, 1_000_000, 50_000_000])
def test_sizes(size):
    value = b"s" * size
    ref = skate.put(value)
    assert skate.get(ref) == value
    assert skate.get(identity.remote(ref)) == value


def test_a_value_is_stored_as_it_was():
    data = {"a": [1]}
    ref = skate.put(data)
    data["a"].append(2)
    assert skate.get(ref) == {"a": [1]}


def test_every_get_gives_its_own_value():
    ref = skate.put([1])
    skate.get(ref).append(2)
    assert skate.get(ref) == [1]


def test_an_exception_can_be_a_value():
    assert skate.get(skate.put(ValueError("just a value"))).args == ("just a value",)
    assert skate.get(skate.put([ValueError("inside")]))[0].args == ("inside",)


def test_functions_classes_and_closures_are_values():
    n = 3
    assert skate.get(skate.put(lambda x: x + n))(1) == 4

    class Local:
        value = n

    assert skate.get(skate.put(Local))().value == 3
    assert skate.get(skate.put(Local())).value == 3


def test_recursive_structures():
    loop = []
    loop.append(loop)
    back = skate.get(skate.put(loop))
    assert back[0] is back


@pytest.mark.differs_from_ray("Ray returns bytes")
def test_a_bytearray_stays_one():
    assert type(skate.get(identity.remote(bytearray(b"abc")))) is bytearray


@pytest.mark.differs_from_ray("Ray makes two of it")
def test_shared_parts_stay_shared():
    part = [1]
    first, second = skate.get(skate.put([part, part]))
    assert first is second


def test_getting_a_list():
    assert skate.get([skate.put(i) for i in range(5)]) == [0, 1, 2, 3, 4]
    assert skate.get([]) == []


def test_the_same_reference_several_times_in_a_list():
    ref = skate.put("x")
    assert skate.get([ref, ref]) == ["x", "x"]


@pytest.mark.parametrize("wrong", [5, "text", None, [1], [None]])
def test_only_references_can_be_got(wrong):
    with pytest.raises((TypeError, ValueError)):
        skate.get(wrong)


def test_a_reference_cannot_be_put():
    with pytest.raises(TypeError):
        skate.put(skate.put(1))


def test_an_unpicklable_value_is_refused_with_its_name():
    import threading

    with pytest.raises(TypeError, match="lock"):
        skate.put({"config": threading.Lock()})


# -- references -----------------------------------------------------------------------------------


def test_references_are_keys():
    refs = [skate.put(i) for i in range(3)]
    table = {ref: i for i, ref in enumerate(refs)}
    assert [table[ref] for ref in refs] == [0, 1, 2]
    assert len({*refs, *refs}) == 3


def test_a_reference_is_equal_to_itself_after_a_journey():
    ref = skate.put("x")
    assert skate.get(skate.put([ref]))[0] == ref
    assert hash(skate.get(skate.put([ref]))[0]) == hash(ref)
    assert skate.get(identity.remote([ref])) == [ref]
    assert ref != skate.put("x")


def test_a_reference_has_an_id():
    ref = skate.put(1)
    assert bytes.fromhex(ref.hex()) == ref.binary()
    assert ref.hex() in repr(ref)
    assert not ref.is_nil()


def test_a_reference_cannot_be_iterated():
    with pytest.raises(TypeError):
        list(skate.put([1, 2]))


def test_references_in_results():
    @skate.remote
    def make():
        return {"inner": [skate.put("deep")]}

    assert skate.get(skate.get(make.remote())["inner"][0]) == "deep"


def test_references_in_references_in_references():
    ref = skate.put("bottom")
    for _ in range(10):
        ref = skate.put([ref])
    for _ in range(10):
        (ref,) = skate.get(ref)
    assert skate.get(ref) == "bottom"


def test_a_nested_reference_outlives_its_maker():
    def nest():
        return skate.put([skate.put(b"x" * 200_000)])

    outer = nest()
    assert len(skate.get(skate.get(outer)[0])) == 200_000


def test_a_reference_in_actor_state():
    @skate.remote
    class Keeper:
        def keep(self, box):
            self.box = box

        def value(self):
            return skate.get(self.box[0])

    keeper = Keeper.remote()
    skate.get(keeper.keep.remote([skate.put("kept")]))
    assert skate.get(keeper.value.remote()) == "kept"


def test_a_reference_in_an_attribute():
    holder = Point(skate.put("x"), None)
    assert skate.get(skate.get(identity.remote(holder)).x) == "x"


def test_copies_of_references():
    ref = skate.put(1)
    assert copy.copy(ref) == ref
    assert copy.deepcopy([ref]) == [ref]


@pytest.mark.differs_from_ray("Ray allows it only with cloudpickle and a setting")
def test_a_reference_survives_plain_pickle():
    data = pickle.dumps([skate.put("pinned")])
    assert skate.get(pickle.loads(data)[0]) == "pinned"


@skate.remote
class Echo:
    def say(self, x):
        return x


@pytest.mark.engines("inline", "local")
@pytest.mark.parametrize("make", [lambda: skate.put("pinned"), lambda: Echo.remote()])
def test_a_reference_means_nothing_in_another_session(make, start):
    data = pickle.dumps([make()])
    session = skate.get_runtime_context().get_session_name()
    skate.shutdown()
    with pytest.raises(ObjectLost, match=f"session {session}, and there is no session here"):
        pickle.loads(data)
    start(num_cpus=1)
    others = [skate.put(number) for number in range(10)]  # one of which may have its id
    with pytest.raises(ObjectLost, match=f"session {session}, and this is session"):
        pickle.loads(data)
    assert skate.get(others) == list(range(10))


@pytest.mark.engines("local")
def test_a_reference_survives_plain_pickle_in_a_worker():
    @skate.remote
    def load(data):
        return skate.get(pickle.loads(data))

    @skate.remote
    def dump():
        return pickle.dumps(skate.put("from a worker"))

    assert skate.get(load.remote(pickle.dumps(skate.put("pinned"))), timeout=60) == "pinned"
    assert skate.get(load.remote(dump.remote()), timeout=60) == "from a worker"


@pytest.mark.engines("local", "inline")
def test_a_setting_shows_where_references_are_pickled_by_others(monkeypatch):
    ref = skate.put("pinned")
    monkeypatch.setenv("RAY_allow_out_of_band_object_ref_serialization", "0")
    with pytest.raises(PickledByOthers, match="Pass it as an argument"):
        pickle.dumps([ref])
    assert skate.get(Echo.remote().say.remote([ref])) == [ref]  # an argument is not meant


def test_type_hints_accept_a_parameter():
    assert skate.ObjectRef[int] is not None


@pytest.mark.parametrize(
    ("use", "symbol"),
    [
        (lambda ref: ref + 1, r"\+"),
        (lambda ref: 2 * ref, r"\*"),
        (lambda ref: sum([ref, ref]), r"\+"),
        (lambda ref: ref > 0, ">"),
        (lambda ref: ref < 0, "<"),
        (lambda ref: sorted([ref, 1]), "[<>]"),
    ],
)
def test_a_reference_is_not_its_value(use, symbol):
    with pytest.raises(TypeError, match=rf"{symbol} takes values.*skate\.get\(ref\)"):
        use(skate.put(1))


def test_an_array_of_references():
    refs = [skate.put(1), skate.put(2)]
    array = numpy.array(refs)
    assert array.dtype == object
    assert array.tolist() == refs


def test_a_reference_to_no_object():
    nil = skate.ObjectRef.nil()
    assert nil.is_nil()
    assert not skate.put(1).is_nil()
    with pytest.raises(skate.exceptions.ObjectLostError):
        skate.get(nil)


def test_a_reference_from_its_bytes():
    ref = skate.put([1, 2])
    same = skate.ObjectRef(ref.binary())
    assert same == ref
    assert skate.get(same) == [1, 2]
    assert skate.ObjectRef.from_hex(ref.hex()) == ref


@pytest.mark.parametrize(("given", "error"), [(b"short", ValueError), ("a" * 28, TypeError)])
def test_bytes_that_are_no_reference(given, error):
    with pytest.raises(error, match=r"28|bytes"):
        skate.ObjectRef(given)


def test_random_references_are_all_different():
    refs = {skate.ObjectRef.from_random() for _ in range(20)}
    assert len({ref.hex() for ref in refs}) == 20
    assert not any(ref.is_nil() for ref in refs)


@pytest.mark.parametrize("make", [skate.ObjectRef.from_random, skate.ObjectRef.nil])
def test_a_reference_to_no_object_equals_the_one_of_its_bytes(make):
    ref = make()
    again = skate.ObjectRef(ref.binary())
    assert again == ref
    assert {ref: "found"}[again] == "found"
