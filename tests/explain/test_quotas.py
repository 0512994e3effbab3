"""How a waiting pod stands with the quota of its namespace, with a whole scheduler in virtual time."""

from __future__ import annotations

from kscheduler.config.load import parse_config
from kscheduler.explain.explainer import Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.quotas import MAX_BORROWERS, QuotaExplainer, amount_text
from kscheduler.explain.text import explanation_text
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.scheduler import Options
from kscheduler.testing import make_pod
from tests.explain.explained import explained
from tests.scenarios.quotas import CONFIG, quota
from tests.support.world import World, in_virtual_time


@in_virtual_time
async def test_a_pod_that_its_quota_refuses_is_explained_with_what_all_use() -> None:
    options = Options(explain=DecisionLogOptions(), first_on_tie=True)
    async with World(config=parse_config(CONFIG, "test"), options=options) as here:
        explainer = here.scheduler.explainer(lambda: Leadership("here_1", True, "here_1"))
        assert explainer is not None
        here.add_node("n1", cpu="10")
        here.cluster.create_object(quota("shop", {"cpu": "2"}, {"cpu": "2", "memory": "8Gi"}))
        here.cluster.create_object(quota("lab", {"cpu": "1"}))
        for name in ("a", "b"):
            here.add_pod(make_pod(name, "lab").req(cpu="1"))
        here.add_pod(make_pod("a", "shop").req(cpu="1"))
        await here.until(here.all_bound)
        here.add_pod(make_pod("p", "shop").req(cpu="1500m").preemption_policy("Never"))
        await here.sleep(20.0)
        found = explained(explainer, "shop/p")
        bound = explained(explainer, "shop/a")
    assert bound["quota"] is None, "it waits no more"
    assert found["quota"]["name"] == "shop/quota"
    cpu, memory = found["quota"]["resources"]
    assert (memory["max"], memory["beyond"]) == ("8Gi", [])
    assert cpu == {
        "resource": "cpu",
        "requested": "1500m",
        "used": "1",
        "min": "2",
        "max": "2",
        "usedByAll": "3",
        "minOfAll": "3",
        "beyond": ["max", "all"],
        "overMin": [{"namespace": "lab", "amount": "1"}],
        "overMinLeftOut": 0,
    }
    assert (
        "Quota shop/quota at this moment\n"
        "          pod    used  min  max  used by all  min of all\n"
        "  cpu     1500m  1     2    2    3            3           "
        "more than max and more than all are guaranteed together\n"
        "  memory  0      0     0    8Gi  0            0\n"
        "  cpu beyond their min is used by lab (1)\n"
    ) in explanation_text(found)


def test_a_namespace_without_a_quota_has_nothing_to_explain() -> None:
    quotas = ElasticQuotas()
    quotas.set(quota("a", {"cpu": "1"}))
    assert QuotaExplainer(quotas).explain(make_pod("p", "b").obj()) is None


def test_few_of_many_borrowers_are_named() -> None:
    quotas = ElasticQuotas()
    for number in range(MAX_BORROWERS + 3):
        quotas.set(quota(f"n{number}", {}))
        quotas.pod_added(make_pod("p", f"n{number}").uid(f"{number}").req(cpu=str(number + 1)).node("n").obj())
    found = QuotaExplainer(quotas).explain(make_pod("q", "n0").req(cpu="1").obj())
    assert found is not None
    [cpu] = found["resources"]
    assert [each["namespace"] for each in cpu["overMin"]] == ["n7", "n6", "n5", "n4", "n3"]
    assert cpu["overMinLeftOut"] == 3


def test_amounts_are_written_as_people_write_them() -> None:
    written = [amount_text("cpu", 1500), amount_text("memory", 3 << 30), amount_text("memory", 1000)]
    assert written == ["1500m", "3Gi", "1000"]
    assert [amount_text("nvidia.com/gpu", 1024), amount_text("hugepages-2Mi", 4 << 20)] == ["1024", "4Mi"]
