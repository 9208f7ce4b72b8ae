"""Where the helpers of Ray's own tests live; a part of `_table`.

They are a package of their own beside skate in its repository, and no part of the wheel.
"""

from __future__ import annotations

_FOLDER = ("skate.compat.parts.tests",)
_HELPERS = "ray_test_helpers."
_INSIDE_OF_DATA = ("skate.compat.parts.data.inside", "skate.compat.parts.inside")
_INSIDE = "skate.compat.parts.inside"
_EXAMPLES = ("ray.air.examples", "ray.train.examples")

FOLDERS_OF_TESTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ray.tests", "ray.data.tests", "ray.serve.tests"), _FOLDER),
    **dict.fromkeys(("ray.dag.tests", "ray.dag.tests.experimental"), _FOLDER),
    **dict.fromkeys(_EXAMPLES, _FOLDER),
    **{f"{folder}.pytorch": _FOLDER for folder in _EXAMPLES},
}

HOMES_OF_TESTS: dict[str, tuple[str, ...]] = {
    "ray._common.test_utils": (_HELPERS + "prometheus", _HELPERS + "test_utils"),
    "ray._private.cluster_utils": (_HELPERS + "cluster_utils",),
    "ray._private.state_api_test_utils": (_HELPERS + "state_checks", _INSIDE),
    "ray._private.test_utils": (_HELPERS + "prometheus", _HELPERS + "test_utils"),
    "ray.cluster_utils": (_HELPERS + "cluster_utils",),
    "ray.dag.tests.experimental.actor_defs": (_HELPERS + "graph_actors",),
    "ray.dashboard.tests.conftest": (_HELPERS + "sessions", _INSIDE),
    "ray.data.tests.conftest": (
        _HELPERS + "data_fixtures",
        _HELPERS + "sessions",
        *_INSIDE_OF_DATA,
    ),
    "ray.data.tests.mock_http_server": (_HELPERS + "mock_http_server",),
    "ray.data.tests.test_util": (_HELPERS + "data_checks", "skate.compat.parts.inside"),
    "ray.data.tests.util": (_HELPERS + "data_checks", "skate.compat.parts.inside"),
    "ray.serve._private.test_utils": (
        _HELPERS + "serving_actors",
        _HELPERS + "serving_grpc",
        _HELPERS + "serving_metrics",
        _HELPERS + "serving",
    ),
    "ray.serve.generated.serve_pb2": (_HELPERS + "serve_messages", _INSIDE),
    "ray.serve.generated.serve_pb2_grpc": (_HELPERS + "serve_services", _INSIDE),
    "ray.serve.tests.conftest": (_HELPERS + "serving_sessions",),
    "ray.test_utils": (_HELPERS + "test_utils",),
    "ray.tests.client_test_utils": (_HELPERS + "client_test_utils",),
    "ray.tests.cluster_utils": (_HELPERS + "cluster_utils",),
    "ray.tests.conftest": (_HELPERS + "sessions",),
    "ray.tests.utils": (_HELPERS + "test_utils",),
    "ray.train.tests": (_HELPERS + "training",),
    "ray.train.tests.dummy_preprocessor": (_HELPERS + "training",),
    "ray.train.tests.lightning_test_utils": (_HELPERS + "lightning_modules", _INSIDE),
    "ray.train.tests.test_new_persistence": (_HELPERS + "training", _INSIDE),
    "ray.train.tests.util": (_HELPERS + "training",),
    "ray.tune.search._mock": (_HELPERS + "tuning",),
    "ray.tune.suggest._mock": (_HELPERS + "tuning",),
    "ray.tune.utils.mock": (_HELPERS + "tuning",),
    "ray.tune.utils.mock_trainable": (_HELPERS + "tuning",),
    **{
        f"{folder}.torch_linear_example": (_HELPERS + "torch_linear_example",)
        for example in _EXAMPLES
        for folder in (example, f"{example}.pytorch")
    },
}

REASONS_OF_TESTS = dict.fromkeys(
    HOMES_OF_TESTS,
    "it is a helper of Ray's own tests, which the wheel leaves out: install skate from its "
    "repository (`pip install -e .`), or put the folder `src` of it on PYTHONPATH",
)
