"""Arguments of the plugins on live metrics: how they are read, and every refusal."""

from __future__ import annotations

import textwrap

import pytest
import yaml

from kscheduler.config.dump import to_yaml
from kscheduler.config.duration import Duration
from kscheduler.config.load import parse_config
from kscheduler.config.metric_policy import Endpoint, MetricPolicyArgs, Range
from kscheduler.config.trimaran import LoadVariationRiskBalancingArgs, TargetLoadPackingArgs
from kscheduler.input.redaction import SecretURL
from tests.config.documents import config_of, read, refusal

ARGS = "profiles[0].pluginConfig[0].args"
VALID = """
sources:
- name: prometheus
  prometheus: {url: "https://prometheus.monitoring.svc:9090", bearerTokenFile: /var/run/token}
  interval: 5s
- {name: watcher, loadWatcher: {url: "http://watcher:2020"}}
- {name: kubelets, resourceMetrics: {}}
- {name: custom, customMetrics: {}}
- {name: external, externalMetrics: {}}
- {name: fields, nodeFields: {}}
metrics:
- {name: load, source: prometheus, query: "instance:node_cpu:ratio", nodeLabel: instance, window: 1m}
- {name: spread, source: watcher, metric: CPU, operator: STD, clamp: {min: 0, max: 100, outliers: 5}}
- {name: memory, source: kubelets, resource: memory, smoothing: 0.5}
- {name: temperature, source: custom, metric: gpu_temperature, selector: "card in (a,b)"}
- {name: price, source: external, metric: price, namespace: billing, selector: "currency=eur"}
- {name: age, source: fields, annotation: example.com/booted-at, isTime: true}
policies:
- name: gentle
  score:
  - {metric: load, goal: Target, target: 600m, range: {min: 0, max: 1}, weight: 2, selfLoad: {resource: cpu}}
  - {metric: memory, goal: LowRisk, deviation: {metric: spread, margin: 2}, fallback: LastGood}
  filter:
  - {metric: temperature, operator: LessThan, value: 80, fallback: Exclude, freshness: {maxAge: 1m}}
  - anyOf:
    - {metric: price, operator: LessThanOrEqual, value: "0.25"}
    - {metric: age, operator: GreaterThan, value: 1k}
  relaxation:
  - {after: 10s, loosen: [{metric: temperature, value: 90}]}
  - {after: 1m, drop: [price, temperature]}
  - {after: 5m, dropAll: true}
  decisionDeadline: 2m
  planB: {afterFailures: 3}
defaultPolicy: gentle
policyObjects: true
"""


def metric_args(args: str) -> MetricPolicyArgs:
    found = read(config_of(args)).profiles[0].raw_args("MetricPolicy")
    assert isinstance(found, MetricPolicyArgs)
    return found


def faults_of(policy: str) -> str:
    """Why a policy is refused whose metrics are a, b and c, without the path that all messages begin with."""
    head = "sources: [{name: s, customMetrics: {}}]\nmetrics:\n"
    head += "".join(f"- {{name: {name}, source: s, metric: {name}}}\n" for name in "abc")
    message = refusal(config_of(f"{head}policies:\n- name: p\n{textwrap.indent(textwrap.dedent(policy), '  ')}"))
    return message.replace(f"{ARGS}.policies[0].", "")


def test_arguments_are_read_into_values() -> None:
    args = metric_args(VALID)
    assert args.sources[0].prometheus == Endpoint(
        url=SecretURL("https://prometheus.monitoring.svc:9090"), bearer_token_file="/var/run/token"
    )
    assert args.sources[0].interval == Duration.of_seconds(5)
    assert args.sources[2].resource_metrics == {}
    assert args.policies[0].score[0].target == "600m"
    assert args.policies[0].score[0].range == Range(min=0, max=1)
    assert args.policies[0].filter[1].any_of[0].value == "0.25"
    assert args.policies[0].relaxation[2].drop_all


def test_what_is_shown_reads_back_equal() -> None:
    config = read(config_of(VALID))
    assert parse_config(to_yaml(config)) == config


