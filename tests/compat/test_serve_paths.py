"""Where programs for Ray look for the parts of its serve, and one that runs."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from skate.compat import ray as compat
from tests.support import PATIENCE, run_program

PATHS = {
    "ray.serve": (
        "Application batch delete deployment get_deployment_actor get_deployment_actor_context "
        "ingress multiplexed run status"
    ),
    "ray.serve._private.common": "DeploymentID DeploymentStatus ReplicaID RequestProtocol",
    "ray.serve._private.constants": "SERVE_DEFAULT_APP_NAME SERVE_HTTP_REQUEST_ID_HEADER",
    "ray.serve._private.http_util": "make_fastapi_class_based_view",
    "ray._common.pydantic_compat": "BaseModel ValidationError",
    "ray.serve._private.test_utils": (
        "check_num_replicas_eq get_application_url ping_grpc_healthz skip_if_haproxy SharedFlag"
    ),
    "ray.serve.deployment_graph": "InputNode RayServeDAGHandle",
    "ray.serve.drivers": "DAGDriver",
    "ray.serve.generated.serve_pb2": "UserDefinedMessage DeploymentConfig",
    "ray.serve.tests.conftest": "TEST_GRPC_SERVICER_FUNCTIONS serve_instance ray_shutdown",
    "ray.serve.grpc_util": "RayServegRPCContext gRPCInputStream",
    "ray.serve._private.utils": "generate_request_id get_random_string",
    "ray.serve.api": "deployment run",
    "ray.serve.batching": "batch",
    "ray.serve.config": (
        "AutoscalingConfig AutoscalingContext DeploymentActorConfig DeploymentID HTTPOptions "
        "ProxyLocation gRPCOptions"
    ),
    "ray.serve.context": "_get_global_client _get_serve_request_context",
    "ray.serve.deployment": "Application Deployment",
    "ray.serve.exceptions": "BackPressureError RayServeException RequestCancelledError",
    "ray.serve.handle": "DeploymentHandle DeploymentResponse DeploymentResponseGenerator",
    "ray.serve.metrics": "Counter Gauge Histogram",
    "ray.serve.http_adapters": "json_request json_to_ndarray",
    "ray.serve.schema": "ApplicationStatus ServeDeploySchema ServeInstanceDetails EncodingType",
}

DECLARED = """
import ray
from ray import serve
from ray.serve._private import test_utils  # which lets the controller answer Ray's questions
from ray.serve.config import AutoscalingConfig
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema, ServeInstanceDetails

ray.init(num_cpus=4)
serve.start(proxy_location="Disabled")
client = _get_global_client()

def deploy(*apps):
    client.deploy_apps(ServeDeploySchema(applications=apps), _blocking=True)

app = {"name": "a", "import_path": "number:app", "deployments": [{"name": "N", "user_config": 5}]}
deploy(app)
print(serve.get_app_handle("a").remote().result())
client._wait_for_deployment_healthy("N")
running = ray.get(client._controller._all_running_replicas.remote())
print({id.name: len(found) for id, found in running.items()})
details = ServeInstanceDetails(**client.get_serve_details()).applications["a"]
(replica,) = details.deployments["N"].replicas
print(details.source.value, details.deployments["N"].status.value, replica.state.value)
config = details.deployments["N"].deployment_config
print(config.user_config, config.num_replicas, config.max_ongoing_requests)
app["deployments"][0]["user_config"] = 6
deploy(app, app | {"name": "b", "route_prefix": "/b"})
print(serve.get_app_handle("a").remote().result(), sorted(serve.status().applications))
app["deployments"][0]["num_replicas"] = 2
config = ServeDeploySchema(applications=[app], target_capacity=50)
client.deploy_apps(config, _blocking=True)
serve.run(serve.deployment(lambda: "of the program").bind(), name="own", route_prefix=None)
ray.kill(client._controller, no_restart=False)
while serve.status().applications["a"].deployments["N"].replica_states != {"RUNNING": 1}:
    pass  # they are recovered
