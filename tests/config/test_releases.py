from __future__ import annotations

import pytest

from kscheduler.config.decode import strict_error
from kscheduler.config.defaults import default_plugins
from kscheduler.config.dump import to_v1, to_yaml
from kscheduler.config.load import default_config, in_release, parse_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release, release_for, release_of
from kscheduler.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(
    ("git_version", "expected"),
    [
        ("v1.36.3", RELEASE_1_36),
        ("v1.37.2", RELEASE_1_37),
        ("v1.37.1-gke.1000", RELEASE_1_37),
        ("1.38.0-alpha.2", RELEASE_1_37),
        ("v2.0.0", RELEASE_1_37),
        ("v1.29.0", RELEASE_1_36),
    ],
)
def test_the_release_is_the_newest_that_is_not_newer_than_the_apiserver(git_version: str, expected: Release) -> None:
    assert release_for(git_version) is expected


def test_what_is_no_version_of_an_apiserver_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r'such as "v1\.36\.3", got "latest"'):
        release_for("latest")


def test_an_unknown_release_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r'expected one of 1\.36, 1\.37, got "1\.12"'):
        release_of("1.12")


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_a_gate_can_be_set_in_a_release_that_has_it(release: Release) -> None:
    assert release.has("StorageCapacityScoring") is (release is RELEASE_1_37)
    changed = release.with_gates({"StorageCapacityScoring": True, "NoSuchGate": True})
    assert changed.has("StorageCapacityScoring")
    assert not changed.has("NoSuchGate")
    assert changed.plugins == release.plugins


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_gates_are_sorted_by_name(release: Release) -> None:
    names = [feature.name for feature in release.features]
    assert names == sorted(names)


def test_the_default_profile_is_that_of_the_release() -> None:
    for release in RELEASES.values():
        (profile,) = default_config(release).profiles
        assert profile.plugins.multi_point.enabled == default_plugins(release)
        assert parse_config(HEAD, release=release) == default_config(release)
    assert default_plugins(RELEASE_1_36) != default_plugins(RELEASE_1_37)
    assert set(default_plugins(RELEASE_1_36)) == set(default_plugins(RELEASE_1_37))


def test_the_scores_of_volumes_have_a_default_where_there_are_any() -> None:
    expected = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
    for release in (*RELEASES.values(), RELEASE_1_37.with_gates({"StorageCapacityScoring": False})):
        args = {each["name"]: each["args"] for each in to_v1(default_config(release))["profiles"][0]["pluginConfig"]}
        assert args["VolumeBinding"].get("shape") == (expected if release.has("StorageCapacityScoring") else None)


@pytest.mark.parametrize(("own", "other"), [(RELEASE_1_36, RELEASE_1_37), (RELEASE_1_37, RELEASE_1_36)])
def test_a_configuration_of_one_release_can_be_read_in_another(own: Release, other: Release) -> None:
    plugins = "{multiPoint: {disabled: [{name: ImageLocality}]}, score: {enabled: [{name: NodeAffinity}]}}"
    body = f"profiles: [{{plugins: {plugins}}}]"
    dumped = to_yaml(parse_config(HEAD + body, release=own))
    expected = parse_config(HEAD + body, release=other)
    assert in_release(parse_config(dumped, release=own), other, "file") == expected


def test_a_configuration_that_another_release_does_not_have_is_refused_there() -> None:
    shape = "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 3}]}}]}]"
    with pytest.raises(ConfigError, match=r"^file: .*unexpected field `shape`"):
        in_release(parse_config(HEAD + shape, release=RELEASE_1_37), RELEASE_1_36, "file")


def test_the_gates_that_were_set_are_known() -> None:
    assert RELEASE_1_37.set_gates == {}
    changed = RELEASE_1_37.with_gates({"StorageCapacityScoring": False, "VolumeLimitScaling": True})
    assert changed.set_gates == {"StorageCapacityScoring": False}
    assert release_of(changed.version).with_gates(changed.set_gates) == changed


def test_a_document_neither_shows_nor_sets_the_release() -> None:
    assert "release" not in to_v1(default_config(RELEASE_1_37))
    with pytest.raises(ConfigError) as raised:
        parse_config(HEAD + 'release: {version: "1.37"}')
    assert strict_error(['unknown field "release"']) in str(raised.value)
