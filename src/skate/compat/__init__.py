"""Programs that were written for something else, run on skate.

`skate.compat.ray` makes `import ray` mean skate, in this process and in all that it starts.
"""
