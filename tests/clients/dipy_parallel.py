"""dipy: its parallel loop with `engine="ray"`, and a model that uses it."""

import numpy as np
from dipy.utils.parallel import paramap


def power(x: float, n: int = 1) -> float:
    return float(x**n)


if __name__ == "__main__":
    numbers = np.arange(20)
    assert paramap(power, numbers, engine="ray", func_kwargs={"n": 2}) == [
        float(x * x) for x in numbers
    ]
    print("paramap of", len(numbers), "items")