def test_an_enabled_plugin_without_arguments_has_its_defaults() -> None:
    config = read(config_of("{}"))
    assert config.profiles[0].raw_args("MetricPolicy") == MetricPolicyArgs()


SOURCES = {  # case -> source, message after the source's path
    "no name": ("{customMetrics: {}}", ".name: Required value"),
    "no kind": (
        "{name: s}",
        ": Required value: exactly one of prometheus, loadWatcher, resourceMetrics, customMetrics, externalMetrics, "
        "nodeFields",
    ),
    "two kinds": (
        "{name: s, customMetrics: {}, nodeFields: {}}",
        ".nodeFields: Forbidden: exactly one of prometheus, loadWatcher, resourceMetrics, customMetrics, "
        "externalMetrics, nodeFields",
    ),
    "nothing to set": (
        "{name: s, customMetrics: {version: 2}}",
        ".customMetrics.version: Forbidden: there is nothing to set here",
    ),
    "hasty": (
        "{name: s, customMetrics: {}, interval: 10ms}",
        '.interval: Invalid value: "10ms": must be at least 100ms',
    ),
    "no time": (
        "{name: s, customMetrics: {}, timeout: 0s}",
        '.timeout: Invalid value: "0s": must be greater than zero',
    ),
    "breaker": (
        "{name: s, customMetrics: {}, breaker: {failures: 0}}",
        ".breaker.failures: Invalid value: 0: must be greater than zero",
    ),
    "open for no time": (
        "{name: s, customMetrics: {}, breaker: {openFor: -1s}}",
        '.breaker.openFor: Invalid value: "-1s": must be greater than zero',
    ),
    "no url": ("{name: s, prometheus: {}}", ".prometheus.url: Required value"),
    "no scheme": (
        "{name: s, prometheus: {url: 'prometheus:9090'}}",
        '.prometheus.url: Invalid value: "<hidden>": must be a URL such as https://prometheus.monitoring.svc:9090',
    ),
    "a password in the url is not repeated": (
        "{name: s, prometheus: {url: 'http://me:secret@p'}}",
        ".prometheus.url: Invalid value: must not have a user or a password: use username and passwordFile",
    ),
    "query": (
        "{name: s, loadWatcher: {url: 'http://w?x=1'}}",
        '.loadWatcher.url: Invalid value: "http://w?<hidden>": must have no query and no fragment',
    ),
    "port": (
        "{name: s, loadWatcher: {url: 'http://w:99999'}}",
        '.loadWatcher.url: Invalid value: "http://w:99999": must have a host, and a port that is a number up to 65535',
    ),
    "two ways to be let in": (
        "{name: s, prometheus: {url: 'http://p', bearerTokenFile: t, username: u}}",
        ".prometheus.username: Forbidden: must not be given beside bearerTokenFile",
    ),
    "password of nobody": (
        "{name: s, prometheus: {url: 'http://p', passwordFile: f}}",
        ".prometheus.username: Required value: with passwordFile",
    ),
    "certificate without key": (
        "{name: s, prometheus: {url: 'http://p', certFile: f}}",
        ".prometheus.keyFile: Required value: certFile and keyFile go together",
    ),
    "header": (
        "{name: s, prometheus: {url: 'http://p', headers: {'a b': c}}}",
        '.prometheus.headers[a b]: Invalid value: "a b": must be the name of an HTTP header',
    ),
    "a value of a header is not repeated": (
        '{name: s, prometheus: {url: "http://p", headers: {a: "secret\\nb: c"}}}',
        ".prometheus.headers[a]: Forbidden: must not have control characters",
    ),
    "header from a file, and inline": (
        "{name: s, prometheus: {url: 'http://p', headers: {X-Key: a}, headerFiles: {x-key: f}}}",
        ".prometheus.headerFiles[x-key]: Forbidden: must not be given beside headers of that name",
    ),
    "header from no file": (
        "{name: s, prometheus: {url: 'http://p', headerFiles: {X-Key: ''}}}",
        ".prometheus.headerFiles[X-Key]: Required value: the path of a file",
    ),
    "header that says again who asks": (
        "{name: s, prometheus: {url: 'http://p', bearerTokenFile: t, headerFiles: {authorization: f}}}",
        ".prometheus.headerFiles[authorization]: Forbidden: must not be given beside bearerTokenFile and username",
    ),
}


