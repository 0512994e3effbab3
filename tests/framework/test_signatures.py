"""Which pods have the same signature, and how that is remembered."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ContainerStatus, PersistentVolumeClaimVolumeSource, Volume
from kscheduler.framework import signatures
from kscheduler.framework.signatures import Signature, Signer
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.support.lanes import Side

Change = Callable[[PodBuilder], PodBuilder]


class ByLabel:
    """Signs the label `app`; pods without it are for themselves."""

    name = "ByLabel"

    def __init__(self) -> None:
        self.asked = 0

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        self.asked += 1
        return (pod.pod.metadata.labels or {}).get("app")


def info(pod: PodBuilder) -> PodInfo:
    return PodInfo(pod.obj())


@pytest.fixture
def plugin() -> ByLabel:
    return ByLabel()


@pytest.fixture
def signer(plugin: ByLabel) -> Signer:
    return Signer({"default-scheduler": [plugin], "closed": None})


def test_pods_that_are_equal_in_what_plugins_read_have_one_signature(signer: Signer, plugin: ByLabel) -> None:
    first, second = info(make_pod("a").label(app="x")), info(make_pod("b").label(app="x"))
    other = info(make_pod("c").label(app="x").req(cpu="1"))
    assert signer.sign(first) is signer.sign(second)
    assert plugin.asked == 1  # pods with equal texts are signed once
    assert signer.sign(other) is signer.sign(first)
    assert signer.sign(info(make_pod("d").label(app="y"))) is not signer.sign(first)


def test_a_signature_is_kept_by_its_pod(signer: Signer, plugin: ByLabel) -> None:
    pod = info(make_pod("a").label(app="x"))
    found = signer.sign(pod)
    assert pod.signature is found
    assert signer.sign(pod) is found


def test_a_pod_that_cannot_be_signed_has_no_fragments(signer: Signer) -> None:
    for pod in (
        make_pod("a"),
        make_pod("a").label(app="x").nominated_node("n1"),
        make_pod("a").label(app="x").scheduler_name("closed"),
    ):
        assert signer.sign(info(pod)).spec is None


class Signing:
    """A plugin that somebody else wrote."""

    name = "Theirs"

    def __init__(self, sign: Callable[[], object]) -> None:
        self.sign = sign

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        return self.sign()


@pytest.mark.parametrize(
    ("sign", "error"),
    [(lambda: 1 // 0, "ZeroDivisionError"), (lambda: ["no", "hash"], "TypeError: unhashable type: 'list'")],
)
def test_a_pod_that_a_plugin_signs_wrongly_is_for_itself_and_the_plugin_is_named(
    sign: Callable[[], object], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    signer = Signer({"default-scheduler": [Signing(sign)]})
    assert signer.sign(info(make_pod("a").label(app="x"))).spec is None
    (record,) = caplog.records
    assert (record.message, record.__dict__["plugin"]) == ("plugin could not sign a pod", "Theirs")
    assert record.__dict__["err"].startswith(error)


def test_a_pod_of_no_profile_is_nobodys(signer: Signer) -> None:
    with pytest.raises(KeyError):
        signer.sign(info(make_pod("a").scheduler_name("somebody")))


def test_names_of_volumes_make_no_difference_and_volumes_that_bind_do(signer: Signer, plugin: ByLabel) -> None:
    def with_volumes(*volumes: Volume) -> PodInfo:
        pod = make_pod("a").label(app="x").obj()
        return PodInfo(replace(pod, spec=replace(pod.spec, volumes=list(volumes))))

    signer.sign(with_volumes(Volume(name="token-1"), Volume(name="logs")))
    signer.sign(with_volumes(Volume(name="token-2")))
    assert plugin.asked == 1
    for _ in range(2):
        signer.sign(with_volumes(Volume(name="d", persistent_volume_claim=PersistentVolumeClaimVolumeSource("c"))))
    assert plugin.asked == 3  # for each pod: whatever binds a pod to a place is not known by how it is written


def test_a_pod_that_was_resized_is_not_known_by_its_spec(signer: Signer, plugin: ByLabel) -> None:
    pod = make_pod("a").label(app="x").obj()
    resized = replace(pod, status=replace(pod.status, container_statuses=[ContainerStatus(name="c")]))
    signer.sign(PodInfo(pod))
    signer.sign(PodInfo(resized))
    assert plugin.asked == 2


def test_memory_is_bounded_and_signatures_that_pods_hold_stay_good(
    signer: Signer, plugin: ByLabel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "MAX_BYTES", 64 << 10)
    first = info(make_pod("a").label(app="x"))
    kept = signer.sign(first)
    for index in range(200):
        signer.sign(info(make_pod("a").label(app=f"x{index}")))
        assert len(signer._by_look) <= 64
    assert signer.sign(first) is kept
    again = signer.sign(info(make_pod("b").label(app="x")))
    assert again is not kept
    assert again.fragments == kept.fragments


def test_another_signers_signature_is_not_taken_for_ones_own(plugin: ByLabel) -> None:
    pod = info(make_pod("a").label(app="x"))
    one, other = Signer({"default-scheduler": [plugin]}), Signer({"default-scheduler": [plugin]})
    found = one.sign(pod)
    assert other.sign(pod) is not found
    assert isinstance(pod.signature, Signature)
    assert pod.signature.made_by is other.mark


# --- what in-tree plugins sign ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod.req(cpu="1"),
        lambda pod: pod.req(**{"example.com/gpu": "1"}),
        lambda pod: pod.pod_level_req(cpu="1"),
        lambda pod: pod.overhead(cpu="1"),
        lambda pod: pod.label(app="x"),
        lambda pod: pod.owner("ReplicaSet", "rs"),
        lambda pod: pod.toleration("key", "Exists"),
        lambda pod: pod.node_selector(disk="ssd"),
        lambda pod: pod.node_affinity_in("zone", ["a"]),
        lambda pod: pod.preferred_node_affinity(3, "zone", ["a"]),
        lambda pod: pod.pod_affinity("zone", {"app": "x"}),
        lambda pod: pod.preferred_pod_anti_affinity(3, "zone", {"app": "x"}),
        lambda pod: pod.image("other:1"),
    ],
)
def test_whatever_a_plugin_reads_distinguishes_pods(change: Change) -> None:
    signer = Side().lane._classes._signer
    plain, changed = info(make_pod("a")), info(change(make_pod("a")))
    assert signer.sign(plain).spec is not None
    assert signer.sign(changed) is not signer.sign(plain)
    assert signer.sign(changed) is signer.sign(info(change(make_pod("b"))))


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod.annotation(note="x"),
        lambda pod: pod.priority(7),
        lambda pod: pod.grace_period(7),
        lambda pod: pod.created("2024-01-01T00:00:00Z"),
        lambda pod: pod.limits(cpu="7"),
    ],
)
def test_what_no_plugin_reads_makes_no_difference(change: Change) -> None:
    signer = Side().lane._classes._signer
    assert signer.sign(info(change(make_pod("a")))) is signer.sign(info(make_pod("b")))
