"""Scores of a fitted estimator."""

from __future__ import annotations

import time


def scores(
    estimator: object, features: object, labels: object, scoring: object
) -> dict[str, object]:
    """Score an estimator, named as by `cross_validate`: `test_score`, or `test_…` for each of
    several."""
    from sklearn.metrics import check_scoring

    began = time.perf_counter()
    scorer = scoring if callable(scoring) else check_scoring(estimator, scoring)
    found = scorer(estimator, features, labels)
    named = found if isinstance(found, dict) else {"score": found}
    took = {"score_time": time.perf_counter() - began}
    return {**took, **{f"test_{name}": value for name, value in named.items()}}