@pytest.mark.parametrize(("source", "message"), SOURCES.values(), ids=SOURCES)
def test_a_source_is_refused_by_field(source: str, message: str) -> None:
    assert refusal(config_of(f"sources: [{source}]")) == f"{ARGS}.sources[0]{message}"


METRICS = {  # case -> metric, message after the metric's path
    "no name": ("{source: custom, metric: m}", ".name: Required value"),
    "no source": ("{name: m, metric: m}", ".source: Required value"),
    "unknown source": (
        "{name: m, source: x}",
        '.source: Invalid value: "x": no source of that name is configured',
    ),
    "no query": ("{name: m, source: prometheus, query: ' '}", ".query: Required value"),
    "of another kind": (
        "{name: m, source: prometheus, query: up, label: l}",
        ".label: Forbidden: not for a source of kind prometheus",
    ),
    "label of a series": (
        "{name: m, source: prometheus, query: up, nodeLabel: a-b}",
        '.nodeLabel: Invalid value: "a-b": must be the name of a label of a series',
    ),
    "watcher metric": (
        "{name: m, source: watcher, metric: cpu, operator: AVG}",
        '.metric: Unsupported value: "cpu": supported values: "CPU", "Memory", "Bandwidth", "Storage", "Energy"',
    ),
    "watcher operator": (
        "{name: m, source: watcher, metric: CPU, operator: MAX}",
        '.operator: Unsupported value: "MAX": supported values: "AVG", "STD", "Latest"',
    ),
    "watcher's own choice of operator": ("{name: m, source: watcher, metric: CPU}", None),
    "resource": (
        "{name: m, source: kubelets, resource: disk}",
        '.resource: Unsupported value: "disk": supported values: "cpu", "memory"',
    ),
    "selector": (
        "{name: m, source: custom, metric: m, selector: 'a='}",
        None,
    ),
    "bad selector": (
        "{name: m, source: custom, metric: m, selector: 'a=b,,c'}",
        '.selector: Invalid value: "a=b,,c": expected a requirement such as "app=web" or "tier in (a,b)" at \',c\'',
    ),
    "path": (
        "{name: m, source: custom, metric: a/b}",
        ".metric: Invalid value: \"a/b\": must have no '/' and no '%', and be no '.' or '..'",
    ),
    "namespace": ("{name: m, source: external, metric: m}", ".namespace: Required value"),
    "label or annotation": (
        "{name: m, source: fields}",
        ": Required value: exactly one of label and annotation",
    ),
    "window": (
        "{name: m, source: custom, metric: m, window: -1s}",
        '.window: Invalid value: "-1s": must not be negative',
    ),
    "clamp": (
        "{name: m, source: custom, metric: m, clamp: {min: 1, max: 500m}}",
        '.clamp.max: Invalid value: "500m": must not be less than min',
    ),
    "outliers": (
        "{name: m, source: custom, metric: m, clamp: {outliers: 2e6}}",
        ".clamp.outliers: Invalid value: 2000000.0: not in valid range [1, 1000000.0]",
    ),
    "smoothing": (
        "{name: m, source: custom, metric: m, smoothing: 1}",
        ".smoothing: Invalid value: 1.0: not in valid range [0, 1)",
    ),
}


@pytest.mark.parametrize(("metric", "message"), METRICS.values(), ids=METRICS)
def test_a_metric_is_refused_by_field(metric: str, message: str | None) -> None:
    sources = yaml.safe_dump({"sources": yaml.safe_load(VALID)["sources"]})
    body = config_of(f"{sources}metrics: [{metric}]")
    if message is None:
        read(body)
    else:
        assert refusal(body) == f"{ARGS}.metrics[0]{message}"


