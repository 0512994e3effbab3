"""Building libwasmer: which cargo, one build at a time, and nothing half done. The cargos here are scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kscheduler.wasm.wasmer import build, calls, library

MAKES = """
mkdir -p "$CARGO_TARGET_DIR/release" && cd "$CARGO_TARGET_DIR" && echo library > release/libkscheduler_libwasmer.so
"""


def rust(folder: Path, version: str, script: str = "exit 9\n") -> build.Rust:
    """A cargo, and a rustc of that version beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = build.Rust(str(folder / "cargo"), str(folder / "rustc"))
    for path, text in ((made.cargo, script), (made.compiler, f'echo "rustc {version} (0123456 2026-01-01)"\n')):
        Path(path).write_text("#!/bin/sh\n" + text)
        Path(path).chmod(0o755)
    return made


@pytest.fixture
def _any_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a script made is taken for a library."""
    monkeypatch.setattr(calls, "bind", lambda path, _major: (library.VERSION, path))


def path_of(*folders: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join([*map(str, folders), os.defpath])}


def test_the_first_rust_on_path_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    rust(tmp_path / "old", "1.63.0")
    new = rust(tmp_path / "new", "1.95.0")
    assert build.find_rust({"PATH": f"{tmp_path / 'none'}:{tmp_path / 'old'}:{tmp_path / 'new'}"}) == new


def test_without_a_new_one_the_error_names_what_is_needed_and_what_is_there(tmp_path: Path) -> None:
    rust(tmp_path, "1.63.0")
    with pytest.raises(
        build.BuildError, match=r"needs cargo and rustc 1\.95 or later, found .*rustc 1\.63: .*rustup.*cargo-web"
    ):
        build.find_rust({"PATH": str(tmp_path)})
    with pytest.raises(build.BuildError, match="found no cargo"):
        build.find_rust({"PATH": str(tmp_path / "none")})


def test_a_machine_without_crates_is_known_from_one_where_the_build_fails(tmp_path: Path) -> None:
    for script, kind in (('[ "$1" != fetch ]', build.NothingToBuildWith), ('[ "$1" = fetch ]', build.BuildError)):
        rust(tmp_path, "1.95.0", f"{script}\n")
        with pytest.raises(build.BuildError) as caught:
            build.build(tmp_path / "library.so", path_of(tmp_path))
        assert caught.type is kind
        assert not (tmp_path / "library.so").exists()


def test_a_rust_that_the_environment_names_is_the_only_one(tmp_path: Path) -> None:
    new, old = rust(tmp_path / "new", "1.100.1"), rust(tmp_path / "old", "1.94.0")
    assert build.find_rust({"CARGO": new.cargo, "PATH": ""}) == new
    with pytest.raises(build.BuildError, match=r"found .*/old/rustc 1\.94"):
        build.find_rust({"CARGO": old.cargo, "PATH": str(tmp_path / "new")})
    assert build.find_rust({"CARGO": old.cargo, "RUSTC": new.compiler}) == build.Rust(old.cargo, new.compiler)


def test_a_cargo_without_a_compiler_is_passed_over(tmp_path: Path) -> None:
    Path(rust(tmp_path, "1.95.0").compiler).unlink()
    with pytest.raises(build.BuildError, match=r"found no .*/rustc"):
        build.find_rust({"PATH": str(tmp_path)})


@pytest.mark.usefixtures("_any_library")
def test_a_build_puts_the_library_in_place_and_leaves_nothing_else(tmp_path: Path) -> None:
    rust(tmp_path / "bin", "1.95.0", MAKES)
    target = tmp_path / "cache" / "libwasmer.so"
    assert build.build(target, path_of(tmp_path / "bin")) == target
    assert target.read_text() == "library\n"
    assert {each.name for each in target.parent.iterdir()} == {"libwasmer.so", "lock"}


@pytest.mark.usefixtures("_any_library")
def test_a_library_that_is_there_is_built_again_only_by_force(tmp_path: Path) -> None:
    target = tmp_path / "libwasmer.so"
    target.write_text("older")
    assert build.build(target, {"PATH": ""}) == target
    rust(tmp_path / "bin", "1.95.0", MAKES)
    build.build(target, path_of(tmp_path / "bin"), force=True)
    assert target.read_text() == "library\n"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('[ "$1" = fetch ] || exit 101\n', "cargo ended with status 101"),
        (MAKES, "what cargo built cannot be used: file too short"),
    ],
    ids=["fails", "makes what is no library"],
)
def test_a_build_that_fails_leaves_the_library_that_was_there(tmp_path: Path, script: str, says: str) -> None:
    rust(tmp_path / "bin", "1.95.0", script)
    target = tmp_path / "libwasmer.so"
    target.write_text("older")
    with pytest.raises(build.BuildError, match=says):
        build.build(target, path_of(tmp_path / "bin"), force=True)
    assert target.read_text() == "older"
    assert {each.name for each in tmp_path.iterdir()} == {"libwasmer.so", "lock", "bin"}


def test_the_crate_is_of_the_version_and_the_rust_that_are_named_here() -> None:
    manifest = (build.CRATE / "Cargo.toml").read_text()
    assert f'version = "={library.VERSION}"' in manifest
    assert f'rust-version = "{build.RUST[0]}.{build.RUST[1]}"' in manifest
    lock = (build.CRATE / "Cargo.lock").read_text()
    assert f'name = "wasmer-c-api"\nversion = "{library.VERSION}"' in lock
