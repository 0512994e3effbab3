"""From the decision to bound volumes: what is assumed, written, waited for, and taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kscheduler.client.merge_patch import patched
from kscheduler.errors import APIError, Conflict, Unreachable
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node
from tests.framework.plugins.volumebinding.both_forms import Judge
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_claim,
    make_class,
    make_volume,
    pod_with,
    refer_to,
)

NODE = "n1"


class Bound:
    """A pod on its way to a node, an apiserver that takes patches, and seconds that tests fill."""

    def __init__(self, *claims: PersistentVolumeClaim, volumes: tuple[PersistentVolume, ...] = ()) -> None:
        self.patches: list[tuple[str, str, dict[str, object]]] = []  # (object, version, patch)
        self.fault: Callable[[str], APIError | None] = lambda key: None  # by the object's key
        self.seconds = 0
        self.each_second: Callable[[int], None] = lambda second: None
        self.judge = Judge(
            [make_node(NODE).label(zone="a"), make_node("n2").label(zone="b")],
            patch_volume=self._patch_volume,
            patch_claim=self._patch_claim,
            sleep=self._sleep,
        )
        self.known = self.judge.volumes
        self.known.set_storage_class(make_class())
        self.known.set_storage_class(make_class("made", "csi.example.com"))
        for claim in claims:
            self.known.set_claim(claim)
        for volume in volumes:
            self.known.set_volume(volume)
        self.pod = pod_with(*(claim.metadata.name for claim in claims))
        self.info = PodInfo(self.pod.obj())
        self._version = 100

    # --- the apiserver ---

    async def _patch_volume(self, name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
        self._received(name, resource_version, patch)
        volume = self.known.reported_volume(name)
        assert volume is not None
        made: PersistentVolume = patched(volume, patch)
        return replace(made, metadata=self._next(made.metadata))

    async def _patch_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object]
    ) -> PersistentVolumeClaim:
        self._received(f"{namespace}/{name}", resource_version, patch)
        claim = self.known.reported_claim(namespace, name)
        assert claim is not None
        made: PersistentVolumeClaim = patched(claim, patch)
        return replace(made, metadata=self._next(made.metadata))

    def _received(self, key: str, resource_version: str, patch: dict[str, object]) -> None:
        self.patches.append((key, resource_version, patch))
        if fault := self.fault(key):
            raise fault

    def _next(self, metadata: ObjectMeta) -> ObjectMeta:
        self._version += 1
        return replace(metadata, resource_version=str(self._version))

    async def _sleep(self, seconds: float) -> None:
        assert seconds == 1.0
        self.seconds += 1
        self.each_second(self.seconds)

    # --- the scheduler ---

    def reserve(self, node_name: str = NODE) -> Status | None:
        """The pod's cycle up to Reserve."""
        assert self.judge.filter(self.pod)[node_name] is None
        self.judge.cache.assume(self.info, node_name)
        return self.judge.plugin.reserve(self.judge.state, self.info, node_name)

    async def pre_bind(self) -> Status | None:
        assert self.judge.plugin.pre_bind_pre_flight(self.judge.state, self.info, NODE) is None
        return await self.judge.plugin.pre_bind(self.judge.state, self.info, NODE)

    async def fail(self) -> str:
        """The words in which PreBind fails."""
        status = await self.pre_bind()
        assert status is not None
        assert status.code is Code.ERROR
        return status.message

    def unreserve(self) -> None:
        self.judge.plugin.unreserve(self.judge.state, self.info, NODE)

    # --- the volume controller ---

    def volume_written(self, name: str = "v", version: str = "200") -> None:
        """The watch brings the volume as it was patched."""
        patch = next(patch for key, _, patch in self.patches if key == name)
        self.change_volume(name, lambda volume: patched(volume, patch), version)

    def claim_written(self, name: str = "c", version: str = "200") -> None:
        patch = next(patch for key, _, patch in self.patches if key == f"default/{name}")
        self.change_claim(name, lambda claim: patched(claim, patch), version)

    def claim_bound(self, name: str = "c", volume: str = "v", version: str = "300") -> None:
        def bind(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
            annotations = {**(claim.metadata.annotations or {}), BIND_COMPLETED: "yes"}
            metadata = replace(claim.metadata, annotations=annotations)
            return replace(claim, metadata=metadata, spec=replace(claim.spec, volume_name=volume))

        self.change_claim(name, bind, version)

    def change_volume(
        self, name: str, change: Callable[[PersistentVolume], PersistentVolume], version: str = "400"
    ) -> None:
        before = self.known.reported_volume(name)
        assert before is not None
        after = change(before)
        self.known.set_volume(replace(after, metadata=replace(after.metadata, resource_version=version)))

    def change_claim(
        self, name: str, change: Callable[[PersistentVolumeClaim], PersistentVolumeClaim], version: str = "400"
    ) -> None:
        before = self.known.reported_claim("default", name)
        assert before is not None
        after = change(before)
        self.known.set_claim(replace(after, metadata=replace(after.metadata, resource_version=version)))

    def is_untouched(self) -> bool:
        """Is nothing assumed?"""
        volumes = ("v", "w")
        return all(self.known.volume(name) is self.known.reported_volume(name) for name in volumes) and all(
            self.known.claim("default", name) is self.known.reported_claim("default", name) for name in ("c", "d")
        )


def static() -> Bound:
    return Bound(make_claim("c"), volumes=(make_volume("v", on={"zone": ["a"]}),))


def made() -> Bound:
    return Bound(make_claim("c", "made"))


# --- reserve ------------------------------------------------------------------------------------------------------


def test_reserve_assumes_that_the_volume_is_the_claims() -> None:
    bound = static()
    assert bound.reserve() is None
    volume = bound.known.volume("v")
    assert volume is not None
    assert volume.spec.claim_ref == replace(refer_to("c"), resource_version="1")
    assert (volume.metadata.annotations or {})[BOUND_BY_CONTROLLER] == "yes"
    reported = bound.known.reported_volume("v")
    assert reported is not None
    assert reported.spec.claim_ref is None


def test_another_pod_does_not_get_the_assumed_volume() -> None:
    bound = static()
    bound.reserve()
    bound.known.set_claim(make_claim("other"))
    assert bound.judge.filter(pod_with("other"))[NODE] is not None


def test_reserve_assumes_the_node_of_a_volume_to_be_made() -> None:
    bound = made()
    assert bound.reserve() is None
    claim = bound.known.claim("default", "c")
    assert claim is not None
    assert claim.metadata.annotations == {SELECTED_NODE: NODE}
    found = bound.judge.filter(pod_with("c", name="another"))  # shares the claim, hence its node
    assert {name for name, status in found.items() if status is None} == {NODE}


def test_a_volume_reserved_by_its_user_is_completed_and_remains_the_users_choice() -> None:
    bound = Bound(make_claim("c"), volumes=(make_volume("v", claim=refer_to("c", uid="")),))
    bound.reserve()
    volume = bound.known.volume("v")
    assert volume is not None
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.uid == "uid-c"
    assert not volume.metadata.annotations


def test_the_smallest_accessible_volume_is_taken_and_each_by_one_claim() -> None:
    volumes = (
        make_volume("far", size="1Gi", on={"zone": ["b"]}),
        make_volume("w", size="5Gi"),
        make_volume("v", size="2Gi", on={HOSTNAME: [NODE]}),
    )
    bound = Bound(make_claim("c", size="2Gi"), make_claim("d"), volumes=volumes)
    bound.reserve()
    taken = {name: volume.spec.claim_ref for name in ("far", "v", "w") if (volume := bound.known.volume(name))}
    assert {name: reference and reference.name for name, reference in taken.items()} == {
        "far": None,
        "v": "d",
        "w": "c",
    }


def test_unreserve_takes_back_what_was_assumed_and_may_be_called_again() -> None:
    bound = Bound(make_claim("c"), make_claim("d", "made"), volumes=(make_volume("v"),))
    bound.reserve()
    assert not bound.is_untouched()
    bound.unreserve()
    assert bound.is_untouched()
    bound.unreserve()


def test_unreserve_without_reserve_does_nothing() -> None:
    bound = static()
    bound.judge.filter(bound.pod)
    bound.unreserve()
    assert bound.is_untouched()


def test_a_pod_whose_claims_are_bound_has_nothing_to_write() -> None:
    bound = Bound(make_claim("c", volume="v"), volumes=(make_volume("v", claim="c"),))
    assert bound.reserve() is None
    assert bound.judge.plugin.pre_bind_pre_flight(bound.judge.state, bound.info, NODE) is SKIP
    assert asyncio.run(bound.judge.plugin.pre_bind(bound.judge.state, bound.info, NODE)) is None
    assert not bound.patches


def test_reserve_fails_and_assumes_nothing_if_a_claim_has_gone_since() -> None:
    bound = Bound(make_claim("c"), make_claim("d", "made"), volumes=(make_volume("v"),))
    bound.judge.filter(bound.pod)
    bound.known.remove_claim("default", "d")
    status = bound.judge.plugin.reserve(bound.judge.state, bound.info, NODE)
    assert status is not None
    assert status.code is Code.ERROR
    assert bound.is_untouched()


def test_reserve_fails_on_a_node_that_has_gone() -> None:
    bound = static()
    bound.judge.filter(bound.pod)
    bound.judge.cache.remove_node(NODE)
    status = bound.judge.plugin.reserve(bound.judge.state, bound.info, NODE)
    assert status is not None
    assert status.message == 'node "n1" not found'


# --- writing and waiting ------------------------------------------------------------------------------------------


async def test_the_volume_is_written_and_the_controller_waited_for() -> None:
    bound = static()
    bound.reserve()

    def controller(second: int) -> None:
        if second == 2:
            bound.volume_written()
        if second == 4:
            bound.claim_bound()

    bound.each_second = controller
    assert await bound.pre_bind() is None
    assert bound.seconds == 4
    (written,) = bound.patches
    assert written == (
        "v",
        "1",
        {
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": "default",
                    "name": "c",
                    "uid": "uid-c",
                    "resourceVersion": "1",
                }
            },
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
        },
    )
    assert bound.is_untouched()  # the watch has taken the place of the assumption


