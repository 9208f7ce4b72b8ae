"""scikit-learn through joblib's backend `ray`, and `ray.util.multiprocessing`."""

import joblib
from ray.util.joblib import register_ray
from ray.util.multiprocessing import Pool
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

if __name__ == "__main__":
    register_ray()
    search = GridSearchCV(LogisticRegression(max_iter=500), {"C": [0.1, 1.0, 10.0]}, cv=3)
    with joblib.parallel_backend("ray", n_jobs=2):
        search.fit(*load_iris(return_X_y=True))
    assert search.best_score_ > 0.9
    with Pool(2) as pool:
        assert pool.map(abs, range(-5, 0)) == [5, 4, 3, 2, 1]
        assert pool.starmap(divmod, [(7, 2), (9, 4)]) == [(3, 1), (2, 1)]
    print("best score", round(search.best_score_, 3))
