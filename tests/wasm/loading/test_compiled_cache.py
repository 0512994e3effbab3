"""Compiled guests on disk: what comes back is what was put, or nothing."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from kscheduler.wasm.loading.compiled_cache import (
    DIGEST_BYTES,
    MAGIC,
    CompiledCache,
    cache_key,
    default_directory,
    open_cache,
)
from tests.wasm.loading.modules import FakeEngine

HEAD = len(MAGIC) + DIGEST_BYTES
KEY = "ab" * 32


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "new" / "plugins"


def path_of(directory: Path, key: str = KEY) -> Path:
    return directory / f"{key}.module"


def test_a_blob_comes_back_as_it_was_put_to_another_process_too(directory: Path) -> None:
    CompiledCache(directory).put(KEY, b"native code")
    assert CompiledCache(directory).get(KEY) == b"native code"
    assert CompiledCache(directory).get("cd" * 32) is None


def test_directory_and_files_are_the_users_own(directory: Path) -> None:
    CompiledCache(directory).put(KEY, b"native code")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(directory).stat().st_mode) == 0o600
    assert [each.name for each in directory.iterdir()] == [f"{KEY}.module"]


@pytest.mark.parametrize("place", [0, len(MAGIC), HEAD, HEAD + 10, -1])
def test_a_flipped_bit_is_found_and_the_file_removed(
    directory: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    cache = CompiledCache(directory)
    cache.put(KEY, b"native code")
    content = bytearray(path_of(directory).read_bytes())
    content[place] ^= 1
    path_of(directory).write_bytes(content)
    assert cache.get(KEY) is None
    assert not path_of(directory).exists()
    assert "compiled guest is damaged" in caplog.text


@pytest.mark.parametrize("length", [0, 5, HEAD - 1, HEAD, HEAD + 5])
def test_a_truncated_file_is_found(directory: Path, length: int) -> None:
    cache = CompiledCache(directory)
    cache.put(KEY, b"native code")
    os.truncate(path_of(directory), length)
    assert cache.get(KEY) is None


def test_a_file_that_grew_is_found(directory: Path) -> None:
    cache = CompiledCache(directory)
    cache.put(KEY, b"native code")
    with path_of(directory).open("ab") as file:
        file.write(b"!")
    assert cache.get(KEY) is None


def test_a_link_is_not_followed(directory: Path, tmp_path: Path) -> None:
    cache = CompiledCache(directory)
    cache.put(KEY, b"native code")
    path_of(directory).rename(tmp_path / "elsewhere")
    path_of(directory).symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None


def test_a_directory_others_may_write_to_is_not_used(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    cache = CompiledCache(directory)
    cache.put(KEY, b"native code")
    assert cache.get(KEY) is None
    assert list(directory.iterdir()) == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # once


def test_somebody_elses_directory_is_not_used(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CompiledCache(directory).put(KEY, b"native code")
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert CompiledCache(directory).get(KEY) is None


def test_a_directory_that_cannot_be_made_is_a_warning_if_the_user_named_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.DEBUG, "kscheduler"):
        for is_wanted in (True, False):
            cache = CompiledCache(tmp_path / "file" / "plugins", is_wanted=is_wanted)
            cache.put(KEY, b"native code")
            assert cache.get(KEY) is None
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]


def test_a_write_that_fails_leaves_nothing_and_is_a_warning(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    cache = CompiledCache(directory)
    monkeypatch.setattr("os.replace", full)
    cache.put(KEY, b"native code")
    assert list(directory.iterdir()) == []
    assert "compiled guest cannot be kept" in caplog.text


def test_what_was_used_longest_ago_goes_first(directory: Path) -> None:
    cache = CompiledCache(directory, max_bytes=3 * (HEAD + 100))
    for age, key in enumerate(("a", "b", "c")):
        cache.put(key, bytes(100))
        os.utime(path_of(directory, key), (1000 + age, 1000 + age))
    assert cache.get("a") is not None  # used now
    cache.put("d", bytes(100))
    assert [key for key in "abcd" if path_of(directory, key).exists()] == ["a", "c", "d"]


def test_a_blob_larger_than_all_room_is_not_kept(directory: Path) -> None:
    cache = CompiledCache(directory, max_bytes=HEAD + 100)
    cache.put("a", bytes(100))
    cache.put("b", bytes(101))
    assert cache.get("a") == bytes(100)
    assert cache.get("b") is None


def test_files_that_are_not_ours_stay_and_half_written_ones_go_after_an_hour(directory: Path) -> None:
    cache = CompiledCache(directory, max_bytes=HEAD + 100)
    cache.put("a", bytes(10))
    for name in ("notes.txt", ".unfinished-old", ".unfinished-new"):
        (directory / name).write_bytes(bytes(1000))
    os.utime(directory / ".unfinished-old", (1, 1))
    cache.put("b", bytes(100))
    assert {each.name for each in directory.iterdir()} == {"notes.txt", ".unfinished-new", "b.module"}


def test_the_key_changes_with_all_that_decides_the_code() -> None:
    keys = {
        cache_key("a", FakeEngine()),
        cache_key("b", FakeEngine()),
        cache_key("a", FakeEngine(version="2")),
    }
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/kscheduler/plugins"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/kscheduler/plugins"),
        ({"HOME": "/h"}, "/h/.cache/kscheduler/plugins"),
        ({"HOME": "/"}, None),
        ({}, None),
    ],
)
def test_the_default_place_is_the_users_cache(environment: dict[str, str], expected: str | None) -> None:
    assert default_directory(environment) == (None if expected is None else Path(expected))


def test_the_flag_names_a_place_or_none(tmp_path: Path) -> None:
    named, default = open_cache(str(tmp_path)), open_cache(None, environment={"HOME": "/h"})
    assert named is not None
    assert default is not None
    assert (named.directory, default.directory) == (tmp_path, Path("/h/.cache/kscheduler/plugins"))
    assert open_cache("") is None
    assert open_cache(None, environment={}) is None