async def test_the_claim_names_the_node_to_the_provisioner_which_is_waited_for() -> None:
    bound = made()
    bound.reserve()

    def provisioner(second: int) -> None:
        if second == 1:
            bound.claim_written()
        if second == 3:
            bound.claim_bound()  # before the watch of volumes brings what it is bound to
        if second == 5:
            bound.known.set_volume(make_volume("v", "made", on={"zone": ["a"]}, claim="c"))

    bound.each_second = provisioner
    assert await bound.pre_bind() is None
    assert bound.seconds == 5
    assert bound.patches == [("default/c", "1", {"metadata": {"annotations": {SELECTED_NODE: NODE}}})]
    assert bound.is_untouched()


async def test_a_claim_that_a_pod_names_twice_is_written_once() -> None:
    bound = made()
    bound.pod = pod_with("c", "c")
    bound.reserve()
    bound.each_second = lambda second: bound.claim_written()
    await bound.fail()
    assert [key for key, _, _ in bound.patches] == ["default/c"]


async def test_what_is_never_bound_is_given_up_when_the_time_is_over() -> None:
    bound = static()
    bound.reserve()
    assert await bound.fail() == "binding volumes: context deadline exceeded"
    assert bound.seconds == 10


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [Conflict("PATCH /c: changed meanwhile", status=409, explanation="changed meanwhile"), Unreachable("timed out")],
)
async def test_a_write_that_fails_takes_everything_back(fault: APIError) -> None:
    bound = Bound(make_claim("c"), make_claim("d", "made"), volumes=(make_volume("v"),))
    bound.reserve()
    bound.fault = lambda key: fault
    assert await bound.fail() == fault.explanation
    assert bound.seconds == 0
    bound.unreserve()
    assert bound.is_untouched()