print(serve.status().target_capacity, sorted(serve.status().applications))
serve.run(serve.deployment(lambda: "taken over").bind(), name="a", route_prefix="/a")
print(client.get_serve_details()["applications"]["a"]["source"])
scales = serve.deployment(name="S", num_replicas="auto")(lambda: 1)
serve.run(scales.bind(), name="own", route_prefix=None)
scales = client.get_serve_details()["applications"]["own"]["deployments"]["S"]
policy = scales["deployment_config"]["autoscaling_config"].pop("policy")["policy_function"]
print(policy, AutoscalingConfig(**scales["deployment_config"]["autoscaling_config"]).max_replicas)
deploy({"name": "lost", "import_path": "nowhere:app"})
print(serve.get_app_handle("a").remote().result())
try:
    client._wait_for_application_running("lost")
except RuntimeError as error:
    print("nowhere" in str(error))
deploy()
print(sorted(serve.status().applications), serve.status().target_capacity)
services = "ray_test_helpers.serve_services.add_UserDefinedServiceServicer_to_server"
grpc = {"port": 0, "grpc_servicer_functions": [services]}
client.deploy_apps(ServeDeploySchema(applications=[], grpc_options=grpc))
print(serve.grpc_address().partition(":")[0])
one = serve.deployment(lambda: 1)
before = one._deployment_config.num_replicas
one.set_options(num_replicas=3)
print(before, one._deployment_config.num_replicas)
serve.shutdown()
"""

NUMBER = """
from ray import serve

@serve.deployment
class N:
    def reconfigure(self, number):
        self.number = number

    def __call__(self):
        return self.number

app = N.bind()
"""

PROGRAM = """
import requests
import ray
from fastapi import FastAPI
from ray import serve
from ray.serve._private.test_utils import get_application_url
from ray.serve.context import _get_global_client
from ray.serve.handle import DeploymentHandle

app = FastAPI()

@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0})
class Doubler:
    def double(self, number: int) -> int:
        return number * 2

@serve.deployment
@serve.ingress(app)
class Api:
    def __init__(self, doubler: DeploymentHandle):
        self.doubler = doubler

    @app.get("/double/{number}")
    async def double(self, number: int):
        return await self.doubler.double.remote(number)

ray.init(num_cpus=4)
serve.start(http_options={"port": 0})
handle = serve.run(Api.bind(Doubler.bind()), name="api", route_prefix="/api")
print(requests.get(get_application_url(app_name="api") + "/double/21").json())
print(_get_global_client().get_serve_details()["applications"]["api"]["docs_path"])
print(serve.get_deployment_handle("Doubler", "api").double.remote(4).result())
print(serve.status().applications["api"].status.value)
_get_global_client().delete_all_apps()
print(dict(serve.status().applications))
serve.shutdown()
"""


UNCHANGED = """
import sys
from skate.serve import Deployment
from skate.serve._routing.router import Router

before = {kind: set(vars(kind)) for kind in (Deployment, Router)}
from ray import serve
from ray.serve import config, context, deployment, handle, schema

