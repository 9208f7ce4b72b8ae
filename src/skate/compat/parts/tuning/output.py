"""`ray.tune.experimental.output`: what its tables leave out."""

from skate.tune.result import AUTO_RESULT_KEYS, DEBUG_METRICS

BLACKLISTED_KEYS = sorted({*AUTO_RESULT_KEYS, *DEBUG_METRICS, "done", "experiment_tag"})
