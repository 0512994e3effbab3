from __future__ import annotations

from kscheduler.api.topology_labels import REGION, ZONE, in_shown_order


def test_well_known_labels_come_first_from_wide_to_narrow_and_others_by_name() -> None:
    kind = "node.kubernetes.io/instance-type"
    assert in_shown_order(["team", kind, ZONE, "arch", REGION]) == [REGION, ZONE, kind, "arch", "team"]
