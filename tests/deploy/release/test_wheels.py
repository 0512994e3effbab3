"""The wheel of the Python that runs the tests: built, installed where there is no compiler, and used."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.release import wheels
from deploy.release.source import BuildError, CModule, Source, copied, epoch_of
from deploy.release.targets import Target, find_interpreter, targets
from docs.reference.man import FILE as MAN_PAGE
from tests.support.skips import package

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: green, labels: {team: green}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {containers: [{name: main, image: web, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The paths of the sdist and of the wheel."""
    package("ziglang")
    return wheels.build(tmp_path_factory.mktemp("dist"), [RUNNING], ["x86_64"])


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment_without_a_compiler(built: list[Path], tmp_path: Path) -> None:
    _, wheel = built
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv/bin"

    def run(*command: str) -> str:
        environment = {"PATH": str(programs), "HOME": str(tmp_path)}
        environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        return _run([str(programs / command[0]), *command[1:]], tmp_path, environment)

    run("pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", f"{wheel}[wasm]")
    assert "compiled kernels" in run("kscheduler", "version")
    assert (tmp_path / "venv/share/man/man1/kscheduler.1").read_text() == MAN_PAGE.read_text()
    asked = 'COMP_WORDS=(kscheduler simulate --nod); COMP_CWORD=2; _kscheduler; echo "${COMPREPLY[*]}"'
    assert _run(["bash", "-c", run("kscheduler", "completion", "bash") + asked], tmp_path) == "--nodes\n"
    assert "placed 1,000 of 1,000 pods" in run("kscheduler", "simulate")
    guest = _a_guest_that_filters_nothing(tmp_path)
    for name, text in {"cluster.yaml": CLUSTER, "pod.yaml": POD}.items():
        (tmp_path / name).write_text(text)
    printed = run("kscheduler", "plugin", "test", str(guest), "--cluster", "cluster.yaml", "--pod", "pod.yaml")
    assert "pod default/web goes to green" in printed


@pytest.mark.slow
def test_the_wheel_asks_for_no_newer_c_library_than_its_tag_says(built: list[Path]) -> None:
    package("auditwheel")
    printed = " ".join(_run([sys.executable, "-m", "auditwheel", "show", str(built[1])], built[1].parent).split())
    assert 'is consistent with the following platform tag: "manylinux_2_17_x86_64"' in printed


@pytest.mark.slow
def test_the_record_of_the_wheel_has_every_file_and_its_digest(built: list[Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in content if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(io.StringIO(content[name].decode())))
    assert {row[0] for row in rows} == set(content)
    folder = name.partition("/")[0]
    assert (
        wheels.record({name: data for name, data in content.items() if name != f"{folder}/RECORD"}, folder)
        == content[name]
    )


@pytest.mark.slow
def test_the_sdist_has_the_sources_of_every_kernel_and_nothing_compiled(built: list[Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    repository = Path(__file__).parents[3]
    assert {path.relative_to(repository).as_posix() for path in (repository / "kscheduler").rglob("*.pyx")} <= names
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert not [name for name in names if name.endswith((".c", ".so"))]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_a_module_compiled_in_another_folder_has_equal_bytes(architecture: str, tmp_path: Path) -> None:
    package("ziglang")
    interpreter = find_interpreter(RUNNING)
    assert interpreter is not None
    made = []
    for name in ("one", "another"):
        source = Source(tmp_path / name / "source", 1_700_000_000)
        code = source.folder / "build/cython/m.c"
        code.parent.mkdir(parents=True)
        code.write_text(
            '#include <Python.h>\nPyMODINIT_FUNC PyInit_m(void) { Py_FatalError(__FILE__ "/" __DATE__); }\n'
        )
        (target,) = targets([interpreter], [architecture], tmp_path / name / "headers")
        made.append(wheels.compile_all([CModule("m", code, ("-Wno-date-time",))], target, source))
    assert made[0] == made[1]
    machine = made[0]["m" + target.suffix][18:20]  # e_machine of the ELF header
    assert machine == {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00"}[architecture]


@pytest.mark.slow
def test_the_same_sources_make_the_same_sdist(built: list[Path], tmp_path: Path) -> None:
    assert copied(tmp_path / "source").write_sdist(tmp_path).read_bytes() == built[0].read_bytes()


def test_a_wheel_is_named_after_its_metadata_and_its_target(tmp_path: Path) -> None:
    about = ("kscheduler-9.dist-info", {"kscheduler-9.dist-info/METADATA": b"Name: kscheduler"})
    path = wheels.write_wheel(tmp_path, Target("3.13", "aarch64", Path()), {"kscheduler/a.py": b"1"}, about, 0)
    assert path.name == "kscheduler-9-cp313-cp313-manylinux_2_28_aarch64.whl"
    with zipfile.ZipFile(path) as archive:
        assert b"Tag: cp313-cp313-manylinux_2_28_aarch64\n" in archive.read("kscheduler-9.dist-info/WHEEL")
        assert archive.namelist()[0] == "kscheduler/a.py"


def test_a_python_that_was_asked_for_and_is_missing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wheels.main(["--into", str(tmp_path), "--python", "3.99"]) == 1
    assert "no CPython 3.99 with its headers" in capsys.readouterr().err


def test_the_time_of_a_release_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert epoch_of() == 1_700_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(BuildError, match="must be whole seconds since 1970, not 'yesterday'"):
        epoch_of()


def test_a_step_that_fails_shows_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"exit code 3\nno such thing"):
        Source(tmp_path, 0).run([sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"])


def _a_guest_that_filters_nothing(folder: Path) -> Path:
    """The example plugin label_score, compiled: it scores nodes by a label."""
    from tests.wasm.batch.c_guests import PLUGINS, builder

    package("wasmtime")
    made: Path = builder.build(PLUGINS / "label_score" / "label_score.c", folder)
    return made


def _run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
