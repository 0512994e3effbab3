"""What wheels are built for."""

from __future__ import annotations

import platform
import sys
import sysconfig
from pathlib import Path

from packaging.tags import sys_tags

from deploy.release.targets import (
    Interpreter,
    Target,
    copy_headers,
    find_emulated,
    find_interpreter,
    own_pyconfig,
    pip_options,
    promised,
    targets,
)

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_the_running_python_installs_a_wheel_with_the_tag_of_its_target() -> None:
    target = Target(RUNNING, "x86_64", Path())
    assert target.tag in {str(tag) for tag in sys_tags()}
    assert target.suffix == sysconfig.get_config_var("EXT_SUFFIX")


def test_the_running_python_is_promised_and_found_with_its_headers() -> None:
    assert RUNNING in promised()
    found = find_interpreter(RUNNING)
    assert found is not None
    assert (found.include / "Python.h").is_file()


def test_a_python_that_is_not_installed_is_not_found() -> None:
    assert find_interpreter("3.99") is None


def test_headers_that_lie_in_two_folders_are_copied_into_one(tmp_path: Path) -> None:
    include = tmp_path / "include"
    (include / "x86_64-linux-gnu").mkdir(parents=True)
    (include / "Python.h").write_text('#include "pyconfig.h"')
    (include / "pyconfig.h").write_text("#include <x86_64-linux-gnu/pyconfig.h>")
    (tmp_path / "pyconfig.h").write_text("#define SIZEOF_LONG 8")
    interpreter = Interpreter("3.14", "python3.14", include, tmp_path / "pyconfig.h")
    folder = copy_headers(interpreter, tmp_path / "headers")
    assert sorted(path.name for path in folder.iterdir()) == ["Python.h", "pyconfig.h"]
    assert (folder / "pyconfig.h").read_text() == "#define SIZEOF_LONG 8"
    made = targets([interpreter], ["x86_64", "aarch64"], tmp_path / "headers")
    assert [one.tag for one in made] == ["cp314-cp314-manylinux_2_28_x86_64", "cp314-cp314-manylinux_2_28_aarch64"]


def test_a_header_that_only_includes_that_of_each_machine_is_not_taken(tmp_path: Path) -> None:
    include, name = tmp_path / "python3.14", f"{platform.machine()}-linux-gnu/python3.14/pyconfig.h"
    include.mkdir()
    (include / "pyconfig.h").write_text(f"#if 1\n# include <{name}>\n#endif\n")
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("#define SIZEOF_LONG 8")
    assert own_pyconfig(include, include / "pyconfig.h") == tmp_path / name
    assert own_pyconfig(include, tmp_path / name) == tmp_path / name


def test_a_python_for_another_machine_is_found_by_its_folder(tmp_path: Path) -> None:
    program = tmp_path / "python3.14-aarch64/usr/bin/python3.14"
    program.parent.mkdir(parents=True)
    assert find_emulated("3.14", "aarch64", tmp_path) is None
    program.touch()
    assert find_emulated("3.14", "aarch64", tmp_path) == tmp_path / "python3.14-aarch64"


def test_pips_options_name_every_kind_of_wheel_that_the_oldest_c_library_runs() -> None:
    options = pip_options("3.14", "aarch64")
    assert options[:3] == ["--only-binary=:all:", "--python-version=3.14", "--implementation=cp"]
    assert options[3:5] == ["--platform=manylinux_2_28_aarch64", "--platform=manylinux_2_27_aarch64"]
    assert options[-1] == "--platform=manylinux1_aarch64"
