"""How many replicas a deployment should have, by its load. No input or output.

Reporters tell numbers of requests: replicas those that they answer, routers those that wait.
Each number is an average since the report before. The sum over all reporters, taken over the
look-back window, is compared with what the replicas are meant to carry; a change is made once it
has been wanted for as long as the delays say.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from skate.serve._autoscaling_config import (
    AggregationFunction,
    AutoscalingConfig,
    AutoscalingContext,
    AutoscalingPolicy,
    TimeStampedValue,
)
from skate.serve._identity import DeploymentID, ReplicaID

_EXTREMES: dict[Any, Callable[[list[float]], float]] = {
    AggregationFunction.MAX: max,
    AggregationFunction.MIN: min,
}
_LONGEST_LOOK_SECONDS = 1.0  # between looks, at most, while there is something to look at


class LoadReports:
    """What one reporter told, within the look-back window."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float, window: float) -> None:
        """Note a load, and forget those before the window."""
        self._samples.append((now, value))
        while self._samples[0][0] < now - window:
            self._samples.popleft()

    def value(
        self, now: float, config: AutoscalingConfig, silent_at_zero: bool = False
    ) -> float | None:
        """Return the load of the window; the last one told if that is older; None if too old.

        Args:
            now: The time.
            config: The window, and how its values become one.
            silent_at_zero: Whether who has told 0 tells nothing more until there is something.
        """
        window = config.look_back_period_s
        values = [value for moment, value in self._samples if moment >= now - window]
        last, value = self._samples[-1]
        if not values:
            return value if now - last < 3 * config.metrics_interval_s else None
        if config.aggregation_function != AggregationFunction.MEAN:
            return _EXTREMES[config.aggregation_function](values)
        untold = (
            int((now - last) / _report_interval(config)) if silent_at_zero and not value else 0
        )
        return sum(values) / (len(values) + untold)

    def samples(self) -> list[TimeStampedValue]:
        """Return what was told, and when."""
        return [TimeStampedValue(*sample) for sample in self._samples]


def _report_interval(config: AutoscalingConfig) -> float:
    return min(config.metrics_interval_s, _LONGEST_LOOK_SECONDS)


class ScalingPolicy:
    """A policy of the user's: a function, or a class of which one instance is made."""

    def __init__(self, given: AutoscalingPolicy) -> None:
        self.given = given
        self.state: dict[Any, Any] = {}  # what it returned to be given again
        self.failure = ""
        self._function: Callable[[object], Any] | None = None

    def number(self, context: AutoscalingContext) -> float | None:
        """Return how many replicas it wants; None, and `failure`, if it does not say."""
        number: int | None = self._asked(context, math.ceil)
        return number

    def numbers(self, contexts: Mapping[Any, AutoscalingContext]) -> dict[Any, float]:
        """Return the same of all deployments that it says something of."""

        def checked(answer: Any) -> dict[Any, float]:
            return {id: math.ceil(answer[id]) for id in contexts if id in answer}

        return self._asked(contexts, checked) or {}

    def _asked(self, argument: object, check: Callable[[Any], Any]) -> Any:
        try:
            if self._function is None:
                self._function = self._made()
            answer = self._function(argument)
            answer, state = answer if isinstance(answer, tuple) else (answer, self.state)
            checked = check(answer)
        except Exception as error:
            self.failure = f"The autoscaling policy failed: {error!r}"
            return None
        self.failure, self.state = "", state or {}
        return checked

    def _made(self) -> Callable[[object], Any]:
        policy: Any = self.given.get_policy()
        arguments = self.given.policy_kwargs
        made: Any = policy(**arguments) if inspect.isclass(policy) else None
        return made or functools.partial(policy, **arguments)


