"""`ray.tune.experiment.experiment`: whatever describes experiments, as a list of them."""

from __future__ import annotations

from skate.tune.experiment.experiment import Experiment, as_experiments


def convert_to_experiment_list(experiments: object) -> list[Experiment]:
    """Return one experiment, several, a dictionary of specs or None as a list."""
    return [] if experiments is None else as_experiments(experiments)


_convert_to_experiment_list = convert_to_experiment_list
