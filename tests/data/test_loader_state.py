"""`state_dict` and `load_state_dict` of batches: another iteration goes on where one was."""

import json
import sys
from itertools import chain

import numpy as np
import pytest
from torchdata.stateful_dataloader import Stateful, StatefulDataLoader

import skate
import skate.data
from skate.data import FileShuffleConfig
from tests.support import local_only, run_program

pytestmark = [local_only, pytest.mark.usefixtures("engine")]


def two_thirds():
    rows = skate.data.range(300, override_num_blocks=7)
    return rows.map_batches(lambda batch: batch).filter(lambda row: row["id"] % 3 != 0)


def listed(batches):
    return [batch["id"].tolist() for batch in batches]


def first_of(batches, count):
    """Some batches, and the state behind them."""
    iterator = iter(batches)
    found = [next(iterator)["id"].tolist() for _ in range(count)]
    state = batches.state_dict()
    iterator.close()
    return found, state


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 16},
        {"batch_size": 16, "prefetch_batches": 4},
        {"batch_size": None},
        {"batch_size": 16, "drop_last": True},
        {"batch_size": 16, "local_shuffle_buffer_size": 30, "local_shuffle_seed": 3},
        {"batch_size": 16, "local_shuffle_buffer_size": 30, "prefetch_batches": 3},
    ],
)
def test_the_rest_is_as_if_nobody_had_stopped(options):
    dataset = two_thirds()
    whole = dataset.iter_torch_batches(**options)
    for stop in (0, 1, 4):
        iterator = iter(whole)
        before = [next(iterator)["id"].tolist() for _ in range(stop)]
        state = whole.state_dict()
        rest = listed(iterator)
        again = two_thirds().iter_torch_batches(**options)
        again.load_state_dict(state)
        if stop or "local_shuffle_seed" in options or "local_shuffle_buffer_size" not in options:
            assert listed(again) == rest
        assert before == [] or not set(before[0]) & set(chain(*rest))


def test_a_state_of_a_state():
    whole = listed(two_thirds().iter_torch_batches(batch_size=8))
    found, state = [], None
    while True:
        batches = two_thirds().iter_torch_batches(batch_size=8)
        if state is not None:
            batches.load_state_dict(state)
            assert batches.state_dict() == {**batches.state_dict(), **state}
        iterator = iter(batches)
        given = [batch["id"].tolist() for batch in (next(iterator, None),) if batch is not None]
        if not given:
            break
        found += given
        state = json.loads(json.dumps(batches.state_dict()))
        iterator.close()
    assert found == whole


def test_tasks_that_are_over_are_not_run_again(tally):
    def noted(batch):
        tally.add(batch["id"][0])
        return batch

    dataset = skate.data.range(100, override_num_blocks=10).map_batches(noted, batch_size=None)
    _, state = first_of(dataset.iter_torch_batches(batch_size=5), 13)
    begun = len(tally)
    again = dataset.iter_torch_batches(batch_size=5)
    again.load_state_dict(state)
    assert listed(again)[0] == [65, 66, 67, 68, 69]
    assert min(map(int, tally.words()[begun:])) == 60


def test_a_source_with_other_tasks_gives_the_same_rows():
    _, state = first_of(skate.data.range(100).iter_torch_batches(batch_size=10), 3)
    again = skate.data.range(100, override_num_blocks=3).iter_torch_batches(batch_size=20)
    again.load_state_dict(state)
    assert list(chain(*listed(again))) == list(range(30, 100))


def test_epochs_that_differ_by_a_seed(tmp_path):
    skate.data.range(80, override_num_blocks=8).write_parquet(str(tmp_path), max_rows_per_file=10)

    def batches():
        shuffle = FileShuffleConfig(seed=4)
        return skate.data.read_parquet(str(tmp_path), shuffle=shuffle).iter_torch_batches(
            batch_size=10
        )

    first = batches()
    epochs = [listed(first) for _ in range(3)]
    assert epochs[0] != epochs[1]
    other = batches()
    assert listed(other) == epochs[0]
    between = other.state_dict()
    begun, inside = first_of(other, 3)
    for state, expected in ((between, epochs[1]), (inside, epochs[1][3:])):
        again = batches()
        again.load_state_dict(state)
        assert listed(again) == expected
        assert listed(again) == epochs[2]
    assert begun == epochs[1][:3]


