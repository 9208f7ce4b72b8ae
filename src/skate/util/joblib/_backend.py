"""The backend that joblib drives. Imported only when it is registered: it needs joblib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from joblib._parallel_backends import AutoBatchingMixin, FallbackToBackend, SequentialBackend
from joblib.parallel import ParallelBackendBase, parallel_config

import skate
from skate.util.multiprocessing import AsyncResult, Pool

_BY_REFERENCE_FROM = 100_000  # bytes; below, a copy inside the message is cheaper


class SkateBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Batches of calls go to a pool; large arguments are stored once and go by reference.

    Nested `Parallel` calls use threads inside a worker, and below that run one after the other, as
    with joblib's own processes.

    Args:
        nesting_level: How many `Parallel` calls are around this one; joblib says it.
        inner_max_num_threads: How many threads libraries may use in each worker.
        ray_remote_args: Options of the pool's actors.
        kwargs: What else joblib's own back ends take.
    """

    supports_retrieve_callback = True
    supports_return_generator = True
    supports_timeout = True
    supports_inner_max_num_threads = True

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        ray_remote_args: dict[str, object] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(
            nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **kwargs
        )
        self._remote_args = ray_remote_args or {}
        self._pool: Pool | None = None
        self._settings: tuple[int, dict[str, Any]] = (1, {})
        self._stored: dict[int, tuple[Any, Any]] = {}  # id -> (value, reference)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many workers there will be.

        Args:
            n_jobs: How many are asked for. A negative number counts from the number of CPUs down:
                -1 is all of them.

        Raises:
            ValueError: If it is 0.
        """
        if n_jobs == 0:
            raise ValueError("n_jobs=0 has no meaning; use 1 or more, or -1 for all CPUs")
        if n_jobs is None:
            return 1
        if n_jobs < 0:
            cpus = int(skate.cluster_resources().get("CPU", 1))
            return max(cpus + 1 + n_jobs, 1)
        return n_jobs

    def configure(
        self,
        n_jobs: int = 1,
        parallel: object = None,
        ray_remote_args: dict[str, object] | None = None,
        **_memmapping: object,
    ) -> int:
        """Start the pool. joblib's options for memory-mapped files do not concern us.

        Args:
            n_jobs: How many workers are asked for.
            parallel: The `Parallel` object that asks.
            ray_remote_args: Options of the pool's actors, besides those of the back end.

        Raises:
            FallbackToBackend: For one worker, which joblib takes as the wish for none.
        """
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._settings = (n_jobs, {**self._remote_args, **(ray_remote_args or {})})
        self._start()
        return n_jobs

    def _start(self) -> None:
        n_jobs, options = self._settings
        if self.inner_max_num_threads is not None:
            options = {"runtime_env": {"env_vars": self._prepare_worker_env(n_jobs)}, **options}
        self._pool = Pool(n_jobs, ray_remote_args=options)

    def submit(self, func: Any, callback: Callable[[Any], object] | None = None) -> AsyncResult:
        """Run a batch of calls.

        Args:
            func: The batch.
            callback: What gets its results, or its exception.

        Raises:
            RuntimeError: If the pool has ended.
        """
        if self._pool is None:
            raise RuntimeError("the backend has been terminated; enter its context again")
        batch = _Batch(func, self._by_reference)
        return self._pool.apply_async(batch, callback=callback, error_callback=callback)

    def retrieve_result_callback(self, out: object) -> object:
        """Return the results that a callback was given, or raise the exception.

        Args:
            out: What it was given.
        """
        if isinstance(out, BaseException):
            raise out
        return out

    def _by_reference(self, value: object) -> object:
        """Return a reference for a large value: the same one for every call that has it."""
        size = getattr(value, "nbytes", 0)
        if not isinstance(size, int) or size < _BY_REFERENCE_FROM:
            return value
        if id(value) not in self._stored:
            self._stored[id(value)] = (value, skate.put(value))
        return self._stored[id(value)][1]

    def stop_call(self) -> None:
        """Forget the arguments of a `Parallel` call that is over: they may change now."""
        self._stored.clear()

    def terminate(self) -> None:
        """End the pool."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None
        self._stored.clear()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End what still runs, after a call that failed.

        Args:
            ensure_ready: Whether more calls follow.
        """
        self.terminate()
        if ensure_ready:
            self._start()


class _Batch:
    """Calls that run one after the other in a worker."""

    def __init__(self, calls: Any, by_reference: Callable[[object], object]) -> None:
        self._nested = (calls._backend, calls._n_jobs)
        self._items = [
            (
                function,
                [by_reference(value) for value in args],
                {name: by_reference(value) for name, value in kwargs.items()},
            )
            for function, args, kwargs in calls.items
        ]

    def __call__(self) -> list[Any]:
        backend, n_jobs = self._nested
        with parallel_config(backend=backend, n_jobs=n_jobs):
            return [
                function(*map(_value, args), **{k: _value(v) for k, v in kwargs.items()})
                for function, args, kwargs in self._items
            ]


def _value(argument: object) -> object:
    return skate.get(argument) if isinstance(argument, skate.ObjectRef) else argument
