"""A release says what it did, and ends where it must. Its parts have tests of their own; here they are stand-ins."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from deploy.release import chart, checksums, container, release
from deploy.release.release import NotHere, Step
from deploy.release.source import REPOSITORY, BuildError
from deploy.release.targets import promised

EPOCH_S = 1_700_000_000


def fine() -> str:
    return "found"


def broken() -> str:
    raise BuildError("no compiler")


def elsewhere() -> str:
    raise NotHere("this machine is x86_64")


def reported(*steps: Step) -> tuple[int, list[str]]:
    """The exit code, and the lines that were reported, without the seconds."""
    lines: list[str] = []
    code = release.run(steps, lines.append)
    return code, [re.sub(r" \(\d+ s\)", "", line) for line in lines]


def test_each_step_says_what_it_found() -> None:
    code, lines = reported(Step("one", fine), Step("two", fine, needed=True))
    assert code == 0
    assert lines == [
        "ok          one: found",
        "ok          two: found",
        "no step failed",
    ]


def test_a_check_that_fails_does_not_keep_others_from_being_made() -> None:
    code, lines = reported(Step("one", broken), Step("two", elsewhere), Step("three", fine))
    assert code == 1
    assert lines == [
        "FAILED      one: no compiler",
        "NOT CHECKED two: this machine is x86_64",
        "ok          three: found",
        "1 step failed, 1 could not be checked here",
    ]


def test_what_others_need_ends_the_release() -> None:
    code, lines = reported(Step("one", broken, needed=True), Step("two", fine))
    assert code == 1
    assert lines == ["FAILED      one: no compiler", "The release ends here: what follows needs this."]


def test_a_wrong_version_ends_it_before_anything_is_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["9.9.9", "--into", str(tmp_path / "dist")]) == 1
    printed = capsys.readouterr().out
    assert "FAILED      the version is the same everywhere" in printed
    assert "deploy/chart/Chart.yaml: appVersion: 0.1.0" in printed
    assert not (tmp_path / "dist").exists()


def test_changes_that_are_not_committed_are_found(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("config", "user.name", "a developer")
    git("config", "user.email", "developer@example.com")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    assert release.check_tree(tmp_path).startswith("commit ")
    (tmp_path / "a").write_text("2")
    with pytest.raises(BuildError, match="changes that are not committed"):
        release.check_tree(tmp_path)


def test_a_release_has_a_wheel_for_each_python_and_machine_and_five_other_files(tmp_path: Path) -> None:
    names = release.contents("1.2.0")
    assert "kscheduler-1.2.0-cp314-cp314-manylinux_2_28_aarch64.whl" in names
    assert len(names) == 2 * len(promised()) + 5
    for name in names - {checksums.NAME}:
        (tmp_path / name).write_text(name)
    checksums.write(tmp_path)
    assert release.check_files("1.2.0", tmp_path) == f"{len(names) - 1} digests are right"
    (tmp_path / "kscheduler-1.1.0.tar.gz").write_text("of an older release")
    (tmp_path / "kscheduler-1.2.0.tgz").unlink()
    with pytest.raises(BuildError, match=r"missing \['kscheduler-1.2.0.tgz'\], too much \['kscheduler-1.1.0.tar.gz'\]"):
        release.check_files("1.2.0", tmp_path)


@pytest.mark.parametrize(
    ("emulator", "folder", "message"),
    [(None, None, "qemu-aarch64-static is not installed"), ("qemu", None, "no CPython 3.14 of aarch64 is below /opt")],
)
def test_a_wheel_for_another_machine_needs_an_emulator_and_its_python(
    emulator: str | None, folder: Path | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(container, "emulator", lambda _: emulator)
    monkeypatch.setattr(release, "find_emulated", lambda *_: folder)
    with pytest.raises(NotHere, match=message):
        release.check_wheel("1.2.0", tmp_path / release.wheel_name("1.2.0", "3.14", "aarch64"), "3.14")


def test_a_wheel_for_another_machine_is_installed_and_run_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    environments: list[dict[str, str]] = []

    def pip(command: list[str]) -> str:
        commands.append(command)
        return ""

    def emulated(command: list[str], environment: dict[str, str], _: Path) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        environments.append(environment)
        printed = {
            "version": "kscheduler 1.2.0 (CPython 3.14.8, compiled kernels)",
            "simulate": "placed 500 of 500 pods (100.00 %)",
            "plugin": "pod default/train-1 goes to node-1 (4 of 4 nodes fit)",
        }
        return subprocess.CompletedProcess(command, 0, printed[command[6]], "")

    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(container, "emulator", lambda _: "qemu")
    monkeypatch.setattr(container, "_run", emulated)
    monkeypatch.setattr(release, "find_emulated", lambda *_: tmp_path / "python3.14-aarch64")
    monkeypatch.setattr("deploy.release.installed.check", pip)
    wheel = tmp_path / release.wheel_name("1.2.0", "3.14", "aarch64")
    assert re.search("emulated, it simulated in .* and ran a plugin", release.check_wheel("1.2.0", wheel, "3.14"))
    assert "--python-version=3.14" in commands[0]
    assert commands[0][-1] == f"{wheel}[wasm]"
    python = tmp_path / "python3.14-aarch64/usr/bin/python3.14"
    assert commands[1] == ["qemu", "-L", str(python.parents[2]), str(python), "-m", "kscheduler", "version"]
    assert environments[0]["PYTHONPATH"].endswith("/site-packages")


def test_what_is_there_can_be_checked_without_building_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "preparations", lambda _: [Step("before", fine)])
    monkeypatch.setattr(release, "builds", lambda *_: [Step("build", broken, needed=True)])
    monkeypatch.setattr(release, "checks", lambda *_: [Step("check", fine)])
    assert release.main(["1.2.0", "--into", str(tmp_path)]) == 1
    assert release.main(["1.2.0", "--into", str(tmp_path), "--check"]) == 0


def test_the_chart_is_packed_as_helm_packs_it_and_the_same_each_time(tmp_path: Path) -> None:
    path = chart.package(tmp_path, "1.2.0", EPOCH_S)
    (tmp_path / "again").mkdir()
    assert path.name == "kscheduler-1.2.0.tgz"
    assert path.read_bytes() == chart.package(tmp_path / "again", "1.2.0", EPOCH_S).read_bytes()
    with tarfile.open(path) as archive:
        names = set(archive.getnames())
    assert {"kscheduler/Chart.yaml", "kscheduler/values.schema.json", "kscheduler/files/base/rbac.yaml"} <= names
    assert not [name for name in names if not (REPOSITORY / "deploy/chart" / name.partition("/")[2]).is_file()]
