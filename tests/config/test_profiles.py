"""Which plugins run where, in which order and with which weight."""

from __future__ import annotations

import pytest

from kscheduler.config.defaults import default_plugins
from kscheduler.config.extension_points import KUBE_PLUGINS, ExtensionPoint, PointMap
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.profiles import effective_plugins, unimplemented_plugins, unreached_binders
from kscheduler.config.releases import DEFAULT_RELEASE, RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from tests.config.documents import HEAD, read, refusal

FIRST = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
]
KNOWN: PointMap = {name: KUBE_PLUGINS[name] for name in FIRST}


def names(body: str, point: ExtensionPoint, known: PointMap = KUBE_PLUGINS) -> list[str]:
    return [name for name, _ in effective_plugins(read(body).profiles[0], known)[point]]


def weights(body: str, point: ExtensionPoint = ExtensionPoint.SCORE) -> dict[str, int]:
    return dict(effective_plugins(read(body).profiles[0], KUBE_PLUGINS)[point])


def in_profile(plugins: str) -> str:
    return f"profiles: [{{plugins: {plugins}}}]"


PRE_FILTER = (
    "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone "
    "PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
)
DEFAULT_LISTS: dict[ExtensionPoint, str] = {  # as kube-scheduler 1.36 prints them
    ExtensionPoint.PRE_ENQUEUE: "SchedulingGates DynamicResources DefaultPreemption",
    ExtensionPoint.QUEUE_SORT: "PrioritySort",
    ExtensionPoint.PRE_FILTER: PRE_FILTER,
    ExtensionPoint.FILTER: f"NodeUnschedulable NodeName TaintToleration {PRE_FILTER}",
    ExtensionPoint.POST_FILTER: "DynamicResources DefaultPreemption",
    ExtensionPoint.PRE_SCORE: "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
    "InterPodAffinity NodeResourcesBalancedAllocation",
    ExtensionPoint.SCORE: "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
    "InterPodAffinity DynamicResources NodeResourcesBalancedAllocation ImageLocality",
    ExtensionPoint.RESERVE: "VolumeBinding DynamicResources",
    ExtensionPoint.PERMIT: "",
    ExtensionPoint.PRE_BIND: "VolumeBinding DynamicResources",
    ExtensionPoint.BIND: "DefaultBinder",
    ExtensionPoint.POST_BIND: "",
    ExtensionPoint.PLACEMENT_GENERATE: "",
    ExtensionPoint.PLACEMENT_SCORE: "NodeResourcesFit",
}


DEFAULT_LISTS_1_37 = DEFAULT_LISTS | {  # what is different in kube-scheduler 1.37
    ExtensionPoint.PRE_FILTER: f"NodeName NodeUnschedulable TaintToleration {PRE_FILTER}",
    ExtensionPoint.FILTER: f"NodeName NodeUnschedulable TaintToleration {PRE_FILTER}",
    ExtensionPoint.POD_GROUP_POST_FILTER: "DynamicResources DefaultPreemption",
}


@pytest.mark.parametrize(("release", "lists"), [(RELEASE_1_36, DEFAULT_LISTS), (RELEASE_1_37, DEFAULT_LISTS_1_37)])
def test_the_default_profile_runs_kube_schedulers_lists(release: Release, lists: dict[ExtensionPoint, str]) -> None:
    found = effective_plugins(default_config(release).profiles[0], release.points, release)
    assert {point: " ".join(name for name, _ in entries) for point, entries in found.items()} == lists


def test_default_scores_have_kube_schedulers_weights() -> None:
    assert weights("") == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_plugins_not_implemented_are_left_out_and_can_be_listed() -> None:
    assert names("", ExtensionPoint.FILTER, KNOWN) == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
    ]
    missing = unimplemented_plugins(default_config(), KNOWN)
    assert missing == sorted({plugin.name for plugin in default_plugins(DEFAULT_RELEASE)} - KNOWN.keys())


def test_nothing_is_listed_as_missing_that_the_profile_disables() -> None:
    body = in_profile('{multiPoint: {enabled: [{name: PrioritySort}, {name: DefaultBinder}], disabled: [{name: "*"}]}}')
    assert unimplemented_plugins(read(body), KNOWN) == []


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_every_default_plugin_is_in_the_table_of_points(release: Release) -> None:
    assert {plugin.name for plugin in default_plugins(release)} <= release.points.keys()


