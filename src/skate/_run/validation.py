"""Validating checkpoints beside the training that reports them: what is asked for, how it ends."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from skate._core.enumerations import looked_up_by_value
from skate._run.config_checks import as_config
from skate._run.pickles import signed_pickle, unpickle

if TYPE_CHECKING:
    from skate._run.checkpoint import Checkpoint
    from skate._run.types import ResultRow


class ValidationFn(Protocol):
    """Gets a checkpoint, and what `fn_kwargs` say; returns metrics."""

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> ResultRow: ...


@dataclass
class ValidationTaskConfig:
    """Ask for one validation: `report(…, validation=ValidationTaskConfig(fn_kwargs={…}))`.

    Args:
        fn_kwargs: Further arguments of the function: JSON, so that a run that was interrupted can
            ask again.
        timeout_s: Seconds after which the validation is ended; None lets it take its time.
    """

    fn_kwargs: dict[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        self.fn_kwargs = _as_json(dict(self.fn_kwargs or {}))
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ValueError(
                "`timeout_s` should be None or greater than zero: it is a number of seconds; "
                f"got {self.timeout_s!r}"
            )


@dataclass
class OwnValidation(ValidationTaskConfig):
    """One whose report brings its function along, as with Ray 2.52:
    `report(…, validate_fn=fn, validate_config={…})` calls `fn(checkpoint, config)`."""

    packed: str = ""  # as text, so that a run that was interrupted can ask again

    @classmethod
    def of(cls, fn: object, config: object) -> OwnValidation:
        return cls(packed=base64.b64encode(signed_pickle((fn, config))).decode())

    def __call__(self, checkpoint: Checkpoint) -> Any:
        fn, config = unpickle(base64.b64decode(self.packed), "the validation of a checkpoint")
        return fn(checkpoint, config)


def _as_json(fn_kwargs: dict[str, object]) -> dict[str, Any]:
    """Return what a run that is taken up will read, so that both give the function the same."""
    try:
        read: dict[str, Any] = json.loads(json.dumps(fn_kwargs))
    except (TypeError, ValueError) as error:
        raise TypeError(
            "fn_kwargs are what JSON can express, as they are written into the run's folder: "
            f"numbers, texts, lists and dicts of these; got {fn_kwargs!r} ({error})"
        ) from None
    return read


@dataclass
class ValidationConfig:
    """Say how a trainer validates checkpoints whose report asks for it.

    Args:
        fn: `fn(checkpoint, **kwargs)` runs as a task of its own, and the metrics that it returns
            are added to the checkpoint's.
        task_config: What `report(…, validation=True)` means.
        ray_remote_kwargs: Options of the task; it takes no CPU unless they say so, as the workers
            may have all of them.
    """

    fn: Callable[..., dict[str, Any]]
    task_config: ValidationTaskConfig | None = None
    ray_remote_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"fn is a function of a checkpoint; got {self.fn!r}")
        self.task_config = as_config(ValidationTaskConfig, self.task_config)
        self.ray_remote_kwargs = dict(self.ray_remote_kwargs or {})

    def task_for(self, asked: bool | ValidationTaskConfig) -> ValidationTaskConfig:
        """Return what a report asks for, on top of `task_config`.

        Args:
            asked: What the report was given as `validation`.
        """
        default = as_config(ValidationTaskConfig, self.task_config)
        if isinstance(asked, bool):
            return default
        if isinstance(asked, OwnValidation):
            return asked
        return ValidationTaskConfig({**default.fn_kwargs, **asked.fn_kwargs}, asked.timeout_s)


@looked_up_by_value
class ReportedCheckpointStatus(Enum):
    """Say how far the validation of a checkpoint is, which is in the run's folder for good.

    Args:
        value: "COMMITTED" where no validation was asked for; else "PENDING_VALIDATION",
            "VALIDATED", "VALIDATION_TIMEOUT" or "VALIDATION_FAILED".
    """

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


def checked_request(asked: object, checkpoint: Checkpoint | None) -> bool | ValidationTaskConfig:
    """Return what `report(validation=…)` was given, if it makes sense; raise otherwise."""
    if not isinstance(asked, (bool, ValidationTaskConfig, type(None))):
        raise TypeError(
            "report takes True, False or a ValidationTaskConfig as `validation`; "
            f"got {type(asked).__name__}: {asked!r}"
        )
    if asked and checkpoint is None:
        raise ValueError("Validation requires a checkpoint: report(…, checkpoint=checkpoint)")
    return asked or False