async def test_what_was_written_before_the_fault_stays_until_the_watch_brings_it() -> None:
    bound = Bound(make_claim("c"), make_claim("d", "made"), volumes=(make_volume("v"),))
    bound.reserve()
    bound.fault = lambda key: Conflict("changed meanwhile") if key == "default/d" else None
    await bound.fail()
    bound.unreserve()
    claim = bound.known.claim("default", "d")
    assert claim is bound.known.reported_claim("default", "d")
    volume = bound.known.volume("v")
    assert volume is not None
    assert volume.spec.claim_ref is not None
    bound.volume_written()
    assert bound.is_untouched()


def _forget_pod(bound: Bound) -> None:
    bound.judge.cache.remove_pod(bound.info.uid)


def _move_node(bound: Bound) -> None:
    bound.volume_written()
    bound.judge.cache.set_node(make_node(NODE).label(zone="elsewhere").obj())


def _release(bound: Bound) -> None:
    bound.volume_written()
    bound.change_volume("v", lambda volume: replace(volume, spec=replace(volume.spec, claim_ref=None)))


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (lambda bound: bound.judge.cache.remove_node(NODE), 'failed to get node "n1": node "n1" not found'),
        (_forget_pod, 'pod does not exist any more: pod "p" not found'),
        (lambda bound: bound.known.remove_volume("v"), 'failed to check binding: persistentvolumes "v" not found'),
        (
            lambda bound: bound.known.remove_claim("default", "c"),
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
        (_move_node, 'pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'),
        (_release, 'ClaimRef got reset for pv "v"'),
    ],
)
async def test_a_binding_that_can_not_succeed_any_more_is_given_up_at_once(
    happens: Callable[[Bound], None], words: str
) -> None:
    bound = static()
    bound.reserve()
    bound.each_second = lambda second: happens(bound) if second == 2 else None
    assert await bound.fail() == f"binding volumes: {words}"
    assert bound.seconds == 2
    bound.unreserve()