def test_a_plugin_is_known_from_the_release_on_that_has_it() -> None:
    body = in_profile("{multiPoint: {enabled: [{name: DeferredPodScheduling}]}}")
    assert refusal(body).endswith('PreFilterPlugin "DeferredPodScheduling" does not exist')
    (profile,) = read(body, RELEASE_1_37).profiles
    lists = effective_plugins(profile, RELEASE_1_37.points, RELEASE_1_37)
    assert [point.value for point, entries in lists.items() if ("DeferredPodScheduling", 1) in entries] == [
        "preFilter",
        "filter",
        "permit",
    ]


def test_a_plugin_extends_the_points_that_it_has_in_the_release() -> None:
    body = in_profile("{preFilter: {enabled: [{name: NodeName}]}}")
    assert refusal(body).endswith('plugin "NodeName" does not extend PreFilterPlugin plugin')
    (profile,) = read(body, RELEASE_1_37).profiles
    entries = effective_plugins(profile, RELEASE_1_37.points, RELEASE_1_37)[ExtensionPoint.PRE_FILTER]
    assert entries[0] == ("NodeName", 1)


def test_the_post_filter_of_pod_groups_can_be_configured_since_1_37() -> None:
    body = in_profile('{podGroupPostFilter: {disabled: [{name: "*"}], enabled: [{name: DefaultPreemption}]}}')
    assert refusal(body) == 'strict decoding error: unknown field "profiles[0].plugins.podGroupPostFilter"'
    (profile,) = read(body, RELEASE_1_37).profiles
    lists = effective_plugins(profile, RELEASE_1_37.points, RELEASE_1_37)
    assert lists[ExtensionPoint.POD_GROUP_POST_FILTER] == [("DefaultPreemption", 1)]
    wrong = in_profile("{podGroupPostFilter: {enabled: [{name: NodeName}]}}")
    expected = 'plugin "NodeName" does not extend PodGroupPostFilterPlugin plugin'
    assert refusal(wrong, release=RELEASE_1_37).endswith(expected)


def test_plugins_named_at_the_point_and_in_multipoint_come_first_in_the_points_order() -> None:
    body = in_profile("{filter: {enabled: [{name: NodePorts}, {name: NodeName}]}}")
    assert names(body, ExtensionPoint.FILTER, KNOWN) == [
        "NodePorts",
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
    ]


def test_plugins_named_at_the_point_only_come_last() -> None:
    body = in_profile("{filter: {enabled: [{name: NodeName}]}, multiPoint: {disabled: [{name: NodeName}]}}")
    assert names(body, ExtensionPoint.FILTER, KNOWN)[-1] == "NodeName"


@pytest.mark.parametrize(
    ("plugins", "binders"),
    [
        ("multiPoint: {enabled: [{name: Mine}]}", ["DefaultBinder", "Mine"]),
        ("bind: {enabled: [{name: Mine}]}", ["DefaultBinder", "Mine"]),
        ("multiPoint: {enabled: [{name: Mine}, {name: DefaultBinder}]}", ["DefaultBinder", "Mine"]),
        ("multiPoint: {enabled: [{name: Mine}]}, bind: {enabled: [{name: Mine}]}", ["Mine", "DefaultBinder"]),
        ("multiPoint: {enabled: [{name: Mine}]}, bind: {disabled: [{name: DefaultBinder}]}", ["Mine"]),
        ("bind: {enabled: [{name: Mine}], disabled: [{name: '*'}]}", ["Mine"]),
    ],
)
def test_a_bind_plugin_behind_default_binder_is_never_reached(plugins: str, binders: list[str]) -> None:
    known: PointMap = {**KUBE_PLUGINS, "Mine": frozenset({ExtensionPoint.BIND})}
    config = parse_config(HEAD + in_profile(f"{{{plugins}}}"), find_plugins=lambda config: known)
    lists = effective_plugins(config.profiles[0], known)
    assert [name for name, _ in lists[ExtensionPoint.BIND]] == binders
    unreached = [("default-scheduler", "Mine")] if binders[0] == "DefaultBinder" else []
    assert unreached_binders(config, known) == unreached


def test_a_plugin_disabled_at_a_point_is_not_expanded_there() -> None:
    body = in_profile("{filter: {disabled: [{name: NodeAffinity}]}}")
    assert "NodeAffinity" not in names(body, ExtensionPoint.FILTER)
    assert "NodeAffinity" in names(body, ExtensionPoint.SCORE)


def test_a_star_at_a_point_leaves_only_what_the_point_enables() -> None:
    body = in_profile('{score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality, weight: 5}]}}')
    assert weights(body) == {"ImageLocality": 5}


