"""What the methods that iterate return: batches, epoch after epoch, that can be left and resumed.

`state_dict` and `load_state_dict` are torchdata's protocol (`Stateful`), which loaders and
trainers of others know as well.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skate.data._execution.positions import BlockCursor, LocalShuffle

if TYPE_CHECKING:
    from skate.data._api.rows_and_batches import RowsAndBatches
    from skate.data._execution.positions import State

T_co = TypeVar("T_co", covariant=True)
VERSION = 1


class Epochs(Generic[T_co]):
    """Something to iterate over again and again: each `iter()` starts anew."""

    def __init__(self, start: Callable[[], Iterator[T_co]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[T_co]:
        return self._start()


class StatefulEpochs(Epochs[T_co], ABC):
    """Batches that another process can go on with."""

    batches_before: int = 0
    """How many batches the next iteration leaves out, because they were given before."""

    @abstractmethod
    def state_dict(self) -> State:
        """Return where the iteration that began last is: behind the batches that it has given.

        Returns:
            Numbers and text; with `local_shuffle_buffer_size` also the rows in the buffer, as
            bytes. At the end of an epoch it is the beginning of the next one.
        """

    @abstractmethod
    def load_state_dict(
        self, state_dict: Mapping[str, object] | Sequence[Mapping[str, object]]
    ) -> None:
        """Let the next iteration go on where `state_dict` was called, in whatever process.

        Args:
            state_dict: What `state_dict` has returned for the same dataset and the same batches.
                For a part of a split or a worker's shard, a list of the states of all parts, or
                one that stands for all where they take equally many batches. There may be more
                parts than there were, or fewer.
        """


class LoaderRun:
    """One iteration: its blocks, its buffer, and how many batches it has given."""

    def __init__(self, cursor: BlockCursor, shuffle: LocalShuffle | None, batches: int) -> None:
        self.cursor = cursor
        self.shuffle = shuffle
        self.before = batches  # in iterations that this one goes on with
        self.given = 0
        self.is_over = False

    def state(self, batch_size: int | None) -> State:
        rows = (
            self.cursor.rows_until(self.given) if batch_size is None else self.given * batch_size
        )
        found: dict[str, Any] = {"batches": self.before + self.given, "buffer": None}
        if self.shuffle is not None:
            rows, found["buffer"] = self.shuffle.at(rows)
        return {**found, **self.cursor.at(rows)}


class Batches(StatefulEpochs[T_co]):
    """Batches of a dataset or of a part of it. `make` makes them of blocks and a buffer; whether
    it `owns` blocks says if what it makes of them can be written to."""

    def __init__(
        self,
        source: RowsAndBatches,
        make: Callable[[Iterator[object], LocalShuffle | None], Iterator[T_co]],
        batch_size: int | None,
        shuffle_size: int | None,
        shuffle_seed: int | None,
        owns: bool = False,
    ) -> None:
        super().__init__(self._begin)
        self._owns = owns
        self._source = source
        self._make = make
        self._batch_size = batch_size
        self._shuffle = (shuffle_size, shuffle_seed)
        self._run: LoaderRun | None = None
        self._loaded: dict[str, Any] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the next iteration begins at a state that was loaded."""
        return self._loaded is not None

    def _begin(self) -> Iterator[T_co]:
        start, self._loaded, self.batches_before = self._loaded, None, 0
        size, seed = self._shuffle
        buffer = None if start is None else start["buffer"]
        shuffle = None if size is None else LocalShuffle(size, seed, buffer)
        cursor = self._source._cursor(start)
        cursor.owns = self._owns
        run = LoaderRun(cursor, shuffle, 0 if start is None else start["batches"])
        self._run = run
        return self._counted(run, self._make(iter(cursor), shuffle))

    def _counted(self, run: LoaderRun, batches: Iterator[T_co]) -> Iterator[T_co]:
        for batch in batches:
            run.given += 1
            if run.shuffle is not None and self._batch_size is not None:
                run.shuffle.forget(run.given * self._batch_size)
            yield batch
        run.is_over = True

    def state_dict(self) -> State:
        found = {"version": VERSION, "batch_size": self._batch_size, **self._source._about_state()}
        if not self._source._resumable():
            return {**found, "anew": True}
        if self._loaded is not None:
            return {**found, **self._loaded}
        if self._run is None or self._run.is_over:
            return {**found, "next": True, **self._source._next_epoch()}
        return {**found, **self._run.state(self._batch_size)}

    def load_state_dict(
        self, state_dict: Mapping[str, object] | Sequence[Mapping[str, object]]
    ) -> None:
        is_list = isinstance(state_dict, Sequence) and len(state_dict) > 0
        one: Any = next(iter(state_dict)) if is_list else state_dict
        self._check(one)
        self._warn_of_another_plan(one)
        self._run = None
        if one.get("anew") or not self._source._resumable():
            warnings.warn(
                "the rows come in another order each time, so that nobody can tell which of them "
                "were taken: the epoch begins anew. Give a seed to what shuffles",
                stacklevel=2,
            )
            self._loaded = None
        elif one.get("next"):
            self._source._set_epoch(one)
            self._loaded = None
        else:
            self._source._set_epoch(one)
            self._loaded = self._source._start_of(state_dict)
            self.batches_before = self._loaded["batches"]

    def _check(self, state: object) -> None:
        if not isinstance(state, Mapping) or state.get("version") != VERSION:
            raise ValueError(
                f"load_state_dict takes what state_dict has returned, of version {VERSION}; got "
                f"{state!r:.200}"
            )
        if state["batch_size"] != self._batch_size and state.get("buffer") is not None:
            raise ValueError(
                f"the state is of batches of {state['batch_size']} rows from a shuffle buffer, "
                f"and these have {self._batch_size}"
            )

    def _warn_of_another_plan(self, state: Mapping[str, Any]) -> None:
        """Compare steps by their names: contents would have to be computed to be compared."""
        was: Any = state.get("plan")
        now: Any = self._source._about_state().get("plan")
        if was is not None and now is not None and was != now:
            old, new = (" <- ".join(steps) for steps in (was, now))
            warnings.warn(
                f"the state is of another dataset: its plan was {old}, and this one's is {new}. "
                "As many rows are left out as were taken there, whatever they are",
                stacklevel=3,
            )


class DerivedEpochs(StatefulEpochs[T_co]):
    """Something made of each of the batches, which know where they are."""

    def __init__(
        self, batches: StatefulEpochs[object], start: Callable[[], Iterator[T_co]]
    ) -> None:
        super().__init__(start)
        self._batches = batches

    def state_dict(self) -> State:
        return self._batches.state_dict()

    def load_state_dict(
        self, state_dict: Mapping[str, object] | Sequence[Mapping[str, object]]
    ) -> None:
        self._batches.load_state_dict(state_dict)