class Autoscaler:
    """Decides for one deployment."""

    def __init__(self, id: DeploymentID) -> None:
        self._id = id
        self._reports: dict[tuple[str, str], LoadReports] = {}
        self._stats: dict[str, dict[ReplicaID, LoadReports]] = {}  # by what is measured
        self._policy: ScalingPolicy | None = None  # of the user's
        self._wanted_since: tuple[int, float] | None = None  # direction, since when
        self._last_up: float | None = None
        self._last_down: float | None = None

    @property
    def failure(self) -> str:
        """Why a policy of the user's said nothing; "" if it did."""
        return "" if self._policy is None else self._policy.failure

    def report(
        self, config: AutoscalingConfig, now: float, reporter: str, kind: str, value: float
    ) -> None:
        """Note a load; `kind` is "queued" or "running"."""
        reports = self._reports.setdefault((reporter, kind), LoadReports())
        reports.add(now, value, config.look_back_period_s)

    def record(
        self, config: AutoscalingConfig, now: float, replica: ReplicaID, stats: Mapping[str, float]
    ) -> None:
        """Note what the code of a replica has measured."""
        for name, value in stats.items():
            reports = self._stats.setdefault(name, {}).setdefault(replica, LoadReports())
            reports.add(now, value, config.look_back_period_s)

    def next_time(
        self, config: AutoscalingConfig, now: float, current: int, has_policy: bool = False
    ) -> float | None:
        """Return when to decide again although nothing was reported."""
        if not (self._reports or has_policy) and current <= config.min_replicas:
            return None
        return now + _report_interval(config)

    def decide(
        self, config: AutoscalingConfig, now: float, current: int, running: list[Any]
    ) -> int:
        """Return the number of replicas from now on; `current` is what is aimed at until now."""
        return self.settle(config, now, current, self.desired(config, now, current, running))

    def desired(
        self, config: AutoscalingConfig, now: float, current: int, running: list[Any]
    ) -> float:
        """Return how many replicas the load asks for, or the user's policy."""
        if config.policy.is_default_policy_function():
            queued, busy = self._total(config, now, "queued"), self._total(config, now, "running")
            return by_ongoing_requests(config, current, queued + busy)
        if self._policy is None or self._policy.given != config.policy:
            self._policy = ScalingPolicy(config.policy)
        number = self._policy.number(self.context(config, now, current, running))
        return current if number is None else number

    def settle(self, config: AutoscalingConfig, now: float, current: int, desired: float) -> int:
        """Return the number of replicas from now on, within the limits and after the delays."""
        bounded = int(min(max(desired, config.min_replicas), config.max_replicas))
        if current == 0 and bounded > 0:
            return self._change(now, current, bounded)  # somebody waits
        return self._after_delay(config, now, current, bounded)

    def _total(self, config: AutoscalingConfig, now: float, wanted: str) -> float:
        total = 0.0
        for (reporter, kind), reports in list(self._reports.items()):
            value = reports.value(now, config, silent_at_zero=True)
            if value is None:
                del self._reports[reporter, kind]
            elif kind == wanted:
                total += value
        return total

    def context(
        self, config: AutoscalingConfig, now: float, current: int, running: list[Any]
    ) -> AutoscalingContext:
        """Return what a policy is told."""
        queued, busy = self._total(config, now, "queued"), self._total(config, now, "running")
        known = set(running)
        for name, by_replica in list(self._stats.items()):
            self._stats[name] = {id: told for id, told in by_replica.items() if id in known}
        return AutoscalingContext(
            deployment_id=self._id,
            deployment_name=self._id.name,
            app_name=self._id.app_name,
            current_num_replicas=len(running),
            target_num_replicas=current,
            running_replicas=running,
            total_num_requests=queued + busy,
            total_queued_requests=queued,
            total_running_requests=busy,
            capacity_adjusted_min_replicas=config.min_replicas,
            capacity_adjusted_max_replicas=config.max_replicas,
            policy_state=dict(self._policy.state) if self._policy is not None else {},
            last_scale_up_time=self._last_up,
            last_scale_down_time=self._last_down,
            current_time=now,
            config=config,
            aggregated_metrics=self._aggregated(config, now),
            raw_metrics={
                name: {id: told.samples() for id, told in by_replica.items()}
                for name, by_replica in self._stats.items()
            },
        )

    def _aggregated(
        self, config: AutoscalingConfig, now: float
    ) -> dict[str, dict[ReplicaID, float]]:
        values = {
            name: {id: told.value(now, config) for id, told in by_replica.items()}
            for name, by_replica in self._stats.items()
        }
        return {
            name: {id: value for id, value in by_replica.items() if value is not None}
            for name, by_replica in values.items()
        }

    def _after_delay(
        self, config: AutoscalingConfig, now: float, current: int, desired: int
    ) -> int:
        direction = (desired > current) - (desired < current)
        if direction == 0:
            self._wanted_since = None
            return current
        if self._wanted_since is None or self._wanted_since[0] != direction:
            self._wanted_since = (direction, now)
        if now - self._wanted_since[1] < _delay(config, current, desired):
            return self._down_to_one(config, now, current, desired)
        return self._change(now, current, desired)

    def _down_to_one(
        self, config: AutoscalingConfig, now: float, current: int, desired: int
    ) -> int:
        """Go down to one replica: the last may have to wait longer than the others."""
        waited = self._wanted_since is not None and (
            now - self._wanted_since[1] >= config.downscale_delay_s
        )
        if desired == 0 and current > 1 and waited:
            self._last_down = now
            return 1
        return current

    def _change(self, now: float, current: int, desired: int) -> int:
        self._wanted_since = None
        if desired > current:
            self._last_up = now
        else:
            self._last_down = now
        return desired


def _delay(config: AutoscalingConfig, current: int, desired: int) -> float:
    if desired > current:
        return config.upscale_delay_s
    to_zero = config.downscale_to_zero_delay_s
    if desired == 0 and to_zero is not None:
        return to_zero
    return config.downscale_delay_s


def by_ongoing_requests(config: AutoscalingConfig, current: int, total: float) -> int:
    """Return how many replicas would have `target_ongoing_requests` each; factors below 1 go there
    more slowly."""
    if current == 0:
        first = math.ceil(config.get_upscaling_factor())
        return max(first, math.ceil(total / config.target_ongoing_requests)) if total > 0 else 0
    ratio = total / (config.target_ongoing_requests * current)
    up = ratio >= 1
    factor = config.get_upscaling_factor() if up else config.get_downscaling_factor()
    # Numbers of requests are averages: 2.0000001 replicas are 2.
    desired = math.ceil(current * (1 + (ratio - 1) * factor) - 1e-6)
    if not up and desired == current and ratio * current <= current - 1:
        return current - 1  # a small factor must not stop the way down altogether
    return max(0, desired)