POLICIES = {  # case -> policy, message
    "unknown metric": (
        "score: [{metric: d}]",
        'score[0].metric: Invalid value: "d": no metric of that name is configured',
    ),
    "goal": (
        "score: [{metric: a, goal: Lowest}]",
        'score[0].goal: Unsupported value: "Lowest": supported values: "Minimize", "Maximize", "Target", "LowRisk"',
    ),
    "target missing": ("score: [{metric: a, goal: Target}]", "score[0].target: Required value: for the goal Target"),
    "target without need": (
        "score: [{metric: a, target: 3}]",
        "score[0].target: Forbidden: only for the goal Target",
    ),
    "target outside": (
        "score: [{metric: a, goal: Target, target: 1, range: {max: 1}}]",
        "score[0].target: Invalid value: 1: must be between the range's min and max",
    ),
    "target of no number": (
        "score: [{metric: a, goal: Target, target: x}]",
        'score[0].target: Invalid value: "x": expected a quantity such as "500m", "2Gi" or 80',
    ),
    "deviation missing": (
        "score: [{metric: a, goal: LowRisk}]",
        "score[0].deviation: Required value: for the goal LowRisk",
    ),
    "deviation": (
        "score: [{metric: a, goal: LowRisk, deviation: {margin: -1, sensitivity: 0}}]",
        "[score[0].deviation.metric: Required value, "
        "score[0].deviation.margin: Invalid value: -1.0: not in valid range [0, 1000000.0], "
        "score[0].deviation.sensitivity: Invalid value: 0.0: not in valid range [0.001, 1000000.0]]",
    ),
    "range": (
        "score: [{metric: a, range: {min: 1k, max: 1000}}]",
        "score[0].range.max: Invalid value: 1000: must be greater than min",
    ),
    "weight": ("score: [{metric: a, weight: 0}]", "score[0].weight: Invalid value: 0: not in valid range [1, 100]"),
    "freshness": (
        "score: [{metric: a, freshness: {maxAge: -1s, cadences: 0.5}}]",
        '[score[0].freshness.maxAge: Invalid value: "-1s": must not be negative, '
        "score[0].freshness.cadences: Invalid value: 0.5: not in valid range [1, 1000000.0]]",
    ),
    "freshness bounds": (
        "score: [{metric: a, freshness: {atMost: 5s}}]",
        'score[0].freshness.atMost: Invalid value: "5s": must not be less than atLeast',
    ),
    "fallback": (
        "filter: [{metric: a, operator: Equals, value: 0, fallback: neutral}]",
        'filter[0].fallback: Unsupported value: "neutral": supported values: "Neutral", "Exclude", "LastGood", '
        '"Requeue"',
    ),
    "neutral score": (
        "score: [{metric: a, neutralScore: 101}]",
        "score[0].neutralScore: Invalid value: 101: not in valid range [0, 100]",
    ),
    "self-load of nothing": (
        "score: [{metric: a, selfLoad: {}}]",
        "score[0].selfLoad: Required value: exactly one of resource and perPod",
    ),
    "self-load of both": (
        "score: [{metric: a, selfLoad: {resource: cpu, perPod: 1}}]",
        "score[0].selfLoad.perPod: Forbidden: must not be given beside resource",
    ),
    "filter": (
        "filter: [{}]",
        "[filter[0].metric: Required value, filter[0].operator: Required value, filter[0].value: Required value]",
    ),
    "operator": (
        "filter: [{metric: a, operator: '<', value: 1}]",
        'filter[0].operator: Unsupported value: "<": supported values: "LessThan", "LessThanOrEqual", "GreaterThan", '
        '"GreaterThanOrEqual", "Equals", "NotEquals"',
    ),
    "anyOf beside a condition": (
        "filter: [{metric: a, anyOf: [{metric: a, operator: Equals, value: 1}]}]",
        "filter[0].anyOf: Forbidden: stands alone, without metric, operator, value and selfLoad",
    ),
    "anyOf with a fallback": (
        "filter: [{fallback: Exclude, anyOf: [{metric: a, operator: Equals, value: 1}]}]",
        "filter[0].anyOf: Forbidden: freshness and fallback belong to its rules",
    ),
    "anyOf in anyOf": (
        "filter: [{anyOf: [{anyOf: [{metric: a, operator: Equals, value: 1}]}]}]",
        "filter[0].anyOf[0].anyOf: Forbidden: no anyOf within anyOf",
    ),
    "relaxation of nothing": (
        "relaxation: [{after: 1s, dropAll: true}]",
        "relaxation: Forbidden: there are no filter rules",
    ),
    "relaxation": (
        """
        filter: [{metric: a, operator: LessThan, value: 1}]
        relaxation:
        - {after: 1s}
        - {after: 1s, drop: [b, a, a], dropAll: true}
        - {after: -2s, loosen: [{metric: a, value: x}]}
        """,
        "[relaxation[0]: Required value: one of loosen, drop and dropAll, "
        'relaxation[1].after: Invalid value: "1s": must be later than the step before, '
        "relaxation[1].dropAll: Forbidden: leaves nothing to loosen or drop, "
        'relaxation[1].drop[0]: Invalid value: "b": no filter rule is on this metric, '
        'relaxation[1].drop[2]: Duplicate value: "a", '
        'relaxation[2].after: Invalid value: "-2s": must not be negative, '
        'relaxation[2].after: Invalid value: "-2s": must be later than the step before, '
        'relaxation[2].loosen[0].value: Invalid value: "x": expected a quantity such as "500m", "2Gi" or 80]',
    ),
    "deadline": (
        "decisionDeadline: -1s",
        'decisionDeadline: Invalid value: "-1s": must not be negative',
    ),
    "plan B": (
        "planB: {afterFailures: 0, action: Profile}",
        "[planB.afterFailures: Invalid value: 0: not in valid range [1, 2147483647], "
        "planB.profile: Required value: for the action Profile]",
    ),
    "plan B without need of a profile": (
        "planB: {profile: x}",
        "planB.profile: Forbidden: only for the action Profile",
    ),
    "plan B to nowhere": (
        "planB: {action: Profile, profile: x}",
        'planB.profile: Invalid value: "x": no profile of that scheduler name is configured',
    ),
    "plan B to itself": (
        "planB: {action: Profile, profile: default-scheduler}",
        'planB.profile: Invalid value: "default-scheduler": must be another profile',
    ),
    "too many": (
        f"score: [{', '.join(['{metric: a}'] * 17)}]",
        "score: Too many: 17: must have at most 16 items",
    ),
}


