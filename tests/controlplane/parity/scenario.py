"""A scenario, and how it is played to one scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.outcome import Outcome, Placements, collect, exact
from tests.controlplane.parity.stage import ALWAYS_ON, Cluster, Names, Stage, Switch, condition
from tests.controlplane.parity.steps import Step, is_decided, node_of, settle

MOST_WORDS = 900  # characters of a message that are looked for in an Event's note, which is cut at 1,024 bytes


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps in order. The name is a sentence, and the test's."""

    name: str
    steps: tuple[Step | list[Step], ...]
    placements: Placements = exact
    needs: frozenset[str] = frozenset()  # plugins that kscheduler may not have yet
    starts_cold: bool = False  # are the pods there before the scheduler starts?
    then: tuple[Step | list[Step], ...] = ()  # further steps, once a scheduler runs that starts cold
    pardons: str = ""  # what the judge finds, and a profile wants
    retries_vary: bool = False  # does it depend on a controller's pace how often a pod is refused in the same words?
    may_say: str = ""  # Events with these words depend on chance and are not compared
    by_chance_in: tuple[str, ...] = ()  # releases in which it depends on chance what kube-scheduler does: not compared
    gates: tuple[str, ...] = ()  # feature gates that are on in both schedulers, whatever their defaults

    @property
    def id(self) -> str:
        """The sentence as the id of a test."""
        return self.name.lower().replace(" ", "-").replace(",", "").replace("'", "")


def play(scenario: Scenario, cluster: Cluster, names: Names, switch: Switch = ALWAYS_ON) -> Outcome:
    """Play all steps on a clean stage, wait until nothing moves, and look. The stage is cleared in any case.

    The scheduler is started before the first step or, in a scenario that starts cold, after the last.
    """
    stage = Stage(cluster, names, switch)
    try:
        # 1. Play.
        if not scenario.starts_cold:
            stage.start_scheduler()
            # What the play before created has to be seen to be gone: kube-scheduler 1.36 panics if a slice comes again
            # with more devices before it has seen that a rule about them is deleted.
            stage.fence()
        for step in _flat(scenario.steps):
            step(stage)
        if scenario.starts_cold:
            stage.start_scheduler()
        for step in _flat(scenario.then):
            step(stage)
        # 2. Settle: decided, judged, and reported.
        stage.wait(lambda: all(map(is_decided, stage.own_pods())), "each pod is decided")
        settle(stage)
        stage.wait(lambda: is_reported(stage), "each decision has its Event")
        stage.wait(lambda: all(map(is_finished, stage.claims().values())), "claims with a volume are bound")
        stage.wait(lambda: are_released(stage), "claims for devices are released by pods that are gone")
        if scenario.pardons:
            stage.wrong = [each for each in stage.wrong if scenario.pardons not in each]
        # 3. Look.
        return collect(stage, scenario.placements, _what_counts(scenario))
    finally:
        stage.clear()


def _what_counts(scenario: Scenario) -> Callable[[str, int], int]:
    """How often Events of the same words count."""

    def count(words: str, found: int) -> int:
        if scenario.may_say and scenario.may_say in words:
            return 0
        return 1 if scenario.retries_vary and "FailedScheduling" in words else found

    return count


def is_reported(stage: Stage) -> bool:
    """Has each pod an Event that fits its state? A pod that fits nowhere needs the one with its condition's words.

    A pod that is gone had a node or not; of what was recorded about it before, only that it had one is waited for.
    """
    reported = [((event["regarding"].get("uid"), event["reason"]), event.get("note", "")) for event in stage.events()]
    expected = [(pod["metadata"]["uid"], *_expected_event(pod)) for pod in stage.own_pods()]
    expected += [(pod["metadata"]["uid"], "Scheduled", "") for pod in stage.gone_pods() if node_of(pod)]
    expected += [
        (pod["metadata"]["uid"], "Preempted", "") for pod in stage.pods().values() if _is_preempted(pod, stage)
    ]
    return all(
        reason is None or any(about == (uid, reason) and note.startswith(words) for about, note in reported)
        for uid, reason, words in expected
    )


def _is_preempted(pod: Object, stage: Stage) -> bool:
    """Has the scheduler asked it to go? A bound pod's condition says so first, its Event last."""
    scheduler, _, _ = condition(pod, "DisruptionTarget").get("message", "").partition(":")
    return stage.names.profile_name(scheduler) is not None


def is_finished(claim: Object) -> bool:
    """Has the controller that binds volumes done all it had begun?"""
    return "volumeName" not in claim["spec"] or claim.get("status", {}).get("phase") != "Pending"


def are_released(stage: Stage) -> bool:
    """Has the controller of claims seen which pods are gone?"""
    uids = {pod["metadata"]["uid"] for pod in stage.pods().values()}
    claims = stage.resource_claims().values()
    users = {user["uid"] for claim in claims for user in claim.get("status", {}).get("reservedFor", ())}
    # Claims made for pods that are gone stay, since nobody collects garbage here. Their finalizer goes last.
    return users <= uids and not any(_is_kept_in_vain(claim, stage, uids) for claim in claims)


def _is_kept_in_vain(claim: Object, stage: Stage, uids: set[str]) -> bool:
    """Has the claim a finalizer still, though it has no devices and no pod names it?"""
    metadata = claim["metadata"]
    if not metadata.get("finalizers") or claim.get("status", {}).get("allocation"):
        return False
    if owners := metadata.get("ownerReferences"):
        return uids.isdisjoint(owner["uid"] for owner in owners)
    named = {
        (pod["metadata"]["namespace"], entry.get("resourceClaimName"))
        for pod in stage.pods().values()
        for entry in pod["spec"].get("resourceClaims", ())
    }
    return (metadata["namespace"], metadata["name"]) not in named


def _expected_event(pod: Object) -> tuple[str | None, str]:
    """The Event's reason, None where no Event is due, and the first words of its note."""
    if node_of(pod):
        return "Scheduled", ""
    reported = condition(pod)
    if reported.get("reason") == "SchedulingGated":
        return None, ""
    return "FailedScheduling", reported.get("message", "")[:MOST_WORDS]


def _flat(steps: tuple[Step | list[Step], ...]) -> list[Step]:
    return [each for step in steps for each in (step if isinstance(step, list) else [step])]
