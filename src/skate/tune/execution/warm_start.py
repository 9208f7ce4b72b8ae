"""What a searcher knows before it begins: the trials of earlier searches, read as data.

Only the JSON of their state files is looked at. What had to be pickled, as a configuration with
objects in it, is not unpickled, whoever has written it: its values are taken as far as JSON shows
them, and a value that the space does not have is no value of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skate._core import notices
from skate._run.storage import Storage
from skate._run.values import lookup, plain
from skate.tune.error import NothingToTakeUpError
from skate.tune.experiment.state_file import STATE_FILE, read_states
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.search.variant_generator import parse_spec_vars

if TYPE_CHECKING:
    from skate.tune.search.search_algorithm import SearchAlgorithm

_UNUSABLE = (NotImplementedError, KeyError, TypeError, ValueError, AssertionError)


@dataclass
class PastTrial:
    """A trial of an earlier search, as far as JSON shows it.

    Attributes:
        trial_id: Its id.
        config: Its configuration.
        status: How it has ended, if it has.
        result: The last that it has reported.
    """

    trial_id: str
    config: Mapping[str, Any]
    status: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


def checked_folders(given: object) -> list[str]:
    """Return the folders of `warm_start`, each of which has a search.

    Args:
        given: What a user has written.

    Raises:
        TypeError: If it is no list of paths.
        FileNotFoundError: If a folder has no search.
    """
    if given is None:
        return []
    paths = list(given) if isinstance(given, (list, tuple)) else None
    if paths is None or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(
            "warm_start takes a list of the folders of earlier searches, storage_path/name; "
            f"got {given!r}"
        )
    for path in paths:
        storage = Storage.at(path)
        if not storage.exists(STATE_FILE):
            raise NothingToTakeUpError(
                f"there is no search to learn from at {storage.path!r}: its folder, "
                f"storage_path/name, has the file {STATE_FILE}"
            )
    return [os.fspath(path) for path in paths]


def past_trials(storage: Storage) -> list[PastTrial]:
    """Return the trials of a search.

    Args:
        storage: Its folder.
    """
    trials: dict[str, PastTrial] = {}
    for line in read_states(storage):
        kind, name = line["kind"], line.get("trial_id")
        if kind == "run" and line.get("fresh"):
            trials = {}
        elif kind == "trial":
            trials[str(name)] = PastTrial(str(name), _shown(line.get("config")))
        elif name in trials and kind == "config":
            trials[name].config = _shown(line.get("config"))
        elif name in trials and kind == "progress":
            trials[name].status = str(line.get("status"))
            trials[name].result = _shown(line.get("last_result"))
    return list(trials.values())


def _shown(packed: object) -> Mapping[str, Any]:
    """Return what is packed as far as JSON shows it, without unpickling anything."""
    value = packed.get("json", packed.get("shown")) if isinstance(packed, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def warm_up(
    search_alg: SearchAlgorithm, folders: Sequence[str], space: Mapping[str, object]
) -> None:
    """Let the searcher learn from earlier searches, and say how much that was.

    Args:
        search_alg: Whose searcher learns.
        folders: Those of the searches.
        space: The space of this one: trials that are not in it are passed over.

    Raises:
        ValueError: If there is no searcher that learns, or it has several objectives.
    """
    if not folders:
        return
    if not isinstance(search_alg, SearchGenerator):
        raise ValueError(
            'warm_start is for searchers that learn, as TuneConfig(search_alg="optuna"): grids '
            "and random draws do not depend on what is known"
        )
    searcher, metric = search_alg._layers()[-1], search_alg.metric
    if not isinstance(metric, str):
        raise ValueError(f"warm_start takes searches with one metric; got metric={metric!r}")
    _, domains, _ = parse_spec_vars(space)
    taken = 0
    trials = [trial for folder in folders for trial in past_trials(Storage.at(folder))]
    reasons: list[str] = []
    for config, value in _points(trials, metric, domains):
        try:
            searcher.add_evaluated_point(config, value)
            taken += 1
        except _UNUSABLE as error:
            reasons.append(f"{type(error).__name__}: {error}")
    why = f" ({reasons[0]})" if reasons else ""
    left = f"; {len(trials) - taken} had not ended well, or are not of this space{why}"
    notices.say(
        f"warm start: {type(searcher).__name__} knows {taken} of {len(trials)} earlier "
        f"trials{left * (taken < len(trials))}"
    )


def _points(
    trials: Sequence[PastTrial], metric: str, domains: Sequence[tuple[Any, Any]]
) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield the finished trials' configurations that are in the space, and what came of them."""
    for trial in trials:
        value = plain(lookup(trial.result, metric))
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        inside = all(_is_in(domain, trial.config, path) for path, domain in domains)
        if trial.status == "TERMINATED" and number and value == value and inside:
            yield dict(trial.config), value


def _is_in(domain: Any, config: Any, path: Sequence[Any]) -> bool:
    if domain.is_function():
        return True
    for name in path:
        try:
            config = config[name]
        except (LookupError, TypeError):
            return False
    try:
        return bool(domain.is_valid(config))
    except TypeError:  # a text where a number should be
        return False
