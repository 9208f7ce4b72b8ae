"""The spaces of a `tune.run`, kept if they have objects that a later session must give again."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skate._run.pickles import signed_pickle, unpickle
from skate.tune.search.renewal import has_objects

if TYPE_CHECKING:
    from skate._run.storage import Storage
    from skate._run.stored_references import LostReference
    from skate.tune.experiment.experiment import Experiment

logger: logging.Logger = logging.getLogger(__name__)


def save_spaces(experiments: Iterable[Experiment]) -> None:
    """Write down spaces that have objects, from which is known later which of them were chosen."""
    for experiment in experiments:
        if _has_file(experiment):
            _save(experiment.storage, _file_of(experiment), experiment.spec["config"])


def find_previous_space(experiment: Experiment) -> None:
    """Give an experiment that is taken up with objects the space that it had last, if any."""
    storage, name = experiment.storage, _file_of(experiment)
    if _has_file(experiment) and storage.exists(name):
        lost: list[LostReference] = []
        found = unpickle(storage.read(name), f"{storage.path}/{name}", lost=lost)
        experiment.previous_space = found


def _has_file(experiment: Experiment) -> bool:
    return experiment.keeps_space and has_objects(experiment.spec["config"])


def _file_of(experiment: Experiment) -> str:
    """Name the file of one of the experiments in a folder; trainables may be called anything."""
    which = f"{experiment.number} {experiment.run_identifier}"
    return f"space-{hashlib.sha256(which.encode()).hexdigest()[:16]}.pkl"


def _save(storage: Storage, name: str, space: dict[str, Any]) -> None:
    try:
        data = signed_pickle(space)
    except Exception as error:  # what cannot be pickled still works
        logger.debug("%s: the space cannot be saved: %r", storage.path, error)
        return
    storage.write(name, data)
