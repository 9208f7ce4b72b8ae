"""The path by which Ray users import `run`; see skate.tune.running, where it lives.

Nothing here imports this module: functions that use the name `tune` would take it along to the
process of each trial, and with it all that a search needs and a trial does not.
"""

from skate.tune.running import run, run_experiments

__all__ = ["run", "run_experiments"]
