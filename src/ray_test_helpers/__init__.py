"""Helpers of Ray's own tests, on skate: `ray._private.test_utils`, `ray.cluster_utils` and more.

Programs that were written for Ray import them in their tests. They are no part of the wheel:
`import ray` on skate finds them where skate is installed from its repository (`pip install -e .`),
or where this folder lies on `sys.path`.
"""
