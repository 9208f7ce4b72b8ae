"""A trial's name, and where its files are."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from skate._run.ledger import Ledger
from skate._run.storage import Storage
from skate._run.types import Config

_LONGEST_NAME_CHARACTERS = 130
_RESERVED = re.compile(r"[/()<>:\"\\|?*]")  # by some operating system, or by shells


class TrialPaths:
    """The part of a trial that knows its names and folders."""

    trainable_name: str
    trial_id: str
    config: Config
    experiment_tag: str
    location: str

    def _place(
        self, storage: Storage | None, name_creator: object, dirname_creator: object
    ) -> None:
        """Name the trial and its folder. To be called when it knows what it is: creators of names
        look at it."""
        self.custom_trial_name: str | None = _checked_name(name_creator, self)
        self.custom_dirname: str | None = _checked_dirname(dirname_creator, self)
        self._experiment_storage = storage
        self._dirname: str | None = None
        self._storage: Storage | None = None
        self._ledger: Ledger | None = None
        self._local_path: str | None = None

    def __str__(self) -> str:
        return self.custom_trial_name or f"{self._kind()}_{self.trial_id}".replace("/", "_")

    def _kind(self) -> str:
        """Return the trainable's name, and with it the environment's in reinforcement learning."""
        env = self.config.get("env")
        if env is None:
            return self.trainable_name
        return f"{self.trainable_name}_{env.__name__ if isinstance(env, type) else env}"

    def __repr__(self) -> str:
        return str(self)

    @property
    def dirname(self) -> str:
        """The name of the trial's folder in that of the experiment."""
        if self._dirname is None:
            self._dirname = self._generate_dirname()
        return self._dirname

    def _generate_dirname(self) -> str:
        """Make a folder's name that every file system takes."""
        if self.custom_dirname:
            return _RESERVED.sub("_", self.custom_dirname)
        name = _RESERVED.sub("_", f"{self}_{self.experiment_tag}"[:_LONGEST_NAME_CHARACTERS])
        return f"{name}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"

    @property
    def experiment_storage(self) -> Storage:
        """The experiment's folder."""
        if self._experiment_storage is None:
            self._experiment_storage = Storage()
        return self._experiment_storage

    @property
    def storage(self) -> Storage:
        """The trial's folder."""
        if self._storage is None:
            self._storage = self.experiment_storage.sub(self.dirname)
        return self._storage

    def set_storage(self, new_storage: Storage) -> None:
        """Move to the folder of another experiment.

        Args:
            new_storage: Where that is kept.
        """
        self._experiment_storage = new_storage
        self._storage = self._ledger = None
        self._local_path = None

    @property
    def ledger(self) -> Ledger:
        """The results in the trial's folder."""
        if self._ledger is None:
            self._ledger = Ledger(self.storage)
        return self._ledger

    @property
    def local_path(self) -> str:
        """Where loggers write."""
        if self._local_path is None:
            self._local_path = self.storage.local_path
        return self._local_path

    def close_storage(self) -> None:
        """Close the storage and what hangs on it: nothing more will be written for now."""
        self.storage.close()
        self._storage = self._ledger = self._local_path = None

    @property
    def path(self) -> str:
        """The trial's folder, on the storage's file system."""
        return self.storage.path

    @property
    def logdir(self) -> str:
        """An older name of `local_path`."""
        return self.local_path

    @property
    def local_experiment_path(self) -> str:
        """Where the experiment's files are written."""
        return self.experiment_storage.local_path

    @property
    def remote_experiment_path(self) -> str:
        """The experiment's folder, on the storage's file system."""
        return self.experiment_storage.path

    @property
    def local_dir(self) -> str:
        """An older name of `local_experiment_path`."""
        return self.local_experiment_path

    @property
    def experiment_dir_name(self) -> str:
        """The name of the experiment's folder."""
        return self.experiment_storage.name

    def init_local_path(self) -> None:
        """Make the folder."""
        os.makedirs(self.storage.local_path, exist_ok=True)

    def init_logdir(self) -> None:
        """Do what `init_local_path` does, whose older name this is."""
        self.init_local_path()

    @property
    def node_ip(self) -> str:
        """Where it runs."""
        return "127.0.0.1" if self.location else ""

    def get_ray_actor_ip(self) -> str | None:
        """Return the address of the node where the trial runs; None before it does."""
        return self.node_ip or None

    def set_location(self, location: object) -> None:
        """Note where it runs.

        Args:
            location: The place, as "pid=123".
        """
        self.location = str(location)


def _checked_name(creator: Any, trial: TrialPaths) -> str | None:
    if creator is None:
        return None
    name = creator(trial)
    if not isinstance(name, str) or not name:
        raise ValueError(f"trial_name_creator must return a name; got {name!r}")
    return name


def _checked_dirname(creator: Any, trial: TrialPaths) -> str | None:
    if creator is None:
        return None
    name = creator(trial)
    if not isinstance(name, str) or not name or os.path.sep in name:
        raise ValueError(f"trial_dirname_creator must return a folder's name; got {name!r}")
    return name
