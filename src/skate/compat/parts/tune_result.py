"""`ray.tune.result`: where results are, if no place is given."""

from skate._run.config import default_storage_path

DEFAULT_RESULTS_DIR = default_storage_path()
