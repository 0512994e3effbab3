"""Plugins from outside: found by name, loaded, given their arguments; and everything that can be wrong with them."""

from __future__ import annotations

import importlib.metadata
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.interface import Handle
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.plugins.registry import build, known_plugins
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
MODULE = "plugin_under_test"
GOOD = """
from typing import Annotated, Literal
import msgspec
from kscheduler.framework import PluginArgs

class Range(PluginArgs, frozen=True):
    low: int = 0
    high: Annotated[int, msgspec.Meta(le=100)] = 10

class Plain:
    name = "Plain"
    def __init__(self, args, handle):
        self.args = args
    def score(self, state, pod, node):
        return 1, None

class Typed:
    name = "Typed"
    class Args(PluginArgs, frozen=True):
        label: str
        how: Literal["much", "little"] = "much"
        ranges: tuple[Range, ...] = ()
    def __init__(self, args, handle):
        self.given = args
        type(self).last = args
    def filter(self, state, pod, node):
        return None
    def score(self, state, pod, node):
        return 1, None
    def events_to_register(self):
        return ()

class Twin:
    name = "Plain"
    def __init__(self, args, handle): pass
    def filter(self, state, pod, node): pass

class Outer:
    Inner = Plain

def function(args, handle): return Plain(args, handle)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on Python's path, with a module of plugins; forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / f"{MODULE}.py"
    path.write_text(GOOD)
    yield path
    for name in [name for name in sys.modules if name.split(".")[0] in (MODULE, "broken")]:
        del sys.modules[name]


def config(name: str, args: str = "", point: str = "multiPoint") -> SchedulerConfig:
    text = f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: '{name}', weight: 3}}]}}}}"
    text += f", pluginConfig: [{{name: '{name}', args: {args}}}]" if args else ""
    return parse_config(HEAD + text + "}]", "s.yaml", find_plugins=find_plugins)


async def bind_nothing(pod: PodInfo, node_name: str) -> None:
    raise AssertionError


def built(found: SchedulerConfig) -> dict[str, list[tuple[Any, int]]]:
    handle = Handle(table=NodeTable(), rng=random.Random(0), bind=bind_nothing)
    points: dict[str, list[tuple[Any, int]]] = dict(build(found.profiles[0], handle))
    return points


def refusal(name: str, args: str = "", point: str = "multiPoint") -> str:
    with pytest.raises(ConfigError) as caught:
        built(config(name, args, point))
    return str(caught.value)


# --- found ------------------------------------------------------------------------------------------------------


def test_a_class_named_by_its_module_runs_at_the_points_it_has_methods_for() -> None:
    points = built(config(f"{MODULE}:Typed", "{label: a}"))
    last, weight = points["score"][-1]
    assert (last.name, weight) == ("Typed", 3)
    assert points["filter"][-1][0] is last
    assert all(plugin is not last for plugin, _ in points["preFilter"])


def test_a_class_can_be_named_at_one_point_only() -> None:
    points = built(config(f"{MODULE}:Typed", "{label: a}", "score"))
    assert points["score"][-1][0].name == "Typed"
    assert all(plugin.name != "Typed" for plugin, _ in points["filter"])


def test_a_class_within_a_class_can_be_named() -> None:
    assert built(config(f"{MODULE}:Outer.Inner"))["score"][-1][0].name == "Plain"


def test_an_installed_package_offers_a_plugin_by_a_short_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{MODULE}:Plain")
    found = config("Short")
    assert built(found)["score"][-1][0].name == "Plain"
    assert "Short" in known_plugins(found)


def offer(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    """As installed packages do, each under the name Short."""

    def entry_points(*, group: str, name: str) -> list[importlib.metadata.EntryPoint]:
        is_asked = (group, name) == ("kscheduler.plugins", "Short")
        return [importlib.metadata.EntryPoint(name, value, group) for value in values] if is_asked else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_two_packages_with_one_name_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{MODULE}:Plain", f"{MODULE}:Typed")
    assert "several packages offer a plugin of this name" in refusal("Short")


def test_one_package_found_twice_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{MODULE}:Plain", f"{MODULE}:Plain")
    assert built(config("Short"))["score"][-1][0].name == "Plain"


def test_a_configuration_without_such_plugins_loads_none() -> None:
    assert find_plugins(parse_config(HEAD)) == {}


# --- arguments --------------------------------------------------------------------------------------------------


def last_args() -> Any:
    return sys.modules[MODULE].Typed.last


def test_typed_arguments_are_read_with_their_defaults() -> None:
    built(config(f"{MODULE}:Typed", "{apiVersion: x, kind: TypedArgs, label: a, ranges: [{low: 1}]}"))
    args = last_args()
    assert (args.label, args.how, args.ranges[0].low, args.ranges[0].high) == ("a", "much", 1, 10)


WRONG_ARGS = {
    "{}": "object missing required field label",
    "{label: 5}": "label: expected str, got 5",
    "{label: a, colour: red}": "object contains unknown field colour",
    "{label: a, how: more}": "how: invalid enum value 'more'",
    "{label: a, ranges: [{low: 1}, {high: 101}]}": "ranges[1].high: expected int <= 100",
    "{label: a, ranges: [{hight: 1}]}": "ranges[0]: object contains unknown field hight",
}


@pytest.mark.parametrize("args", WRONG_ARGS)
def test_wrong_arguments_are_refused_with_file_and_field(args: str) -> None:
    found = refusal(f"{MODULE}:Typed", args)
    assert (
        found == f's.yaml: profiles[0].pluginConfig[0].args: arguments of plugin "{MODULE}:Typed": {WRONG_ARGS[args]}'
    )


def test_required_arguments_that_are_not_given_at_all_are_missed() -> None:
    assert refusal(f"{MODULE}:Typed").startswith("s.yaml: profiles[0].pluginConfig: arguments of plugin")


def test_arguments_that_are_no_mapping_are_refused() -> None:
    assert (
        refusal(f"{MODULE}:Plain", "[1]") == "s.yaml: profiles[0].pluginConfig[0].args: expected a mapping, got a list"
    )


# --- what can be wrong with a plugin ------------------------------------------------------------------------------

WHERE = "s.yaml: profiles[0].plugins.multiPoint"
SOURCES = {  # content of the module `broken` -> the error about `broken:Plugin`
    "import nowhere_to_be_found": 'module "broken" needs a module that is missing: "nowhere_to_be_found"',
    "def": 'importing module "broken" failed: SyntaxError: ',
    "raise RuntimeError('boom')": 'importing module "broken" failed: RuntimeError: boom',
    "import sys; sys.exit(3)": 'importing module "broken" failed: SystemExit: 3',
    "": 'module "broken" has no class "Plugin"',
    "def Plugin(args, handle): pass": 'expected a class, "Plugin" is of type function',
    "class Plugin: pass": 'expected a class attribute "name" that is a text, got none',
    "class Plugin: name = 5": 'expected a class attribute "name" that is a text, got the integer 5',
    "class Plugin: name = 'NodeAffinity'": 'the name "NodeAffinity" is taken; give the plugin another one',
    "class Plugin:\n name = 'X'": "expected a method of at least one extension point (pre_enqueue, ",
    "class Plugin:\n name = 'X'\n filter = 5": "filter: expected a method, got the integer 5",
    "class Plugin:\n name = 'X'\n async def permit(self): pass": "permit: expected a plain method, got a coroutine (",
    "class Plugin:\n name = 'X'\n async def post_bind(self): pass": (
        "post_bind: expected a plain method, got a coroutine (async def); bind and pre_bind may wait"
    ),
    "class Plugin:\n name = 'X'\n def reserve(self): pass\n async def unreserve(self): pass": "unreserve: expected a ",
    "class Plugin:\n name = 'X'\n def score_table(self): pass": 'the plugin has "score_table", which needs "score"',
    "class Plugin:\n name = 'X'\n Args = dict\n def score(self): pass": "Args: expected a subclass of kscheduler.",
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_no_plugin_is_refused_with_the_field_that_named_it(source: str, module: Path) -> None:
    (module.parent / "broken.py").write_text(source)
    found = refusal("broken:Plugin")
    assert found.startswith(f'{WHERE}: "broken:Plugin": {SOURCES[source]}')


def test_a_module_that_is_not_there_is_refused_with_a_hint() -> None:
    hint = "install its package, or put its directory on PYTHONPATH"
    assert refusal("nowhere.at.all:X") == f'{WHERE}: "nowhere.at.all:X": no module "nowhere.at.all": {hint}'


@pytest.mark.parametrize("name", [":X", "x:", ":", ".x:Y", "a b:C"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    assert refusal(name).startswith(f'{WHERE}: "{name}": ')


def test_a_name_that_nobody_offers_gets_kube_schedulers_answer() -> None:
    assert refusal("Nobody").endswith('PreFilterPlugin "Nobody" does not exist')


def test_a_point_the_plugin_has_no_method_for_gets_kube_schedulers_answer() -> None:
    found = refusal(f"{MODULE}:Plain", point="filter")
    assert found.endswith(f'plugin "{MODULE}:Plain" does not extend FilterPlugin plugin')


def test_two_plugins_of_one_name_are_refused() -> None:
    text = (
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: '{MODULE}:Plain'}}, {{name: '{MODULE}:Twin'}}]}}}}}}]"
    )
    with pytest.raises(ConfigError, match='are both plugins of the name "Plain"'):
        parse_config(HEAD + text, find_plugins=find_plugins)


def test_profiles_may_share_a_plugin_but_not_a_name() -> None:
    def profiles(*names: str) -> str:
        text = [
            f"{{schedulerName: s{i}, plugins: {{filter: {{enabled: [{{name: '{n}'}}]}}}}}}" for i, n in enumerate(names)
        ]
        return HEAD + f"profiles: [{', '.join(text)}]"

    shared = f"{MODULE}:Twin"
    assert set(find_plugins(parse_config(profiles(shared, shared), find_plugins=find_plugins))) == {shared}
    with pytest.raises(ConfigError, match=r'profiles\[1\].plugins: .* are both plugins of the name "Plain"'):
        parse_config(profiles(shared, f"{MODULE}:Plain"), find_plugins=find_plugins)


def test_arguments_of_a_type_no_file_can_hold_are_refused(module: Path) -> None:
    source = (
        "from kscheduler.framework import PluginArgs\nclass Plugin:\n name = 'X'\n class Args(PluginArgs, frozen=True):"
    )
    body = "\n  what: complex = 1j\n def __init__(self, args, handle): pass\n def score(self, *_): return 1, None"
    (module.parent / "broken.py").write_text(source + body)
    assert 'plugin "broken:Plugin": Args has a field no file can fill: ' in refusal("broken:Plugin", "{what: 3}")


HINTING = (
    "def __init__(self, args, handle): pass\n {}\n def events_to_register(self):\n"
    "  from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration\n"
    "  return [Registration(ClusterEvent(EventResource.NODE, Action.ADD), Plugin.hint)]"
)
CONSTRUCTORS = {
    "def __init__(self, args, handle): raise KeyError('secret')": "KeyError: 'secret'",
    "def __init__(self, args, handle): exit(1)": "SystemExit: 1",
    "def __init__(self): pass": "TypeError: ",
    "timeout_s = -1\n def __init__(self, args, handle): pass": "ValueError: timeout_s: expected a number",
    "def __init__(self, args, handle): pass\n def events_to_register(self): return ['Node']": "events_to_register: ",
    "def __init__(self, args, handle): pass\n def events_to_register(self): return 5": (
        "events_to_register: expected ClusterEvents, got the integer 5"
    ),
    "def __init__(self, args, handle): pass\n def events_to_register(self): yield self.x": (
        "events_to_register: AttributeError: "
    ),
    "def __init__(self, args, handle): pass\n def events_to_register(self): return self.x": (
        "events_to_register: AttributeError: "
    ),
    HINTING.format("async def hint(*_): return False"): (
        "events_to_register: expected a plain function as queueing hint, got a coroutine (async def)"
    ),
    HINTING.format("hint = 5"): "events_to_register: expected a function as queueing hint, got the integer 5",
}


@pytest.mark.parametrize("body", CONSTRUCTORS)
def test_a_constructor_that_fails_is_a_fault_of_the_configuration(body: str, module: Path) -> None:
    source = f"class Plugin:\n name = 'X'\n def score(self, state, pod, node): return 1, None\n {body}"
    (module.parent / "broken.py").write_text(source)
    found = refusal("broken:Plugin")
    assert found.startswith(f'profile "default-scheduler": initializing plugin "broken:Plugin": {CONSTRUCTORS[body]}')
