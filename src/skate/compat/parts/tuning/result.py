"""`ray.tune.result`: where results are, if no place is given, and what is printed."""

from skate._run.config_checks import default_storage_path

DEFAULT_RESULTS_DIR = default_storage_path()
STDOUT_FILE = "stdout"
STDERR_FILE = "stderr"
