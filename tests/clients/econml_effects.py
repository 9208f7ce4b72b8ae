"""EconML: an effect whose nuisance models are fitted by tasks."""

import numpy as np
from econml.dml import LinearDML

if __name__ == "__main__":
    random = np.random.default_rng(0)
    features, confounders = random.normal(size=(400, 3)), random.normal(size=(400, 2))
    treatment = random.normal(size=400) + features[:, 0]
    outcome = 2 * treatment + features[:, 0] + random.normal(size=400)
    effects = []
    for use_ray in (False, True):
        model = LinearDML(use_ray=use_ray, random_state=0)
        model.fit(outcome, treatment, X=features, W=confounders)
        effects.append(model.const_marginal_effect(features[:5]))
    np.testing.assert_allclose(effects[0], effects[1])
    print("effect", np.round(effects[1].mean(), 1), "the same as without")