def test_the_points_weight_goes_before_multipoints_and_zero_is_one() -> None:
    body = in_profile(
        "{score: {enabled: [{name: NodeAffinity, weight: 9}, {name: TaintToleration}]}, "
        "multiPoint: {enabled: [{name: ImageLocality, weight: 4}]}}"
    )
    found = weights(body)
    assert (found["NodeAffinity"], found["TaintToleration"], found["ImageLocality"]) == (9, 1, 4)


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ("{score: {enabled: [{name: Nope}]}}", 'ScorePlugin "Nope" does not exist'),
        ("{multiPoint: {enabled: [{name: Nope}]}}", 'PreFilterPlugin "Nope" does not exist'),
        ("{score: {enabled: [{name: NodeName}]}}", 'plugin "NodeName" does not extend ScorePlugin plugin'),
        (
            "{filter: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            'plugin "NodeName" already registered as "FilterPlugin"',
        ),
        (
            "{multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            'plugin "NodeName" already registered as "FilterPlugin"',
        ),
        (
            '{bind: {disabled: [{name: "*"}]}}',
            'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
        ),
        (
            "{score: {enabled: [{name: NodeAffinity, weight: -1}]}}",
            "score plugins: total score of Score plugins could overflow",
        ),
        ("{multiPoint: {enabled: [{name: EBSLimits}]}}", 'PreFilterPlugin "EBSLimits" does not exist'),
        (
            "{reserve: {enabled: [{name: GangScheduling}]}}",
            'plugin "GangScheduling" does not extend ReservePlugin plugin',
        ),
        (
            '{queueSort: {disabled: [{name: "*"}]}}',
            'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0',
        ),
    ],
)
def test_a_profile_that_cannot_be_built_is_refused_in_kube_schedulers_words(plugins: str, message: str) -> None:
    prefix = "initializing profiles: creating profile for scheduler name default-scheduler: "
    assert refusal(in_profile(plugins)) == prefix + message


def test_all_profiles_sort_the_queue_with_the_same_arguments() -> None:
    body = "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: PrioritySort, args: {x: 1}}]}]"
    assert refusal(body) == 'initializing profiles: different queue sort plugin args for profile "b"'


def test_points_have_the_names_of_file_label_interface_and_attribute() -> None:
    point = ExtensionPoint.PRE_FILTER
    names = (str(point), point.label, point.interface, point.field)
    assert names == ("preFilter", "PreFilter", "PreFilterPlugin", "pre_filter")


BAD_FIT = "pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a/b]}}]"
BAD_FIT_FAULT = (
    'initializing plugin "NodeResourcesFit": '
    "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'"
)
UNKNOWN_FILTER = "plugins: {filter: {enabled: [{name: Unheard}]}}"


def test_of_two_faults_in_a_profile_the_plugins_arguments_come_before_its_extension_points() -> None:
    body = f"profiles: [{{{UNKNOWN_FILTER}, {BAD_FIT}}}]"
    prefix = "initializing profiles: creating profile for scheduler name default-scheduler: "
    assert refusal(body) == prefix + BAD_FIT_FAULT


def test_of_two_profiles_that_cannot_be_built_the_first_is_reported() -> None:
    body = f"profiles: [{{schedulerName: a, {UNKNOWN_FILTER}}}, {{schedulerName: b, {BAD_FIT}}}]"
    prefix = "initializing profiles: creating profile for scheduler name "
    assert refusal(body) == f'{prefix}a: FilterPlugin "Unheard" does not exist'
    body = f"profiles: [{{schedulerName: a, {BAD_FIT}}}, {{schedulerName: b, {UNKNOWN_FILTER}}}]"
    assert refusal(body) == f"{prefix}a: {BAD_FIT_FAULT}"


def test_the_arguments_of_a_plugin_that_no_point_enables_are_not_looked_at() -> None:
    disabled = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}"
    assert "NodeResourcesFit" not in names(f"profiles: [{{{disabled}, {BAD_FIT}}}]", ExtensionPoint.FILTER)


def test_arguments_of_the_queue_sort_plugin_named_at_its_point_are_compared_before_profiles_are_built() -> None:
    sort = "plugins: {queueSort: {enabled: [{name: PrioritySort}]}}"
    body = (
        f"profiles: [{{schedulerName: a, {sort}}}, "
        f"{{schedulerName: b, {sort}, pluginConfig: [{{name: PrioritySort, args: {{x: 1}}}}]}}]"
    )
    assert refusal(body).startswith("profiles[1].pluginConfig.args: Invalid value: ")
    assert refusal(body).endswith(": queueSort must be the same for all profiles")
    body = (
        f"profiles: [{{schedulerName: a, {sort}, pluginConfig: [{{name: PrioritySort, args: {{x: 1}}}}]}}, "
        f"{{schedulerName: b, {sort}}}]"
    )
    assert refusal(body) == 'initializing profiles: different queue sort plugin args for profile "b"'
