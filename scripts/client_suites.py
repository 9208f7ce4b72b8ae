"""Run the tests that other people's libraries bring along, verbatim, on skate or on Ray.

    scripts/clients suites                      all of them on skate
    scripts/clients suites xgboost_ray          one
    scripts/clients suites --on ray verl        the same tests on Ray itself, for comparison

Each library's source distribution is fetched once and unpacked in a cache folder, away from this
repository and its settings for pytest; its tests run there as they are. A suite fails if fewer
tests pass than it promises.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "skate-clients"
LIMIT_SECONDS = 1800  # for a suite; Ray starts anew for many of the tests


@dataclass(frozen=True)
class Suite:
    """The tests of a library that concern Ray.

    Args:
        name: The library on PyPI.
        version: The one whose tests are run.
        tests: What pytest is given: files of the source distribution, and options.
        passes: How many of them pass on skate.
        source: The folder of the source distribution that its modules are imported from.
    """

    name: str
    version: str
    tests: tuple[str, ...]
    passes: int
    source: str = "."


SUITES = (
    Suite(
        "xgboost_ray",
        "0.1.19",
        (
            "xgboost_ray/tests/test_matrix.py",
            "xgboost_ray/tests/test_end_to_end.py",
            "xgboost_ray/tests/test_xgboost_api.py",
            "xgboost_ray/tests/test_colocation.py",
            "xgboost_ray/tests/test_tune.py",
            "-k=not Client",  # Ray Client
        ),
        48,
    ),
    Suite(
        "lance_ray",
        "0.5.0",
        (
            "tests/test_add_columns_from.py",
            "tests/test_distributed_compaction.py",
            "tests/test_distributed_search.py",
            "tests/test_field_path.py",
            "tests/test_fragment.py",
            "tests/test_pool.py",
            "tests/test_vector_index_options.py",
        ),
        85,
    ),
    Suite(
        "verl",
        "0.9.1",
        (
            "tests/single_controller/test_auto_padding_on_cpu.py",
            "tests/single_controller/test_decorator_on_cpu.py",
            "tests/single_controller/test_fused_workers_on_cpu.py",
            "tests/single_controller/test_ray_local_envs_on_cpu.py",
            "tests/single_controller/test_ray_utils_on_cpu.py",
        ),
        10,
    ),
    Suite(
        "ray_map",
        "1.0.3",
        # Both rely on the order in which parallel tasks end.
        ("tests", "-k=not with_limit_infinite and not limit_with_infinite"),
        20,
        source="src",
    ),
    Suite("mlforecast", "1.1.0", ("tests/distributed_ray",), 5),
    Suite(
        "lightgbm_ray",
        "0.1.9",
        (
            "lightgbm_ray/tests/test_lightgbm_api.py",
            "lightgbm_ray/tests/test_end_to_end.py",
            "lightgbm_ray/tests/test_tune.py",
            "-k=not Client",  # Ray Client
        ),
        28,
    ),
    Suite(
        "adam_core",
        "0.5.5",
        (
            "src/adam_core/tests/test_ray_cluster.py",
            "src/adam_core/dynamics/tests/test_propagation.py",
        ),
        19,
        source="src",
    ),
)


def fetched(suite: Suite) -> Path:
    """Return the folder with the source distribution of `suite`, fetching it if need be."""
    folder = CACHE / f"{suite.name}-{suite.version}"
    if not folder.is_dir():
        wanted = f"{suite.name}=={suite.version}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", suite.name, "--dest", str(CACHE), wanted]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = CACHE.glob(f"{suite.name.replace('-', '_')}-{suite.version}.tar.gz")
        with tarfile.open(archive) as content:
            content.extractall(CACHE, filter="data")
            (CACHE / content.getnames()[0].partition("/")[0]).rename(folder)
    return folder


def run(suite: Suite, on: str) -> Path:
    """Run the tests of `suite` on `on`; return the file with what pytest printed."""
    folder = fetched(suite)
    log = CACHE / f"{suite.name}-on-{on}.log"
    launcher = ["-m", "skate", "run", "--as-ray"] if on == "skate" else []
    pytest = ["-m", "pytest", "-v", "--timeout=300", "-p", "no:cacheprovider", "-o", "addopts="]
    source = str((folder / suite.source).resolve())
    with log.open("w") as output:
        subprocess.run(
            [sys.executable, *launcher, *pytest, *suite.tests],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": source, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    return log


def main() -> int:
    """Run the suites that the command line names; return 1 if one is below its promise."""
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(description="the tests of other people's libraries")
    parser.add_argument("--on", choices=("skate", "ray"), default="skate")
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="library")
    given = parser.parse_args()
    failed = 0
    for suite in SUITES:
        if given.names and suite.name not in given.names:
            continue
        log = run(suite, given.on)
        summary = log.read_text().strip().rpartition("\n")[2].strip("= ")
        print(f"{suite.name:<16} {suite.version:<10} on {given.on}: {summary}", flush=True)
        if given.on == "skate" and passed(summary) < suite.passes:
            failed = 1
            print(f"    {suite.passes} should pass; see {log}")
    return failed


def passed(summary: str) -> int:
    """Return how many tests passed, of the last line that pytest printed."""
    found = re.search(r"(\d+) passed", summary)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
