"""`skate doctor`: built faults, each found with its remedy."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skate.cli import _doctor
from skate.cli._doctor import Check, Finding, Place
from tests.support import run_program

GIGABYTE = 1 << 30


def one(check: Check, place: Place) -> Finding:
    """The one thing that a check finds."""
    (finding,) = check(place)
    assert finding.remedy
    return finding


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Mounts a file system in memory, with options."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    points: list[str] = []

    def mount(options: str) -> str:
        point = tmp_path / f"mount{len(points)}"
        point.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"{options},mode=1777", "tmpfs", str(point)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("this container may not mount")
        points.append(str(point))
        return str(point)

    yield mount
    for point in points:
        subprocess.run(["umount", point], check=True)


def test_a_healthy_place_has_no_faults_but_those_of_this_machine(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    found = {check.__name__: list(check(Place(environ=clean))) for check in _doctor.CHECKS[9:13]}
    assert found == {check.__name__: [] for check in _doctor.CHECKS[9:13]}


def test_no_shared_memory(tmp_path: Path) -> None:
    place = Place(shared_memory=str(tmp_path / "none"))
    assert "there is none" in one(_doctor.check_shared_memory, place).fault


def test_little_shared_memory(mounted: Callable[[str], str]) -> None:
    finding = one(_doctor.check_shared_memory, Place(shared_memory=mounted("size=64m")))
    assert "64 MB" in finding.fault
    assert "--shm-size" in finding.remedy


def test_full_shared_memory(
    mounted: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_doctor, "_LEAST_SHARED_MEMORY_BYTES", 1 << 20)
    folder = mounted("size=4m")
    Path(folder, "file").write_bytes(bytes(4_000_000))
    finding = one(_doctor.check_shared_memory, Place(shared_memory=folder))
    assert "0 of 4 MB are free" in finding.fault


def test_memory_that_is_used_up(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 100000 kB\n")
    place = Place(proc=str(tmp_path), cgroups=str(tmp_path))
    assert "97 of 7812 MB are free" in one(_doctor.check_memory, place).fault


def test_a_container_with_little_memory(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "memory.max").write_text(f"{GIGABYTE}\n")
    (tmp_path / "memory.current").write_text("0\n")
    place = Place(proc=str(tmp_path), cgroups=str(tmp_path))
    finding = one(_doctor.check_container_memory, place)
    assert "1024 MB" in finding.fault
    assert "--memory" in finding.remedy


def test_a_full_disk(mounted: Callable[[str], str]) -> None:
    finding = one(_doctor.check_disks, Place(temporary=mounted("size=64m")))
    assert finding.subject.startswith("temporary files")
    assert "64 MB are free" in finding.fault


def test_a_home_that_is_not_there(tmp_path: Path) -> None:
    finding = one(_doctor.check_disks, Place(home=str(tmp_path / "none")))
    assert "storage_path=" in finding.remedy


def test_a_temporary_folder_with_a_long_name(tmp_path: Path) -> None:
    folder = os.path.join("/", "tmp", "x" * 100)
    finding = one(_doctor.check_temporary_folder, Place(temporary=folder))
    assert "105 characters" in finding.fault


def test_a_temporary_folder_that_others_can_empty(tmp_path_factory: Callable[[], Path]) -> None:
    folder = Path("/tmp", f"skate-doctor-{os.getpid()}")
    folder.mkdir()
    try:
        folder.chmod(0o777)
        finding = one(_doctor.check_temporary_folder, Place(temporary=str(folder)))
    finally:
        folder.rmdir()
    assert finding.remedy == f"chmod +t {folder}"


def test_a_temporary_folder_that_runs_nothing(mounted: Callable[[str], str]) -> None:
    findings = list(_doctor.check_temporary_folder(Place(temporary=mounted("noexec"))))
    assert any("noexec" in finding.fault for finding in findings)


@pytest.mark.parametrize(
    ("limit", "value", "subject"),
    [
        (resource.RLIMIT_NOFILE, 256, "open files"),
        (resource.RLIMIT_AS, 4 * GIGABYTE, "address space"),
    ],
)
def test_limits_of_the_process(limit: int, value: int, subject: str) -> None:
    program = (
        "import resource, sys; from skate.cli import _doctor\n"
        f"resource.setrlimit({limit}, ({value}, {value}))\n"
        "checks = (_doctor.check_open_files, _doctor.check_address_space)\n"
        "print([f.subject for check in checks for f in check(_doctor.Place())])"
    )
    done = run_program([sys.executable, "-c", program])
    assert done.stdout == f"[{subject!r}]\n"


def test_few_processes_in_a_container(tmp_path: Path) -> None:
    (tmp_path / "pids.max").write_text("100\n")
    finding = one(_doctor.check_processes, Place(cgroups=str(tmp_path)))
    assert "100 in this container" in finding.fault


def test_few_cpus_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    finding = one(_doctor.check_cpus, Place(cgroups=str(tmp_path)))
    assert "2 of 16" in finding.fault
    assert "num_cpus=2" in finding.remedy


def test_too_many_threads() -> None:
    finding = one(_doctor.check_threads, Place(environ={"OMP_NUM_THREADS": "1000"}))
    assert "OMP_NUM_THREADS=1000" in finding.fault


@pytest.mark.parametrize("spared", ["", "example.com"])
def test_a_proxy_for_this_machine(spared: str) -> None:
    place = Place(environ={"HTTP_PROXY": "http://proxy:3128", "no_proxy": spared})
    assert "no_proxy=localhost" in one(_doctor.check_proxies, place).remedy


def test_a_proxy_that_spares_this_machine() -> None:
    place = Place(environ={"HTTP_PROXY": "http://proxy:3128", "no_proxy": "a.b, localhost"})
    assert not list(_doctor.check_proxies(place))


def test_a_file_that_hides_a_package(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()
    finding = one(_doctor.check_names, Place(folder=str(tmp_path)))
    assert "hides the package torch" in finding.fault


def test_a_proc_that_tells_nothing(tmp_path: Path) -> None:
    assert "memory" in one(_doctor.check_proc, Place(proc=str(tmp_path))).fault


def test_a_package_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "pyarrow-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: pyarrow\nVersion: 3.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    finding = one(_doctor.check_versions, Place())
    assert (finding.subject, finding.fault) == ("pyarrow", "3.0 is too old")
    assert "pyarrow>=14.0.1" in finding.remedy


def test_a_package_that_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_doctor, "_IMPORTED", ("torch",))
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open')")
    place = Place(environ={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "libtorch.so: cannot open" in one(_doctor.check_imports, place).fault


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "ray.py").touch()
    command = [sys.executable, "-m", "skate", "doctor", "--json"]
    done = run_program(command, cwd=tmp_path)
    assert done.returncode == 1
    (hidden,) = [each for each in json.loads(done.stdout) if each["subject"] == "imports"]
    assert hidden["remedy"] == "rename the file"