@pytest.mark.parametrize(("policy", "message"), POLICIES.values(), ids=POLICIES)
def test_a_policy_is_refused_by_field(policy: str, message: str) -> None:
    assert faults_of(policy) == message


def test_names_are_given_once() -> None:
    message = refusal(
        config_of(
            """
            sources: [{name: s, customMetrics: {}}, {name: s, customMetrics: {}}]
            metrics: [{name: m, source: s, metric: m}, {name: m, source: s, metric: m}]
            policies: [{name: p}, {name: p}, {}]
            """
        )
    )
    assert message == (
        f'[{ARGS}.sources[1].name: Duplicate value: "s", {ARGS}.metrics[1].name: Duplicate value: "m", '
        f'{ARGS}.policies[1].name: Duplicate value: "p", {ARGS}.policies[2].name: Required value]'
    )


def test_the_default_policy_exists_here_or_may_be_an_object() -> None:
    assert refusal(config_of("defaultPolicy: x")) == (
        f'{ARGS}.defaultPolicy: Invalid value: "x": no policy of that name is configured'
    )
    assert metric_args("{defaultPolicy: x, policyObjects: true}").default_policy == "x"


def test_a_misspelt_field_and_a_wrong_type_are_named() -> None:
    assert refusal(config_of("policies: [{name: p, scores: []}]")).endswith('unknown field "policies[0].scores"')
    message = refusal(config_of("policies: [{name: p, filter: [{value: true}]}]"))
    assert message.endswith('policies[0].filter[0].value: expected a quantity such as "500m" or 80, got true')


def two_profiles(first: str, second: str) -> str:
    def entry(name: str, args: str) -> str:
        return f"- schedulerName: {name}\n  pluginConfig: [{{name: MetricPolicy, args: {args}}}]\n"

    return "profiles:\n" + entry("one", first) + entry("two", second)


