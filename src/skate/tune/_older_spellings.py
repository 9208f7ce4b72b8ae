"""Arguments that earlier Rays had, rewritten in today's words at the door of `tune`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import isclass
from typing import Any

from skate._core.nearest import unknown_parameter
from skate._run.config import CheckpointConfig
from skate.tune.registry import get_trainable_cls, is_registered

# With what they were when they were not given.
_CHECKPOINTS: dict[str, Any] = {
    "keep_checkpoints_num": None,
    "checkpoint_score_attr": None,
    "checkpoint_freq": 0,
    "checkpoint_at_end": None,
}
_REWRITTEN: dict[str, Any] = {
    **_CHECKPOINTS,
    "chdir_to_trial_dir": None,
    "local_dir": None,
    "loggers": None,
    "upload_dir": None,
}

# About services that do not exist here, with the values that ask for nothing; `...` is any.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "_entrypoint": (...,),
    "_remote": (...,),
    "_remote_string_queue": (...,),
    "global_checkpoint_period": (...,),
    "queue_trials": (...,),
    "ray_auto_init": (...,),
    "server_port": (...,),
    "sync_on_checkpoint": (...,),
    "return_trials": (None, False),
    "sync_function": (None,),
    "sync_to_cloud": (None, False, True),
    "sync_to_driver": (None, False, True),
    "trial_executor": (None,),
    "with_server": (None, False),
}


def in_todays_words(today: Mapping[str, Any], older: Mapping[str, object]) -> dict[str, object]:
    """Rewrite the arguments of a call of `tune.run`.

    Args:
        today: What was given, or is the default, of today's arguments.
        older: What was given besides.

    Returns:
        Today's arguments with the older ones in them: `loggers` among the callbacks,
        `upload_dir` and `local_dir` as the storage path, the four about checkpoints as a
        `CheckpointConfig`, and `chdir_to_trial_dir` as it is.

    Raises:
        TypeError: For an argument that no Ray ever had.
        ValueError: For one that cannot be had here, or that says something a second time.
    """
    _check(older, known=today)
    given = {**_REWRITTEN, **older}
    return {
        **today,
        "checkpoint_config": checkpoint_config_of(
            given, today["checkpoint_config"], today["run_or_experiment"]
        ),
        "callbacks": [*(today["callbacks"] or ()), *_as_callbacks(given["loggers"] or ())],
        "storage_path": today["storage_path"] or given["upload_dir"],
        "local_dir": given["local_dir"],
        "chdir_to_trial_dir": given["chdir_to_trial_dir"],
    }


def trainable_of(trainable: object, older: Mapping[str, object], known: Iterable[str]) -> object:
    """Return the trainable that `Tuner.restore` was given, under today's name or the earlier one.

    Args:
        trainable: Today's argument.
        older: What was given besides.
        known: The names of today's arguments.

    Raises:
        TypeError: For an argument that no Ray ever had.
    """
    for name in older:
        if name != "overwrite_trainable":
            raise unknown_parameter("Tuner.restore", name, known, also=["overwrite_trainable"])
    return trainable if trainable is not None else older.get("overwrite_trainable")


def changed(older: Mapping[str, object]) -> dict[str, object]:
    """Return those of the older arguments that ask for something."""
    return {k: v for k, v in older.items() if k in _REWRITTEN and v != _REWRITTEN[k]}


def without_checkpoints(options: Mapping[str, object]) -> dict[str, Any]:
    """Rewrite the older options about checkpoints of an experiment that is given as a dict.

    Args:
        options: By the names of `Experiment`, or older ones.
    """
    rest = {name: value for name, value in options.items() if name not in _CHECKPOINTS}
    given = {**_CHECKPOINTS, **options}
    config = checkpoint_config_of(given, rest.get("checkpoint_config"), rest.get("run"))
    return rest if config is None else {**rest, "checkpoint_config": config}


def checkpoint_config_of(given: Mapping[str, Any], config: object, trainable: object) -> Any:
    """Return one configuration of what was given in the newer or the older way.

    Args:
        given: Has the four older arguments about checkpoints.
        config: The newer one; `None` if that was not given.
        trainable: What is run, or its name. Functions save by themselves: an older
            `checkpoint_at_end` is not refused, as guides have it, and has nothing to do for them.
    """
    keep, score, freq, at_end = (given[name] for name in _CHECKPOINTS)
    if not (keep is not None or score or freq or at_end is not None):
        return config
    if config is not None:
        raise ValueError(f"give checkpoint_config, or {', '.join(_CHECKPOINTS)}, but not both")
    order = "max"
    if score and score.startswith("min-"):
        order, score = "min", score[4:]
    return CheckpointConfig(
        num_to_keep=keep,
        checkpoint_score_attribute=score,
        checkpoint_score_order=order,
        checkpoint_frequency=freq,
        checkpoint_at_end=None if at_end and _saves_by_itself(trainable) else at_end,
    )


def _saves_by_itself(trainable: object) -> bool:
    if isinstance(trainable, str) and is_registered(trainable):
        trainable = get_trainable_cls(trainable)
    return callable(trainable) and not isclass(trainable)


def _check(older: Mapping[str, object], known: Iterable[str]) -> None:
    for name, value in older.items():
        if name in _REWRITTEN:
            continue
        if name not in _WITHOUT_EFFECT:
            also = (*_REWRITTEN, *_WITHOUT_EFFECT)
            raise unknown_parameter("tune.run", name, known, also)
        allowed = _WITHOUT_EFFECT[name]
        if ... not in allowed and value not in allowed:
            raise ValueError(
                f"tune.run({name}={value!r}) is of an earlier Ray and not offered: leave it out, "
                f"or give {' or '.join(map(repr, allowed))}"
            )


def _as_callbacks(loggers: Iterable[Any]) -> list[Any]:
    from skate.tune.logger import DEFAULT_LOGGERS, LegacyLoggerCallback

    own = [logger for logger in loggers if logger not in DEFAULT_LOGGERS]  # those write anyway
    return [LegacyLoggerCallback(own)] if own else []