def _refuse(bound: Bound) -> None:
    """As a provisioner says that it cannot serve the node."""
    bound.claim_written()
    bound.change_claim("c", lambda claim: replace(claim, metadata=replace(claim.metadata, annotations={"a": "b"})))


def _reset(bound: Bound) -> None:
    bound.claim_written()
    bound.change_claim("c", lambda claim: replace(claim, metadata=replace(claim.metadata, annotations=None)))


def _make_elsewhere(bound: Bound) -> None:
    bound.claim_written()
    bound.known.set_volume(make_volume("v", "made", on={"zone": ["b"]}, claim="c"))
    bound.claim_bound()


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (_refuse, 'provisioning failed for PVC "c"'),
        (_reset, 'selectedNode annotation reset for PVC "c"'),
        (
            lambda bound: bound.known.remove_claim("default", "c"),
            'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
        ),
        (_make_elsewhere, 'pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'),
    ],
)
async def test_a_provisioning_that_can_not_succeed_any_more_is_given_up_at_once(
    happens: Callable[[Bound], None], words: str
) -> None:
    bound = made()
    bound.reserve()
    bound.each_second = lambda second: happens(bound) if second == 2 else None
    assert await bound.fail() == f"binding volumes: {words}"
    assert bound.seconds == 2
    bound.unreserve()
    if bound.known.reported_claim("default", "c") is not None:
        assert bound.is_untouched()


async def test_old_news_from_the_watch_is_no_answer() -> None:
    bound = made()
    bound.reserve()
    # A version from before our write, still without the annotation: not a refusal.
    bound.each_second = lambda second: (
        bound.change_claim("c", lambda claim: claim, version="50") if second == 1 else None
    )
    assert await bound.fail() == "binding volumes: context deadline exceeded"