def test_a_name_has_one_meaning_in_all_profiles() -> None:
    args = "{{sources: [{{name: s, customMetrics: {{}}, interval: {}}}]}}"
    read(two_profiles(args.format("1s"), args.format("1s")))
    assert refusal(two_profiles(args.format("1s"), args.format("2s"))) == (
        'profiles[1].pluginConfig[0].args.sources[0].name: Invalid value: "s": '
        "must be the same in all profiles that have one of this name"
    )


def test_plans_b_do_not_turn_in_a_ring() -> None:
    policy = "{{policies: [{{name: {}, planB: {{action: Profile, profile: {}}}}}]}}"
    read(two_profiles(policy.format("p", "two"), "{}"))
    assert refusal(two_profiles(policy.format("p", "two"), policy.format("q", "one"))) == (
        'profiles[1].pluginConfig[0].args.policies[0].planB.profile: Invalid value: "one": '
        "turns back to two by its own plan B"
    )


# --- Trimaran -------------------------------------------------------------------------------------------------------


def packing(args: str) -> TargetLoadPackingArgs:
    found = read(config_of(args, "TargetLoadPacking")).profiles[0].raw_args("TargetLoadPacking")
    assert isinstance(found, TargetLoadPackingArgs)
    return found


def balancing(args: str) -> LoadVariationRiskBalancingArgs:
    found = read(config_of(args, "LoadVariationRiskBalancing")).profiles[0].raw_args("LoadVariationRiskBalancing")
    assert isinstance(found, LoadVariationRiskBalancingArgs)
    return found


def test_trimaran_arguments_have_trimarans_defaults() -> None:
    args = packing("{}")
    assert args.metric_provider.type == "KubernetesMetricsServer"
    assert args.default_requests == {"cpu": "1000m"}
    assert (args.default_requests_multiplier, args.target_utilization) == ("1.5", 40)
    assert (balancing("{}").safe_variance_margin, balancing("{}").safe_variance_sensitivity) == (1.0, 1.0)


def test_trimarans_replacements_of_senseless_values_are_kept() -> None:
    assert packing("{targetUtilization: -3}").target_utilization == 40
    args = balancing("{safeVarianceMargin: -1, safeVarianceSensitivity: -1}")
    assert (args.safe_variance_margin, args.safe_variance_sensitivity) == (1.0, 1.0)
    assert packing("{metricProvider: {type: Prometheus}}").metric_provider.insecure_skip_verify is True
    assert packing("{watcherAddress: 'http://w:2020'}").metric_provider.type == ""


def test_trimaran_arguments_may_say_their_kind() -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1, kind:"
    assert packing(f"{{{head} TargetLoadPackingArgs, targetUtilization: 70}}").target_utilization == 70
    assert balancing(f"{{{head} LoadVariationRiskBalancingArgs}}") == balancing("{}")


TRIMARAN = {  # case -> plugin, arguments, message after the path of the arguments
    "target": ("TargetLoadPacking", "{targetUtilization: 101}", ".targetUtilization: Invalid value: 101"),
    "multiplier": (
        "TargetLoadPacking",
        "{defaultRequestsMultiplier: many}",
        '.defaultRequestsMultiplier: Invalid value: "many": must be a number such as 1.5',
    ),
    "requests": (
        "TargetLoadPacking",
        "{defaultRequests: {cpu: one}}",
        '.defaultRequests[cpu]: Invalid value: "one": expected a quantity',
    ),
    "provider": (
        "LoadVariationRiskBalancing",
        "{metricProvider: {type: SignalFx}}",
        '.metricProvider.type: Unsupported value: "SignalFx": supported values: "KubernetesMetricsServer", ',
    ),
    "two tokens": (
        "TargetLoadPacking",
        "{metricProvider: {type: Prometheus, token: secret, tokenFile: /run/token}}",
        ".metricProvider.tokenFile: Forbidden: must not be given beside token",
    ),
    "watcher": ("LoadVariationRiskBalancing", "{watcherAddress: ''}", ".watcherAddress: Required value"),
}


@pytest.mark.parametrize(("plugin", "args", "message"), TRIMARAN.values(), ids=TRIMARAN)
def test_trimaran_arguments_are_refused_by_field(plugin: str, args: str, message: str) -> None:
    assert refusal(config_of(args, plugin)).startswith(ARGS + message)