def test_an_epoch_in_an_order_of_its_own_begins_anew():
    dataset = skate.data.range(20).random_shuffle()
    _, state = first_of(dataset.iter_torch_batches(batch_size=5), 2)
    again = dataset.iter_torch_batches(batch_size=5)
    with pytest.warns(UserWarning, match="the epoch begins anew"):
        again.load_state_dict(state)
    assert sorted(chain(*listed(again))) == list(range(20))


def test_an_exchange_with_a_seed():
    def batches():
        shuffled = skate.data.range(60, override_num_blocks=4).random_shuffle(seed=2)
        return shuffled.iter_torch_batches(batch_size=7)

    found, state = first_of(batches(), 4)
    again = batches()
    again.load_state_dict(state)
    assert found + listed(again) == listed(batches())


def test_tensors_in_a_shuffle_buffer():
    rows = [{"id": number, "x": np.full((2, 3), number)} for number in range(40)]
    options = {"batch_size": 4, "local_shuffle_buffer_size": 9, "local_shuffle_seed": 1}
    dataset = skate.data.from_items(rows, override_num_blocks=4)
    _, state = first_of(dataset.iter_torch_batches(**options), 3)
    again = dataset.iter_torch_batches(**options)
    again.load_state_dict(state)
    assert all((batch["x"] == batch["id"].view(-1, 1, 1)).all() for batch in again)


def test_what_is_no_state_is_refused():
    batches = skate.data.range(3).iter_torch_batches()
    for wrong in ({"rows": 3}, None, [], "text"):
        with pytest.raises(ValueError, match="takes what state_dict has returned"):
            batches.load_state_dict(wrong)


def test_a_state_of_another_dataset_is_told():
    _, state = first_of(skate.data.range(100).iter_batches(batch_size=10), 4)
    rows = skate.data.from_items([{"id": number} for number in range(50)])
    with pytest.warns(
        UserWarning, match="another dataset: its plan was ReadRange, and this one's"
    ):
        rows.iter_batches(batch_size=10).load_state_dict(state)


ANOTHER_PROCESS = """
import json, sys
import skate.data
skate.init(engine="inline")
rows = skate.data.range(300, override_num_blocks=7).map_batches(lambda batch: batch)
batches = rows.filter(lambda row: row["id"] % 3 != 0).iter_torch_batches(batch_size=16)
batches.load_state_dict(json.loads(sys.argv[1]))
print(json.dumps([batch["id"].tolist() for batch in batches]))
"""


def test_another_process():
    found, state = first_of(two_thirds().iter_torch_batches(batch_size=16), 5)
    program = [sys.executable, "-c", ANOTHER_PROCESS, json.dumps(state)]
    rest = json.loads(run_program(program, check=True).stdout)
    assert found + rest == listed(two_thirds().iter_torch_batches(batch_size=16))


# -- parts --------------------------------------------------------------------------------------


@skate.remote
def batches_of(part, count, states=None):
    batches = part.iter_torch_batches(batch_size=5)
    if states is not None:
        batches.load_state_dict(states)
    found = []
    iterator = iter(batches)
    for batch in iterator:
        found += batch["id"].tolist()
        if len(found) == 5 * count:
            break
    state = batches.state_dict()
    iterator.close()
    return found, state


def taken_by(parts, count, states=None):
    split = skate.data.range(240, override_num_blocks=5).streaming_split(parts, equal=True)
    refs = [batches_of.options(num_cpus=0).remote(part, count, states) for part in split]
    found, after = zip(*skate.get(refs, timeout=120), strict=True)
    return list(chain(*found)), list(after)


@pytest.mark.parametrize("all_states", [True, False])
def test_another_number_of_parts_gets_the_remaining_rows_once(all_states):
    first, states = taken_by(2, 3)
    second, states = taken_by(3, 4, states if all_states else states[0])
    third, _ = taken_by(1, 1000, states if all_states else states[1])
    assert len(first) == 30
    assert len(second) == 60
    assert sorted(first + second + third) == list(range(240))


# -- torchdata ----------------------------------------------------------------------------------


def test_batches_are_stateful():
    assert isinstance(skate.data.range(3).iter_torch_batches(), Stateful)


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader(workers):
    def loader():
        rows = skate.data.range(60, override_num_blocks=4)
        dataset = rows.to_torch(feature_columns=["id"], batch_size=4)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    def numbers(batches):
        return [features.flatten().tolist() for features, _ in batches]

    whole = loader()
    iterator = iter(whole)
    found = numbers(next(iterator) for _ in range(5))
    state = whole.state_dict()
    rest = numbers(iterator)
    again = loader()
    again.load_state_dict(state)
    assert numbers(again) == rest
    assert sorted(chain(*found, *rest)) == list(range(60))