print([set(vars(kind)) - names for kind, names in before.items()])
print([name for name in sys.modules if name == "ray_test_helpers.serving_config"])
"""


def test_importing_serve_changes_no_class(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(UNCHANGED)
    command = [sys.executable, "-m", "skate", "run", "--as-ray", "program.py"]
    done = run_program(command, cwd=tmp_path, check=True)
    assert done.stdout == "[set(), set()]\n[]\n"


def test_options_of_a_deployment_as_bytes_are_plain_data(as_ray: None) -> None:
    from ray.serve._private.config import DeploymentConfig

    given: dict[str, Any] = {
        "num_replicas": "auto",
        "autoscaling_config": {"max_replicas": 3},
        "user_config": {"a": [1]},
        "logging_config": {"log_level": "INFO"},
    }
    packed = DeploymentConfig.from_default(**given).to_proto_bytes()
    found = DeploymentConfig.from_proto_bytes(packed)
    assert json.loads(packed)[0]["user_config"] == found.user_config == {"a": [1]}
    assert found.autoscaling_config.max_replicas == 3
    assert found.user_configured_option_names == set(given)
    with pytest.raises(ValueError, match="decode"):  # no pickle, whatever it says
        DeploymentConfig.from_proto_bytes(pickle.dumps(({}, set())))
    with pytest.raises(TypeError, match="as JSON, which has no object"):
        DeploymentConfig.from_default(user_config=object()).to_proto_bytes()


@pytest.fixture
def as_ray(leaves_nothing: None) -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@pytest.mark.usefixtures("as_ray")
@pytest.mark.parametrize("path", PATHS)
def test_names_are_found(path: str) -> None:
    module = import_module(path)
    for name in PATHS[path].split():
        assert hasattr(module, name)


@pytest.mark.usefixtures("as_ray")
def test_the_decorator_is_not_its_module() -> None:
    import_module("ray.serve.deployment")
    serve = import_module("ray.serve")
    assert serve.deployment(lambda: 1).num_replicas == 1


def test_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "skate", "run", "--as-ray", str(program)]
    done = run_program(command, timeout=PATIENCE)
    assert done.stderr == ""
    assert done.stdout == "42\n/docs\n8\nRUNNING\n{}\n"


def test_a_program_that_declares_what_runs(tmp_path: Path) -> None:
    (tmp_path / "number.py").write_text(NUMBER)
    (tmp_path / "program.py").write_text(DECLARED)
    command = [sys.executable, "-m", "skate", "run", "--as-ray", str(tmp_path / "program.py")]
    done = run_program(command, timeout=PATIENCE)
    assert done.stdout == (
        "5\n{'N': 1}\ndeclarative HEALTHY RUNNING\n5 1 5\n6 ['a', 'b']\n50.0 ['a', 'own']\n"
        "imperative\nray.serve.autoscaling_policy:default_autoscaling_policy 100\n"
        "taken over\nTrue\n['a', 'own'] None\n127.0.0.1\n1 3\n"
    ), done.stderr


def test_the_modules_of_starlette_are_there_as_soon_as_serve_is(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from ray import serve\n"
        "import sys, starlette\n"
        "assert 'starlette.requests' not in sys.modules  # which takes long\n"
        "print(starlette.requests.Request.__name__, hasattr(starlette, 'nothing'))\n"
    )
    command = [sys.executable, "-m", "skate", "run", "--as-ray", str(program)]
    done = run_program(command, timeout=PATIENCE)
    assert done.stdout == "Request False\n", done.stderr


def test_other_libraries_are_as_they_were_where_ray_is_not_imported() -> None:
    program = "import skate.serve, starlette; print(hasattr(starlette, '__getattr__'))"
    assert run_program([sys.executable, "-c", program], check=True).stdout == "False\n"


def test_names_that_programs_of_other_years_import(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from ray.dashboard.modules.job.common import JobStatus\n"
        "from ray.dashboard.modules.job.sdk import JobSubmissionClient\n"
        "from ray.serve.api import DeploymentHandle\n"
        "from ray.serve.handle import RayServeDeploymentHandle, RayServeHandle\n"
        "import ray.job_submission\n"
        "assert JobSubmissionClient is ray.job_submission.JobSubmissionClient\n"
        "assert JobStatus is ray.job_submission.JobStatus\n"
        "assert RayServeDeploymentHandle is RayServeHandle is DeploymentHandle\n"
        "try:\n"
        "    import ray.dashboard.head\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-m", "skate", "run", "--as-ray", str(program)]
    done = run_program(command, timeout=PATIENCE)
    assert "a part of Ray's cluster" in done.stdout, done.stderr


def test_metrics_of_replicas_say_which_it_is(as_ray: None) -> None:
    from skate.serve import metrics

    assert import_module("ray.serve.metrics").Counter is metrics.Counter
