"""What a fresh process finds as `ray` where its parent has called `skate.compat.ray.install()`."""

import importlib
import sys

del sys.modules[__name__]
importlib.import_module("skate.compat.ray").install()
sys.modules[__name__] = importlib.import_module(__name__)
