"""How trials are run: a controller that decides, a runner that acts, workers."""
